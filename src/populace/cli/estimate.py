"""populace estimate: from a private survey to estimates with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, emit_result, progress, say
from populace.cli.notes import note_account, note_weak_guarantee
from populace.core.errors import UsageError
from populace.core.table_address import TableAddress

if TYPE_CHECKING:
    from populace.planning.expected_estimates import ExpectedError
    from populace.release.estimates_bundle import Estimates

DESIGN = Option(
    "--design FILE",
    "A design.toml: weights, strata, PSUs and what else says how rows were sampled.",
    Path,
    required=True,
)
QUERIES = Option(
    "--queries FILE",
    "A queries.toml: which statistics of which columns, for whom and by which groups.",
    Path,
    required=True,
)
DELTA = replace(
    options.DELTA,
    help="The failure probability to allow, such as 1e-9; with 0, pure ε-DP, and more noise for many queries.",
    required=False,
    default="0",
)
OUT = replace(options.OUT, help=f"{options.OUT.help} Needed without --expect.", required=False)
EXPECT = Option(
    "--expect ROWS",
    "Print the expected privacy error of each query for a public number of rows. DATA is not opened, nothing is spent.",
    options.whole,
)


@command(
    options.DATA,
    options.SCHEMA,
    DESIGN,
    QUERIES,
    options.EPSILON,
    DELTA,
    OUT,
    EXPECT,
    options.LEDGER,
    options.DATASET,
    options.NO_REPORT,
    options.JSON,
)
def estimate(
    data: Path | TableAddress,
    schema: Path,
    design: Path,
    queries: Path,
    epsilon: str,
    delta: str,
    out: Path | None,
    expect: int | None,
    ledger: Path | None,
    dataset: str | None,
    no_report: bool,
    json: bool,
) -> None:
    """Estimate means, totals, shares and other statistics of a survey's population.

    Each estimate comes with its sampling error, its privacy error and a confidence interval for both together. The
    budget is reserved in the ledger before the first row is read. If it fails after that, what was answered by then is
    kept in a folder whose name ends in -estimates or -answers.

    Examples:
      populace estimate people.csv --schema schema.toml --design design.toml --queries queries.toml \\
        --epsilon 1 --delta 1e-9 --out estimates
      populace estimate people.csv --schema schema.toml --design design.toml --queries queries.toml \\
        --epsilon 1 --expect 20000
    """
    from populace.api.publish import publish_estimates
    from populace.api.request import RunRequest

    if expect is not None:
        print_expected(
            schema, design=design, queries=queries, rows=expect, epsilon=epsilon, delta=delta, json=json
        )
        return
    if out is None:
        raise UsageError(
            "there is no folder to write to.", hint="give --out, or --expect to see what a run gives"
        )
    request = RunRequest.of(
        data, schema=schema, epsilon=epsilon, delta=delta, method=None, ledger=ledger, dataset=dataset
    )
    with note_account(request):
        note_weak_guarantee(request.epsilon, request.delta)
        with progress() as moved:
            estimates = publish_estimates(
                request, out, design=design, queries=queries, report=not no_report, progress=moved
            )
    note_noise(estimates)
    note_population_mismatch(estimates)
    rows = [row.to_json() for row in estimates.rows]
    emit_result({"release": str(out), "estimates": rows, "statement": estimates.statement}, json=json)


def print_expected(
    schema: Path, *, design: Path, queries: Path, rows: int, epsilon: str, delta: str, json: bool
) -> None:
    """Write which privacy error each query will have, and what that rests on."""
    from populace.planning.expected_estimates import assume_row_weight, predict_errors
    from populace.privacy.accounting.budget import parse_delta, parse_epsilon
    from populace.schema.schema import Schema
    from populace.survey.design.design import Design
    from populace.survey.queries.queries import Queries

    described = Schema.load(schema)
    drawn, asked = Design.load(design, schema=described), Queries.load(queries, schema=described)
    note_weak_guarantee(parse_epsilon(epsilon), parse_delta(delta))
    predict = partial(
        predict_errors, schema=described, design=drawn, queries=asked, rows=rows, epsilon=epsilon
    )
    found = predict(delta=delta)
    weight = assume_row_weight(drawn, rows)
    if json:
        emit_json({"rows": rows, "row_weight": weight, "expected": [asdict(each) for each in found]})
        return
    width = max(len(each.query) for each in found)
    emit(f"{'query':{width}}  {'privacy error':>14}  {'of the worst':>14}  suppressed")
    for each in found:
        errors = (each.privacy_error, each.worst_privacy_error)
        shown = [f"{error:14.4g}" if error is not None else f"{'–':>14}" for error in errors]
        lost = f"{each.suppressed} of {each.groups}" if each.groups else "not foreseen"
        emit(f"{each.query:{width}}  {shown[0]}  {shown[1]}  {lost}")
    if parse_delta(delta):
        note_pure_is_better(found, predict(delta=0))
    weighing = f", each weighing {weight:g}" if drawn.weights is not None else ""
    if weighing and drawn.population is None:
        weighing += " (a guess from max_weight; `population` in the design tells better)"
    say(
        f"note: for {rows} rows, spread evenly over the values of every column{weighing}. Smaller groups err more, in "
        "proportion. Sampling errors come on top; nothing was read or spent"
    )


def note_pure_is_better(found: Sequence[ExpectedError], pure: Sequence[ExpectedError]) -> None:
    """Say so where most queries would have a smaller privacy error with delta 0, which promises more as well."""
    shown = [
        (one.privacy_error, other.privacy_error)
        for one, other in zip(found, pure, strict=True)
        if one.privacy_error is not None and other.privacy_error is not None
    ]
    smaller = sum(other < 0.99 * one for one, other in shown)
    if 2 * smaller > len(shown):
        say(
            f"note: with --delta 0 the privacy error of {smaller} of {len(shown)} queries would be smaller, and the "
            "promise stronger: Gaussian noise needs many queries to be worth its delta"
        )


def note_population_mismatch(estimates: Estimates) -> None:
    """Note on stderr how many people the weights stand for, where the design says another number."""
    known, shown = estimates.design.population, estimates.people
    if known is None or shown is None:
        return
    people, unsure = shown
    if people > 1.5 * float(known) + 3 * unsure or people < float(known) / 2 - 3 * unsure:
        say(
            f"note: the rows that answered stand for about {people:,.0f} people, and the design has a population of "
            f"{float(known):,.0f} (hint: check the weights, and whether rows are of one year or of several)"
        )


def note_noise(estimates: Estimates) -> None:
    """Note on stderr what noise has drowned, from the published numbers alone."""
    from populace.survey.estimate_notes import VARIANCE_NOT_ESTIMABLE

    lost = sum(row.estimate is None for row in estimates.rows)
    known = [row for row in estimates.rows if row.estimate is not None and row.sampling_error is not None]
    hidden = sum(row.note == VARIANCE_NOT_ESTIMABLE for row in known)
    noisy = sum((row.privacy_error or 0.0) > (row.sampling_error or 0.0) for row in known)
    if lost:
        say(
            f"note: {lost} of {len(estimates.rows)} estimates are of groups too small to tell from the noise (hint: "
            "ask for larger groups, for fewer queries, or with a larger epsilon)"
        )
    if 2 * hidden > len(known):
        say(
            f"note: of {hidden} of {len(known)} estimates the sampling variance is not estimable at this epsilon, and "
            "their intervals are conservative (hint: fewer queries or a larger epsilon; with PSUs, max_design_effect "
            "of the design if earlier rounds showed one)"
        )
    if 2 * noisy > len(known):
        say(
            f"note: {noisy} of {len(known)} estimates have a larger privacy error than sampling error (hint: fewer "
            "queries, narrower ranges (low, high, max_weight) or a larger epsilon help)"
        )
