"""Tables of databases on the command line: accounts, snapshots, credentials, and what a failure says."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import populace as pp
from populace.cli.main import main
from populace.core.errors import ResourceError, UsageError
from populace.core.run_state import run_state
from populace.core.table_address import parse_address
from populace.private.private_table import PrivateTable
from populace.private.read.databases.open_database import open_snapshot
from populace.private.read.sources import FrameSource
from tests.engines.awkward_table import UNIT_SCHEMA, make_towns, make_visits
from tests.engines.backends import connect_postgres, open_backend, start_postgres

pytestmark = pytest.mark.filterwarnings("default")
SECRET = "pass-phrase-2020"
SMALL = '[columns.place]\nkind = "categorical"\nvalues = ["home", "shop", "work"]\n'


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


def read_all(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def synth(data: str, folder: Path, *more: str) -> int:
    (folder / "schema.toml").write_text(SMALL, encoding="utf-8")
    words = ("--schema", folder / "schema.toml", "--epsilon", "1", "--delta", "0", "--method", "independent")
    return run(
        "synth", data, *words, "--out", folder / "out", "--ledger", folder / "l.db", "--no-report", *more
    )


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{SECRET}@localhost/db::people",
        f"postgresql://localhost/db?password={SECRET}::people",
        f"postgres://me:{SECRET}@localhost/db",
        f"postgresql+psycopg://me:{SECRET}@localhost/db::people",
        f"Postgresql://me:{SECRET}@localhost/db::people",
        f" postgresql://me:{SECRET}@localhost/db::people",
        f"postgresql://localhost/db?PASSWORD={SECRET}::people",
        f"jdbc:postgresql://localhost/db?user=me&password={SECRET}",
        f"jdbc:oracle:thin:me/{SECRET}@localhost",
        f"mysql://me:{SECRET}@localhost/db",
        f"host=localhost user=me password={SECRET}",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(
    address: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert synth(address, tmp_path) == 2
    for given in (address, Path(address)):
        with pytest.raises(UsageError):
            parse_address(given)
    with pytest.raises(UsageError) as refusal:
        pp.synthesize(address, schema=pp.Schema.parse(SMALL), epsilon=1, delta=0, ledger=tmp_path / "l.db")
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err + str(refusal.value) + repr(refusal.value)
    assert not (tmp_path / "l.db").exists()


def test_the_case_of_a_scheme_and_blanks_around_an_address_do_not_matter() -> None:
    assert parse_address(" PostgreSQL://host/db::people") == parse_address("postgresql://host/db::people")
    assert parse_address("Spark:people") == parse_address("spark:people")


def test_addresses_print_the_name_of_the_table_alone() -> None:
    address = parse_address('postgresql://me@db.example:5433/health?sslmode=require::s."a.b"')
    assert address is not None
    assert address.names == ("s", "a.b")
    assert address.quoted == '"s"."a.b"'
    assert "db.example" not in repr(address) + address.title


@pytest.mark.parametrize(
    "text", ["people.csv", "a::b.csv", "folder/spark", "c:/x", "c:\\x", " a.csv", 5, None]
)
def test_what_is_no_address_stays_what_it_is(text: Any) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize("text", ["people.duckdb", "postgresql://localhost/db", "spark:", "x.duckdb::a."])
def test_an_address_without_a_table_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_address(text)


def test_a_duckdb_table_names_its_account(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with open_backend("duckdb-file", tmp_path) as load:
        address = load(make_visits())
        assert synth(address, tmp_path) == 0
        statement = json.loads((tmp_path / "out" / "statement.json").read_text(encoding="utf-8"))
        assert statement["dataset"] == "people"
        assert run("inspect", address, "--out", tmp_path / "draft.toml") == 0
        assert 'dataset = "people"' in (tmp_path / "draft.toml").read_text(encoding="utf-8")
    path = address.partition("::")[0].encode()
    assert path not in read_all(tmp_path / "out")
    assert synth(f"{path.decode()}::nothing", tmp_path, "--dataset", "x") == 2
    assert synth(f"{tmp_path}/no.duckdb::people", tmp_path, "--dataset", "x") == 2


def test_an_engine_that_fails_says_nothing_of_rows(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    asked: dict[str, Any] = {"epsilon": 1, "delta": 0, "ledger": tmp_path / "l.db", "dataset": "d"}
    with duckdb.connect() as connection:
        cells = "SELECT CAST(x AS INTEGER) AS place FROM (VALUES ('1'), ('secret-cell')) t(x)"
        failing = connection.sql(cells)
        with pytest.raises(ResourceError) as failure:
            pp.synthesize(failing, schema=pp.Schema.parse(SMALL), **asked)
    assert "secret-cell" not in str(failure.value) + repr(failure.value.__context__)
    assert failure.value.__cause__ is None
    (spent,) = pp.Ledger.open(tmp_path / "l.db").runs("d")
    assert spent.spends


@pytest.fixture
def postgres() -> str:
    return start_postgres()


@pytest.mark.slow
def test_synth_from_postgres_keeps_credentials_to_itself(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with open_backend("postgres", tmp_path) as load:
        address = load(make_visits())
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert synth(address, tmp_path) == 0
    assert run("inspect", address, "--out", tmp_path / "draft.toml") == 0
    estimate_files(tmp_path)
    words = ("--schema", tmp_path / "schema.toml", "--epsilon", "1", "--ledger", tmp_path / "l.db")
    named = (
        "--design",
        tmp_path / "design.toml",
        "--queries",
        tmp_path / "queries.toml",
        "--dataset",
        "more",
    )
    assert run("estimate", address, *words, *named, "--out", tmp_path / "e", "--no-report") == 0
    compared = (address, tmp_path / "out" / "synthetic.parquet", "--schema", tmp_path / "schema.toml")
    assert run("evaluate", *compared, "--out", tmp_path / "ev") == 0
    shown = capfd.readouterr()
    written = read_all(tmp_path) + (shown.out + shown.err).encode()
    assert SECRET.encode() not in written
    assert b"host=" not in written
    assert b"tester" not in written
    statement = json.loads((tmp_path / "out" / "statement.json").read_text(encoding="utf-8"))
    assert statement["dataset"] == "The people"


def estimate_files(folder: Path) -> None:
    (folder / "design.toml").write_text("", encoding="utf-8")
    (folder / "queries.toml").write_text('[[query]]\nstatistic = "count"\nby = ["place"]\n', encoding="utf-8")


@pytest.mark.slow
def test_a_server_that_is_not_there_is_an_environment_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert synth(f"postgresql:///nowhere?host={tmp_path}&user=somebody::people", tmp_path) == 4
    shown = capfd.readouterr().err
    assert "somebody" not in shown
    assert not (tmp_path / "l.db").exists()


@pytest.mark.slow
def test_a_run_sees_one_snapshot(postgres: str, tmp_path: Path) -> None:
    """Rows that others commit between two reads are not seen, and nothing can be written."""
    with open_backend("postgres", tmp_path) as load:
        address = load(make_towns())
    schema = pp.Schema.parse('[columns.town]\nkind = "categorical"\nvalues = ["Bo"]\n')
    with run_state():
        data = open_snapshot(address)
        first = PrivateTable.of(data, schema=schema).engine().tally()[1].sum()
        done = threading.Thread(target=lambda: _insert(postgres))
        done.start()
        done.join()
        second = PrivateTable.of(data, schema=schema).engine().tally()[1].sum()
        with pytest.raises(Exception, match="read-only"), data.source._connection.cursor() as cursor:
            cursor.execute('DELETE FROM "The people"')
    assert first == second == 2401
    with run_state():
        assert PrivateTable.of(open_snapshot(address), schema=schema).engine().tally()[1].sum() == 2402


def _insert(address: str) -> None:
    with connect_postgres(address) as connection, connection.cursor() as cursor:
        cursor.execute("""INSERT INTO "The people" (town) VALUES ('Bo')""")
        connection.commit()


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "SQL_ASCII", "EUC_JP"])
def test_databases_of_other_encodings_have_the_same_texts(
    postgres: str, encoding: str, tmp_path: Path
) -> None:
    name = f"odd_{encoding.lower()}"
    with connect_postgres(postgres) as connection:
        connection.adbc_connection.set_autocommit(True)
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    address = postgres.replace("/postgres?", f"/{name}?")
    texts = {"EUC_JP": ["日本", "x"]}.get(encoding, ["café", "Ã©", "x"])
    # A database that knows no encoding holds bytes of any, one cell by one.
    raw = [b"caf\xe9", b"\xc3\x83\xc2\xa9", b"x"] if encoding == "SQL_ASCII" else None
    with connect_postgres(address) as connection, connection.cursor() as cursor:
        if raw is None:
            cursor.execute("SET client_encoding = 'UTF8'")
        cursor.execute("CREATE TABLE people (place text)")
        for place, text in enumerate(texts):
            cell = f"'{text}'" if raw is None else f"E'{''.join(f'{chr(92)}x{b:02x}' for b in raw[place])}'"
            cursor.execute(f"INSERT INTO people VALUES ({cell})")
        connection.commit()
    values = ", ".join(f'"{text}"' for text in texts)
    schema = pp.Schema.parse(f'[columns.place]\nkind = "categorical"\nvalues = [{values}]\n')
    with run_state():
        found = PrivateTable.of(open_snapshot(f"{address}::people"), schema=schema).engine().tally()
    expected = PrivateTable.of(pa.table({"place": texts}), schema=schema).engine().tally()
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


@pytest.mark.slow
def test_dates_beyond_every_calendar_and_odd_types_never_raise(postgres: str) -> None:
    with connect_postgres(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS odd")
        cursor.execute(
            "CREATE TABLE odd AS SELECT d::date AS d, d::timestamp AS t, n::numeric AS n, '24:00'::time AS c, "
            "'10.0.0.1'::inet AS a, 'x'::char(5) AS p, '{\"k\": 1}'::jsonb AS j, 'NaN'::float4 AS f "
            "FROM (VALUES ('infinity', '1e400'), ('-infinity', 'NaN'), ('294276-12-31', '-0.5'), ('4713-01-01 BC', "
            "'12345678901234567890123'), ('2020-01-02', 'Infinity')) AS v(d, n)"
        )
        connection.commit()
    schema = pp.Schema.parse(
        '[columns.d]\nkind = "date"\nmin = "2020-01-01"\nmax = "2020-01-03"\n'
        '[columns.t]\nkind = "categorical"\nvalues = ["2020-01-02"]\n'
        '[columns.n]\nkind = "categorical"\nvalues = ["12345678901234567890123", "-0.5"]\n'
        '[columns.a]\nkind = "categorical"\nvalues = ["10.0.0.1/32"]\n'
        '[columns.p]\nkind = "categorical"\nvalues = ["x"]\n'
        '[columns.f]\nkind = "categorical"\nvalues = ["1"]\n'
        '[columns.c]\nkind = "categorical"\nvalues = ["00:00:00"]\n'
        '[columns.j]\nkind = "categorical"\nvalues = [\'{"k": 1}\']\n'
    )
    with run_state():
        rows, counts = PrivateTable.of(open_snapshot(f"{postgres}::odd"), schema=schema).engine().tally()
    names = list(schema.domain)
    held = {name: sorted(rows[:, names.index(name)].repeat(counts).tolist()) for name in names}
    assert held["d"] == [1, 3, 3, 3, 3]
    assert held["t"] == [0, 1, 1, 1, 1]
    assert held["n"] == [0, 1, 2, 2, 2]
    assert held["p"] == held["j"] == [0] * 5
    assert held["c"] == held["f"] == [1] * 5


def test_units_of_a_query_keep_rows_by_their_content(tmp_path: Path) -> None:
    """Removing one unit changes nothing in what others keep, whatever order the query returns."""
    duckdb = pytest.importorskip("duckdb")
    visits = make_visits()
    with duckdb.connect() as connection:
        connection.register("visits", visits)
        whole = connection.sql("FROM visits ORDER BY hash(person, length)")
        less = connection.sql(
            "FROM visits WHERE person <> 'p1' OR person IS NULL ORDER BY hash(place, length)"
        )
        first, second = (
            dict(zip(map(tuple, rows.tolist()), counts.tolist(), strict=True))
            for rows, counts in (
                PrivateTable.of(each, schema=UNIT_SCHEMA).engine().tally() for each in (whole, less)
            )
        )
    moved = {row: first.get(row, 0) - second.get(row, 0) for row in first.keys() | second.keys()}
    assert sum(map(abs, moved.values())) == 2
    assert min(moved.values()) >= 0


@pytest.mark.parametrize(
    ("library", "extra", "data"),
    [
        ("duckdb", "duckdb", "x.duckdb::people"),
        ("adbc_driver_postgresql", "postgres", "postgresql:///db?host=/nowhere::people"),
        ("pyspark", "spark", "spark:people"),
    ],
)
def test_a_library_that_is_missing_is_named_before_spending(
    library: str,
    extra: str,
    data: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in [library, *(held for held in sys.modules if held.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "x.duckdb").touch()
    place = f"{tmp_path}/{data}" if data.startswith("x.") else data
    assert synth(place, tmp_path, "--dataset", "x") == 4
    assert f"pip install 'populace[{extra}]'" in capfd.readouterr().err
    assert not (tmp_path / "l.db").exists()


def test_a_frame_of_spark_without_pandas_is_refused_before_its_rows_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark hands out Arrow batches only where pandas is installed."""
    # Before pandas is taken away, which Arrow looks for when it makes a table.
    table = pa.table({"a": [1]})
    monkeypatch.setattr(FrameSource, "spark_frame", "a frame")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ResourceError, match=r"'pandas'[\s\S]*populace\[spark\]"):
        FrameSource(table)
