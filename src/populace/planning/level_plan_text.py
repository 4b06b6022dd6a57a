"""The plan of a hierarchical release in sentences, which its page shows as well, and as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from populace.core.number_format import format_exact, format_percent
from populace.planning.level_plan import (
    GeographyPlan,
    LevelForecast,
    TableForecast,
    describe_level,
    format_count,
)
from populace.planning.plan_text import draw_bar, summarize_epsilon, wrap_lines
from populace.release.statement.membership_power import describe_protection

# Tables of a level that are shown one by one; --json has all.
MAX_TABLES = 6


def format_level_plan(plan: GeographyPlan) -> Iterator[str]:
    """Yield the lines of a plan."""
    budget = f"ε = {format_exact(plan.epsilon)}, δ = {format_exact(plan.delta)}"
    yield f"Plan: about {plan.population:,} {plan.plural}, {len(plan.levels)} levels, {budget}, method {plan.method}"
    yield "Nothing private was read and nothing was spent."
    yield describe_protection(plan.membership_power)
    yield ""
    yield "Verdict, by level"
    for level in plan.levels:
        yield f"  {describe_level(level, plan)}"
    yield from wrap_lines(*summarize_level_target(plan), *summarize_cells(plan))
    width = max(16, *(len(table.name) + 2 for level in plan.levels for table in level.tables))
    yield ""
    linked = plan.schema.linked
    counted = plan.plural if linked is None else f"{plan.plural} and {linked.members}s"
    yield f"95 % margins of error of unbiased estimates, in {counted}"
    yield f"  {'':{width}} {'noise σ':>9} {'margin':>10} {'range over units':>21} {'average':>13} {'relative':>9}"
    for level in plan.levels:
        yield f"  {level.name}: {level.units:,} {'unit' if level.units == 1 else 'units'}"
        for table in shown_tables(level):
            yield _table_line(table, width)
        if hidden := len(level.tables) - len(shown_tables(level)):
            yield f"    and {hidden} more tables (--json has all)"
    yield from wrap_lines(*summarize_margins(plan))
    yield ""
    yield "Budget, by level"
    for level in plan.levels:
        yield f"  {level.name:{width}} {format_percent(level.share):>8}  {draw_bar(level.share)}"
    yield ""
    sizes = ", ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in plan.file_sizes.items())
    yield f"Time about {plan.seconds:.0f} s of one core; memory about {plan.memory / 1e6:,.0f} MB"
    yield f"Files about: {sizes}"


def shown_tables(level: LevelForecast) -> tuple[TableForecast, ...]:
    """Return the tables of a level that are shown one by one: of each table the first, and all columns together."""
    shown: list[TableForecast] = []
    for name in dict.fromkeys(table.table for table in level.tables):
        own = [table for table in level.tables if table.table == name]
        shown += own if len(own) <= MAX_TABLES else [*own[: MAX_TABLES - 1], own[-1]]
    return tuple(shown)


def _table_line(table: TableForecast, width: int) -> str:
    noise = "–" if table.noise is None else format_count(table.noise**0.5)
    if table.margin_high == 0:
        return f"    {table.name:{width - 2}} {noise:>9} {'exact':>10} {'':>21} {format_count(table.average):>13}"
    between = f"{format_count(table.margin_low)} – {format_count(table.margin_high)}"
    return (
        f"    {table.name:{width - 2}} {noise:>9} {'± ' + format_count(table.margin):>10} {between:>21} "
        f"{format_count(table.average):>13} {format_percent(table.relative):>9}"
    )


def summarize_level_target(plan: GeographyPlan) -> list[str]:
    """Return which ε a target needs."""
    what = f"A margin of {plan.levels[-1].name} totals"
    if plan.target_error is None:
        return []
    return summarize_epsilon(
        f"{what} of {format_percent(plan.target_error)} of an average unit", plan.epsilon_for_target
    )


def summarize_cells(plan: GeographyPlan) -> list[str]:
    """Return what the finest cells of the smallest units are good for."""
    level = plan.levels[-1]
    cells = level.tables[-1]
    if cells.margin_high == 0 or not cells.columns:
        return []
    return [
        f"Cells {cells.name} of a {level.name}: ± {format_count(cells.margin)} at an average of "
        f"{format_count(cells.average)}: {cells.verdict.value}."
    ]


def summarize_margins(plan: GeographyPlan) -> list[str]:
    """Return what the numbers rest on."""
    linked = plan.schema.linked
    assumed = (
        []
        if linked is None
        else [
            f"Averages of {linked.members}s take {plan.members_per_unit:g} to be in each {linked.units}; margins do "
            "not depend on it."
        ]
    )
    return [
        "Margins are exact: they follow from the schema, its units, the budget file and ε, and the release will state "
        "the same. Half of all counts have at most the margin shown, which is the median over units and cells.",
        f"Averages are those of {plan.population:,} {plan.plural} over all units and cells; real units are larger and "
        "smaller, with the same margins.",
        "A sum of units that lie close on the spine is more precise than the sum of their margins: “populace area” "
        "gives its own margin from the release.",
        *assumed,
    ]
