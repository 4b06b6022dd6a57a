"""Invariant 5: artefacts name their parents by digest, and hold nothing of the private file or run but noise."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import zlib
from pathlib import Path

import pytest

from populace.api.synthesize import synthesize
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.bundle import Release
from populace.release.manifest import digest_file
from populace.release.verify.verify import verify
from populace.schema.schema import Schema

SCHEMA = Schema.parse("""
[table]
dataset = "people"
unit = "person"

[columns.sex]
kind = "categorical"
values = ["f", "m"]

[columns.age]
kind = "integer"
min = 0
max = 9
""")
ROWS = 7919  # a number that stands nowhere else
MODIFIED = 1_234_567_891
CANARY = "canary-4711"  # part of a path, and a value outside the domain


def private_file(folder: Path, *, order: int) -> Path:
    """Write a table whose path, time and odd values must not leave; `order` shuffles its rows."""
    draw = random.Random(3)
    rows = [f"{draw.choice('fm')},{draw.randrange(10)}" for _ in range(ROWS - 1)] + [f"{CANARY},3"]
    random.Random(order).shuffle(rows)
    path = folder / f"{CANARY}-{order}" / f"{CANARY}.csv"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(["sex,age", *rows]) + "\n", encoding="utf-8")
    os.utime(path, (MODIFIED, MODIFIED))
    return path


def released(folder: Path, *, order: int) -> tuple[Path, Path]:
    """Make a release with repeatable noise, and return it with the private file behind it."""
    data = private_file(folder, order=order)
    release = synthesize(
        data,
        schema=SCHEMA,
        epsilon="1",
        delta="1e-9",
        method="mst",
        rows=500,
        seed=5,
        ledger=folder / f"{order}.db",
        noise=ExactNoise(RehearsalEntropy(11)),
    )
    out = folder / f"release-{order}"
    release.save(out)
    return out, data


def traces(release: Path, data: Path) -> list[str]:
    """Return what a release tells about the private file, as `file: what`."""
    content = data.read_bytes()
    marks = {
        "its path": [CANARY],
        "its size": [str(len(content))],
        "its number of rows": [str(ROWS), str(ROWS + 1)],
        "its time": [str(MODIFIED), "2009-02-13"],
        "its digest": [
            hashlib.new(name, content).hexdigest() for name in ("md5", "sha1", "sha256", "sha512", "blake2b")
        ]
        + [str(zlib.crc32(content))],
    }
    return [
        f"{path.name}: {what}"
        for path in sorted(release.iterdir())
        for what, words in marks.items()
        for word in words
        if stands_in(word, path.read_bytes())
    ]


def stands_in(word: str, content: bytes) -> bool:
    """Say whether a word stands in a file; a number counts as a whole, not as digits of a longer one."""
    pattern = re.escape(word.encode())
    return re.search(rb"(?<![\w.])%b(?![\w.])" % pattern if word.isdigit() else pattern, content) is not None


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("pair")
    return [released(folder, order=order) for order in (1, 2)]


def test_release_holds_no_trace_of_the_private_file(pair: list[tuple[Path, Path]]) -> None:
    for release, data in pair:
        assert traces(release, data) == []


@pytest.mark.parametrize(
    "leak",
    [
        lambda data: str(data),
        lambda data: str(data.stat().st_size),
        lambda data: str(int(data.stat().st_mtime)),
        lambda data: str(ROWS),
        lambda data: hashlib.sha256(data.read_bytes()).hexdigest(),
    ],
    ids=["path", "size", "time", "rows", "digest"],
)
def test_a_trace_is_seen(leak, pair: list[tuple[Path, Path]], tmp_path: Path) -> None:
    release, data = pair[0]
    for path in release.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    manifest = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "input": leak(data)}), encoding="utf-8")
    assert len(traces(tmp_path, data)) == 1


def test_the_order_of_rows_leaves_no_trace(pair: list[tuple[Path, Path]]) -> None:
    """With the same noise two orders of one table give one release; only the run's own name differs."""
    first, second = (Release.load(release) for release, _ in pair)
    assert first.synthetic.equals(second.synthetic)
    names = [r.measurements for r in (first, second)]
    runs = [(told.record.run, told.record.digest, told.digest) for told in names]
    for path in sorted(pair[0][0].iterdir()):
        if path.name in ("manifest.json", "report.html"):
            continue  # they repeat the digests of files that name the run
        one, other = path.read_bytes(), (pair[1][0] / path.name).read_bytes()
        for mine, theirs in zip(*runs, strict=True):
            one = one.replace(mine.encode(), theirs.encode())
        assert one == other, path.name


def test_every_artefact_names_its_parents(pair: list[tuple[Path, Path]]) -> None:
    """schema → ledger entry → measurements → model → release, each link checked against the files."""
    out, _ = pair[0]
    told = {
        name: json.loads((out / name).read_text("utf-8")) for name in ("manifest.json", "measurements.json")
    }
    parents, record = told["manifest.json"]["parents"], told["measurements.json"]["record"]
    assert told["measurements.json"]["schema_digest"] == record["schema_digest"] == SCHEMA.digest
    assert parents["ledger_entry"] == {"schema": SCHEMA.digest}
    assert parents["measurements"] == {"schema": SCHEMA.digest, "ledger_entry": record["digest"]}
    assert parents["model"] == {
        name: digest_file(out / name) for name in ("measurements.json", "measurements.parquet")
    }
    assert parents["release"] == {name: digest_file(out / name) for name in ("model.json", "model.npz")}


@pytest.mark.parametrize("parent", ["ledger_entry", "measurements", "model", "release"])
def test_a_wrong_parent_is_seen(parent: str, pair: list[tuple[Path, Path]], tmp_path: Path) -> None:
    out = shutil.copytree(pair[0][0], tmp_path / "release")
    manifest = json.loads((out / "manifest.json").read_text("utf-8"))
    name = next(iter(manifest["parents"][parent]))
    manifest["parents"][parent][name] = "0" * 64
    (out / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    failed = [check.name for check in verify(out).checks if not check.passed]
    assert "parents" in failed
