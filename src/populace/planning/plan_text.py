"""A plan as text for a terminal: the verdict first, then errors, budget, time and memory."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

from populace.core.number_format import format_exact, format_percent
from populace.planning import plan_summary as summary
from populace.planning.plan import Plan
from populace.planning.prediction_range import PredictionRange

BAR_WIDTH, LINE_WIDTH = 24, 100
MAX_COLUMNS = 20
# Pairs that are named: so many of the smallest errors, and of the largest.
NAMED_PAIRS = 3
MIN_LABEL_WIDTH = 22


def format_plan(plan: Plan) -> Iterator[str]:
    """Yield the lines of a plan."""
    count = len(plan.schema.domain)
    columns = f"{count:,} column{'' if count == 1 else 's'}"
    budget = f"ε = {format_exact(plan.epsilon)}, δ = {format_exact(plan.delta)}"
    yield f"Plan: about {plan.population:,} rows, {columns}, {budget}, method {plan.method}"
    yield "Nothing private was read and nothing was spent."
    yield ""
    verdict, *advice = summary.summarize_verdict(plan)
    yield verdict
    yield from _wrap(*advice, *summary.summarize_target(plan), *summary.summarize_public_table(plan))
    named = summary.select_pairs(plan, each=NAMED_PAIRS)
    width = max(MIN_LABEL_WIDTH, *map(len, plan.by_column), *(len(name) for name, _ in named))
    yield ""
    yield "Expected error (total variation: the share of rows in the wrong cell)"
    yield _head("", width)
    yield _row("columns", plan.columns, width)
    if plan.pairs is not None:
        yield _row("pairs, if measured", plan.pairs, width)
    yield f"  {'pairs measured':{width}} {summary.describe_pairs(plan)}"
    yield from _wrap(*summary.summarize_assumptions(plan))
    yield ""
    yield from _column_lines(plan, width)
    if plan.by_pair:
        yield ""
        yield from _pair_lines(plan, named, width)
    yield ""
    yield "Budget"
    for label, share in plan.budget.items():
        yield f"  {label:{width}} {format_percent(share):>8}  {_bar(share)}"
    yield ""
    yield f"Time about {plan.cost.seconds:.0f} s of one core; memory about {plan.cost.memory / 1e6:,.0f} MB"


def _column_lines(plan: Plan, width: int) -> Iterator[str]:
    domain = plan.schema.domain
    worst = sorted(plan.by_column.items(), key=lambda entry: -entry[1].mean)
    yield "Columns, largest error first"
    yield _head("column", width, "codes")
    most = worst[0][1].mean or 1.0
    for name, error in worst[:MAX_COLUMNS]:
        yield _row(name, error, width, f"{domain[name]:5}  {_bar(error.mean / most)}")
    if len(worst) > MAX_COLUMNS:
        yield f"  and {len(worst) - MAX_COLUMNS} more with smaller errors (--json has all)"


def _pair_lines(plan: Plan, named: summary.NamedPairs, width: int) -> Iterator[str]:
    yield "Pairs, if measured (which ones depends on the data)"
    yield _head("number of cells", width, "pairs")
    groups: dict[int, list[PredictionRange]] = {}
    for pair in plan.by_pair.values():
        groups.setdefault(len(str(max(pair.cells - 1, 1))), []).append(pair.error)
    for power, errors in sorted(groups.items()):
        mean = sum(error.mean for error in errors) / len(errors)
        low, high = min(error.low for error in errors), max(error.high for error in errors)
        whole = replace(errors[0], mean=mean, low=low, high=high)
        yield _row(f"up to {10**power:,} cells", whole, width, f"{len(errors):5,}")
    every = len(named) == len(plan.by_pair)
    yield _head("every pair" if every else "smallest and largest", width, "cells")
    for name, pair in named:
        grouped = f" in {pair.groups:,} groups" if pair.groups < pair.cells else ""
        bound = f"; at least {format_percent(pair.all_cells_bound)} in all cells"
        more = bound if pair.all_cells_bound > pair.error.mean else ""
        yield _row(name, pair.error, width, f"{pair.cells:5,}{grouped}{more}")
    if any(pair.groups < pair.cells for _, pair in named):
        yield from _wrap(summary.GROUPS_NOTE)
    if not every:
        yield "  --json has every pair"


def _head(label: str, width: int, last: str = "") -> str:
    return f"  {label:{width}} {'mean':>8} {'plausible range':>21}   {last}".rstrip()


def _row(label: str, error: PredictionRange, width: int, note: str = "") -> str:
    mean, low, high = (format_percent(number) for number in (error.mean, error.low, error.high))
    return f"  {label:{width}} {mean:>8} {low:>10} – {high:<8}   {note}".rstrip()


def _wrap(*sentences: str) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(
            sentence, LINE_WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )


def _bar(share: float) -> str:
    """Return a bar that is as long as a share; what is not nothing is seen."""
    return "█" * max(round(BAR_WIDTH * share), 1 if share > 0 else 0)
