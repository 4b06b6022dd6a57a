"""Which of several sets of bins a control is counted by, chosen by the exponential mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from populace.survey.bins import Binning
from populace.survey.design_parts import Control
from populace.survey.oracle import SurveyOracle
from populace.survey.questions import Base, BinChoice


def chosen(oracle: SurveyOracle, control: Control, *, base: Base, share: Fraction) -> Binning | None:
    """Return the set of bins of one control, chosen for a share of the budget where there are several."""
    if len(control.binnings) < 2:
        return control.binnings[0] if control.binnings else None
    law = oracle.budget.choice(share, choices=1)
    return control.binnings[oracle.choose_bins(choice(control, base=base), law=law)]


def choice(control: Control, *, base: Base) -> BinChoice:
    """Return the question which set of bins is best; bins where nobody can be are no bins of their own in it."""
    return BinChoice(
        by=control.by,
        binnings=tuple(_settled(binning, control.populations) for binning in control.binnings),
        populations=control.populations,
        base=base,
        nobody=tuple(place for place, people in enumerate(control.populations) if not people),
    )


def _settled(binning: Binning, populations: Sequence[Fraction]) -> Binning:
    totals = binning.totals(populations)
    bins = [list(group) for group, total in zip(binning.bins, totals, strict=True) if total > 0]
    for group, total in zip(binning.bins, totals, strict=True):
        if bins and not total:
            bins[-1].extend(group)
    return replace(binning, bins=tuple(map(tuple, bins)))
