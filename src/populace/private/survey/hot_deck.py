"""Rows whose missing values of one column are filled by donors of limited use, for sums. For the barrier alone.

Proof: docs/proofs/donor-limit.md
"""

from __future__ import annotations

import math

import numpy as np

from populace.core.array_types import Truth
from populace.core.errors import UsageError
from populace.core.limits import LIMITS
from populace.core.marginals import Marginal, cell_indices
from populace.privacy.sensitivity.donor_limit import assign_donors, sensitivity_factor
from populace.privacy.sensitivity.nn_imputation import MatchedRows
from populace.private.question_checks import check_marginals
from populace.private.survey.row_labels import label_rows
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.columns.column import Column
from populace.schema.schema import Schema
from populace.survey.sums import HotDeck


def check_deck(deck: HotDeck, *, by: Marginal, schema: Schema) -> None:
    """Refuse, from public facts alone, what cannot be filled, and cells that filling moves rows between unpriced.

    A sum knows the column that is filled by its name, and the parts of a split column have other names.
    """
    check_marginals([deck.match], domain=schema.domain)
    column = fillable_column(deck.column, schema)
    check_match(column, deck.match.clique)
    if parts := [
        part.name for part in column.variables if part.name != column.name and part.name in by.clique
    ]:
        raise UsageError(
            f"rows in which {column.name!r} is filled are not added up by {parts[0]!r}, a part of it.",
            hint="add up by other columns, or declare the column without a split",
        )
    places = math.prod(deck.match.shape(schema.domain))
    if places > LIMITS.max_matching_places or deck.max_uses > LIMITS.max_donor_uses:
        raise UsageError(
            f"{deck.match} has {places} places to match, and donors are used {deck.max_uses} times at most: "
            f"{LIMITS.max_matching_places} and {LIMITS.max_donor_uses} are the most.",
            hint="match by fewer columns, group their codes, or give a lower max_uses",
        )
    sensitivity_factor(deck.max_uses, moved=2)


def fill_rows(rows: SurveyRows, deck: HotDeck, *, schema: Schema, key: str) -> SurveyRows:
    """Return the same rows, incomplete ones with what their donors hold; questions of a run share it."""
    kept = deck, key
    if kept not in rows.kept:
        rows.kept[kept] = _fill(rows, deck, schema=schema, key=key)
    filled: SurveyRows = rows.kept[kept]
    return filled


def _fill(rows: SurveyRows, deck: HotDeck, *, schema: Schema, key: str) -> SurveyRows:
    column = fillable_column(deck.column, schema)
    known, wanting = find_incomplete(rows, column)
    places = cell_indices(deck.match, codes=rows.codes, domain=schema.domain)
    labels = label_rows(rows, key=key)
    complete, incomplete = (
        MatchedRows(places=places[side], labels=labels[side], values=labels[side])
        for side in (known, wanting)
    )
    donors = assign_donors(complete, incomplete=incomplete, max_uses=deck.max_uses)
    source = np.arange(len(known))
    source[np.flatnonzero(wanting)[donors >= 0]] = np.flatnonzero(known)[donors[donors >= 0]]
    own = {part.name for part in column.variables}
    return SurveyRows(
        codes={name: codes[source] if name in own else codes for name, codes in rows.codes.items()},
        numbers={name: held[source] if name == column.name else held for name, held in rows.numbers.items()},
    )


def find_incomplete(rows: SurveyRows, column: Column) -> tuple[Truth, Truth]:
    """Say which rows have a value, and which have none and should: those outside its universe should not."""
    variable = column.variables[0]
    codes = rows.codes[variable.name]
    known = ~np.isnan(rows.numbers[column.name]) if column.name in rows.numbers else codes < column.levels
    wanting = ~known if variable.outside_code is None else ~known & (codes != variable.outside_code)
    return known, wanting


def fillable_column(name: str, schema: Schema) -> Column:
    """Return a column whose missing values can be filled."""
    column = schema.columns.get(name)
    if column is None or column.function_of or column.unknown:
        raise UsageError(
            f"missing values of {name!r} cannot be filled.",
            hint="name a column whose values are public, and that does not follow from others",
        )
    return column


def check_match(column: Column, clique: tuple[str, ...]) -> None:
    """Refuse to match by nothing, or by the column that is filled."""
    if not clique or {part.name for part in column.variables} & set(clique):
        raise UsageError(
            f"missing values of {column.name!r} are matched by {' × '.join(clique) or 'nothing'}.",
            hint="match by at least one column, and never by the one that is filled",
        )
