"""The three stages of the Python API, as a newcomer types them, and every public name with its example and its line."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import ReleaseError
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise

ROOT = Path(__file__).parents[2]
SCHEMA = pp.Schema.from_sizes({"smokes": 2, "age": 10})
PEOPLE = {"smokes": [0, 0, 0, 1] * 50, "age": [*range(10)] * 20}


def asked(folder: Path, number: int) -> dict[str, object]:
    """What a run is asked for, with repeatable noise and a ledger of its own."""
    noise = ExactNoise(RehearsalEntropy(5))
    return {
        "schema": SCHEMA,
        "epsilon": 1,
        "delta": "1e-6",
        "ledger": folder / f"{number}.db",
        "noise": noise,
    }


def test_synthesize_is_the_three_stages(tmp_path: Path) -> None:
    frame = pd.DataFrame(PEOPLE)
    whole = pp.synthesize(frame, rows=70, seed=3, **asked(tmp_path, 1))
    staged = pp.generate(pp.fit(pp.measure(frame, **asked(tmp_path, 2))), rows=70, seed=3)
    assert isinstance(staged.table, pd.DataFrame)
    assert staged.table.equals(whole.table)
    assert staged.ledger == tmp_path / "2.db"
    staged.save(tmp_path / "release", report=False)
    assert len(pp.Release.load(tmp_path / "release").table) == 70


def test_each_stage_can_be_saved_and_loaded(tmp_path: Path) -> None:
    measurements = pp.measure(pa.table(PEOPLE), **asked(tmp_path, 1))
    measurements.save(str(tmp_path / "measured"))
    loaded = pp.Measurements.load(str(tmp_path / "measured"))
    assert loaded.digest == measurements.digest
    pp.fit(loaded).save(tmp_path / "model")
    model = pp.Model.load(tmp_path / "model")
    release = pp.generate(model, rows=20, seed=1)
    assert release.table.equals(pp.generate(pp.fit(measurements), rows=20, seed=1).table)


def test_a_model_without_its_measurements_says_what_to_do(tmp_path: Path) -> None:
    measurements = pp.measure(pa.table(PEOPLE), **asked(tmp_path, 1))
    model = pp.fit(measurements)
    model.write_files(tmp_path / "model")
    alone = pp.Model.load(tmp_path / "model")
    with pytest.raises(ReleaseError, match="not at hand") as refused:
        pp.generate(alone)
    assert "pp.release_from(measurements, model)" in refused.value.hint
    assert pp.release_from(measurements, alone, rows=5).table.num_rows == 5
    with pytest.raises(ReleaseError, match="other measurements"):
        pp.release_from(pp.measure(pa.table(PEOPLE), **asked(tmp_path, 2)), alone)


@pytest.mark.parametrize("name", pp.__all__)
def test_every_public_name_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(getattr(pp, name)) or "")


def test_the_reference_says_what_the_docstrings_say() -> None:
    """docs/reference/python.md is generated; `make docs` brings it up to date."""
    script = runpy.run_path(str(ROOT / "docs" / "reference" / "python.py"))
    assert (ROOT / "docs" / "reference" / "python.md").read_text("utf-8") == script["reference"]()


def test_notebooks_show_cards(tmp_path: Path) -> None:
    release = pp.synthesize(pa.table(PEOPLE), rows=7, dataset="a<b", **asked(tmp_path, 1))
    plan = pp.plan(SCHEMA, population=500, epsilon=1, delta="1e-6")
    for shown in (release, plan, pp.Ledger.open(tmp_path / "1.db")):
        card = shown._repr_html_()
        assert card.startswith("<div")
        assert "a<b" not in card
        assert not re.search(r"color:(#|black|white)|background:(white|black)", card)
