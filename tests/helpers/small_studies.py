"""Small studies for tests: an invented population of a few hundred persons, written as a study file."""

from __future__ import annotations

from pathlib import Path

from populace.studies.runs import StudyRuns
from populace.studies.study import Study
from populace.studies.study_reader import load_study
from populace.studies.truths import open_truth

TRUTH = '[truth]\npopulation = "embedded"\nhouseholds = 300\n'
SAMPLE = '[sample]\ndesign = "srs"\nrate = 0.5\n'
METHOD = '[[methods]]\nname = "plain"\nkind = "estimate"\n'
QUERY = '[[queries]]\nname = "women"\nstatistic = "count"\nwhere = "sex == \'female\'"\n'


def write_study(
    folder: Path,
    *,
    head: str = "epsilon = [1, 10]\n",
    truth: str = TRUTH,
    sample: str = SAMPLE,
    methods: str = METHOD,
    queries: str = QUERY,
    more: str = "",
) -> Path:
    """Write a study file and return its path."""
    path = folder / "study.toml"
    path.write_text(head + truth + sample + methods + queries + more, encoding="utf-8")
    return path


def read_small_study(folder: Path, **parts: str) -> Study:
    """Return a small study."""
    return load_study(write_study(folder, **parts))


def open_runs(folder: Path, **parts: str) -> StudyRuns:
    """Return a small study with its population."""
    study = read_small_study(folder, **parts)
    return StudyRuns(study=study, truth=open_truth(study, ledger=folder / "ledger.db"))
