"""What `synth` paid for is never lost: whatever fails afterwards, `fit` and `generate` go on from there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from thinned import thinned

import populace as pp
from populace import pipeline
from populace.cli.main import main
from populace.measurements import Measurements
from populace.privacy.ledger import Ledger
from populace.release.bundle import Release
from tests.cli.desk import SCHEMA, Desk


def failing(failure: BaseException) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise failure

    return fail


FAILURES = [(MemoryError(), 4), (OSError(28, "full"), 4), (KeyboardInterrupt(), 130), (KeyError(), 1)]


@pytest.mark.parametrize(
    ("where", "failure", "code"),
    thinned([(where, *told) for where in ("fit_run", "draw_tables", "save") for told in FAILURES], to=4),
)
def test_a_failure_after_the_spend_keeps_the_measurements_and_says_how_to_go_on(
    where: str,
    failure: BaseException,
    code: int,
    desk: Desk,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Release if where == "save" else pipeline, where, failing(failure))
        assert desk.synth(out="release") == code
    kept = desk.folder / "release-measured"
    assert f"kept in {kept}" in capsys.readouterr().err
    assert not (desk.folder / "release").exists()
    assert {path.name for path in kept.iterdir()} == {
        "measurements.parquet",
        "measurements.json",
        "statement.json",
    }
    assert Measurements.load(kept).record.run == Ledger.existing(desk.ledger).runs("people")[-1].run
    entries = desk.entries
    assert main(["fit", str(kept), "--out", desk.path("model")]) == 0
    assert main(["generate", desk.path("model"), "--out", desk.path("release")]) == 0
    assert main(["verify", desk.path("release")]) == 0
    assert desk.entries == entries


def test_what_is_kept_is_on_disk_before_the_work_begins_and_gone_when_it_is_done(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Measurements] = []
    fit = pipeline.fit_run

    def looked(measurements: Measurements, **options: object) -> object:
        seen.append(Measurements.load(desk.folder / "release-measured-2"))
        return fit(measurements, **options)

    # That of an earlier run is not touched.
    earlier = desk.folder / "release-measured"
    earlier.mkdir()
    (earlier / "mine.txt").write_text("mine")
    monkeypatch.setattr(pipeline, "fit_run", looked)
    assert desk.synth(out="release") == 0
    assert seen[0].record.run == Ledger.existing(desk.ledger).runs("people")[-1].run
    assert sorted(path.name for path in desk.folder.glob("release*")) == ["release", "release-measured"]
    assert (earlier / "mine.txt").read_text() == "mine"


def test_in_python_the_exception_holds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.csv").write_text("sex,age\nf,3\nm,4\n")
    monkeypatch.setattr(pipeline, "draw_tables", failing(MemoryError()))
    with pytest.raises(MemoryError) as caught:
        pp.synthesize(
            tmp_path / "people.csv",
            schema=pp.Schema.parse(SCHEMA),
            epsilon=1,
            delta="1e-6",
            ledger=tmp_path / "l.db",
        )
    measurements = caught.value.measurements  # type: ignore[attr-defined]
    assert measurements.record.run == Ledger.existing(tmp_path / "l.db").runs("people")[0].run
    assert "measurements" in caught.value.__notes__[0]
    monkeypatch.undo()
    assert pipeline.complete(measurements).statement["epsilon"] == 1
