"""populace check: findings from a release, asked of the private rows for a price."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, emit_result, progress, say
from populace.cli.notes import note_account, note_weak_guarantee
from populace.core.errors import UsageError
from populace.core.table_address import TableAddress

if TYPE_CHECKING:
    from populace.api.request import RunRequest

RELEASE = Option("RELEASE", "The folder of the release that the claims are about.", Path, required=True)
CLAIMS = Option(
    "--claims FILE",
    "A claims.toml: what is said of the release, and how close its estimates must be to the truth.",
    Path,
    required=True,
)
# What --expect compares pure differential privacy with.
SMALL_DELTA = Fraction("1e-9")
DELTA = replace(options.DELTA, required=False, default="0")
OUT = replace(options.OUT, help=f"{options.OUT.help} Needed without --expect.", required=False)
EXPECT = Option(
    "--expect",
    "Print how likely each claim survives such a release, and the noise margin of its check. DATA is not opened, "
    "nothing is spent.",
)


@command(
    RELEASE,
    options.DATA,
    options.SCHEMA,
    CLAIMS,
    options.EPSILON,
    DELTA,
    OUT,
    EXPECT,
    options.LEDGER,
    options.DATASET,
    options.JSON,
)
def check(
    release: Path,
    data: Path | TableAddress,
    schema: Path,
    claims: Path,
    epsilon: str,
    delta: str,
    out: Path | None,
    expect: bool,
    ledger: Path | None,
    dataset: str | None,
    json: bool,
) -> None:
    """Check claims about a release against the private rows, as a paid, differentially private answer.

    Each claim is answered yes, no or can't say. Yes and no are wrong with a probability of at most 5 %. The budget of
    all claims is reserved in the ledger before the first row is read; statistics without a bounded sensitivity, and
    claims that the schema decides, are refused before that. Give --ledger the one that paid for the release.
    A claims.toml:

      [[claims]]
      claim = "mean(income | sex == 'f') < mean(income | sex == 'm')"
      [[claims]]
      claim = "share(work == 'employed' | age >= 65)"
      within = "5 %"

    Examples:
      populace check release people.csv --schema schema.toml --claims claims.toml --epsilon 0.5 --expect
      populace check release people.csv --schema schema.toml --claims claims.toml --epsilon 0.5 --out checks
      populace check release people.csv --schema schema.toml --claims claims.toml --epsilon 0.5 \\
        --ledger ledger.db --out checks --json
    """
    from populace.api.check import find_unknown_run
    from populace.api.publish import publish_checks
    from populace.api.request import RunRequest
    from populace.survey.claims.claims import CHECK_METHOD

    request = RunRequest.of(
        data,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=None,
        purpose=CHECK_METHOD,
        ledger=ledger,
        dataset=dataset,
    )
    if expect:
        print_expected(request, release=release, claims=claims, json=json)
        return
    if out is None:
        raise UsageError(
            "there is no folder to write to.", hint="give --out, or --expect to see what a check gives"
        )
    if (unknown := find_unknown_run(request.ledger, release)) is not None:
        say(f"WARNING: {unknown}")
    with note_account(request):
        note_weak_guarantee(request.epsilon, request.delta)
        with progress() as moved:
            found = publish_checks(request, out, release=release, claims=claims, progress=moved)
    if not json:
        for each in found.answers:
            shown = "" if each.estimate is None else f" (the release: {each.estimate:g})"
            margin = "" if each.noise_margin is None else f"  ± {each.noise_margin:.3g}"
            # A claim without a name has that of its own words.
            named = "" if each.claim.startswith(each.name) else f"{each.name}: "
            say(f"{each.answer.value:9}  {named}{each.claim}{shown}{margin}")
    emit_result(
        {
            "release": str(out),
            "checks": [each.to_json() for each in found.answers],
            "statement": found.statement,
        },
        json=json,
    )


def print_expected(request: RunRequest, *, release: Path, claims: Path, json: bool) -> None:
    """Write how likely each claim survives a release, and how closely its check could tell."""
    from populace.api.check import plan_checks
    from populace.evaluation.claims.survival import simulate_survival
    from populace.privacy.accounting.budget import Budget
    from populace.release.bundle import Release
    from populace.survey.claims.claim_answers import predict_answers

    note_weak_guarantee(request.epsilon, request.delta)
    released = Release.load(release)
    plan, _ = plan_checks(request, release=released, claims=claims)
    predicted = predict_answers(plan)
    other = Fraction(0) if request.delta else SMALL_DELTA
    changed = predict_answers(
        replace(plan, budget=Budget.of(request.epsilon, other, unit=request.schema.unit))
    )
    with progress() as moved:
        survivals = simulate_survival(released, plan.claims, progress=moved)
    if json:
        lines = [
            {**one.to_json(), "noise_margin": two.noise_margin}
            for one, two in zip(survivals, predicted, strict=True)
        ]
        emit_json({"expected": lines})
        return
    emit(f"{'survives':>8}  {'noise margin':>12}  claim")
    for one, two in zip(survivals, predicted, strict=True):
        likely = "–" if one.probability is None else f"{100 * one.probability:.0f} %"
        margin = "–" if two.noise_margin is None else f"{two.noise_margin:.3g}"
        emit(f"{likely:>8}  {margin:>12}  {one.claim}")
    pairs = [(one.noise_margin, two.noise_margin) for one, two in zip(predicted, changed, strict=True)]
    ratios = [after / before for before, after in pairs if before and after]
    if ratios and median(ratios) < 1:
        say(
            f"note: --delta {float(other):g} would make the noise margins narrower: "
            f"{median(ratios):.2g} times as wide"
        )
    say(
        f"note: of {max(one.runs for one in survivals)} simulated releases of its own rows, with noise of the "
        "same law. Claims about what no measured table holds may look safer than they are; nothing was read or spent"
    )
