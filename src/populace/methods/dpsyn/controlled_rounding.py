"""How many rows each area gets: the noisy counts of a partition, none too small, in round numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from populace.core.marginals import Clique, Counts
from populace.inference.factor import Table, add_potential
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.methods.dpsyn.dpsyn_config import DPSYN_CONFIG
from populace.schema.conditions.rules import Allowed


def round_area_counts(
    expected: Table,
    *,
    least: int | None = None,
    step: int | None = None,
    usual: int = DPSYN_CONFIG.step_measured,
    allowed: Allowed | None = None,
) -> Counts:
    """Return whole numbers of rows by area: those below `least` raised to it, all rounded to multiples of `step`.

    Rounding never leaves an area below `least`, nor all of them without rows: it goes up there.
    Where nothing is given, they are raised to 300, and then rounded to the larger of `usual` and 10, as long as that
    moves at most one row in twenty: a table of many areas with few rows each is left as it is. Areas that are not
    allowed have no rows. It is a function of noisy counts alone.
    Source: the DPSyn entry to the NIST challenge of 2020, which has 300 and multiples of 10 or 100 for all tables.

    >>> round_area_counts(np.array([2950.0, 1204.4, 880.0, 290.2]))
    array([3000, 1200,  900,  300])
    >>> round_area_counts(np.array([12.3, 4.0, 0.7]))
    array([12,  4,  1])
    >>> round_area_counts(np.array([12.3, 4.0, 0.7]), least=10, step=5)
    array([10, 10, 10])
    >>> round_area_counts(np.array([140.0, 2400.0]), least=149, step=100)
    array([ 200, 2400])
    """
    inside = np.ones(expected.shape, np.bool_) if allowed is None else allowed
    values = np.where(inside, np.maximum(expected, 0.0), 0.0)
    most = float(values.sum()) / DPSYN_CONFIG.moved_row_in
    floor = DPSYN_CONFIG.min_area_rows if least is None else least
    raised = np.where(inside, np.maximum(values, floor), 0.0)
    if least is None and float((raised - values).sum()) > most:
        floor, raised = 0, values
    for each in (usual, DPSYN_CONFIG.step_public) if step is None else (step,):
        rounded = _round_to_step(raised, inside, floor=floor, step=each)
        if each > 1 and (step is not None or float(np.abs(rounded - raised).sum()) <= most):
            return rounded
    return _round_to_integers(raised)


def condition_on_areas(model: Model, clique: Clique, rows: Counts) -> Model:
    """Return the model given so many rows in every area: those drawn from it have exactly these counts.

    One factor on the areas does it, p′(row) = p(row)·rows(area)/p(area): given its area, a row is as before.
    """
    if not clique or not rows.sum() or model.exact:
        return model
    here = model.grouped_marginal(clique)
    wanted = rows * (here.sum() / rows.sum())
    scale = np.full(rows.shape, FORBIDDEN)
    np.log(wanted / np.maximum(here, 1e-300), out=scale, where=rows > 0)
    potentials = dict(model.potentials)
    add_potential(potentials, clique, scale)
    share = float(rows.sum()) / model.total
    return replace(
        model,
        potentials=potentials,
        total=float(rows.sum()),
        exact=(clique,),
        targets={each: table * share for each, table in model.targets.items()} | {clique: rows.astype(float)},
    )


def _round_to_step(values: Table, inside: Allowed, *, floor: int, step: int) -> Counts:
    """Return the nearest multiples of a step, and the next larger ones where these are below the floor, or all zero."""
    near = step * np.rint(values / step).astype(np.int64)
    up = step * np.ceil(values / step).astype(np.int64)
    if not near.any():
        return np.where(values >= 0.5, up, 0)
    return np.where(inside & (near < floor), up, near)


def _round_to_integers(values: Table) -> Counts:
    """Return whole numbers next to values, with their sum, the largest remainders rounded up."""
    found = np.floor(values).astype(np.int64)
    short = round(float(values.sum())) - int(found.sum())
    found.reshape(-1)[np.argsort((found - values).ravel(), kind="stable")[:short]] += 1
    return found
