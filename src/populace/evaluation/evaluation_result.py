"""What an evaluation found: scores, and the worst columns, pairs and groups first. It is for internal use."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from populace.core.marginals import Clique
from populace.core.notebook_html import render_card
from populace.evaluation.claims.findings import Finding
from populace.evaluation.internal_marking import INTERNAL
from populace.evaluation.scores.quantile_difference import NumberDifference
from populace.evaluation.scores.regression_overlap import Coefficient
from populace.evaluation.scores.score import Score
from populace.evaluation.scores.train_on_synthetic import TargetPrediction

SCORES_FORMAT = "populace scores 1"
NO_DISTANCE_TO_CLOSEST_RECORD = (
    "Distance to the closest record is not offered: small distances do not show that rows were copied, and large ones "
    "do not show that nobody can be recognised (“The DCR Delusion”, arXiv 2505.01524). What protects is the guarantee "
    "of the release, not a distance."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBar:
    """The share of some codes of a column in both files."""

    label: str
    real: float
    synthetic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnResult:
    """One column: its total variation, cells outside its domain in both files, and its shares."""

    name: str
    distance: float
    codes: int
    outside: tuple[int, int]
    bars: tuple[ShareBar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """One pair: its total variation, and Cramér's V in both files, None where the table is too large."""

    columns: tuple[str, str]
    distance: float
    association: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """The rows with one value of a column: how far their other columns are, beside what chance would give."""

    column: str
    value: str
    rows: int
    synthetic_rows: int
    distance: float
    by_chance: float
    small: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """One rule, and how many rows of both files break it."""

    rule: str
    real: int
    synthetic: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """The scores of a synthetic file against the real one, with everything they are made of, the worst first.

    It is computed from real rows without protection and is for internal use. `evaluation["tv_pairs"]` is a score.

    >>> import populace as pp
    >>> import pyarrow as pa
    >>> real, synthetic = ({"age": [0, 1, age], "sex": [0, 1, 1]} for age in (2, 1))
    >>> found = pp.evaluate(pa.table(real), pa.table(synthetic), schema=pp.Schema.from_sizes({"age": 3, "sex": 2}))
    >>> round(found["tv_pairs"].value, 4), found["tv_pairs"].direction.value
    (0.3333, 'lower')
    """

    names: tuple[str, str]
    rows: tuple[int, int]
    weights: str | None
    scores: tuple[Score, ...]
    columns: tuple[ColumnResult, ...]
    pairs: tuple[PairResult, ...]
    triples: tuple[tuple[Clique, float], ...]
    groups: tuple[GroupResult, ...]
    areas: tuple[GroupResult, ...]
    rules: tuple[RuleResult, ...]
    numbers: tuple[NumberDifference, ...]
    predictions: tuple[TargetPrediction, ...]
    coefficients: tuple[Coefficient, ...]
    expected: tuple[tuple[int, float], ...]
    """Sizes of random samples, and the mean total variation of pairs that each would have."""
    notes: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    """What both files say of a file of claims, those that do not survive first."""

    def __getitem__(self, name: str) -> Score:
        """Return a score by its name."""
        names = {score.name: score for score in self.scores}
        if name not in names:
            raise KeyError(f"no score {name!r}; there are {', '.join(names)}")
        return names[name]

    def to_json(self) -> dict[str, Any]:
        """Return what `scores.json` holds: the scores by name, and what they are of."""
        about = {
            "real": self.names[0],
            "synthetic": self.names[1],
            "rows": list(self.rows),
            "columns": len(self.columns),
            "weights": self.weights,
            "notes": list(self.notes),
        }
        head = {"format": SCORES_FORMAT, "marking": INTERNAL, "about": about}
        findings = {"findings": [each.to_json() for each in self.findings]} if self.findings else {}
        return head | {score.name: score.to_json() for score in self.scores} | findings

    def save(self, folder: str | PathLike[str]) -> None:
        """Write `scores.json` and `evaluation.html` to a folder that does not exist yet, for the owner alone."""
        # The page needs the scripts of charts, which scores do not.
        from populace.evaluation.evaluation_report import write_evaluation

        write_evaluation(self, Path(folder))

    def _repr_html_(self) -> str:
        rows = [(s.title, s.value, f"{s.direction.value} is better") for s in self.scores]
        facts = {"real rows": self.rows[0], "synthetic rows": self.rows[1], "columns": len(self.columns)}
        return render_card(
            "INTERNAL evaluation", facts, header=("score", "value", ""), rows=rows, note=INTERNAL
        )
