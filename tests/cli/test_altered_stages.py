"""A bit that flips in any file of a stage is noticed before anything is made of it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from populace.api.stage_folders import load_measurements, load_model
from populace.cli.main import main
from populace.core.errors import ReleaseError
from tests.cli.workspace import Workspace

FLIPS = 25  # in each file; twice the bytes are tried at the ends, where formats keep their marks


@pytest.fixture
def stages(workspace: Workspace) -> tuple[Path, Path]:
    words = [*workspace.spending(), "--method", "mst", "--out", workspace.path("measured")]
    assert main(["measure", workspace.path("people.csv"), *words]) == 0
    assert main(["fit", workspace.path("measured"), "--out", workspace.path("model")]) == 0
    return workspace.folder / "measured", workspace.folder / "model"


def flipped(raw: bytes, place: int, bit: int) -> bytes:
    return raw[:place] + bytes([raw[place] ^ (1 << bit)]) + raw[place + 1 :]


@pytest.mark.parametrize("stage", [0, 1])
def test_every_flip_is_noticed(stage: int, stages: tuple[Path, Path]) -> None:
    folder, load = stages[stage], (load_measurements, load_model)[stage]
    load(folder)
    rng = random.Random(19)
    for path in sorted(folder.iterdir()):
        raw = path.read_bytes()
        places = [*range(8), *range(len(raw) - 8, len(raw)), *(rng.randrange(len(raw)) for _ in range(FLIPS))]
        for place in places:
            path.write_bytes(flipped(raw, place, rng.randrange(8)))
            with pytest.raises(ReleaseError):
                load(folder)
        path.write_bytes(raw)
    load(folder)


def test_fit_and_generate_refuse_an_altered_folder(
    stages: tuple[Path, Path], workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder, verb in zip(stages, ("fit", "generate"), strict=True):
        path = folder / "measurements.parquet"
        raw = path.read_bytes()
        path.write_bytes(flipped(raw, len(raw) // 2, 3))
        assert main([verb, str(folder), "--out", workspace.path("late")]) == 2
        assert "do not belong together" in capsys.readouterr().err
        path.write_bytes(raw)
        (folder / "statement.json").unlink(missing_ok=True)
    assert not (workspace.folder / "late").exists()
    assert main(["fit", str(stages[0]), "--out", workspace.path("late")]) == 2


def test_a_folder_of_an_older_version_is_read_with_a_note(
    stages: tuple[Path, Path], workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    older = shutil.copytree(stages[0], workspace.folder / "older")
    (older / "parents.json").unlink()
    assert main(["fit", str(older), "--out", workspace.path("late")]) == 0
    assert "cannot be checked" in capsys.readouterr().err
