"""No file of a verified release holds anything beside what populace writes, wherever readers do not look."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from populace.cli.main import main
from populace.core.errors import ReleaseError, ResourceError
from populace.privacy.ledger.ledger import Ledger
from populace.release.bundle import Release
from populace.release.estimates_bundle import Estimates
from populace.release.manifest import (
    MANIFEST_FILE,
    MEASUREMENT_FILES,
    MODEL_FILES,
    Manifest,
    digest_file,
    dump_json,
)
from populace.release.report.vega_scripts import load_scripts
from populace.release.statement.statement import RELEASE_FORMAT
from populace.release.verify import verify_bytes
from populace.release.verify.checks import CheckOutcome, Verdict, run_check
from populace.release.verify.verify import verify
from populace.release.verify.verify_bytes import check_report
from tests.helpers import releases
from tests.helpers.forged_releases import RELEASES, exit_code

pytestmark = pytest.mark.sampled(6)

NEWEST = RELEASES / str(RELEASE_FORMAT)
ROWS = "sex,age\nf,31\nm,77\nf,8\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Return a release whose ledger knows it."""
    table, schema = releases.small_sample(("sex", "age"))
    ledger = tmp_path_factory.mktemp("l") / "ledger.db"
    return replace(releases.make(releases.measure(table, schema, ledger=ledger)), ledger=ledger)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(NEWEST / "csv", tmp_path / "out"))


def reseal(folder: Path, **fields: Any) -> None:
    """Put the digests right, as a careful forger would."""
    told = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
    told["files"] = {name: digest_file(folder / name) for name in told["files"]}
    for key, names in (("model", MEASUREMENT_FILES), ("release", MODEL_FILES)):
        if key in told["parents"]:
            told["parents"][key] = {name: told["files"][name] for name in names}
    (folder / MANIFEST_FILE).write_text(dump_json({**told, **fields}), encoding="utf-8")


def outcomes(verdict: Verdict) -> dict[str, CheckOutcome]:
    return {check.name: check.outcome for check in verdict.checks if not check.passed}


def metadata(path: Path) -> None:
    pq.write_table(pq.read_table(path).replace_schema_metadata({"note": ROWS}), path, compression="zstd")


def field_metadata(path: Path) -> None:
    table = pq.read_table(path)
    field = table.schema.field(0).with_metadata({"note": ROWS})
    pq.write_table(table.cast(table.schema.set(0, field)), path, compression="zstd")


def comment(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as held:
        held.comment = ROWS.encode()


def extra(path: Path) -> None:
    """Put rows into a field of a member that readers pass over."""
    with zipfile.ZipFile(path) as held:
        members = {info: held.read(info) for info in held.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as held:
        for number, (info, data) in enumerate(members.items()):
            info.extra = b"\xca\xfe" + len(ROWS).to_bytes(2, "little") + ROWS.encode() if not number else b""
            held.writestr(info, data)


def behind(path: Path) -> None:
    path.write_bytes(path.read_bytes() + ROWS.encode())


def before(path: Path) -> None:
    path.write_bytes(ROWS.encode() + path.read_bytes())


def blank_lines(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n\n\n")


def unquoted(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"f"', b"f", 1))


def spaces(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" \t \n")


def key(path: Path) -> None:
    told = json.loads(path.read_text("utf-8"))
    path.write_text(dump_json({**told, "note": ROWS}), encoding="utf-8")


def inner_key(path: Path) -> None:
    told = json.loads(path.read_text("utf-8"))
    part = told["record"] if "record" in told else told["parents"]["model"]
    part["note"] = ROWS
    path.write_text(dump_json(told), encoding="utf-8")


def schema_comment(path: Path) -> None:
    told = json.loads(path.read_text("utf-8"))
    told["schema"] += "# f,31\n"
    path.write_text(dump_json(told), encoding="utf-8")


JSON = ("manifest.json", "statement.json", "codebook.json", "measurements.json", "model.json")
SMUGGLED = [
    ("parquet", "synthetic.parquet", metadata),
    ("parquet", "synthetic-2.parquet", field_metadata),
    ("csv", "measurements.parquet", metadata),
    ("csv", "measurements.parquet", field_metadata),
    ("csv", "model.npz", comment),
    ("csv", "model.npz", extra),
    ("csv", "model.npz", behind),
    ("csv", "model.npz", before),
    ("csv", "synthetic.csv", blank_lines),
    ("csv", "synthetic.csv", unquoted),
    ("csv", "measurements.json", schema_comment),
    ("csv", "codebook.json", schema_comment),
    ("csv", "statement.json", inner_key),
    ("csv", "measurements.json", inner_key),
    ("csv", "manifest.json", inner_key),
    ("estimates", "statement.json", inner_key),
    ("estimates", "estimates.csv", behind),
    *(("csv", name, way) for name in JSON for way in (key, spaces)),
    *(("estimates", name, way) for name in ("estimates.json", "codebook.json") for way in (key, spaces)),
]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("kind", "name", "way"), SMUGGLED)
def test_what_readers_pass_over_fails(
    kind: str, name: str, way: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(NEWEST / kind, tmp_path / "out"))
    way(folder / name)
    if name != MANIFEST_FILE:
        reseal(folder)
    assert exit_code(folder)[0] == 2


@pytest.mark.parametrize(
    "versions",
    [
        {"numpy": ROWS},
        {"pyarrow": "f31-" * 11},
        {"note": "1"},
        {"populace": None},
        {"python": ""},
    ],
)
def test_versions_are_versions(folder: Path, versions: dict[str, Any]) -> None:
    told = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
    reseal(folder, versions={**told["versions"], **versions})
    assert exit_code(folder)[0] == 2


def test_arithmetic_is_a_digest(folder: Path) -> None:
    reseal(folder, arithmetic=ROWS)
    assert exit_code(folder)[0] == 2


@pytest.mark.parametrize(
    ("kind", "name"), [("parquet", "synthetic.parquet"), ("csv", "measurements.parquet")]
)
def test_other_bytes_of_the_same_columns_are_unknown(kind: str, name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(NEWEST / kind, tmp_path / "out"))
    pq.write_table(pq.read_table(folder / name), folder / name, compression="snappy", row_group_size=7)
    reseal(folder)
    code, verdict = exit_code(folder)
    assert code == 4
    assert outcomes(verdict) == {"written": CheckOutcome.UNKNOWN}


def test_csv_of_another_arrow_is_unknown(folder: Path) -> None:
    unquoted(folder / "synthetic.csv")
    told = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
    reseal(folder, versions={**told["versions"], "pyarrow": "1.0"})
    assert outcomes(verify(folder)) == {"written": CheckOutcome.UNKNOWN}


def test_a_disk_without_room_is_no_alteration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verify_bytes.tempfile, "TemporaryDirectory", full)
    with pytest.raises(ResourceError, match="written again: No space"):
        verify(folder)


def downgrade(folder: Path, **told: Any) -> None:
    """Say that a release is of the first format, of which words were never compared."""
    for name in ("statement.json", "codebook.json", MANIFEST_FILE):
        held = json.loads((folder / name).read_text("utf-8"))
        held["format"] = held["format"].rpartition(" ")[0] + " 1"
        if name == MANIFEST_FILE:
            del held["drawing"], held["arithmetic"]
        elif name == "statement.json":
            held |= told
        (folder / name).write_text(dump_json(held), encoding="utf-8")
    reseal(folder)


def test_words_of_another_format_are_unknown(
    made: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    releases.write(made, tmp_path / "out")
    downgrade(tmp_path / "out", warnings=[], not_covered=["f,31"])
    assert main(["verify", str(tmp_path / "out")]) == 4
    assert "words not compared" in capsys.readouterr().err
    manifest = Manifest.load(tmp_path / "out")
    Ledger.existing(made.ledger).book_release(
        made.measurements.record.run,
        manifest=digest_file(tmp_path / "out" / MANIFEST_FILE),
        files=dict(manifest.files),
    )
    verdict = verify(tmp_path / "out", ledger=made.ledger)
    assert outcomes(verdict) == {"written": CheckOutcome.UNKNOWN}
    assert verdict.verified


def test_words_that_follow_from_the_rules_of_today_are_known(folder: Path) -> None:
    downgrade(folder)
    assert verify(folder).verified


@pytest.mark.parametrize("rows", [1, 10_000])
def test_a_page_of_another_format_is_not_a_place_for_rows(folder: Path, rows: int) -> None:
    page = folder / "statement.md"
    page.write_text(page.read_text("utf-8") + ROWS * rows, encoding="utf-8")
    downgrade(folder)
    assert exit_code(folder)[0] == (4 if rows == 1 else 2)


@pytest.mark.parametrize("key", ["reading", "not_covered"])
def test_sentences_of_another_format_are_not_a_place_for_rows(folder: Path, key: str) -> None:
    downgrade(folder, **{key: [ROWS] * 10_000})
    assert exit_code(folder)[0] == 2


def test_the_report_is_built_again(made: Release, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = tmp_path / "out", made.report()
    releases.write(made, out, report=page)
    verdict = verify(out)
    assert verdict.verified
    assert verdict.checks[-1].name == "report"
    (out / "report.html").write_text(f"<pre>{ROWS}</pre>", encoding="utf-8")
    reseal(out)
    assert outcomes(verify(out)) == {"report": CheckOutcome.FAILED}
    assert main(["verify", "--quick", "--json", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["verified"] is False


def test_the_report_of_estimates_is_built_again(tmp_path: Path) -> None:
    Estimates.load(NEWEST / "estimates").save(tmp_path / "out")
    assert verify(tmp_path / "out").verified
    page = tmp_path / "out" / "report.html"
    page.write_text(page.read_text("utf-8").replace("</body>", f"<pre>{ROWS}</pre></body>"), encoding="utf-8")
    reseal(tmp_path / "out")
    assert outcomes(verify(tmp_path / "out")) == {"report": CheckOutcome.FAILED}
    quick = verify(tmp_path / "out", quick=True)
    assert outcomes(quick) == {"report": CheckOutcome.UNKNOWN}
    assert not quick.verified


def test_a_report_that_cannot_be_built_again_is_unknown(folder: Path) -> None:
    manifest = Manifest.load(folder)

    def found(page: str, *, others: str = "", number: int = RELEASE_FORMAT) -> CheckOutcome:
        (folder / "report.html").write_text(page, encoding="utf-8")
        about = replace(manifest, number=number)

        def check() -> str:
            again = f"<a><script>{load_scripts()}</script></a>"
            return check_report(folder, about, build=lambda: again, others=others)

        return run_check("report", check).outcome

    assert found(f"<a><script>{load_scripts()}</script></a>", others="numpy") is CheckOutcome.PASSED
    assert found("<a><script>another version</script></a>") is CheckOutcome.UNKNOWN
    assert found("rows", others="numpy") is CheckOutcome.UNKNOWN
    assert found("rows", number=1) is CheckOutcome.UNKNOWN
    assert found("<a><script></script></a>") is CheckOutcome.FAILED
    assert found(f"<b><script>{load_scripts()}</script></a>") is CheckOutcome.FAILED


def test_a_record_that_is_not_the_ledgers_is_not_booked(made: Release, tmp_path: Path) -> None:
    record = made.measurements.record
    booked = len(Ledger.existing(made.ledger).releases(record.run))
    forged = replace(made.measurements, record=replace(record, spends=record.spends[:-1]))
    with pytest.raises(ReleaseError, match="another record"):
        replace(made, measurements=forged).save(tmp_path / "out", report=False)
    assert not (tmp_path / "out").exists()
    assert len(Ledger.existing(made.ledger).releases(record.run)) == booked
