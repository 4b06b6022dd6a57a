"""Random schemas, tables and wishes, and what must hold of the release that a whole run makes of them.

`try_round_trips.py` tries many and tells their failures apart.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import assume
from hypothesis import strategies as st

from populace.cli.main import main
from populace.core.errors import SchemaError
from populace.methods.registry import METHODS
from populace.privacy.ledger.ledger import Ledger
from populace.private.read.rows_to_codes import open_source
from populace.release.bundle import Release
from populace.schema.codec.decoder import arrow_type, decode_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import BinDensity
from populace.schema.columns.unknown_columns import as_declared
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.rules import Totals
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.properties.generated_columns import ODD_DATES, ODD_TEXTS, columns
from tests.properties.slow_interpreter import holds, keeps
from tests.properties.test_expressions_agree import _text, expressions, made, ruled

ALONE = {"universe": None, "outside": None, "function_of": (), "parent": None, "map": {}}
NAMES = [
    "#x",
    "=1",
    "007",
    "a,b",
    'q"x',
    " a",
    "é",
    "e\u0301",
    "\ufeffy",
    "NA",
    "A // 5",
    "A % 5",
    "a\nb",
    "c\rd",
    "x.1",
    "🙂",
]
MOST_CODES = 120
HOSTILE = [*ODD_TEXTS, *ODD_DATES, "x" * 70_000]


@dataclass(frozen=True)
class Job:
    """One run: a schema, the seed of a table of so many rows, and what is asked for."""

    schema: Schema
    rows: int
    seed: int
    hostile: float
    method: str
    epsilon: str
    delta: str
    data: str
    wishes: tuple[str, ...]
    where: str | None
    public: bool
    stages: bool


@st.composite
def jobs(draw: st.DrawFn, most_rows: int = 1000) -> Job:
    """Any run that somebody might ask for. What has no structure is drawn evenly, by a seed."""
    schema = draw(schemas())
    # Hypothesis likes small numbers: schemas with the same one must not share all the rest.
    seed = draw(st.integers(0, 2**16)) * 2**32 + int(schema.digest[:8], 16)
    rng = np.random.default_rng(seed)

    def one_of(choices: Sequence[str]) -> str:
        return choices[rng.integers(0, len(choices))]

    method = one_of(["auto", *METHODS])
    wishes: dict[str, str] = {}
    base = {name: column for name, column in schema.columns.items() if name in "ABCF"}
    where = None
    if base and rng.random() < 0.25:
        where = str(draw(expressions(Schema(columns={n: replace(c, **ALONE) for n, c in base.items()}))))
    elif rng.random() < 0.1:
        wishes["--inference"] = "gum"
    if rng.random() < 0.4:
        wishes["--rows"] = one_of(["0", "1", "2", "30", "200"])
    if rng.random() < 0.25:
        wishes["--implicates"] = one_of(["2", "3"])
    if rng.random() < 0.3:
        wishes["--workload"] = one_of(["pairs", "triples"])
    if rng.random() < 0.5:
        wishes["--format"] = one_of(["csv", "parquet"])
    # A file of lines cannot have a name of two lines.
    lines = any(set("\r\n") & set(name) for name in schema.columns)
    pure = method in ("field-groups", "histogram", "histogram-exponential")
    epsilon = one_of(["1", "0.01", "50", "1/3"])
    if epsilon == "0.01" and method.startswith("histogram"):
        # Noise alone would ask for hundreds of thousands of rows.
        wishes.setdefault("--rows", "30")
    return Job(
        schema=schema,
        rows=int(one_of(["0", "1", "2", "40", str(most_rows)])),
        seed=seed,
        hostile=float(one_of(["0", "0.1", "1"])),
        method=method,
        epsilon=epsilon,
        delta=one_of(["1e-9", "0"] if pure else ["1e-9", "1e-6"]),
        data="parquet" if lines else one_of(["csv", "parquet"]),
        wishes=tuple(word for wish in wishes.items() for word in wish),
        where=where,
        public=method == "dpsyn" or (method in ("auto", "adaptive", "field-groups") and rng.random() < 0.3),
        stages=rng.random() < 0.2,
    )


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """Columns of every kind with every feature; those named by letters hang together by rules."""
    found: dict[str, Column] = {}
    zeros: Sequence[object] = ()
    if draw(st.integers(0, 2)):
        bound = draw(ruled())
        found, zeros = dict(bound.columns), bound.zeros
    if draw(st.integers(0, 3)) == 0:
        found |= draw(hierarchies())
    for _ in range(draw(st.integers(0 if found else 1, 3))):
        name = draw(st.sampled_from(NAMES))
        column = draw(columns(name).filter(lambda column: as_declared(column).size <= MOST_CODES))
        found[name] = replace(as_declared(column), **ALONE)
    found = {name: draw(opened(column)) for name, column in found.items()}
    order = [name for name in found if name in "ABCF"]
    order = draw(st.permutations([name for name in found if name not in order])) + order
    schema = made({name: found[name] for name in order}, zeros)
    assume(schema is not None)
    return draw(declared(schema))


@st.composite
def hierarchies(draw: st.DrawFn) -> dict[str, Column]:
    """A column and its parent: by the first letters, or by a map."""
    region = CategoricalColumn(name="region", values=("n", "s"), other="n")
    places = {"values": ("n1", "n2", "s1"), "other": "n1", "parent": "region"}
    if draw(st.booleans()):
        places |= {"map": {("n1",): "s", ("n2",): "n", ("s1",): "s"}}
    return {"region": region, "place": CategoricalColumn(name="place", **places)}


@st.composite
def opened(draw: st.DrawFn, column: Column) -> Column:
    """Let the law inside some bins be learnt."""
    if (
        isinstance(column, IntegerColumn | DecimalColumn)
        and column.name not in "ABCF"
        and draw(st.integers(0, 4)) == 0
    ):
        try:
            return replace(column, density=BinDensity())
        except SchemaError:
            return column
    return column


@st.composite
def declared(draw: st.DrawFn, schema: Schema) -> Schema:
    """Add what a schema says of its table: who is protected, totals, groups."""
    rows = draw(st.sampled_from([1, 1, 1, 3]))
    told_by = "the id" if rows > 1 else draw(st.sampled_from([None, None, "the id"]))
    relation = draw(st.sampled_from([Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE]))
    unit = PrivacyUnit(name="person", rows=rows, id=told_by, neighbours=relation)
    more: dict[str, object] = {
        "max_rows": draw(st.sampled_from([None, 5000])),
        "unit": unit,
        "dataset": draw(st.sampled_from([None, "people", "é ”x"])),
    }
    known = [name for name in schema.variables if name in schema.columns and not schema.columns[name].unknown]
    if known and draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(known))
        counts = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 9, schema.columns[name].size)
        more["totals"] = draw(
            st.sampled_from(
                [(Totals(clique=(name,), counts=counts),), (Totals(clique=(), counts=np.array(30)),)]
            )
        )
    if len(known) > 1 and draw(st.booleans()):
        more["groups"] = (tuple(known[:2]),)
    try:
        return replace(schema, **more)
    except SchemaError:
        return replace(schema, unit=unit)


def rows_of(schema: Schema, *, rows: int, seed: int, hostile: float) -> dict[str, list[str | None]]:
    """Return a table as texts: values of the schema, of which some are replaced by others."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[str | None]] = {}
    for name, column in schema.columns.items():
        if column.function_of and rng.random() < 0.5:
            continue
        if isinstance(as_declared(column), CategoricalColumn) or not column.unknown:
            codes = rng.integers(0, max(1, min(column.size, int(rng.integers(1, 9)))), rows)
            texts = decode_codes(
                replace(column, density=None) if hasattr(column, "density") else column, codes, rng=rng
            )
            cells = texts.cast(pa.string()).to_pylist()
        else:
            cells = [str(value) for value in rng.integers(-3, 60, rows)]
        spoilt = rng.random(rows) < hostile * rng.random()
        odd = rng.integers(0, len(HOSTILE), rows)
        found[name] = [
            HOSTILE[other] if bad else cell for cell, bad, other in zip(cells, spoilt, odd, strict=True)
        ]
    if schema.unit.id is not None:
        found[schema.unit.id] = [str(who) if who else None for who in rng.integers(0, 1 + rows // 2, rows)]
    return found


def write_rows(cells: dict[str, list[str | None]], path: Path, *, seed: int) -> None:
    """Write a private table: as lines, some of which are no rows, or as Parquet in texts of some type."""
    rng = np.random.default_rng(seed)
    if path.suffix == ".parquet":
        kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.binary()]
        table = {
            name: pa.array(values, pa.string()).cast(kinds[rng.integers(0, len(kinds))])
            for name, values in cells.items()
        }
        pq.write_table(pa.table(table), path)
        return
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writerow(cells)
    writer.writerows(zip(*cells.values(), strict=True))
    spoilt = [b"", b',"\n', b"\xff\xfe,\n", b'"a""\n\n', b"1,2,3,4,5,6,7,8,9,10,11\n"][rng.integers(0, 5)]
    path.write_bytes(text.getvalue().encode() + spoilt)


def run(words: Sequence[str]) -> tuple[int, str]:
    """Return the exit code of a command, and what it wrote."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = main(list(words))
    return code, said.getvalue()


def keys(seed: int) -> Callable[[int], bytes]:
    """Return keys of noise that a seed repeats, in the place of those of the system: a release that can verify."""
    numbers = count()
    return lambda size: np.random.default_rng([seed, next(numbers)]).bytes(size)


def round_trip(job: Job, home: Path) -> str:
    """Run a job, verify, load, decode and encode its release; return what became of it, or fail."""
    out, again, ledger = home / "out", home / "again", home / "ledger.db"
    (home / "schema.toml").write_text(job.schema.to_toml(), encoding="utf-8")
    data = home / f"private.{job.data}"
    cells = rows_of(job.schema, rows=job.rows, seed=job.seed, hostile=job.hostile)
    write_rows(cells, data, seed=job.seed)
    words = ["synth", str(data), "--schema", str(home / "schema.toml"), "--ledger", str(ledger)]
    words += ["--epsilon", job.epsilon, "--delta", job.delta, "--method", job.method, "--out", str(out)]
    words += [*job.wishes, "--seed", str(job.seed)]
    words += [] if job.where is None else ["--where", job.where]
    if job.public:
        known = rows_of(job.schema, rows=30, seed=job.seed + 1, hostile=0.0)
        write_rows(known, home / "known.parquet", seed=job.seed)
        words += ["--public", str(home / "known.parquet")]
    with patch("os.urandom", keys(job.seed)):
        code, said = run(words if job.seed % 50 == 0 else [*words, "--no-report"])
    if code != 0:
        assert code in (2, 3), (code, said)
        assert "Traceback" not in said
        known = Ledger.existing(ledger).accounts() if ledger.exists() else ()
        assert not any(Ledger.existing(ledger).runs(account.dataset) for account in known), said
        assert not out.exists()
        return next(f"refused: {line[:60]}" for line in said.splitlines() if line.startswith("error"))
    code, said = run(["verify", str(out)])
    assert code == 0, said
    assert "not redrawn" not in said, said
    release = Release.load(out)
    check_rows(release, job)
    check_files(release, out, again)
    if job.stages:
        check_stages(words, home, seed=job.seed)
    return "released"


def check_stages(words: Sequence[str], home: Path, *, seed: int) -> None:
    """See that `measure`, `fit` and `generate` make the very rows that `synth` made, of the same noise."""
    asked = dict(zip(words[2:-1:2], words[3::2], strict=False))
    drawing = ("--rows", "--where", "--implicates", "--format", "--seed")

    def told(names: Sequence[str]) -> list[str]:
        return [word for name in names if name in asked for word in (name, asked[name])]

    paying = ("--schema", "--epsilon", "--delta", "--method", "--workload", "--public")
    with patch("os.urandom", keys(seed)):
        staged = ["measure", words[1], *told(paying), "--ledger", str(home / "other.db")]
        code, said = run([*staged, "--out", str(home / "measured")])
    assert code == 0, said
    staged = ["fit", str(home / "measured"), *told(["--inference"]), "--out", str(home / "model")]
    code, said = run(staged)
    assert code == 0, said
    code, said = run(
        ["generate", str(home / "model"), *told(drawing), "--out", str(home / "staged"), "--no-report"]
    )
    if code == 2:
        # Rows that the model knows nothing of are refused where nothing was spent for them.
        assert "the model" in said, said
        return
    assert code == 0, said
    for path in (home / "staged").glob("synthetic*"):
        twin = home / "out" / path.name
        assert not twin.exists() or twin.read_bytes() == path.read_bytes()


def check_rows(release: Release, job: Job) -> None:
    """See that every row of every table holds values of its columns, keeps the rules and meets the condition."""
    schema = release.measurements.schema
    asked = dict(zip(job.wishes[::2], job.wishes[1::2], strict=True))
    told = release.statement["total"]["rows"]
    none_told = release.measurements.released_rows is not None and not len(
        release.measurements.released_rows.counts
    )
    tables = (release.synthetic, *release.further)
    assert len(tables) == int(asked.get("--implicates", 1))
    codec, rng = TableCodec(schema), np.random.default_rng(job.seed)
    for table in tables:
        assert table.num_rows == told
        if "--rows" in asked and not none_told and job.where is None:
            assert told == int(asked["--rows"])
        assert table.column_names == list(schema.columns)
        for name, column in schema.columns.items():
            check_cells(column, table[name].combine_chunks())
        codes = codec.encode({name: table[name] for name in codec.input_columns})
        redone = codec.decode(codes, rng=rng)
        assert redone.schema == table.schema
        twice = codec.encode({name: redone[name] for name in codec.input_columns})
        assert all(np.array_equal(codes[name], twice[name]) for name in codes)
        # Slowly, by the values of some rows; `verify` has held all of them against the rules by their codes.
        bound = table.slice(0, 300).select([name for name in table.column_names if name in "ABCF"])
        for row in bound.to_pylist():
            texts = {name: "" if value is None else _text(value) for name, value in row.items()}
            assert all(keeps(texts, replaced(schema, texts))), texts
            assert job.where is None or holds(parse_condition(job.where), texts, schema.columns), texts
    for totals in schema.totals if job.where is None and "--rows" not in asked and not none_told else ():
        counts = np.zeros(totals.counts.shape, int)
        np.add.at(counts, tuple(codec.encode(release.synthetic)[name] for name in totals.clique), 1)
        assert totals.clique == () or np.array_equal(counts, totals.counts)
        assert told == totals.counts.sum()


def replaced(schema: Schema, names: dict[str, str]) -> Schema:
    """Return the part of a schema whose columns hang together by rules."""
    return (
        Schema(columns={name: schema.columns[name] for name in names}, zeros=schema.zeros)
        if names
        else schema
    )


def check_cells(column: Column, cells: pa.Array) -> None:
    """See that released cells are of the column's type, and what it declares: a value, a special code, or empty."""
    assert cells.type == arrow_type(column)
    texts = ["" if cell is None else cell for cell in cells.cast(pa.string()).to_pylist()]
    if isinstance(column, CategoricalColumn):
        if column.type is None:
            assert {*texts} <= {*column.values, *column.specials}
        return
    if pa.types.is_string(cells.type):
        assert all(column.code(text) is not None for text in {*texts})
    assert "" not in texts or "" in column.specials


def check_files(release: Release, out: Path, again: Path) -> None:
    """See that what was read is what was written, byte for byte, and that a private reader takes the same codes."""
    release.save(again, report=False)
    for path in again.iterdir():
        if path.name not in ("manifest.json", "report.html"):
            assert path.read_bytes() == (out / path.name).read_bytes(), path.name
    path, schema = out / f"synthetic.{release.format}", release.measurements.schema
    for name, column in schema.columns.items():
        broken = any(set("\r\n") & set(text) for text in (*schema.columns, *_texts(schema)))
        if release.format == "csv" and broken:
            continue
        source = open_source(path)
        batches = [encode_values(column, batch.column(name)) for batch in source.batches([name])]
        codes = np.concatenate([np.array([], np.int64), *batches])
        assert np.array_equal(codes, encode_values(column, release.synthetic[name].combine_chunks())), name


def _texts(schema: Schema) -> list[str]:
    declared = [c.values for c in schema.columns.values() if isinstance(c, CategoricalColumn)]
    return [text for texts in (*declared, *(c.specials for c in schema.columns.values())) for text in texts]
