"""A plan in sentences, which the page shows as well, and as text for a terminal: the verdict first, then errors."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from populace.core.number_format import count_of, format_exact, format_percent
from populace.planning.plan import SEARCH, Plan
from populace.planning.prediction_range import PredictionRange
from populace.planning.simulated.pair_errors import PairError
from populace.planning.simulated.simulated_run import SIMULATION
from populace.planning.verdict import VERDICT, Verdict
from populace.release.statement.membership_power import describe_protection

BAR_WIDTH, LINE_WIDTH = 24, 100
MAX_COLUMNS = 20
# Pairs that are named: so many of the smallest errors, and of the largest.
NAMED_PAIRS = 3
MIN_LABEL_WIDTH = 22
MAX_NAMES = 6
GROUPS_NOTE = (
    "Codes that noise would hide share a group, and the error of a pair is that of its groups. In all of its cells a "
    "pair errs by no less than either of its columns."
)


def format_plan(plan: Plan) -> Iterator[str]:
    """Yield the lines of a plan."""
    columns = count_of(len(plan.schema.domain), "column")
    budget = f"ε = {format_exact(plan.epsilon)}, δ = {format_exact(plan.delta)}"
    yield f"Plan: about {plan.population:,} rows, {columns}, {budget}, method {plan.method}"
    yield "Nothing private was read and nothing was spent."
    yield describe_protection(plan.membership_power)
    yield ""
    verdict, *advice = summarize_verdict(plan)
    yield verdict
    yield from wrap_lines(*advice, *summarize_target(plan), *summarize_public_table(plan))
    named = select_pairs(plan, each=NAMED_PAIRS)
    width = max(MIN_LABEL_WIDTH, *map(len, plan.by_column), *(len(name) for name, _ in named))
    yield ""
    yield "Expected error (total variation: the share of rows in the wrong cell)"
    yield _head("", width)
    yield _row("columns", plan.columns, width)
    if plan.pairs is not None:
        yield _row("pairs, if measured", plan.pairs, width)
    yield f"  {'pairs measured':{width}} {describe_pairs(plan)}"
    yield from wrap_lines(*summarize_assumptions(plan))
    yield ""
    yield from _column_lines(plan, width)
    if plan.by_pair:
        yield ""
        yield from _pair_lines(plan, named, width)
    yield ""
    yield "Budget"
    for label, share in plan.budget.items():
        yield f"  {label:{width}} {format_percent(share):>8}  {draw_bar(share)}"
    yield ""
    yield f"Time about {plan.cost.seconds:.0f} s of one core; memory about {plan.cost.memory / 1e6:,.0f} MB"


def _column_lines(plan: Plan, width: int) -> Iterator[str]:
    domain = plan.schema.domain
    worst = sorted(plan.by_column.items(), key=lambda entry: -entry[1].mean)
    yield "Columns, largest error first"
    yield _head("column", width, "codes")
    most = worst[0][1].mean or 1.0
    for name, error in worst[:MAX_COLUMNS]:
        yield _row(name, error, width, f"{domain[name]:5}  {draw_bar(error.mean / most)}")
    if len(worst) > MAX_COLUMNS:
        yield f"  and {len(worst) - MAX_COLUMNS} more with smaller errors (--json has all)"


def _pair_lines(plan: Plan, named: list[tuple[str, PairError]], width: int) -> Iterator[str]:
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
        yield from wrap_lines(GROUPS_NOTE)
    if not every:
        yield "  --json has every pair"


def _head(label: str, width: int, last: str = "") -> str:
    return f"  {label:{width}} {'mean':>8} {'plausible range':>21}   {last}".rstrip()


def _row(label: str, error: PredictionRange, width: int, note: str = "") -> str:
    mean, low, high = (format_percent(number) for number in (error.mean, error.low, error.high))
    return f"  {label:{width}} {mean:>8} {low:>10} – {high:<8}   {note}".rstrip()


def wrap_lines(*sentences: str) -> Iterator[str]:
    """Yield sentences in lines of a terminal, indented."""
    for sentence in sentences:
        yield from textwrap.wrap(
            sentence, LINE_WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )


def draw_bar(share: float) -> str:
    """Return a bar that is as long as a share; what is not nothing is seen."""
    return "█" * max(round(BAR_WIDTH * share), 1 if share > 0 else 0)


def summarize_verdict(plan: Plan) -> list[str]:
    """Return whether there are enough rows, why not, and what to change then."""
    lines = [f"Verdict: {plan.verdict.value} for these columns at this ε."]
    advice, enough = plan.advice, VERDICT.max_error_enough
    if advice is None:
        return lines
    limit = VERDICT.max_error_few if plan.columns.mean > VERDICT.max_error_few else enough
    lines.append(f"The mean error of columns is more than {format_percent(limit)}.")
    if plan.verdict is Verdict.TOO_FEW and plan.relative_pair_error > VERDICT.max_relative_pair_error:
        lines.append(
            f"Pairs would be {plan.relative_pair_error:.1f} times as far from the truth as exact columns without any "
            "dependence."
        )
    if advice.coarsen:
        changes = [
            f"{name} ({plan.schema.columns[name].size} codes): {change}"
            for name, change in plan.coarsening.items()
        ]
        most = max(advice.coarsen.values())
        lines.append(f"Coarsen to {most} codes or fewer, in the schema: {list_names(changes, mark='; ')}.")
    if advice.drop:
        lines.append(f"Drop {list_names(advice.drop)}.")
    if advice.coarsen or advice.drop:
        error = format_percent(advice.after.error)
        lines.append(f"The mean error of columns is then {error}: {advice.after.verdict.value}.")
    if not advice.suffices:
        lines.append(
            f"Neither coarser columns (down to {VERDICT.coarse_sizes[-1]} codes) nor fewer (down to "
            f"{VERDICT.min_columns}) make these rows enough."
        )
    return [*lines, _budget_advice(plan, suffices=advice.suffices)]


def _budget_advice(plan: Plan, *, suffices: bool) -> str:
    target, needed, enough = plan.target_error, plan.epsilon_for_target, VERDICT.max_error_enough
    if target is not None and needed == plan.epsilon:
        # More budget is no answer to who asked for this error.
        return (
            f"This ε was chosen for a mean error of {format_percent(target)}; rows are enough up to "
            f"{format_percent(enough)}."
        )
    how = f"--target-error {enough:g} finds how much"
    if target is not None and target <= enough:
        how = (
            f"ε = {float(needed):g}" if needed is not None else f"none up to {SEARCH.max_epsilon:g} is enough"
        )
    return (
        f"Or grant more budget ({how})." if suffices else f"Only more budget ({how}) or more rows would do."
    )


def summarize_assumptions(plan: Plan) -> list[str]:
    """Return what the numbers rest on, and what would make them better."""
    lines = [
        f"Ranges go from the smallest to the largest of {plan.simulations} simulations on invented tables, from uneven "
        "to even columns, widened by chance. Real tables fell into them; they are no promise about yours.",
        "Errors come from noise alone. Dependence that the model leaves out comes on top: no release carries what "
        "shows only among more columns than one of its measured tables has, such as a parity of several columns.",
    ]
    if plan.by_pair:
        lines.append(
            "Errors of pairs are those of their noisy tables. A release combines all tables, and its pairs are mostly "
            "closer to the truth."
        )
    if plan.known_shares:
        known = [
            name if share > 0.995 else f"{name} ({format_percent(share)})"
            for name, share in plan.known_shares.items()
        ]
        lines.append(f"Public shares are known of {list_names(known)}; the rest is invented.")
    else:
        lines.append(
            "Public shares of values (--shares) or a public table (--like) make a plan more precise."
        )
    if plan.domains_to_learn:
        lines.append(
            f"The run will learn the domain of {list_names(plan.domains_to_learn)}: assumed to have "
            f"{SIMULATION.assumed_values} values or {SIMULATION.assumed_bins} bins (--like finds how many)."
        )
    return lines


def summarize_target(plan: Plan) -> list[str]:
    """Return which ε a target needs."""
    if plan.target_error is None:
        return []
    what = f"A mean error of columns of {format_percent(plan.target_error)}"
    return summarize_epsilon(what, plan.epsilon_for_target)


def summarize_epsilon(goal: str, needed: Fraction | None) -> list[str]:
    """Return which ε a goal takes, if there is one.

    >>> summarize_epsilon("A mean error of 1 %", Fraction(1, 2))
    ['A mean error of 1 % takes ε = 0.5.']
    """
    if needed is None:
        return [f"{goal} takes more than ε = {SEARCH.max_epsilon:g}."]
    return [f"{goal} takes ε = {float(needed):g}."]


def summarize_public_table(plan: Plan) -> list[str]:
    """Return what whole runs on a public table came to."""
    like = plan.like
    if like is None:
        return []
    lines = [
        f"Whole runs simulated on {like.name}, which is treated as public: released columns err by "
        f"{format_range(like.columns)}, all pairs by {format_range(like.pairs)}, of which "
        f"{format_range(like.unmodelled)} would be left without any noise (dependence that is not modelled)."
    ]
    if like.learnt:
        names = [f"{name} ({levels.mean:.0f} values or bins)" for name, levels in like.learnt.items()]
        lines.append(
            f"Learnt there: {list_names(names)}. Values that were not learnt count as one, so losing a rare one is no "
            "error here."
        )
    return lines


def describe_pairs(plan: Plan) -> str:
    """Return how many pairs are measured, or why none are."""
    if not plan.pairs_possible:
        return "none: there is one column"
    count = plan.pairs_measured
    low, mean, high = (round(number) for number in (count.low, count.mean, count.high))
    if not high:
        return f"none of {plan.pairs_possible} is worth its noise" if plan.by_pair else "none by this method"
    between = f" ({low} – {high})" if low < high else ""
    return f"about {mean}{between} of {plan.pairs_possible}"


def select_pairs(plan: Plan, *, each: int) -> list[tuple[str, PairError]]:
    """Return the pairs of the smallest and of the largest errors, in the order of these."""
    every = [(" × ".join(pair), error) for pair, error in plan.by_pair.items()]
    return every if len(every) <= 2 * each else every[:each] + every[-each:]


def format_range(error: PredictionRange) -> str:
    """Return an error with its range.

    >>> format_range(PredictionRange(mean=0.02, low=0.01, high=0.035))
    '2 % (1 % – 3.5 %)'
    """
    low, high = format_percent(error.low), format_percent(error.high)
    return f"{format_percent(error.mean)} ({low} – {high})"


def list_names(names: Sequence[str], *, mark: str = ", ") -> str:
    """Return the first of some names, and how many more there are.

    >>> list_names(["a", "b"]), list_names("abcdefgh")
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return mark.join(names[:MAX_NAMES]) + more
