"""The codebook of a release as DDI and as Croissant: whole, and readable by our own importer."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pytest

import populace as pp
from populace.cli.main import main
from populace.schema.imports.codebooks.ddi_codebook import from_ddi, parse_xml

SCHEMA = """
[columns.age]
kind = "integer"
min = 0
max = 99
label = "Age & years"
[columns.job]
kind = "categorical"
values = ["1", "2"]
labels = { 1 = "farmer", 2 = "other <work>", R = "refused", N = "not asked" }
missing = ["R"]
universe = "age >= 15"
outside = "N"
description = "What do you do?"
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exports")
    rows = pa.table({"age": [10, 20, 30, 40] * 50, "job": ["N", "1", "2", "R"] * 50})
    found = pp.synthesize(
        rows,
        schema=pp.Schema.parse(SCHEMA),
        epsilon=5,
        delta="1e-6",
        method="independent",
        ledger=folder / "l.db",
        dataset="d",
    )
    found.save(folder / "out", report=False)
    return folder / "out"


def test_ddi_reads_back(release: Path, tmp_path: Path) -> None:
    out = tmp_path / "release.xml"
    assert main(["codebook", str(release), "--format", "ddi", "--out", str(out)]) == 0
    text = out.read_text("utf-8")
    age, job = from_ddi(text).variables
    assert (age.name, age.label) == ("age", "Age & years")
    assert dict(job.choices) == {"1": "farmer", "2": "other <work>"}
    assert dict(job.missing) == {"R": "refused", "N": "not asked"}
    root = parse_xml(text)
    assert [part.tag for part in root.children] == ["docDscr", "stdyDscr", "fileDscr", "dataDscr"]
    first, second = root.walk("var")
    assert next(first.walk("range")).attributes == {"min": "0", "max": "99"}
    assert (second.first("universe"), next(second.walk("qstnLit")).text) == ("age >= 15", "What do you do?")


def test_croissant_describes_files_columns_and_codes(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["codebook", str(release), "--format", "croissant"]) == 0
    found = json.loads(capsys.readouterr().out)
    (file,) = found["distribution"]
    assert file["sha256"] == hashlib.sha256((release / file["contentUrl"]).read_bytes()).hexdigest()
    rows, codes = found["recordSet"]
    assert [field["dataType"] for field in rows["field"]] == ["sc:Integer", "sc:Text"]
    assert all(field["source"]["fileObject"]["@id"] == file["@id"] for field in rows["field"])
    assert rows["field"][1]["references"]["field"]["@id"] == codes["key"]["@id"]
    assert {"job codes/code": "1", "job codes/label": "farmer"} in codes["data"]
    assert found["conformsTo"].endswith("croissant/1.0")


def test_a_folder_that_is_no_release_is_refused(tmp_path: Path) -> None:
    assert main(["codebook", str(tmp_path), "--format", "ddi"]) == 2
