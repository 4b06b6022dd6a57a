"""Small-area estimates from published ones: the area-level model of Fay and Herriot (1979).

A direct estimate y of an area has a known variance ψ: sampling error and privacy noise together. Areas are alike as far
as public covariates tell: y = x·β + v + e, with v of variance A and e of variance ψ. The empirical best linear unbiased
predictor (EBLUP) shrinks y towards x·β, the more the larger ψ is beside A. A is estimated by restricted maximum
likelihood, and mean squared errors hold what that adds (Prasad and Rao 1990; Datta and Lahiri 2000; Rao and Molina
2015, sections 5 and 6). All is post-processing: nothing is read or spent.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from populace.core.array_types import Floats
from populace.core.errors import UsageError
from populace.schema.hints import quote_names, suggest
from populace.survey.estimate_result import Estimate, Group
from populace.survey.variance.confidence_intervals import errors_in_margin

# Values of a covariate by area, or a CSV file with the columns of the areas and numbers in all others.
Covariates = Path | str | Mapping[str, Mapping[Group, float]]

_MAX_ROUNDS = 200
_TOLERANCE = 1e-10
# Fewer areas than these beyond the coefficients say nothing of how areas differ.
MIN_SPARE_AREAS = 3
CONSTANT = "(constant)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaEstimate:
    """One area: its direct estimate and error (None if suppressed), the model's estimate, its error and interval.

    `weight` is the part that the direct estimate has in the model's one.
    """

    group: Group
    direct: float | None
    direct_error: float | None
    weight: float
    estimate: float
    error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SmallAreas:
    """Model-based estimates of all areas of a query, and the model: coefficients and the variance between areas."""

    query: str
    coefficients: Mapping[str, float]
    area_variance: float
    areas: tuple[AreaEstimate, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "query": self.query,
            "coefficients": dict(self.coefficients),
            "area_variance": self.area_variance,
            "areas": self.list_rows(),
        }

    def list_rows(self) -> list[dict[str, Any]]:
        """Return a row for each area, with a column for each part of its name."""
        return [
            dict(area.group)
            | {
                "direct": area.direct,
                "direct_error": area.direct_error,
                "weight": area.weight,
                "estimate": area.estimate,
                "error": area.error,
                "low": area.low,
                "high": area.high,
            }
            for area in self.areas
        ]


def small_areas(
    estimates: Iterable[Estimate], *, query: str, covariates: Covariates | None = None
) -> SmallAreas:
    """Return model-based estimates of the groups of a query, from its published estimates and public covariates.

    >>> sizes = {"a": (4.0, 1.0), "b": (6.0, 1.0), "c": (5.0, 2.0), "d": (9.0, 1.0), "e": (2.0, 3.0)}
    >>> rows = [
    ...     Estimate(query="poor", group=(("area", name),), estimate=y, sampling_error=s, privacy_error=0.0)
    ...     for name, (y, s) in sizes.items()
    ... ]
    >>> found = small_areas(rows, query="poor")
    >>> [round(area.estimate, 2) for area in found.areas]
    [4.33, 5.94, 5.34, 8.36, 4.53]
    """
    rows = list(estimates)
    own = [row for row in rows if row.query == query]
    if not own:
        asked = tuple(dict.fromkeys(row.query for row in rows))
        raise UsageError(
            f"there are no estimates of {query!r}.",
            hint=suggest(query, asked, otherwise=f"queries are {quote_names(asked)}"),
        )
    names, design = _design_matrix([row.group for row in own], covariates)
    known = np.array([row.estimate is not None and bool(row.total_error) for row in own])
    if (
        known.sum() < design.shape[1] + MIN_SPARE_AREAS
        or np.linalg.matrix_rank(design[known]) < design.shape[1]
    ):
        raise UsageError(
            f"{int(known.sum())} groups of {query!r} have estimates with errors, for {design.shape[1]} coefficients.",
            hint=f"ask by more groups, or give fewer covariates: {MIN_SPARE_AREAS} groups more than coefficients are "
            "needed, and no covariate may follow from others",
        )
    direct = np.array([row.estimate or 0.0 for row in own])
    variances = np.array([(row.total_error or 0.0) ** 2 for row in own])
    between = fit_area_variance(direct[known], design[known], variances[known])
    fitted = _predict(direct, design, variances, known=known, between=between)
    return SmallAreas(
        query=query,
        coefficients=dict(zip(names, fitted.coefficients.tolist(), strict=True)),
        area_variance=between,
        areas=tuple(
            AreaEstimate(
                group=row.group,
                direct=row.estimate,
                direct_error=row.total_error,
                weight=float(weight),
                estimate=float(value),
                error=math.sqrt(square),
                low=float(value) - margin * math.sqrt(square),
                high=float(value) + margin * math.sqrt(square),
            )
            for row, weight, value, square in zip(
                own, fitted.weights, fitted.values, fitted.squares, strict=True
            )
            for margin in (errors_in_margin(int(known.sum()) - design.shape[1]),)
        ),
    )


def fit_area_variance(direct: Floats, design: Floats, variances: Floats) -> float:
    """Return the variance between areas by restricted maximum likelihood, 0 where it would be below.

    Scoring: A ← A + (yᵀP²y − tr P)/tr P², with P = W − W·X·(Xᵀ·W·X)⁻¹·Xᵀ·W and W the inverse of A + ψ.
    """
    between = max(float(np.var(direct) - np.mean(variances)), 0.1 * float(np.mean(variances)))
    for _ in range(_MAX_ROUNDS):
        weight = 1 / (between + variances)
        left = weight[:, None] * design
        spread = np.diag(weight) - left @ np.linalg.solve(design.T @ left, left.T)
        residual = spread @ direct
        step = (residual @ residual - np.trace(spread)) / float((spread * spread).sum())
        after = max(between + float(step), 0.0)
        if abs(after - between) <= _TOLERANCE * (between + float(variances.mean())):
            return after
        between = after
    return between


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prediction:
    coefficients: Floats
    weights: Floats
    values: Floats
    squares: Floats


def _predict(direct: Floats, design: Floats, variances: Floats, *, known: Any, between: float) -> _Prediction:
    """Return the EBLUP of each area and its mean squared error, g1 + g2 + 2·g3 in the words of Prasad and Rao.

    An area without a direct estimate has what the covariates say of it: ψ without end.
    """
    inverse = np.where(known, 1 / np.where(known, between + variances, 1.0), 0.0)
    crossed = np.linalg.inv(design.T @ (inverse[:, None] * design))
    coefficients = crossed @ (design.T @ (inverse * direct))
    regression = design @ coefficients
    weights = between * inverse
    leverage = np.einsum("ij,jk,ik->i", design, crossed, design)
    own = np.where(known, weights * variances, between)
    fixed = (1 - weights) ** 2 * leverage
    scoring = 2 / float((inverse**2).sum())
    shrunk = np.where(known, variances**2 * inverse**3, 0.0) * scoring
    return _Prediction(
        coefficients=coefficients,
        weights=weights,
        values=np.where(known, weights * direct + (1 - weights) * regression, regression),
        squares=own + fixed + 2 * shrunk,
    )


def _design_matrix(groups: Sequence[Group], covariates: Covariates | None) -> tuple[list[str], Floats]:
    """Return a column of ones, and one for each covariate."""
    if covariates is None:
        given: Mapping[str, Mapping[Group, float]] = {}
    elif isinstance(covariates, Mapping):
        given = covariates
    else:
        given = _read_covariates(Path(covariates), groups=groups)
    for name, values in given.items():
        if absent := [group for group in groups if group not in values]:
            where = ", ".join(f"{key} = {value}" for key, value in absent[0])
            raise UsageError(
                f"{name!r} has no number for {where or 'the only group'}.", hint="give one for every group"
            )
        if not all(math.isfinite(values[group]) for group in groups):
            raise UsageError(f"{name!r} holds a number that is not finite.", hint="give one for every group")
    columns = [[float(values[group]) for group in groups] for values in given.values()]
    return [CONSTANT, *given], np.array([[1.0] * len(groups), *columns]).T


def _read_covariates(path: Path, *, groups: Sequence[Group]) -> dict[str, dict[Group, float]]:
    hint = "give a CSV file with the columns of the groups, and numbers in all others"
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}.", hint=hint)
    try:
        lines = list(csv.DictReader(path.read_text("utf-8-sig").splitlines(), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error):
        raise UsageError(f"{path.name} cannot be read as CSV in UTF-8.", hint=hint) from None
    keys = [key for key, _ in groups[0]]
    header = list(lines[0]) if lines else []
    numbers = [name for name in header if name not in keys]
    if not set(keys) <= set(header) or not numbers:
        raise UsageError(f"{path.name} lacks {quote_names(keys)}, or has no other column.", hint=hint)
    try:
        return {
            name: {tuple((key, line[key]) for key in keys): float(line[name]) for line in lines}
            for name in numbers
        }
    except (TypeError, ValueError):
        raise UsageError(f"{path.name} holds a covariate that is no number.", hint=hint) from None
