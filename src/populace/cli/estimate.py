"""populace estimate: from a private survey to estimates with their errors."""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, emit_result, progress, say
from populace.cli.notes import note_account, note_weak_guarantee
from populace.core.errors import UsageError
from populace.core.table_address import TableAddress

if TYPE_CHECKING:
    from populace.planning.expected_estimates import PublicFacts
    from populace.release.estimates_bundle import Estimates
    from populace.survey.design.design import Design
    from populace.survey.queries.queries import Queries

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
    "Print the expected margin of error of each query for a public number of rows, and what would narrow it. DATA is "
    "not opened, nothing is spent.",
    options.whole,
)
LIKE = Option(
    "--like FILE",
    "With --expect, a public table with the same columns (an earlier round, a synthetic release) to foresee by.",
    Path,
)
SHARES = Option(
    "--shares FILE",
    "With --expect, a CSV file of public shares: column, value and share (or percent, or count), as far as known.",
    Path,
)
PUBLISHED = Option(
    "--published FILE",
    "With --expect and PSUs, a CSV file of standard errors of an earlier round: query and error (or estimate and cv), "
    "and rows if they were others.",
    Path,
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
    LIKE,
    SHARES,
    PUBLISHED,
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
    like: Path | None,
    shares: Path | None,
    published: Path | None,
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
    from populace.api.estimate import check_estimable
    from populace.api.publish import publish_estimates
    from populace.api.request import RunRequest
    from populace.survey.design.design import Design
    from populace.survey.queries.queries import Queries

    if expect is not None:
        from populace.planning.expected_estimates import PublicFacts

        print_expected(
            schema,
            design=design,
            queries=queries,
            rows=expect,
            epsilon=epsilon,
            delta=delta,
            facts=PublicFacts(like=like, shares=shares, published=published),
            data=data,
            ledger=ledger,
            json=json,
        )
        return
    if out is None:
        raise UsageError(
            "there is no folder to write to.", hint="give --out, or --expect to see what a run gives"
        )
    request = RunRequest.of(
        data, schema=schema, epsilon=epsilon, delta=delta, method=None, ledger=ledger, dataset=dataset
    )
    check_estimable(request.schema)
    drawn, asked = Design.load(design, schema=request.schema), Queries.load(queries, schema=request.schema)
    note_unlisted_psus(drawn)
    with note_account(request):
        note_protection(drawn, asked, epsilon=request.epsilon, delta=request.delta)
        with progress() as moved:
            estimates = publish_estimates(
                request, out, design=design, queries=queries, report=not no_report, progress=moved
            )
    note_noise(estimates)
    note_population_mismatch(estimates)
    rows = [row.to_json() for row in estimates.rows]
    emit_result({"release": str(out), "estimates": rows, "statement": estimates.statement}, json=json)


def print_expected(
    schema: Path,
    *,
    design: Path,
    queries: Path,
    rows: int,
    epsilon: str,
    delta: str,
    facts: PublicFacts,
    data: Path | TableAddress,
    ledger: Path | None,
    json: bool,
) -> None:
    """Write which intervals each query will have, what that rests on, and what would narrow them."""
    from populace.api.request import default_dataset, list_private_datasets, resolve_ledger
    from populace.planning.expected_estimates import advise, predict_errors
    from populace.planning.invented_rows import assume_row_weight
    from populace.privacy.accounting.budget import parse_delta, parse_epsilon
    from populace.private.public_table import check_not_same_table
    from populace.schema.schema import Schema
    from populace.survey.design.design import Design
    from populace.survey.queries.queries import Queries

    described = Schema.load(schema)
    drawn, asked = Design.load(design, schema=described), Queries.load(queries, schema=described)
    note_protection(drawn, asked, epsilon=parse_epsilon(epsilon), delta=parse_delta(delta))
    note_unlisted_psus(drawn)
    if facts.like is not None:
        # The table is read without protection: never the private one, nor any other that has an account.
        private = {described.dataset or default_dataset(data), *list_private_datasets(resolve_ledger(ledger))}
        check_not_same_table(facts.like, data=data, accounts=private)
    found = predict_errors(design=drawn, queries=asked, rows=rows, epsilon=epsilon, delta=delta, facts=facts)
    advice = advise(design=drawn, queries=asked, rows=rows, epsilon=epsilon, delta=delta, facts=facts)
    weight = assume_row_weight(drawn, rows)
    if json:
        emit_json(
            {
                "rows": rows,
                "row_weight": weight,
                "unlisted_psus": drawn.strata_without_psus,
                "expected": [asdict(each) for each in found],
                "advice": [asdict(own) for own in advice],
            }
        )
        return
    width = max(len(each.query) for each in found)
    heads = ("95 % margin", "from", "to", "of the worst", "privacy error", "of the worst")
    emit(f"{'query':{width}}  {'  '.join(f'{head:>13}' for head in heads)}  suppressed    sampling variance")
    for each in found:
        privacy = (each.privacy_error, each.worst_privacy_error)
        numbers = (each.margin, each.low, each.high, each.worst_margin, *privacy)
        shown = [f"{'–' if number is None else f'{number:.4g}':>13}" for number in numbers]
        lost = f"{each.suppressed} of {each.groups}" if each.groups else "not foreseen"
        hidden = each.by_design_effect > (each.groups - each.suppressed) / 2
        way = "by design effect" if hidden else "estimated from units"
        emit(f"{each.query:{width}}  {'  '.join(shown)}  {lost:12}  {way if each.groups else '–'}")
    for own in advice:
        say(f"note: margins are about {100 * own.gain:.0f} % smaller with {own.change}")
    if facts.like is not None:
        say(f"note: for {rows} rows like those of {facts.like}, which must be public. Nothing was spent")
        return
    weighing = f", each weighing about {weight:g}" if drawn.weights is not None else ""
    if weighing and drawn.population is None:
        weighing += " (a guess from max_weight; `population` in the design tells better)"
    known = "as published" if facts.shares is not None else "even, and numbers in a bell over their bins"
    say(
        f"note: for {rows} rows, categories {known}{weighing}. Smaller groups err more, in proportion. Nothing was "
        "read or spent"
    )
    if facts.shares is None or (facts.published is None and drawn.clustered):
        say(
            "note: without published shares (--shares) and standard errors (--published) of an earlier round, or a "
            "public table (--like), margins are often off by a factor of 2: what rows are like is not in the schema"
        )


def note_protection(design: Design, queries: Queries, *, epsilon: Fraction, delta: Fraction) -> None:
    """Note, before anything is spent, which noise gives the shorter intervals, and where it protects little."""
    from populace.core.number_format import format_exact
    from populace.survey.queries.query_plan import QueryPlan

    _, used = QueryPlan.narrowest(design, queries, epsilon=epsilon, delta=delta)
    if delta and not used:
        say(
            f"note: noise of pure epsilon {format_exact(epsilon)} gives the shorter intervals: none of delta "
            f"{format_exact(delta)} is used"
        )
    elif used:
        say(f"note: noise of epsilon {format_exact(epsilon)} and delta {format_exact(used)}")
    note_weak_guarantee(epsilon, used)


def note_unlisted_psus(design: Design) -> None:
    """Note, before anything is spent, that PSUs which were not sampled count as empty ones."""
    if strata := design.strata_without_psus:
        where = f" of {len(strata)} of {len(design.strata_values)} strata" if design.strata else ""
        say(
            f"note: the sampled PSUs{where} are not listed, so that every value of {design.psu!r} counts as one: "
            f"{len(design.psu_list)} in all. If fewer were sampled, sampling errors are wrong (hint: list them in "
            "[design.psus], from the sampling plan and never from the rows)"
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
            "their intervals rest on what is expected of it (hint: fewer queries or a larger epsilon; with PSUs, "
            "design_effect of the design if earlier rounds showed some; --expect tells beforehand)"
        )
    if 2 * noisy > len(known):
        say(
            f"note: {noisy} of {len(known)} estimates have a larger privacy error than sampling error (hint: fewer "
            "queries, narrower ranges (low, high, max_weight) or a larger epsilon help)"
        )
