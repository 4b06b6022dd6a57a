"""Files of every kind: read by their signature whatever their name, or refused by every verb, and never quoted.

What such a file has behind its header is content of rows: it must become no name of a column, and no part of a message.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import sqlite3
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pyreadstat
import pytest

from populace.cli.main import main
from populace.private.read.file_signatures import can_be_header, is_like_value
from populace.private.read.rows_to_codes import open_source
from tests.cli.workspace import CANARY, Workspace

pytestmark = pytest.mark.sampled(12)

PLAN = ["plan", "--population", "100", "--epsilon", "1", "--delta", "0"]
SEEN = ("sex", "age")
# Names, labels and missing codes stand in headers; these stand in rows.
HIDDEN = (CANARY, "4711", "8.25")
ROWS = pd.DataFrame({"sex": [CANARY, "m"] * 20, "age": [8.25, 4711.0] * 20})


def packed(content: bytes) -> bytes:
    return gzip.compress(content)


def written(write: Callable[..., None], **options: Any) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        write(ROWS, str(path), **options)
        return path.read_bytes()


def stata(version: int) -> bytes:
    made = io.BytesIO()
    ROWS.to_stata(made, version=version, write_index=False)
    return made.getvalue()


def orc() -> bytes:
    made = pa.BufferOutputStream()
    pyarrow.orc.write_table(pa.Table.from_pandas(ROWS), made)
    return made.getvalue().to_pybytes()


def arrow(make: Callable[..., Any]) -> bytes:
    table = pa.Table.from_pandas(ROWS)
    made = pa.BufferOutputStream()
    with make(made, table.schema) as writer:
        writer.write_table(table)
    return made.getvalue().to_pybytes()


def parquet() -> bytes:
    made = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(ROWS), made)
    return made.getvalue().to_pybytes()


def workbook() -> bytes:
    made = io.BytesIO()
    book = openpyxl.Workbook()
    for row in (SEEN, *ROWS.itertuples(index=False, name=None)):
        book.active.append(row)
    book.save(made)
    return made.getvalue()


def archive(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as held:
        for name in names:
            held.writestr(name, f"sex,age\n{CANARY},4711\n")
    return made.getvalue()


def array() -> bytes:
    made = io.BytesIO()
    np.save(made, np.array([CANARY, "x"]))
    return made.getvalue()


def database() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made.db"
        with sqlite3.connect(path) as made:
            made.execute(f"create table {CANARY} (a)")
        made.close()
        return path.read_bytes()


def tar() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as held:
        held.addfile(tarfile.TarInfo(CANARY))
    return made.getvalue()


LINES = "".join(json.dumps(dict(zip(SEEN, row, strict=True))) + "\n" for row in ROWS.itertuples(index=False))
TEXT = f"sex,age\n{CANARY},4711\nm,8.25\n"
READABLE: dict[str, Callable[[], bytes]] = {
    "table.csv": TEXT.encode,
    "marked.csv": lambda: TEXT.encode("utf-8-sig"),
    "wide.csv": lambda: TEXT.encode("utf-16"),
    "semicolons.csv": lambda: TEXT.replace(",", ";").encode(),
    "tabs.tsv": lambda: TEXT.replace(",", "\t").encode(),
    "table.csv.gz": lambda: packed(TEXT.encode()),
    "wide.csv.gz": lambda: packed(TEXT.encode("utf-16")),
    "table.parquet": parquet,
    "table.arrow": lambda: arrow(pa.ipc.new_file),
    "table.feather": lambda: arrow(pa.ipc.new_file),
    "stream.arrows": lambda: arrow(pa.ipc.new_stream),
    "sheet.xlsx": workbook,
    "old.dta": lambda: stata(114),
    "later.dta": lambda: stata(117),
    "new.dta": lambda: stata(118),
    "survey.sav": lambda: written(pyreadstat.write_sav),
    "packed.sav": lambda: written(pyreadstat.write_sav, row_compress=True),
    "survey.zsav": lambda: written(pyreadstat.write_sav, compress=True),
    "portable.por": lambda: written(pyreadstat.write_por),
    "five.xpt": lambda: written(pyreadstat.write_xport, file_format_version=5),
    "eight.xpt": lambda: written(pyreadstat.write_xport),
}


@pytest.mark.parametrize("suffix", ["own", "", ".dat"])
@pytest.mark.parametrize("name", READABLE)
def test_a_header_is_all_that_inspect_shows(
    workspace: Workspace, capfd: pytest.CaptureFixture[str], name: str, suffix: str
) -> None:
    """Whatever its name; no byte of a row, and no number of rows, is in the draft or on a stream."""
    data = workspace.write(name if suffix == "own" else f"disguised{suffix}", READABLE[name]())
    out = Path(workspace.path("draft.toml"))
    assert main(["inspect", data, "--out", str(out), "--json"]) == 0
    streams = capfd.readouterr()
    shown = (streams.out + streams.err).replace(str(workspace.folder), "")
    assert json.loads(streams.out)["columns"] == 2
    drafted = out.read_text("utf-8")
    # The first format of SAS's files knows no small letters.
    names = tomllib.loads(drafted)["columns"]
    assert [each.lower() for each in names] == list(SEEN)
    assert not any(text in shown + drafted for text in (*HIDDEN, "40"))


@pytest.mark.parametrize("name", ["lines.jsonl", "marked.ndjson", "lines.jsonl.gz"])
def test_lines_without_a_header_become_a_schema_only_if_public(
    workspace: Workspace, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """The same words for every first line; what is public is read."""
    out, said = workspace.path("draft.toml"), set()
    for text in (LINES, "", "{}", f'"{CANARY}"', LINES[:20]):
        content = text.encode("utf-8-sig" if name.startswith("marked") else "utf-8")
        data = workspace.write(name, packed(content) if name.endswith("gz") else content)
        assert main(["inspect", data, "--out", out]) == 2
        said.add(capfd.readouterr().err)
        if text == LINES:
            assert main(["inspect", data, "--data-is-public", "--out", out]) == 0
            capfd.readouterr()
            assert list(tomllib.loads(Path(out).read_text("utf-8"))["columns"]) == list(SEEN)
            Path(out).unlink()
    assert len(said) == 1
    assert "have no header" in said.pop()


EBCDIC = "ASCII SPSS PORT FILE".encode("cp037").ljust(40, b"\x40")
FORMATS: dict[str, tuple[bytes, str]] = {
    "wide.json": (LINES.encode("utf-16"), "JSON"),
    "cut.json": (LINES.encode()[:20], "JSON"),
    "lines.json": (LINES.encode(), "JSON"),
    "indented.json": (f'  {{\n"sex": "{CANARY}"}}\n'.encode(), "JSON"),
    "array.json": (f'[{{"sex": "{CANARY}"}}]'.encode(), "JSON"),
    "pretty.json": (f'[\n  {{"sex": "{CANARY}"}}\n]'.encode(), "JSON"),
    "rows.json": (f'["{CANARY}", 44]\n'.encode(), "JSON"),
    "page.html": (f"<html><td>{CANARY}</td>".encode(), "XML"),
    "broken.dta": (stata(118)[:300], "a Stata file"),
    "big-endian.dta": (b"\x73\x01\x01\x00" + CANARY.encode(), "a Stata file"),
    "stata.dta.gz": (packed(stata(118)), "a Stata file"),
    "broken.xpt": (
        f"HEADER RECORD*******LIBRARY HEADER RECORD!!!!!!!{'0' * 30}  {CANARY}".encode(),
        "a SAS transport file",
    ),
    "ported.stc": (b"**COMPRESSED** **COMPRESSED**" + CANARY.encode(), "CPORT"),
    "table.sas7bdat": (
        bytes(12) + bytes.fromhex("c2ea8160b31411cfbd92080009c7318c181f1011") + CANARY.encode(),
        "a SAS file",
    ),
    "survey.sav": (b"$FL2@(#) SPSS DATA FILE" + CANARY.encode(), "an SPSS file"),
    "survey.zsav": (b"$FL3@(#) SPSS DATA FILE" + CANARY.encode(), "an SPSS file"),
    "survey.por": (b"ASCII SPSS PORT FILE".ljust(40) * 2 + b"\r\n" + CANARY.encode(), "an SPSS portable"),
    "theirs.por": (
        EBCDIC + b"ASCII SPSS PORT FILE".ljust(40) + b"\r\n" + CANARY.encode(),
        "an SPSS portable",
    ),
    "frame.RData": (b"RDX3\nX\n" + CANARY.encode(), "an R file"),
    "frame.rds": (packed(b"X\n\x00\x00\x00\x03" + CANARY.encode()), "an R file"),
    "table.orc": (orc(), "ORC"),
    "empty.orc": (b"ORC\n" + CANARY.encode(), "ORC"),
    "old.feather": (b"FEA1\x00\x00" + CANARY.encode(), "Arrow"),
    "broken.arrow": (b"ARROW1\x00\x00" + CANARY.encode(), "cannot be read as a table"),
    "people.avro": (b"Obj\x01\x04\x14avro.codec" + CANARY.encode(), "Avro"),
    "broken.parquet": (b"PAR1" + CANARY.encode(), "cannot be read as a table"),
    "secret.parquet": (b"PARE" + CANARY.encode(), "an encrypted Parquet"),
    "table.npy": (array(), "Python"),
    "table.pkl": (pickle.dumps({"sex": [CANARY]}), "Python"),
    "broken.xlsx": (b"PK\x03\x04" + CANARY.encode(), "spreadsheet"),
    "word.docx": (archive("word/document.xml", CANARY), "spreadsheet"),
    "sheet.ods": (archive("content.xml"), "spreadsheet"),
    "table.zip": (archive("people.csv"), "spreadsheet"),
    "hollow.xlsx": (archive("xl/workbook.xml"), "cannot be read as a table"),
    "sheet.xls": (b"\xd0\xcf\x11\xe0" + CANARY.encode(), "spreadsheet"),
    "broken.csv.gz": (b"\x1f\x8b\x08\x00" + CANARY.encode(), "gzip"),
    "cut.csv.gz": (packed(TEXT.encode())[:12], "gzip"),
    "folder.tar.gz": (tar(), "control characters"),
    "table.csv.bz2": (b"BZh91AY&SY" + CANARY.encode(), "bzip2"),
    "table.csv.xz": (b"\xfd7zXZ\x00" + CANARY.encode(), "compressed by xz"),
    "table.csv.zst": (b"\x28\xb5\x2f\xfd" + CANARY.encode(), "zstd"),
    "page.pdf": (b"%PDF-1.7\n" + CANARY.encode(), "PDF"),
    "photo.png": (b"\x89PNG\r\n\x1a\n" + CANARY.encode(), "an image"),
    "photo.jpg": (b"\xff\xd8\xff\xe0" + CANARY.encode(), "an image"),
    "arrays.h5": (b"\x89HDF\r\n\x1a\n" + CANARY.encode(), "HDF5"),
    "arrays.mat": (b"MATLAB 5.0 MAT-file, " + CANARY.encode(), "MATLAB"),
    "people.sqlite": (database(), "SQLite"),
    "people.accdb": (b"\x00\x01\x00\x00Standard ACE DB" + CANARY.encode(), "Access"),
    "unknown.bin": (b"\x07\x01" + CANARY.encode() + b"\x00,\x02\n", "control characters"),
    "escape.csv": (f"\x1b[31m{CANARY},age\nf,1\n".encode(), "control characters"),
    "nought.csv": (f"sex\x00,age,{CANARY}\nf,1,2\n".encode(), "control characters"),
    "plain.dta": (f"{CANARY},age\nf,1\n".encode(), "named as a Stata file"),
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
