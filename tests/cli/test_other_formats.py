"""Files that are no CSV and no Parquet: named by their signature, refused by every verb, and never quoted.

What such a file has in its first line is content of rows: it must become no name of a column, and no part of a message.
"""

from __future__ import annotations

import io
import json
import pickle
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from populace.cli.main import main
from populace.core.errors import DataError
from populace.private.read.file_signatures import can_be_header, is_like_value
from populace.private.read.rows_to_codes import open_source
from tests.cli.workspace import CANARY, Workspace

FRAME = pd.DataFrame({"sex": [CANARY, "m"], "age": [1, 2]})
TABLE = pa.table({"sex": [CANARY, "m"], "age": [1, 2]})
PLAN = ["plan", "--population", "100", "--epsilon", "1", "--delta", "0"]
LINES = "".join(json.dumps({"sex": CANARY, "age": age}) + "\n" for age in (1, 2))


def stata(version: int) -> bytes:
    made = io.BytesIO()
    FRAME.to_stata(made, version=version, write_index=False)
    return made.getvalue()


def orc() -> bytes:
    made = pa.BufferOutputStream()
    pyarrow.orc.write_table(TABLE, made)
    return made.getvalue().to_pybytes()


def stream() -> bytes:
    made = pa.BufferOutputStream()
    with pa.ipc.new_stream(made, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return made.getvalue().to_pybytes()


def array() -> bytes:
    made = io.BytesIO()
    np.save(made, np.array([CANARY, "x"]))
    return made.getvalue()


def database(folder: Path) -> bytes:
    with sqlite3.connect(folder / "made.db") as made:
        made.execute(f"create table {CANARY} (a)")
    made.close()
    return (folder / "made.db").read_bytes()


EBCDIC = "ASCII SPSS PORT FILE".encode("cp037").ljust(40, b"\x40")
FORMATS: dict[str, tuple[bytes, str]] = {
    "lines.jsonl": (LINES.encode(), "JSON"),
    "lines.json": (LINES.encode("utf-8-sig"), "JSON"),
    "wide.json": (LINES.encode("utf-16"), "JSON"),
    "indented.json": (f'  {{"sex": "{CANARY}"}}\n'.encode(), "JSON"),
    "array.json": (f'[{{"sex": "{CANARY}"}}]'.encode(), "JSON"),
    "pretty.json": (f'[\n  {{"sex": "{CANARY}"}}\n]'.encode(), "JSON"),
    "rows.json": (f'["{CANARY}", 44]\n'.encode(), "JSON"),
    "page.html": (f"<html><td>{CANARY}</td>".encode(), "XML"),
    "old.dta": (stata(114), "Stata"),
    "big-endian.dta": (b"\x73\x01\x01\x00" + CANARY.encode(), "Stata"),
    "new.dta": (stata(118), "Stata"),
    "five.xpt": (f"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!{'0' * 30}  {CANARY}".encode(), "SAS"),
    "ported.stc": (b"**COMPRESSED** **COMPRESSED**" + CANARY.encode(), "SAS"),
    "table.sas7bdat": (bytes(12) + bytes.fromhex("c2ea8160b31411cfbd92080009c7318c181f1011"), "SAS"),
    "survey.sav": (b"$FL2@(#) SPSS DATA FILE" + CANARY.encode(), "SPSS"),
    "survey.zsav": (b"$FL3@(#) SPSS DATA FILE" + CANARY.encode(), "SPSS"),
    "survey.por": (b"ASCII SPSS PORT FILE".ljust(40) * 2 + b"\r\n" + CANARY.encode(), "SPSS portable"),
    "theirs.por": (EBCDIC + b"ASCII SPSS PORT FILE".ljust(40) + b"\r\n" + CANARY.encode(), "SPSS portable"),
    "frame.RData": (b"RDX3\nX\n" + CANARY.encode(), "an R file"),
    "table.orc": (orc(), "ORC"),
    "empty.orc": (b"ORC\n" + CANARY.encode(), "ORC"),
    "stream.arrows": (stream(), "Arrow"),
    "old.feather": (b"FEA1\x00\x00" + CANARY.encode(), "Arrow"),
    "people.avro": (b"Obj\x01\x04\x14avro.codec" + CANARY.encode(), "Avro"),
    "secret.parquet": (b"PARE" + CANARY.encode(), "Parquet"),
    "table.npy": (array(), "Python"),
    "table.pkl": (pickle.dumps({"sex": [CANARY]}), "Python"),
    "sheet.xlsx": (b"PK\x03\x04" + CANARY.encode(), "spreadsheet"),
    "sheet.xls": (b"\xd0\xcf\x11\xe0" + CANARY.encode(), "spreadsheet"),
    "table.csv.gz": (b"\x1f\x8b\x08\x00" + CANARY.encode(), "gzip"),
    "table.csv.bz2": (b"BZh91AY&SY" + CANARY.encode(), "bzip2"),
    "table.csv.xz": (b"\xfd7zXZ\x00" + CANARY.encode(), "compressed by xz"),
    "table.csv.zst": (b"\x28\xb5\x2f\xfd" + CANARY.encode(), "zstd"),
    "page.pdf": (b"%PDF-1.7\n" + CANARY.encode(), "PDF"),
    "unknown.bin": (b"\x07\x01" + CANARY.encode() + b"\x00,\x02\n", "control characters"),
    "escape.csv": (f"\x1b[31m{CANARY},age\nf,1\n".encode(), "control characters"),
    "nought.csv": (f"sex\x00,age,{CANARY}\nf,1,2\n".encode(), "control characters"),
    "plain.dta": (f"{CANARY},age\nf,1\n".encode(), "named as a Stata file"),
    "plain.jsonl": (f'"{CANARY}"\n'.encode(), "named as JSON"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_no_verb_takes_another_format_for_csv(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    content, said = FORMATS[name]
    data, out = workspace.write(name, content), workspace.path("draft.toml")
    for command in (["inspect", data, "--out", out], ["inspect", data, "--data-is-public", "--out", out]):
        assert main(command) == 2
        assert not Path(out).exists()
    assert workspace.synth(name) == 2
    assert main([*PLAN, "--schema", workspace.path("schema.toml"), "--like", data]) == 2
    written = capsys.readouterr()
    assert written.err.count("error: ") == written.err.count(said) == 4, written.err
    assert CANARY not in written.err
    assert written.out == ""
    assert workspace.entries == 1


@pytest.mark.parametrize("suffix", ["", ".csv", ".txt", ".dat"])
def test_the_name_does_not_hide_a_format(workspace: Workspace, suffix: str) -> None:
    for name in (
        "lines.jsonl",
        "old.dta",
        "new.dta",
        "five.xpt",
        "table.sas7bdat",
        "survey.por",
        "table.orc",
    ):
        with pytest.raises(DataError, match=FORMATS[name][1]):
            open_source(workspace.write(f"disguised{suffix}", FORMATS[name][0]))


def test_formats_are_told_by_the_first_line_alone(workspace: Workspace) -> None:
    """What stands in rows never refuses a file: one row would say so."""
    for row in (
        b'{"a": 1}',
        b"<x>",
        b"ASCII SPSS PORT FILE",
        b"HEADER RECORD***",
        b"\x00\x01",
        b"PK\x03\x04",
        b"ORC",
    ):
        for header in (b"A", b"sex,age", b"ORC,age", b"RDX,age", b"BZhx"):
            data = workspace.write("rows.csv", header + b"\n" + row + b"\n")
            assert open_source(data).names == tuple(header.decode().split(","))


@pytest.mark.parametrize(
    "header",
    [
        f"44,2001-05-01,{CANARY}",
        f"0012345 1 2 M 1983 {CANARY[:3]}",
        "31.12.1983;12:30;Ulm",
        f"{CANARY}@mail.org,+49 170 1234567,Ulm",
        "sex,{age",
        "<sex,age",
        'HEADER RECORD,age,"x"',
        "1983M",
        f"INSERT INTO people VALUES (1,'{CANARY}',1983);",
        f"name: {CANARY}, age: 44",
        f"name={CANARY} age=44",
        f"{CANARY}     f   1983",
        f"'{CANARY}'|'f'",
    ],
)
def test_a_first_line_of_values_becomes_no_schema(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], header: str
) -> None:
    data = workspace.write("bare.csv", f"{header}\n{header}\n")
    assert main(["inspect", data, "--out", workspace.path("draft.toml")]) == 2
    assert header.split(",")[0] not in capsys.readouterr().err
    assert not Path(workspace.path("draft.toml")).exists()


@pytest.mark.parametrize(
    "name",
    [
        "AGE",
        "Q12",
        "POP2010",
        "2019 income",
        "größe",
        "x.1",
        "[AGE]",
        "V1_2",
        "#",
        "Äge",
        "income (EUR)",
        "a b",
    ],
)
def test_names_of_columns_are_names(name: str) -> None:
    assert not is_like_value(name)
    assert can_be_header([name])


def test_a_row_is_not_quoted_where_names_are_numbers(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    """The schema's names are found in a row: that makes it no header."""
    schema = workspace.write("numbered.json", '{"0": 2, "1": 2}')
    workspace.write("bare.csv", f"1,0,{CANARY},Ulm,f\n" + f"0,1,{CANARY},Bonn,m\n" * 9)
    workspace.synth("bare.csv", schema=schema)
    workspace.synth("bare.csv", schema=workspace.write("more.json", '{"0": 2, "1": 2, "Ulmer": 2}'))
    written = capsys.readouterr()
    assert CANARY not in written.err + written.out
    assert "'Ulm'" not in written.err


@pytest.mark.parametrize("verb", ["inspect", "plan"])
@pytest.mark.parametrize("where", ["given", "default"])
def test_a_table_with_an_account_is_not_public(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], verb: str, where: str
) -> None:
    """As with --public: its name says that it is private, and nothing of it is read."""
    if where == "default":
        (workspace.folder / "state" / "populace").mkdir(parents=True)
        workspace.ledger.rename(workspace.folder / "state" / "populace" / "ledger.db")
    told = ["--ledger", str(workspace.ledger)] if where == "given" else []
    out = workspace.path("draft.toml")
    commands = {
        "inspect": ["inspect", workspace.path("people.csv"), "--data-is-public", "--out", out],
        "plan": [*PLAN, "--schema", workspace.path("schema.toml"), "--like", workspace.path("people.csv")],
    }
    assert main([*commands[verb], *told]) == 2
    assert "'people' names a private table" in capsys.readouterr().err
    assert not Path(out).exists()
    Path(workspace.path("link.csv")).symlink_to(workspace.path("people.csv"))
    linked = [word.replace("people.csv", "link.csv") for word in commands[verb]]
    assert main([*linked, *told]) == 2
    assert "'people' names a private table" in capsys.readouterr().err
    if verb == "inspect":
        free = workspace.write("open.csv", "sex,age\nf,3\nm,4\n")
        assert main(["inspect", free, "--data-is-public", "--out", out, *told]) == 0


def test_a_draft_says_which_columns_have_no_codes(workspace: Workspace) -> None:
    pq.write_table(pa.table({"age": [1, 2], "visits": [[1], [2]]}), workspace.path("nested.parquet"))
    assert main(["inspect", workspace.path("nested.parquet"), "--out", workspace.path("draft.toml")]) == 0
    draft = Path(workspace.path("draft.toml")).read_text("utf-8")
    assert "# declared type: list, structure or length of time; no code can stand for it: remove it" in draft
