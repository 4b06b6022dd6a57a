"""Runs: all methods see the same sample, costs are measured, and workers share the work."""

from __future__ import annotations

import pytest

from populace.studies.runs import list_runs, main, measure_cost, read_peak
from populace.studies.study_results import ResultFolder
from populace.studies.truths import digest_inputs
from tests.helpers.small_studies import METHOD, open_runs, read_small_study, write_study

TWO = METHOD + METHOD.replace("plain", "half") + "share = 0.5\n"


@pytest.mark.slow
def test_all_methods_see_the_same_sample(tmp_path):
    runs = open_runs(tmp_path, methods=TWO)
    first, other = (list(runs.run(number, 0)) for number in range(2))
    assert [row.sampling_only for row in first] == [row.sampling_only for row in other]
    assert [row.estimate for row in first] != [row.estimate for row in other]
    assert [row.run for row in first] == ["plain/1/0", "plain/10/0"]
    assert {row.truth for row in first} == {runs.answers[("women", ())]}
    assert runs.survey(0)[0].equals(runs.survey(0)[0])
    assert not runs.survey(0)[0].equals(runs.survey(1)[0])


def test_workers_share_all_runs_whatever_is_done(tmp_path):
    study = read_small_study(tmp_path, head="epsilon = [1]\nseeds = 5\n", methods=TWO)
    results = ResultFolder(folder=tmp_path / "out", digest="d")
    results.make_folder()
    every = list_runs(study, results=results)
    assert len(every) == 10
    results.write_part(0, 3, [])
    parts = [list_runs(study, results=results, place=place, workers=3) for place in range(3)]
    assert sorted(run for part in parts for run in part) == sorted(set(every) - {(0, 3)})


def test_a_worker_does_its_share(tmp_path, capsys):
    path = write_study(tmp_path)
    results = ResultFolder(folder=tmp_path / "out", digest=digest_inputs(read_small_study(tmp_path)))
    results.make_folder()
    assert main([str(path), str(tmp_path / "out"), "", "4", "1", "2"]) == 0
    assert results.done(["plain"]) == {(0, 1), (0, 3)}
    path = write_study(tmp_path, sample='[sample]\ndesign = "srs"\nn = 1000000\n')
    assert main([str(path), str(tmp_path / "other"), "", "1", "0", "1"]) == 2
    assert "are to be drawn" in capsys.readouterr().out


def test_costs_are_those_of_the_work():
    _, seconds, peak = measure_cost(lambda: sum(number * number for number in range(200_000)) and ())
    assert 0 < seconds < 5
    assert 10 < peak < 10_000
    assert read_peak() > 1e7


@pytest.mark.parametrize(
    "sample",
    [
        '[sample]\ndesign = "all"\n',
        '[sample]\ndesign = "poisson"\nrate = 0.5\n',
        '[sample]\ndesign = "stratified"\nstrata = "tenure"\nsizes = { owned = 150, rented = 100 }\n',
        '[sample]\ndesign = "cluster"\npsu = "area"\nn = 30\nrate = 0.9\n',
    ],
)
def test_every_design_is_estimated_with_its_own_weights(tmp_path, sample):
    """At ε = 10⁶ what is left is sampling error: half of the count is far more than that of any of these samples."""
    runs = open_runs(tmp_path, head="epsilon = [1000000]\n", sample=sample)
    (row,) = runs.run(0, 3)
    assert row.estimate == pytest.approx(row.truth, rel=0.5)
    assert row.estimate == pytest.approx(row.sampling_only, rel=1e-3)
    assert row.low is not None


def test_synthetic_tables_answer_for_the_population(tmp_path):
    (tmp_path / "s.toml").write_text('[columns.sex]\nkind = "categorical"\nvalues = ["female", "male"]\n')
    runs = open_runs(
        tmp_path,
        head="epsilon = [1]\ndelta = 1e-6\n",
        truth=f'[truth]\npopulation = "embedded"\nhouseholds = 300\nschema = "{tmp_path}/s.toml"\n',
        methods='[[methods]]\nkind = "synthesize"\nmethod = "independent"\n',
    )
    (row,) = runs.run(0, 3)
    assert row.estimate == pytest.approx(row.sampling_only, rel=0.25)
    assert row.estimate != row.sampling_only
