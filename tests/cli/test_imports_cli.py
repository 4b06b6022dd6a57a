"""`schema import` and `inspect`: what they write, what they refuse, and that a draft comes from no row."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pandas
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from populace.cli.main import main
from populace.private.read.csv_source import CsvSource
from populace.private.read.sources import FrameSource, ParquetSource
from populace.schema.imports.overlay import packaged_overlays
from populace.schema.schema import Schema
from tests.cli.workspace import CANARY, Workspace

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
ACS = DATA / "nist-acs"
needs_acs = pytest.mark.skipif(not ACS.is_dir(), reason="needs the shared data")


@pytest.fixture
def no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail as soon as a row is read."""

    def read(self: object, columns: Sequence[str]) -> None:
        raise AssertionError("a row was read")

    for source in (CsvSource, ParquetSource, FrameSource):
        monkeypatch.setattr(source, "batches", read)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", read)


# ── schema import ───────────────────────────────────────────────────────────────────────────────────


def test_import_writes_a_schema_that_loads(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = workspace.write("domain.json", json.dumps({"age": 85, "sex": 2}))
    words = [
        "schema",
        "import",
        sizes,
        "--out",
        workspace.path("s.toml"),
        "--dataset",
        "mine",
        "--unit",
        "person",
    ]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out == workspace.path("s.toml") + "\n"
    assert "2 declared" in err
    schema = Schema.load(workspace.path("s.toml"))
    assert (schema.dataset, schema.unit.name) == ("mine", "person")
    assert main(["schema", "check", workspace.path("s.toml")]) == 0


def test_import_to_stdout_and_as_json(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = workspace.write("domain.json", json.dumps({"age": 85}))
    assert main(["schema", "import", sizes, "--out", "-"]) == 0
    assert Schema.parse(capsys.readouterr().out).domain["age"] == 85
    assert main(["schema", "import", sizes, "--out", workspace.path("s.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == 1


def test_import_lays_overlays_one_over_the_other(workspace: Workspace) -> None:
    sizes = workspace.write("domain.json", json.dumps({"age": 85, "sex": 2}))
    first = workspace.write("first.toml", "[columns.age]\nwidth = 5\n")
    second = workspace.write("second.toml", "[columns.age]\nwidth = 17\n[columns.sex]\norigin = 'codebook'\n")
    out = workspace.path("s.toml")
    assert main(["schema", "import", sizes, "--overlay", first, "--overlay", second, "--out", out]) == 0
    assert Schema.load(out).domain["age"] == 5


def test_import_refuses_before_it_writes(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = workspace.write("domain.json", json.dumps({"age": 85}))
    wrong = workspace.write("wrong.toml", "[columns.age]\nwidht = 5\n")
    out = workspace.path("s.toml")
    for words in (
        [workspace.path("people.csv")],
        [workspace.path("nowhere.json")],
        [str(workspace.folder)],
        [sizes, "--overlay", "no-such"],
        [sizes, "--overlay", wrong],
        [sizes, "--dictionary", sizes],
    ):
        assert main(["schema", "import", *words, "--out", out]) == 2
        err = capsys.readouterr().err
        assert err.startswith("error: ")
        assert "\nhint: " in err
        assert CANARY not in err
        assert not Path(out).exists()


def test_work_is_never_overwritten(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(workspace.path("schema.toml")).read_text("utf-8")
    sizes = workspace.write("domain.json", json.dumps({"age": 85}))
    assert main(["schema", "import", sizes, "--out", workspace.path("schema.toml")]) == 2
    assert main(["inspect", workspace.path("people.csv"), "--out", workspace.path("schema.toml")]) == 2
    assert "exists already" in capsys.readouterr().err
    assert Path(workspace.path("schema.toml")).read_text("utf-8") == before
    assert main(["inspect", workspace.path("people.csv"), "--out", workspace.path("no/such/s.toml")]) == 2


def test_help_names_every_overlay_and_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "import", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name in packaged_overlays():
        assert f"{name}," in text or f"{name})" in text
    assert main(["inspect", "--help"]) == 0
    assert "populace inspect people.csv" in capsys.readouterr().out


@needs_acs
@pytest.mark.parametrize("name", ["ma2019", "national2019"])
def test_overlay_of_the_excerpts_works_as_documented(workspace: Workspace, name: str) -> None:
    out = workspace.path("s.toml")
    words = [str(ACS / f"{name}.json"), "--dictionary", str(ACS / "data_dictionary.json")]
    assert main(["schema", "import", *words, "--overlay", "nist-acs", "--out", out]) == 0
    schema = Schema.load(out)
    assert len(schema.columns) == 24
    assert "INDP_CAT" not in schema.domain
    assert "DENSITY" not in schema.domain
    assert main(["schema", "show", out]) == 0


# ── inspect ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("no_rows")
def test_draft_of_csv_has_names_only(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    out = workspace.path("draft.toml")
    assert main(["inspect", workspace.path("people.csv"), "--out", out]) == 0
    assert capsys.readouterr().out == out + "\n"
    text = Path(out).read_text("utf-8")
    assert CANARY not in text
    found = tomllib.loads(text)
    assert found["columns"] == {"sex": {}, "age": {}}
    assert found["table"]["dataset"] == "people"
    assert text.count("fill in") == 2


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_draft_of_typed_file_has_types_only(workspace: Workspace, form: str) -> None:
    town = pa.array([CANARY, "x"]).dictionary_encode()
    table = pa.table({"age": [30, 41], "ok": [True, False], "income": [1.5, 2.5], "town": town})
    path = workspace.path(f"people.{form}")
    if form == "parquet":
        pq.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    assert main(["inspect", path, "--out", workspace.path("draft.toml")]) == 0
    text = Path(workspace.path("draft.toml")).read_text("utf-8")
    assert CANARY not in text
    assert "41" not in text
    codes = 'or "categorical" with values if these are codes: fill in'
    assert f'declared type: whole number; kind = "integer" with min and max, {codes}' in text
    assert "declared type: number; kind" in text
    assert "declared type: text with a list of values; kind" in text
    assert 'unit = "row"  # who is protected?' in text
    assert tomllib.loads(text)["columns"]["ok"]["values"] == ["false", "true"]


def test_draft_is_refused_until_it_is_filled_in(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    draft = workspace.path("draft.toml")
    assert main(["inspect", workspace.path("people.csv"), "--out", draft, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to_fill_in"] == ["sex", "age"]
    for words in (["schema", "check", draft], ["schema", "show", draft]):
        assert main(words) == 2
        assert "'sex', 'age' have no kind" in capsys.readouterr().err
    before = workspace.entries
    assert workspace.synth(schema=draft) == 2
    assert workspace.entries == before
    text = Path(draft).read_text("utf-8")
    filled = text.replace("[columns.sex]", '[columns.sex]\nkind = "categorical"\nvalues = ["f", "m"]')
    filled = filled.replace("[columns.age]", '[columns.age]\nkind = "integer"\nmin = 0\nmax = 99')
    Path(draft).write_text(filled, encoding="utf-8")
    assert main(["schema", "check", draft]) == 0


def test_public_rows_give_values_and_ranges(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{'fm'[n % 2]},{n % 90},{n * 1.5},{'N' if n % 7 else n}" for n in range(400)]
    data = workspace.write("open.csv", "\n".join(["sex,age,income,weeks", *lines]))
    out = workspace.path("s.toml")
    assert main(["inspect", data, "--data-is-public", "--out", out]) == 0
    text = Path(out).read_text("utf-8")
    assert "rows of public data" in text
    assert "must not be made this way" in text
    schema = Schema.load(out)
    assert schema.domain["sex"] == 3
    assert (schema.columns["age"].min, schema.columns["age"].max) == (0, 89)
    assert schema.columns["weeks"].missing == ("N",)
    assert {str(column.origin) for column in schema.columns.values()} == {"declared"}
    assert "0 of them to fill in" in capsys.readouterr().err


def test_public_typed_rows_keep_whole_codes(workspace: Workspace) -> None:
    pandas.DataFrame({"sex": [1, 2, 2], "town": ["a", None, "b"]}).to_parquet(workspace.path("open.parquet"))
    out = workspace.path("s.toml")
    assert main(["inspect", workspace.path("open.parquet"), "--data-is-public", "--out", out]) == 0
    columns = tomllib.loads(Path(out).read_text("utf-8"))["columns"]
    assert columns["sex"]["type"] == "integer"
    assert columns["town"]["values"] == ["a", "b"]
    Schema.load(out)


@pytest.mark.usefixtures("no_rows")
@pytest.mark.parametrize(
    ("header", "part"),
    [
        (f"31,2,{CANARY}", "does not look like a header"),
        ("age,,sex", "no name"),
        ("age,sex,age", "same name"),
        ("", "empty"),
    ],
)
def test_what_is_no_header_is_refused_unquoted(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], header: str, part: str
) -> None:
    data = workspace.write("bad.csv", f"{header}\n" if header else "")
    assert main(["inspect", data, "--out", workspace.path("draft.toml")]) == 2
    err = capsys.readouterr().err
    assert part in err
    assert CANARY not in err
    assert not Path(workspace.path("draft.toml")).exists()


def test_inspect_of_nothing_is_refused(workspace: Workspace) -> None:
    for data in ("nowhere.csv", "ledger.db", "."):
        assert main(["inspect", workspace.path(data), "--out", workspace.path("draft.toml")]) == 2


def test_guide_runs_as_it_is_written(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "guides" / "schema-from-a-codebook.md").read_text("utf-8")
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", page, flags=re.DOTALL):
        workspace.write(name, text)
    Path(workspace.path("schema.toml")).unlink()
    for block in re.findall(r"```console\n(.*?)```", page, flags=re.DOTALL):
        for command, shown in re.findall(r"\$ populace (.*)\n((?:[^$].*\n)*)", block):
            assert main(shlex.split(command)) == 0, capsys.readouterr().err
            assert capsys.readouterr().out == shown
    schema = Schema.load("schema.toml")
    assert schema.columns["MARST"].outside == "N"
    assert len(schema.zeros) == 1
    draft = Path("draft.toml").read_text("utf-8")
    assert "# kind, and values or a range: fill in\n[columns.age]" in draft


def test_show_prints_rules_and_functions(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        '[columns.a]\nkind = "integer"\nmin = 0\nmax = 9\n[columns.b]\nkind = "categorical"\nvalues = ["x"]\n'
        'function_of = ["a"]\nmap = { 1 = "x" }\n[[zeros]]\nwhen = "a == 3"\n'
    )
    path = workspace.write("ruled.toml", text)
    assert main(["schema", "show", path]) == 0
    assert Schema.parse(capsys.readouterr().out) == Schema.load(path)
