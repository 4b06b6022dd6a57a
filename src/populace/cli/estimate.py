"""populace estimate: from a private survey to estimates with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json, progress, say
from populace.core.errors import UsageError

if TYPE_CHECKING:
    from populace.planning.expected_estimates import ExpectedError
    from populace.release.estimates_bundle import Estimates

DesignFile = Annotated[
    Path,
    typer.Option(
        "--design",
        metavar="FILE",
        readable=False,
        help="A design.toml: weights, strata, psus and what else says how rows were drawn.",
    ),
]
QueriesFile = Annotated[
    Path,
    typer.Option(
        "--queries",
        metavar="FILE",
        readable=False,
        help="A queries.toml: which statistics of which columns, for whom and by which groups.",
    ),
]
Delta = Annotated[
    str,
    typer.Option(
        "--delta",
        metavar="D",
        help="The failure probability allowed, such as 1e-9; with 0, privacy is pure, and many queries get more noise.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        readable=False,
        help="The folder to write; it must be empty or not exist yet. Needed without --expect.",
    ),
]
Expect = Annotated[
    int | None,
    typer.Option(
        "--expect",
        metavar="ROWS",
        help="Estimate nothing: tell which privacy error to expect of each query in a sample of about so many rows, "
        "which must be a public number. DATA is not opened, and nothing is spent.",
    ),
]


def estimate(
    data: options.Data,
    schema: options.SchemaFile,
    design: DesignFile,
    queries: QueriesFile,
    epsilon: options.Epsilon,
    out: Out = None,
    delta: Delta = "0",
    expect: Expect = None,
    ledger: options.LedgerFile = None,
    dataset: options.Dataset = None,
    no_report: options.NoReport = False,
    json: options.Json = False,
) -> None:
    """Estimate means, totals, shares and more of a survey's population.

    Each estimate comes with its sampling error, its privacy error and an interval for both together. The budget is
    booked in the ledger before the first row is read. The release folder holds the estimates, the noisy sums behind
    them, the privacy statement, a codebook, a report that opens offline, and a manifest. Its path is the last line on
    stdout. If it fails after the budget was booked, what was answered by then is kept in a folder whose name ends in
    -estimates or -answers.

    \b
    Examples:
      populace estimate people.csv --schema schema.toml --design design.toml --queries queries.toml --epsilon 1 \\
        --out found
      populace estimate people.csv --schema schema.toml --design design.toml --queries queries.toml --epsilon 1 \\
        --delta 1e-9 --out found
      populace estimate people.csv --schema schema.toml --design design.toml --queries queries.toml --epsilon 1 \\
        --expect 20000
    """
    from populace.api.estimate import estimate as run
    from populace.api.reservation import default_dataset
    from populace.cli.account import find_account, print_balance
    from populace.cli.notes import note_weak_guarantee
    from populace.cli.preload import ESTIMATES, ESTIMATES_REPORT, WRITING, load_modules
    from populace.cli.safety_net import check_writable, safety_net
    from populace.schema.schema import Schema

    if expect is not None:
        print_expected(
            schema, design=design, queries=queries, rows=expect, epsilon=epsilon, delta=delta, json=json
        )
        return
    if out is None:
        raise UsageError(
            "there is no folder to write to.", hint="give --out, or --expect to see what a run gives"
        )
    check_writable(out, ledger=ledger)
    described = Schema.load(schema)
    account = dataset or described.dataset or default_dataset(data)
    found = find_account(account, ledger=ledger, schema=described)
    note_weak_guarantee(epsilon=epsilon, delta=delta)
    load_modules(*WRITING, *ESTIMATES, *(() if no_report else ESTIMATES_REPORT))
    with safety_net(out, ledger=ledger) as net, progress() as moved:
        estimates = run(
            data,
            schema=described,
            design=design,
            queries=queries,
            epsilon=epsilon,
            delta=delta,
            ledger=ledger,
            dataset=account,
            progress=moved,
        )
        net.keep()
        moved("writing the release", 0.5)
        estimates.save(out, report=not no_report)
    print_balance(found)
    note_noise(estimates)
    note_population_mismatch(estimates)
    if json:
        emit_json(
            {
                "release": str(out),
                "estimates": [row.to_json() for row in estimates.rows],
                "statement": estimates.statement,
            }
        )
    else:
        emit(str(out))


def print_expected(
    schema: Path, *, design: Path, queries: Path, rows: int, epsilon: str, delta: str, json: bool
) -> None:
    """Write which privacy error each query will have, and what that rests on."""
    from populace.cli.notes import note_weak_guarantee
    from populace.planning.expected_estimates import assume_row_weight, predict_errors
    from populace.privacy.accounting.budget import parse_delta
    from populace.schema.schema import Schema
    from populace.survey.design.design import Design
    from populace.survey.queries.queries import Queries

    described = Schema.load(schema)
    drawn, asked = Design.load(design, schema=described), Queries.load(queries, schema=described)
    note_weak_guarantee(epsilon=epsilon, delta=delta)
    found = predict_errors(
        schema=described, design=drawn, queries=asked, rows=rows, epsilon=epsilon, delta=delta
    )
    weight = assume_row_weight(drawn, rows)
    if json:
        emit_json({"rows": rows, "row_weight": weight, "expected": [each.to_json() for each in found]})
        return
    width = max(len(each.query) for each in found)
    emit(f"{'query':{width}}  {'privacy error':>14}  {'of the worst':>14}  too few to say")
    for each in found:
        told = [
            f"{error:14.4g}" if error is not None else f"{'–':>14}" for error in (each.median, each.worst)
        ]
        lost = f"{each.suppressed} of {each.groups}" if each.groups else "not foreseen"
        emit(f"{each.query:{width}}  {told[0]}  {told[1]}  {lost}")
    if parse_delta(delta):
        pure = predict_errors(
            schema=described, design=drawn, queries=asked, rows=rows, epsilon=epsilon, delta=0
        )
        note_pure_is_better(found, pure)
    weighing = f", each weighing {weight:g}" if drawn.weights is not None else ""
    if weighing and drawn.population is None:
        weighing += " (a guess from max_weight; `population` in the design tells better)"
    say(
        f"note: for {rows} rows, spread evenly over the values of every column{weighing}. Smaller groups err more, in "
        "proportion. Sampling errors come on top; nothing was read or spent"
    )


def note_pure_is_better(found: Sequence[ExpectedError], pure: Sequence[ExpectedError]) -> None:
    """Say so where most queries would have a smaller privacy error with delta 0, which promises more as well."""
    told = [
        (one.median, other.median)
        for one, other in zip(found, pure, strict=True)
        if one.median is not None and other.median is not None
    ]
    smaller = sum(other < 0.99 * one for one, other in told)
    if 2 * smaller > len(told):
        say(
            f"note: with --delta 0 the privacy error of {smaller} of {len(told)} queries would be smaller, and the "
            "promise stronger: Gaussian noise needs many queries to be worth its delta"
        )


def note_population_mismatch(estimates: Estimates) -> None:
    """Note on stderr how many people the weights stand for, where the design says another number."""
    known, told = estimates.design.population, estimates.people
    if known is None or told is None:
        return
    people, unsure = told
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
