"""From noisy measurements to a model: the distribution that explains them best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from populace.infer.coarse import parted
from populace.infer.estimator import Effort, Estimator
from populace.infer.model import Model
from populace.infer.observations import shared_groupings
from populace.marginals import Domain, Grouping
from populace.measurements import Measurement
from populace.progress import Progress
from populace.schema.rules import NO_RULES, Rules, Totals


def fit(
    measurements: Sequence[Measurement],
    *,
    domain: Domain,
    rules: Rules = NO_RULES,
    totals: Sequence[Totals] = (),
    groupings: Iterable[Grouping] = (),
    start: Model | None = None,
    steps: int = 400,
    tolerance: float = 3e-4,
    progress: Progress | None = None,
) -> Model:
    """Return the graphical model of least weighted squared error against the measurements.

    An `Estimator` in earnest, in one round: mirror descent goes on from the tables of least squares, or from `start`,
    an earlier model, if that is better, until the loss is within `tolerance` of its minimum, or for so many steps at
    most. Under `rules` all of this happens among distributions in which no row breaks a rule: its probability is
    exactly 0. Of a table that sees a column in fewer groups than others do, the sums over that column are used;
    `assemble` uses all of it. `totals` decide the number of rows, and the model is scaled to them at the end.
    `groupings` are for columns that no measurement groups.

    >>> import numpy as np
    >>> from fractions import Fraction
    >>> from populace.marginals import Marginal
    >>> heads = Measurement(Marginal(("coin",)), np.array([30, 10]), Fraction(4))
    >>> model = fit([heads], domain=Domain({"coin": 2}))
    >>> model.total, model.marginal(("coin",)).round(3)
    (40.0, array([30., 10.]))
    """
    seen = shared_groupings(measurements, also=groupings, classes=rules.classes)
    estimator = Estimator(domain, groupings=seen.values(), rules=rules, totals=totals)
    estimator.add(parted(measurements, domain=domain, groupings=seen)[0])
    effort = Effort(rounds=500, floor=1e-9, sweeps=30, steps=steps, tolerance=tolerance, earnest=True)
    estimator.refit(effort=effort, start=start, progress=progress)
    return estimator.model()
