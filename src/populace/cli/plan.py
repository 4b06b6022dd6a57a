"""populace plan: what a run will give, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, progress, say
from populace.cli.notes import note_weak_guarantee
from populace.core.errors import UsageError
from populace.core.number_format import format_percent

if TYPE_CHECKING:
    from populace.planning.plan import Plan
    from populace.planning.prediction_range import PredictionRange

BAR_WIDTH = 30
MAX_COLUMNS = 20
MAX_NAMED = 6
# Pairs that are named: so many of the smallest errors, and of the largest.
NAMED_PAIRS = 3
# A population of more rows than there are people is hardly meant.
MAX_PLAUSIBLE_ROWS = 10**10


POPULATION = Option(
    "--population N",
    "About how many rows there are. It must be public: a published figure or a guess, not a count.",
    options.whole(),
    required=True,
)
EPSILON = replace(options.EPSILON, help=f"{options.EPSILON.help} Or give --target-error.", required=False)
TARGET_ERROR = Option(
    "--target-error X",
    "Search for the smallest epsilon with which noise moves at most this share of the rows of a column to a wrong "
    "code, on average over columns, such as 0.01.",
    options.number,
)
SHARES = Option(
    "--shares FILE",
    "A CSV file of public shares: column, value and share (or percent, or count), as far as they are known. Errors are "
    "then predicted much more closely.",
    Path,
)
LIKE = Option(
    "--like FILE",
    "A public table of the same schema: whole runs are simulated on it, and the error of released rows is predicted.",
    Path,
)
PUBLIC = Option(
    "--public FILE", "Refused: plan without it; what a public table saves cannot be foreseen.", Path
)
OUT = Option("--out DIR", "A new folder for plan.html and plan.json.", Path)


@command(
    options.SCHEMA,
    POPULATION,
    options.DELTA,
    EPSILON,
    TARGET_ERROR,
    SHARES,
    LIKE,
    options.METHOD,
    options.WORKLOAD,
    options.KNOWN_PRIVATE,
    PUBLIC,
    OUT,
    options.JSON,
)
def plan(
    schema: Path,
    population: int,
    delta: str,
    epsilon: str | None,
    target_error: float | None,
    shares: Path | None,
    like: Path | None,
    method: str,
    workload: str | None,
    ledger: Path | None,
    public: Path | None,
    out: Path | None,
    json: bool,
) -> None:
    """Predict the error, time and memory of a run, before anything is spent.

    No private row is read. The method runs on populations simulated from the schema, from uneven to even ones, with as
    much noise as the budget buys. Errors are total variation: the share of rows that noise moves to a wrong cell.

    Examples:
      populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9
      populace plan --schema schema.toml --population 50000 --target-error 0.01 --delta 1e-9
      populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9 --like survey-2018.csv
    """
    from populace.planning.plan import plan as make_plan
    from populace.privacy.accounting.budget import parse_delta, parse_epsilon

    if out is not None:
        from populace.release.folder.destination import check_destination

        check_destination(out)
    if epsilon is None and target_error is None:
        raise UsageError("neither --epsilon nor --target-error is given.", hint="give one of them")
    if public is not None:
        raise UsageError(
            "no plan can foresee what a public table saves: that depends on how like the private table it is.",
            hint="leave --public out, which plans for a run without it; --like rehearses on a public table",
        )
    if epsilon is not None:
        note_weak_guarantee(parse_epsilon(epsilon), parse_delta(delta))
    if population > MAX_PLAUSIBLE_ROWS:
        say(f"{population:,}"[:60] + " rows are more than there are people: is the population right?")
    for path in (shares, like):
        if path is not None:
            say(f"{path} is treated as public: it is read without any protection.")
    with progress() as moved:
        found = make_plan(
            schema,
            population=population,
            epsilon=epsilon,
            delta=delta,
            target_error=target_error,
            shares=shares,
            like=like,
            method=method,
            workload=workload,
            ledger=ledger,
            progress=moved,
        )
        if out is not None:
            from populace.planning.plan_page import write_plan

            moved("writing the plan", 0.9)
            write_plan(found, out)
    if json:
        emit_json(found.to_json())
        return
    for line in format_plan(found):
        emit(line)
    if out is not None:
        emit(str(out))


def format_plan(found: Plan) -> Iterator[str]:
    """Yield the plan as people read it."""
    from populace.core.number_format import format_exact
    from populace.planning.simulated.simulated_run import ASSUMED_BINS, ASSUMED_VALUES

    domain = found.schema.domain
    yield (
        f"Plan for about {found.population:,} rows of {count_noun(len(domain), 'column')} with "
        f"ε = {format_exact(found.epsilon)}, δ = {format_exact(found.delta)}, method {found.method}. "
        "Nothing private was "
        "read; nothing was spent."
    )
    yield ""
    if found.open:
        yield (
            f"It will learn the domain of {list_some(found.open)}: taken to have {ASSUMED_VALUES} values or "
            f"{ASSUMED_BINS} bins; --like tells more."
        )
    yield "What noise alone will do: the share of rows in the wrong place"
    yield f"  columns         {format_range(found.columns)}"
    if not found.possible:
        yield "  pairs           none: there is one column"
    elif not round(found.afforded.high):
        reason = f"of {found.possible} is worth its noise" if found.by_pair else "are measured by this method"
        yield f"  pairs           none {reason}"
    else:
        if found.pairs is not None:
            yield f"  measured pairs  {format_range(found.pairs)}"
        yield f"  how many pairs  {format_pair_count(found)}"
    yield f"In brackets: the least and the most of {found.rehearsals} rehearsals on invented tables, uneven to even,"
    if found.known:
        yield "and as far beyond as chance goes."
        yield f"Public shares were told of {list_some(list_public_shares(found))}; the rest is invented."
    else:
        yield "and as far beyond as chance goes. What columns look like is not known: with public shares of"
        yield "their values, --shares tells better, and with a public table --like."
    yield from format_pairs(found)
    yield ""
    worst = sorted(found.by_column.items(), key=lambda entry: -entry[1].mean)
    most = max(error.mean for _, error in worst) or 1.0
    width = max(len("column"), *(len(name) for name, _ in worst[:MAX_COLUMNS]))
    yield f"  {'column':{width}}  codes  error (from – to)"
    for name, error in worst[:MAX_COLUMNS]:
        yield f"  {name:{width}}  {domain[name]:5}  {format_range(error):24} {draw_bar(error.mean / most)}"
    if len(worst) > MAX_COLUMNS:
        yield f"  and {len(worst) - MAX_COLUMNS} more with smaller errors (--json tells all)"
    yield ""
    yield "Budget"
    for label, share in found.shares.items():
        yield f"  {label:26} {format_percent(share):>7}  {draw_bar(share)}"
    yield ""
    seconds, memory = found.effort.seconds, found.effort.memory
    yield f"Time about {seconds:.0f} s of one core; memory about {memory / 1e6:,.0f} MB"
    yield from format_like(found)
    yield from format_target(found)
    yield from format_verdict(found)


def list_public_shares(found: Plan) -> list[str]:
    """Return the columns of public shares, with how much of each was told where it was not all."""
    return [
        name if share > 0.995 else f"{name} ({format_percent(share)})" for name, share in found.known.items()
    ]


def format_pair_count(found: Plan) -> str:
    """Return how many pairs are measured, with the least and the most where rehearsals differ."""
    few, low, high = (
        round(count) for count in (found.afforded.mean, found.afforded.low, found.afforded.high)
    )
    spread = f" ({low} – {high})" if low < high else ""
    return f"{few}{spread} of {found.possible} are worth their noise"


def format_pairs(found: Plan) -> Iterator[str]:
    """Yield what pairs err by if they are measured, by their cells, and some by name."""
    if not found.by_pair:
        return
    every = list(found.by_pair.items())
    few = every[:NAMED_PAIRS]
    shown = few + every[max(len(few), len(every) - NAMED_PAIRS) :]
    labels = {pair: " × ".join(pair) for pair, _ in shown}
    width = max(22, *map(len, labels.values()))
    yield ""
    yield "Which pairs are measured depends on the rows. If it is, the noisy table of a pair errs as follows;"
    yield "in a release it is cleaned beside all that is known, and mostly errs by less."
    for label, errors in group_by_cells(found):
        mean = sum(error.mean for error in errors) / len(errors)
        low, high = min(e.low for e in errors), max(e.high for e in errors)
        spread = f"{format_percent(mean)} ({format_percent(low)} – {format_percent(high)})"
        yield f"  {label:{width}} {spread:24} {count_noun(len(errors), 'pair'):>12}"
    grouped = False
    for pair, one in shown:
        groups = f" in {one.groups:,} groups" if one.groups < one.cells else ""
        grouped = grouped or bool(groups)
        more = f"; in all cells {format_percent(one.least)} or more" if one.least > one.error.mean else ""
        yield f"  {labels[pair]:{width}} {format_range(one.error):24} {one.cells:6,} cells{groups}{more}"
    if grouped:
        yield "  Codes that noise would hide share a group in pairs, and errors of pairs are told in groups. In all of"
        yield "  its cells a pair errs by no less than either of its columns, told below in all of their codes."
    if len(every) > 2 * NAMED_PAIRS:
        yield "  --json tells of every pair"


def group_by_cells(found: Plan) -> Iterator[tuple[str, list[PredictionRange]]]:
    """Yield the errors of pairs that have about as many cells, by powers of ten."""
    groups: dict[int, list[PredictionRange]] = {}
    for one in found.by_pair.values():
        groups.setdefault(len(str(max(one.cells - 1, 1))), []).append(one.error)
    for power in sorted(groups):
        yield f"up to {10**power:,} cells", groups[power]


def format_like(found: Plan) -> Iterator[str]:
    """Yield what whole rehearsals on a public table came to."""
    if found.like is not None:
        yield ""
        yield f"Whole runs rehearsed on {found.like.name}, which is treated as public: error of released rows"
        yield f"  columns         {format_range(found.like.columns)}"
        yield f"  all pairs       {format_range(found.like.pairs)}"
        yield f"  of it left      {format_range(found.like.unmodelled)} without any noise: dependence not modelled"
        if found.like.learnt:
            names = [f"{name} {levels.mean:.0f}" for name, levels in found.like.learnt.items()]
            yield f"  learnt there    {list_some(names)} values or bins; whatever was not learnt counts as one value"


def format_target(found: Plan) -> Iterator[str]:
    """Yield which ε a target needs."""
    if found.target is not None:
        yield ""
        if found.needed is None:
            yield f"No ε up to 100 brings the error of columns down to {format_percent(found.target)}."
        else:
            yield f"A mean error of columns of {format_percent(found.target)} takes ε = {float(found.needed):g}."


def format_verdict(found: Plan) -> Iterator[str]:
    """Yield whether there are enough rows, why not, and what to do then."""
    from populace.planning.verdict import MAX_ERROR_ENOUGH, MAX_ERROR_FEW, MAX_RELATIVE_PAIR_ERROR, Verdict

    yield ""
    yield f"Verdict: {found.verdict.value} for these columns at this ε."
    if found.verdict is not Verdict.ENOUGH:
        most = MAX_ERROR_FEW if found.columns.mean > MAX_ERROR_FEW else MAX_ERROR_ENOUGH
        yield f"  columns err by more than {format_percent(most)}"
    if found.verdict is Verdict.TOO_SMALL and found.balance > MAX_RELATIVE_PAIR_ERROR:
        yield (
            f"  pairs would be {found.balance:.1f} times as far from the truth as exact columns without any "
            "dependence are"
        )
    advice = found.advice
    if advice is None:
        return
    if advice.coarsen:
        yield f"  coarsen to {max(advice.coarsen.values())} codes or fewer, in the schema:"
        for name in list(advice.coarsen)[:MAX_NAMED]:
            yield f"    {name} ({found.schema.columns[name].size} codes): {found.how[name]}"
        if len(advice.coarsen) > MAX_NAMED:
            yield f"    and {len(advice.coarsen) - MAX_NAMED} more (--json tells all)"
    if advice.drop:
        yield f"  {'and ' if advice.coarsen else ''}drop: {list_some(advice.drop)}"
    if advice.coarsen or advice.drop:
        left = "those left" if advice.drop else "columns"
        yield f"  {left} then err by {format_percent(advice.dropped)}: {advice.verdict.value}"
    if not advice.enough:
        yield "  neither coarser nor fewer columns make these rows enough"
    if found.needed == found.epsilon and found.target is not None:
        # More budget is no answer to who asked for this error.
        asked = f"this ε was looked for so that columns err by {format_percent(found.target)}"
        yield f"  {asked}: rows are enough up to {format_percent(MAX_ERROR_ENOUGH)}"
        return
    # With no larger an error the verdict is that there are enough rows, whatever else is so.
    how = f"--target-error {MAX_ERROR_ENOUGH} tells how much"
    if found.target is not None and found.target <= MAX_ERROR_ENOUGH:
        how = (
            "none up to 100 is enough" if found.needed is None else f"ε = {float(found.needed):g}, see above"
        )
    yield (
        f"  or grant more budget ({how})"
        if advice.enough
        else f"  only more budget ({how}) or more rows would"
    )


def count_noun(number: int, what: str) -> str:
    """Return a number of things.

    >>> count_noun(1, "pair"), count_noun(1200, "pair")
    ('1 pair', '1,200 pairs')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def list_some(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are.

    >>> list_some(["a", "b"]), list_some("abcdefgh")
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def format_range(error: PredictionRange) -> str:
    """Return an error with its spread."""
    return f"{format_percent(error.mean)} ({format_percent(error.low)} – {format_percent(error.high)})"


def draw_bar(share: float) -> str:
    """Return a bar that is as long as a share; what is not nothing is seen."""
    return "█" * max(round(BAR_WIDTH * share), 1 if share > 0 else 0)
