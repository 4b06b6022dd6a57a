"""From noisy measurements to a model: the distribution that explains them best."""

from __future__ import annotations

from collections.abc import Sequence

from populace.core.progress import Progress
from populace.inference.fit.estimator import Estimator, FitEffort
from populace.inference.gls.coarse_tables import split_coarse_tables
from populace.inference.gls.observations import common_groupings
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement


def fit_least_squares(
    measurements: Sequence[Measurement],
    *,
    space: ModelSpace,
    start: Model | None = None,
    steps: int = 400,
    tolerance: float = 3e-4,
    progress: Progress | None = None,
) -> Model:
    """Return the graphical model of least weighted squared error against the measurements.

    An exact fit by an `Estimator`, in one round: mirror descent goes on from the tables of least squares, or from
    `start`, an earlier model, if that is better, until the loss is within `tolerance` of its minimum, or for so
    many steps at most. Under `rules` all of this happens among distributions in which no row breaks a rule: its
    probability is exactly 0. Of a table that sees a column in fewer groups than others do, the sums over that
    column are used; `assemble` uses all of it. Public totals decide the number of rows, and the model is scaled to
    them at the end. Groupings of the space are for columns that no measurement groups.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from populace.core.marginals import Domain, Marginal
    >>> heads = Measurement(Marginal(("coin",)), np.array([30, 10]), Fraction(4))
    >>> model = fit_least_squares([heads], space=ModelSpace(domain=Domain({"coin": 2})))
    >>> model.total, model.marginal(("coin",)).round(3)
    (40.0, array([30., 10.]))
    """
    seen = common_groupings(measurements, also=space.groupings.values(), classes=space.rules.classes)
    estimator = Estimator(space.group(seen.values()))
    estimator.add(split_coarse_tables(measurements, domain=space.domain, groupings=seen)[0])
    effort = FitEffort(rounds=500, floor=1e-9, sweeps=30, steps=steps, tolerance=tolerance, exact=True)
    estimator.refit(effort=effort, start=start, progress=progress)
    return estimator.model()
