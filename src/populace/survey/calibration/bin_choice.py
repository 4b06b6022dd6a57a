"""Which of several sets of bins a control is counted by, chosen by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from populace.privacy.accounting.budget import Budget
from populace.privacy.sensitivity.poststratification import Binning
from populace.survey.design.design_parts import ControlTotals
from populace.survey.smooth_questions import BaseWeights, BinChoice
from populace.survey.survey_oracle import SurveyOracle


def choose_binning(
    oracle: SurveyOracle, control: ControlTotals, *, base: BaseWeights, budget: Budget, share: Fraction
) -> Binning | None:
    """Return the set of bins of one control, chosen for a share of the budget where there are several."""
    if len(control.binnings) < 2:
        return control.binnings[0] if control.binnings else None
    mechanism = budget.choice(share, choices=1)
    return control.binnings[oracle.choose_bins(make_bin_choice(control, base=base), mechanism=mechanism)]


def make_bin_choice(control: ControlTotals, *, base: BaseWeights) -> BinChoice:
    """Return the question which set of bins is best; bins where nobody can be are no bins of their own in it."""
    return BinChoice(
        by=control.by,
        binnings=tuple(_merge_empty_bins(binning, control.populations) for binning in control.binnings),
        populations=control.populations,
        base=base,
        nobody=tuple(place for place, people in enumerate(control.populations) if not people),
    )


def _merge_empty_bins(binning: Binning, populations: Sequence[Fraction]) -> Binning:
    totals = binning.totals(populations)
    bins = [list(group) for group, total in zip(binning.bins, totals, strict=True) if total > 0]
    for group, total in zip(binning.bins, totals, strict=True):
        if bins and not total:
            bins[-1].extend(group)
    return replace(binning, bins=tuple(map(tuple, bins)))
