"""Populations of studies: embedded, of a fitted model, of a file; their answers are exact."""

from __future__ import annotations

import populace as pp
from populace.api.measure import measure
from populace.api.stage_folders import load_measurements, save_measurements, save_model
from populace.simulation.population import simulate_population
from populace.studies.rehearsal_noise import NoNoise
from populace.studies.truths import digest_inputs, open_truth
from tests.helpers.small_studies import open_runs, read_small_study


def test_answers_are_those_of_everybody(tmp_path):
    runs = open_runs(tmp_path)
    table = runs.truth.table
    assert runs.answers == {("women", ()): float(table["sex"].to_pylist().count("female"))}


def test_rows_of_a_fitted_model_are_a_population(tmp_path):
    table, schema = simulate_population(households=200)
    schema = pp.Schema.parse('[columns.sex]\nkind = "categorical"\nvalues = ["female", "male"]\n')
    made = pp.measure(
        table, schema=schema, epsilon=10, delta=0, dataset="p", method="independent", ledger=tmp_path / "l.db"
    )
    save_measurements(made, tmp_path / "measured")
    save_model(
        pp.fit(load_measurements(tmp_path / "measured")), tmp_path / "model", measured=tmp_path / "measured"
    )
    study = read_small_study(tmp_path, truth='[truth]\nmodel = "model"\nrows = 500\n')
    truth = open_truth(study, ledger=tmp_path / "l.db")
    assert (truth.size, truth.internal) == (500, "")
    assert truth.answer(study.queries)[0].estimate == truth.count("sex == 'female'")
    before = digest_inputs(study)
    (tmp_path / "model" / "more").write_text("another model")
    assert digest_inputs(study) != before


def test_a_model_of_rehearsal_noise_is_no_public_population(tmp_path):
    """Its counts may be those of the private rows."""
    table, _ = simulate_population(households=50)
    schema = pp.Schema.parse('[columns.sex]\nkind = "categorical"\nvalues = ["female", "male"]\n')
    asked = {"schema": schema, "epsilon": 10, "delta": 0, "dataset": "p", "method": "independent"}
    made = measure(table, **asked, ledger=tmp_path / "l.db", noise=NoNoise())
    save_measurements(made, tmp_path / "measured")
    save_model(
        pp.fit(load_measurements(tmp_path / "measured")), tmp_path / "model", measured=tmp_path / "measured"
    )
    study = read_small_study(tmp_path, truth='[truth]\nmodel = "model"\nrows = 500\n')
    assert "rehearsal" in open_truth(study, ledger=tmp_path / "l.db").internal


def test_the_digest_follows_the_schema(tmp_path):
    text = '[columns.sex]\nkind = "categorical"\nvalues = ["female", "male"]\n'
    truth = '[truth]\npopulation = "embedded"\nhouseholds = 50\nschema = "s.toml"\n'
    (tmp_path / "s.toml").write_text(text)
    first = digest_inputs(read_small_study(tmp_path, truth=truth))
    (tmp_path / "s.toml").write_text(text + "\n# other\n")
    assert digest_inputs(read_small_study(tmp_path, truth=truth)) != first
