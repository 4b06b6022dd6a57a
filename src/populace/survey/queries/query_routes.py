"""By which way a query is answered, from the design alone; what cannot be combined is refused with what can."""

from __future__ import annotations

from enum import Enum

from populace.core.errors import UsageError
from populace.schema.conditions.syntax_tree import Name
from populace.schema.hints import quote_names
from populace.survey.design.design import Design
from populace.survey.design.design_parts import MissingHandling
from populace.survey.queries.queries import Query, Statistic


class Route(Enum):
    """The ways of answering, in words for the table of combinations."""

    SUMMED = "sums"
    ADJUSTED = "sums of adjusted weights"
    FILLED = "sums of filled rows"
    IMPUTED = "imputed answers"
    COUNTED = "calibrated counts"


def route_query(query: Query, design: Design) -> tuple[Route, tuple[str, ...]]:
    """Return the way of a query, and the columns whose missing answers it fills."""
    if query.noise is not None and not _is_counted(query, design):
        raise UsageError(
            f"{query.place}: smooth noise goes with counts that meet [[totals]], of rows that were drawn one by one.",
            hint="leave noise out: it is then the one that is expected to be least",
        )
    filled = tuple(name for name in query.named if design.handling(name) is not MissingHandling.IGNORE)
    _refuse_functions(query, design)
    plain = not (
        design.clustered or design.weights is not None or design.replicates or isinstance(design.base, dict)
    )
    if not filled:
        if not design.totals or query.statistic is Statistic.FREQUENCY:
            return Route.SUMMED, ()
        return (Route.COUNTED if _is_counted(query, design) else Route.ADJUSTED), ()
    inside = [name for name in filled if design.handling(name) is MissingHandling.IMPUTE]
    limited = bool(inside) and design.missing[inside[0]].max_uses is not None
    simple = _is_simple(query) and plain and not design.totals and len(filled) == 1 and not limited
    if simple and filled[0] in query.known and filled[0] not in query.grouping_columns:
        # Groups that are no whole cells are told by weights where these are made of the same cells.
        apart = set(query.grouping_columns) - set(design.missing[filled[0]].match)
        if inside or not apart:
            return Route.IMPUTED, filled
    if unlimited := [name for name in inside if not design.missing[name].limited]:
        raise UsageError(
            f"{query.place}: k, take and ties of {unlimited[0]!r} go with means and proportions of one range, of "
            "samples without weights and PSUs.",
            hint=f'leave k, take and ties out of [missing.{unlimited[0]}], or write how = "model": both go with '
            "weights, PSUs, totals and every statistic",
        )
    if len(filled) > 1:
        raise UsageError(
            f"{query.place}: missing answers of {quote_names(filled)} are filled, and one column is the most.",
            hint=f'write how = "ignore" for all but one, such as [missing.{filled[1]}]: rows without an answer to it '
            "then do not count",
        )
    return (Route.FILLED if inside else Route.ADJUSTED), filled


def _is_counted(query: Query, design: Design) -> bool:
    """Say whether it is a count that totals calibrate, of a sample of rows, whose columns have all their answers."""
    direct = not design.clustered and design.replicates is None
    whole = all(design.handling(name) is MissingHandling.IGNORE for name in query.named)
    return direct and whole and bool(design.totals) and query.statistic is Statistic.COUNT


def _is_simple(query: Query) -> bool:
    """Say whether it is a mean, or a proportion that meets a condition, of one column in its whole range."""
    kind = query.statistic is Statistic.MEAN or (
        query.statistic is Statistic.PROPORTION and query.that is not None
    )
    return kind and len(query.known) == 1 and query.low is None and query.high is None


def _refuse_functions(query: Query, design: Design) -> None:
    """Refuse columns that follow from one whose missing answers are filled: they stay missing."""
    layout = design.schema.layout
    for name, missing in design.missing.items():
        if missing.how is MissingHandling.IGNORE:
            continue
        own = {part.name for part in design.schema.columns[name].variables}
        follows = [each for each in layout.functions if own & set(layout.sources(each))]
        if unfilled := [each for each in query.named if each in follows]:
            raise UsageError(
                f"{query.place}: missing answers of {name!r} are not filled in {unfilled[0]!r}, which follows from it.",
                hint=f'ask for ranges of the column itself ({Name(name)} >= …), or write how = "ignore" under '
                f"{missing.place}: missing answers then stay missing",
            )
