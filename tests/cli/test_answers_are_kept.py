"""What was paid for is never lost: whatever fails afterwards, `fit` and `generate` go on from there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import populace as pp
from populace.api import generate as generate_api
from populace.api import measure as measure_api
from populace.api import stage_folders as stages
from populace.api import synthesize as synthesize_api
from populace.cli.main import main
from populace.measurements.measurements import Batch, Measurement, Measurements
from populace.methods import mst
from populace.privacy.ledger.ledger import Ledger
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from tests.cli.workspace import SCHEMA, Workspace
from tests.helpers.sampled_cases import sample_cases


def failing(failure: BaseException) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise failure

    return fail


PLACES = ("populace.api.synthesize.fit", "populace.api.generate.draw_tables")
FAILURES = [(MemoryError(), 4), (OSError(28, "full"), 4), (KeyboardInterrupt(), 130), (KeyError(), 1)]


@pytest.mark.parametrize(
    ("where", "failure", "code"),
    sample_cases(
        [(where, *told) for where in (*PLACES, "populace.release.bundle.Release.save") for told in FAILURES],
        to=4,
    ),
)
def test_a_failure_after_the_spend_keeps_the_measurements_and_says_how_to_go_on(
    where: str,
    failure: BaseException,
    code: int,
    workspace: Workspace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(where, failing(failure))
        assert workspace.synth(out="release") == code
    kept = workspace.folder / "release-measured"
    assert f"kept in {kept}" in capsys.readouterr().err
    assert not (workspace.folder / "release").exists()
    assert {path.name for path in kept.iterdir()} == {
        "measurements.parquet",
        "measurements.json",
        "parents.json",
        "statement.json",
    }
    assert Measurements.load(kept).record.run == Ledger.existing(workspace.ledger).runs("people")[-1].run
    entries = workspace.entries
    assert main(["fit", str(kept), "--out", workspace.path("model")]) == 0
    assert main(["generate", workspace.path("model"), "--out", workspace.path("release")]) == 0
    assert main(["verify", workspace.path("release")]) == 0
    assert workspace.entries == entries


def test_what_is_kept_is_on_disk_before_the_work_begins_and_gone_when_it_is_done(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Measurements] = []
    fit = synthesize_api.fit

    def looked(measurements: Measurements, **options: object) -> object:
        seen.append(Measurements.load(workspace.folder / "release-measured-2"))
        return fit(measurements, **options)

    # That of an earlier run is not touched.
    earlier = workspace.folder / "release-measured"
    earlier.mkdir()
    (earlier / "mine.txt").write_text("mine")
    monkeypatch.setattr(synthesize_api, "fit", looked)
    assert workspace.synth(out="release") == 0
    assert seen[0].record.run == Ledger.existing(workspace.ledger).runs("people")[-1].run
    assert sorted(path.name for path in workspace.folder.glob("release*")) == ["release", "release-measured"]
    assert (earlier / "mine.txt").read_text() == "mine"


def measure(workspace: Workspace, **changes: str) -> int:
    words = [word for key, value in changes.items() for word in (f"--{key}", value)]
    return main(
        [
            "measure",
            workspace.path("people.csv"),
            *workspace.spending(),
            "--out",
            workspace.path("measured"),
            *words,
        ]
    )


@pytest.mark.parametrize(("failure", "code"), FAILURES)
def test_measure_keeps_what_it_cannot_save(
    failure: BaseException,
    code: int,
    workspace: Workspace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("populace.api.publish.save_measurements", failing(failure))
        assert measure(workspace, method="independent") == code
    kept = workspace.folder / "measured-measured"
    assert f"kept in {kept}" in capsys.readouterr().err
    assert kept.stat().st_mode & 0o777 == 0o700
    assert main(["fit", str(kept), "--out", workspace.path("model")]) == 0


def test_where_nothing_can_be_written_beside_the_folder_it_is_kept_elsewhere(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk under --out: the state folder, the ledger's folder and the temporary one are tried in turn."""
    full, tried = stages.write_measurements, []

    def write(measurements: Measurements, folder: Path, **options: object) -> None:
        tried.append(folder)
        if len(tried) < 4:
            raise OSError(28, "full")
        full(measurements, folder, **options)

    monkeypatch.setattr("populace.api.safety_net.write_measurements", write)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: workspace.path("temporary"))
    monkeypatch.setattr(synthesize_api, "fit", failing(MemoryError()))
    (workspace.folder / "books").mkdir()
    (workspace.folder / "temporary").mkdir()
    workspace.ledger.rename(workspace.folder / "books" / "ledger.db")
    assert workspace.synth(ledger=workspace.path("books/ledger.db")) == 4
    parents = ["", "state/populace/kept", "books", "temporary"]
    assert tried == [workspace.folder / parent / "release-measured" for parent in parents]
    assert f"kept in {tried[-1]}" in capsys.readouterr().err


def test_a_total_alone_is_not_said_to_go_on_from(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Barrier.measure_batches

    def second_fails(self: Barrier, batches: Sequence[Batch]) -> tuple[Measurement, ...]:
        monkeypatch.setattr(Barrier, "measure_batches", failing(MemoryError()))
        return measured(self, batches)

    monkeypatch.setattr(Barrier, "measure_batches", second_fails)
    assert workspace.synth(method="mst") == 4
    told = capsys.readouterr().err
    assert "too little was answered to fit a model" in told
    assert "populace fit" not in told
    assert main(["clean", str(workspace.folder)]) == 0
    (listed,) = [line for line in capsys.readouterr().out.splitlines() if str(workspace.folder) in line]
    assert "too little was answered to fit a model" in listed


@pytest.mark.parametrize("verb", [Workspace.synth, measure])
@pytest.mark.parametrize("failure", [KeyboardInterrupt(), MemoryError()])
def test_answers_so_far_are_kept_when_a_later_question_fails(
    verb: Callable[..., int],
    failure: BaseException,
    workspace: Workspace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # So many that noise hides neither column, and a pair is chosen.
    workspace.write("people.csv", "sex,age\n" + "f,3\nm,4\n" * 2000)
    asked = []
    measured = Barrier.measure_batches

    def third_fails(self: Barrier, batches: Sequence[Batch]) -> tuple[Measurement, ...]:
        asked.append(batches)
        if len(asked) == 3:
            raise failure
        return measured(self, batches)

    out = workspace.folder / ("release" if verb is Workspace.synth else "measured")
    with monkeypatch.context() as patched:
        patched.setattr(Barrier, "measure_batches", third_fails)
        code = verb(workspace, method="mst")
    assert code == (130 if isinstance(failure, KeyboardInterrupt) else 4)
    kept = out.with_name(f"{out.name}-measured")
    assert f"kept in {kept}" in capsys.readouterr().err
    held = Measurements.load(kept)
    assert [item.marginal.clique for item in held.items] == [(), ("sex",), ("age",)]
    told = json.loads((kept / "answers.json").read_text("utf-8"))
    assert [each["verb"] for each in told] == ["choose"]
    # The run is closed, so what was answered is as good as any other measurements.
    assert main(["fit", str(kept), "--out", workspace.path("model")]) == 0
    assert main(["generate", workspace.path("model"), "--out", workspace.path("late")]) == 0
    assert main(["verify", workspace.path("late")]) == 0


def test_answers_about_domains_are_kept_when_a_later_question_fails(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SCHEMA.replace('values = ["f", "m"]', 'values = "learn"')
    workspace.write("schema.toml", text)
    monkeypatch.setattr(MemoryEngine, "counts", failing(MemoryError()))
    assert workspace.synth(method="mst") == 4
    told = json.loads((workspace.folder / "release-answers" / "answers.json").read_text("utf-8"))
    assert [(each["verb"], each["question"]) for each in told] == [("discover", {"values of": "sex"})]
    assert told[0]["answer"].keys() <= {"f", "m"}


def test_in_python_the_exception_holds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.csv").write_text("sex,age\nf,3\nm,4\n")
    monkeypatch.setattr(generate_api, "draw_tables", failing(MemoryError()))
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
    assert f"are booked in {tmp_path / 'l.db'}" in caught.value.__notes__[1]
    monkeypatch.undo()
    assert pp.generate(pp.fit(measurements)).statement["epsilon"] == 1


def test_in_python_a_question_that_fails_in_the_middle_leaves_the_answers_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "people.csv").write_text("sex,age\nf,3\nm,4\n")
    monkeypatch.setattr(mst, "measure_tree", failing(KeyboardInterrupt()))
    options = {"schema": pp.Schema.parse(SCHEMA), "epsilon": 1, "delta": "1e-6", "ledger": tmp_path / "l.db"}
    with pytest.raises(KeyboardInterrupt) as caught:
        measure_api.measure(tmp_path / "people.csv", method="mst", **options)
    assert len(caught.value.measurements.items) == 3  # type: ignore[attr-defined]
    assert len(caught.value.__notes__) == 2
    with pytest.raises(pp.OverBudget) as refused:
        measure_api.measure(tmp_path / "people.csv", method="mst", **options)
    assert not hasattr(refused.value, "__notes__")
