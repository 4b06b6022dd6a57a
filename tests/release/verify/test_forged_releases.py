"""Whatever the files of a folder hold, `verify` leaves with 0, 2 or 4, soon, and by a check that was meant for it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pyarrow as pa
import pytest

from populace.cli.main import main
from populace.core.errors import PopulaceError, ReleaseError, ResourceError
from populace.core.marginals import Grouping
from populace.core.untrusted_files import parse_json, read_text, refuse_parse_errors
from populace.release.manifest import dump_json
from populace.release.statement.statement import RELEASE_FORMAT
from populace.release.verify import checks
from tests.helpers.forged_releases import RAW, RELEASES, Forger, exit_code
from tests.helpers.sampled_cases import sample_cases

NEWEST = RELEASES / str(RELEASE_FORMAT)
KINDS = ("csv", "parquet", "learnt", "public", "estimates")


def fuzz(source: Path, place: Path, *, seed: int, mutations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alter a release again and again; nothing may fall into the net below the readers."""

    def refuse(name: str, failure: Exception) -> checks.CheckResult:
        raise AssertionError(f"{name}: {type(failure).__name__}") from failure

    monkeypatch.setattr(checks, "report_unexpected", refuse)
    forger = Forger(source, place, seed=seed)
    found = set()
    for number in range(mutations):
        with forger.altered() as told:
            start = time.process_time()
            code, verdict = exit_code(place)
            assert code in (0, 2, 4), (number, told)
            assert code == 0 or verdict is None or not verdict.verified
            assert time.process_time() - start < 5, (number, told)
            found.add(code)
    # The words of an older format are not compared, so that none of its folders is verified without a ledger.
    assert found >= {0 if source.parent == NEWEST else 4, 2}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "mutations"),
    [
        *(("public", 40), ("estimates", 25), ("parquet", 40)),
        *sample_cases([("public", 110), ("estimates", 50)], to=0),
    ],
)
def test_forged_releases_are_answered(
    kind: str, mutations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuzz(NEWEST / kind, tmp_path / "out", seed=1, mutations=mutations, monkeypatch=monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, RELEASE_FORMAT + 1))
@pytest.mark.parametrize("kind", KINDS)
def test_many_forged_releases_are_answered(
    number: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuzz(RELEASES / str(number) / kind, tmp_path / "out", seed=7, mutations=170, monkeypatch=monkeypatch)


@pytest.mark.parametrize("raw", [*(r for r in RAW if len(r) < 20 and r != "1e-999"), "[" * 10**6])
def test_json_is_bounded(raw: str) -> None:
    with pytest.raises(ReleaseError, match="altered"):
        parse_json(f'{{"a": {raw}}}', name="a.json")


def test_what_a_machine_lacks_is_not_told_as_an_alteration(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="memory"), refuse_parse_errors("a.json"):
        raise MemoryError
    for failure in (
        ImportError("libx.so: failed to map"),
        pa.ArrowException("Failed to launch worker thread"),
    ):
        with pytest.raises(ResourceError, match="memory"), refuse_parse_errors("a.json"):
            raise failure
    with pytest.raises(ReleaseError, match="altered"), refuse_parse_errors("a.json"):
        raise pa.ArrowInvalid("not a table")
    with pytest.raises(ResourceError, match="Permission"), refuse_parse_errors("a.json"):
        raise PermissionError(13, "Permission denied")
    (tmp_path / "large").touch()
    with (tmp_path / "large").open("r+b") as file:
        file.truncate(2**29)
    with pytest.raises(ReleaseError, match="larger"):
        read_text(tmp_path / "large")


def test_the_net_below_the_readers_holds(tmp_path: Path) -> None:
    def fails() -> str:
        raise ZeroDivisionError

    found = checks.run_check("x", fails)
    assert found.outcome is checks.CheckOutcome.FAILED
    assert "ZeroDivisionError" in found.detail

    def lacks() -> str:
        raise MemoryError

    with pytest.raises(PopulaceError) as caught:
        checks.run_check("x", lacks)
    assert caught.value.exit_code == 4


def test_a_record_that_no_run_can_have_is_refused(tmp_path: Path) -> None:
    """The search for the price of a negative δ did not end."""
    forger = Forger(NEWEST / "csv", tmp_path / "out", seed=1)
    for key, value in (("delta", "-1/1000000000"), ("epsilon", "-4"), ("cap", "0"), ("epsilon", "9" * 1900)):
        told = json.loads((tmp_path / "out" / "statement.json").read_text("utf-8"))
        told["record"][key] = value
        (tmp_path / "out" / "statement.json").write_text(dump_json(told), encoding="utf-8")
        forger.reseal()
        assert main(["verify", str(tmp_path / "out")]) == 2
        forger.restore()


@pytest.mark.parametrize(("part", "key"), [("queries", "p"), ("answers", "answer")])
def test_no_number_of_estimates_is_computed_before_it_is_bounded(tmp_path: Path, part: str, key: str) -> None:
    forger = Forger(NEWEST / "estimates", tmp_path / "out", seed=1)
    path = tmp_path / "out" / "estimates.json"
    told = json.loads(path.read_text("utf-8"))
    for each in told[part]:
        if key in each:
            each[key] = (
                ["1e999999999"] if isinstance(each[key], list) and part == "queries" else "1e999999999"
            )
    path.write_text(dump_json(told), encoding="utf-8")
    forger.reseal()
    assert exit_code(tmp_path / "out")[0] == 2


def test_groups_are_not_counted_up_to_a_number_that_a_file_names() -> None:
    with pytest.raises(PopulaceError, match="skips"):
        Grouping("a", (0, 10**12))
