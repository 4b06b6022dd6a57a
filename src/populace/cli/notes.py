"""Notes on stderr from public numbers: what is left of an account, weak promises, releases that noise has drowned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from populace.cli.console import confirm, is_interactive, progress, say
from populace.core.errors import UsageError

if TYPE_CHECKING:
    from populace.api.request import RunRequest
    from populace.release.bundle import Release

WEAK_DELTA = Fraction("1e-5")


@contextmanager
def note_account(request: RunRequest) -> Iterator[None]:
    """Tell after a run what is left of its account. A ledger that does not verify is refused before it."""
    from populace.privacy.ledger.ledger import Ledger

    path, dataset = request.ledger, request.dataset
    exists = path.exists()
    accounts = Ledger.existing(path).accounts() if exists else ()
    known = any(account.dataset == dataset for account in accounts)
    yield
    note_balance(path, dataset, new_ledger=not exists, new_account=not known)


def note_balance(path: Path, dataset: str, *, new_ledger: bool, new_account: bool) -> None:
    """Tell on stderr what is left of the account after a run, and what the run had to make first."""
    from populace.core.number_format import format_exact
    from populace.privacy.ledger.ledger import Ledger

    account = Ledger.existing(path).account(dataset)
    if new_ledger:
        note_new_ledger(path)
    if new_account:
        say(
            f"the ledger had no account for {dataset!r}: one was opened with exactly this run's budget.\n"
            "hint: `populace ledger init` sets a larger one beforehand, `populace ledger grant` adds to it"
        )
    say(
        f"account {dataset!r}: epsilon {format_exact(account.left_epsilon)} left of "
        f"{format_exact(account.epsilon)}, delta {format_exact(account.left_delta)} left of "
        f"{format_exact(account.delta)} ({path})"
    )


def note_new_ledger(path: Path) -> None:
    """Tell on stderr that a ledger was made: if its path was mistyped, earlier runs are forgotten."""
    say(f"a new ledger was made at {path}; it knows of no earlier runs")


def note_before_run(request: RunRequest) -> None:
    """Note on stderr, before anything is spent, what the guarantee lacks and what the request leaves out."""
    # The notes after the run need it: what cannot be loaded fails while nothing is spent.
    import populace.release.statement.unpaired_columns  # noqa: F401
    from populace.methods.method import WorkloadUse

    method = request.synthesizer
    delta = method.usable_delta(request.delta, epsilon=request.epsilon, unit=request.schema.unit)
    note_weak_guarantee(request.epsilon, delta)
    if request.workload is not None and method.workload is WorkloadUse.NONE:
        say(
            f"note: the method {method.name!r} does not use a workload; --workload changes nothing (hint: use "
            "--method auto, or leave it out)"
        )
    for note in method.notes(request.schema, request.public is not None):
        say(f"note: {note}")


def warn_if_too_few_rows(request: RunRequest, *, population: int | None, yes: bool) -> None:
    """Warn of too few rows, as far as anybody may know their number, and of what would be measured; ask for a yes.

    Nothing was spent yet. In scripts, where nobody can be asked, the warning is all.
    """
    from populace.api.notices import describe_questions
    from populace.planning.judge_rows import judge_rows

    with progress() as moved:
        found = judge_rows(request, population=population, progress=moved)
    if found is None or not found.too_few:
        return
    say(
        f"WARNING: {found.text}.\n{describe_questions(request)}\n"
        "hint: `populace plan` says which columns to coarsen or drop, and which epsilon would do"
    )
    if is_interactive() and not yes and not confirm("Spend the budget all the same?"):
        raise UsageError("nothing was measured and nothing was spent.", hint="--yes goes on without asking")


def note_weak_guarantee(epsilon: Fraction, delta: Fraction) -> None:
    """Note on stderr where the numbers asked for promise little."""
    from populace.release.statement.membership_power import (
        Protection,
        bound_planned_power,
        describe_protection,
        round_power,
    )

    power = round_power(bound_planned_power(epsilon, delta))
    if Protection.of(power) in (Protection.WEAK, Protection.VERY_WEAK):
        text = describe_protection(power).removesuffix(".")
        say(
            f"note: {text[0].lower()}{text[1:]} (hint: fewer columns and coarser domains give accuracy at a smaller "
            "epsilon; `populace plan` says how much)"
        )
    note_large_delta(delta)


def note_large_delta(delta: Fraction) -> None:
    """Note on stderr that the guarantee fails too often."""
    from populace.core.number_format import format_exact

    if delta > WEAK_DELTA:
        say(
            f"note: delta {format_exact(delta)} is the chance that the promise fails entirely (hint: keep it far below "
            "one over the number of people; 1e-9 costs little more)"
        )


def note_missing_digests(folder: Path) -> None:
    """Note on stderr that a stage's folder has no digests of its files."""
    from populace.api.stage_folders import PARENTS_FILE
    from populace.release.manifest import MANIFEST_FILE

    if not any((folder / name).is_file() for name in (PARENTS_FILE, MANIFEST_FILE)):
        say(f"note: {folder} has no {PARENTS_FILE}: whether its files were altered since cannot be checked")


def note_release(release: Release) -> None:
    """Note on stderr what is to be known about a release before it is published."""
    note_capped_rows(release)
    note_out_of_domain(release)
    note_broken_rules(release)
    if release.measurements.schema.geography is None:
        note_lost_in_noise(release)
        note_unpaired_columns(release)
    else:
        note_unfit_spine(release)


def note_unfit_spine(release: Release) -> None:
    """Note on stderr what noisy totals say about ids, counts and public totals that do not fit the data."""
    from populace.release.statement.spine_fit import find_spine_mismatch

    for text in find_spine_mismatch(release.measurements):
        say(f"note: {text[0].lower()}{text[1:].removesuffix('.')}")


def note_out_of_domain(release: Release) -> None:
    """Note on stderr of which columns many rows lie outside the domain, by noisy counts; warn where most of them do."""
    from populace.release.statement.domain_fit import find_out_of_domain

    for found in find_out_of_domain(release.measurements):
        text = f"{found.text[0].lower()}{found.text[1:].removesuffix('.')}"
        say(f"{'WARNING' if found.is_most else 'note'}: {text}")


def note_broken_rules(release: Release) -> None:
    """Note on stderr which rules many rows broke, by the noisy counts of --check-rules, and the most that break any."""
    from populace.release.statement.rule_fit import find_broken_rules

    if "rule_check" in release.statement:
        say(f"note: {release.statement['rule_check']['text'].removesuffix('.')}")
    for found in find_broken_rules(release.measurements):
        say(f"note: {found.text[0].lower()}{found.text[1:]}")


def note_capped_rows(release: Release) -> None:
    """Note on stderr when noise asked for more rows than memory holds."""
    from populace.release.row_selection import RowCountOrigin

    total = release.statement["total"]
    if total["origin"] == RowCountOrigin.MEMORY.value:
        say(
            f"note: the noisy count asks for more rows than there is memory for; {total['rows']} were drawn (hint: so "
            "large a count is mostly noise; declare max_rows, give --rows, or ask with a larger epsilon)"
        )


def note_unpaired_columns(release: Release) -> None:
    """Note on stderr which columns no measured pair holds, and what would favour them in another run."""
    from populace.release.statement.unpaired_columns import find_unpaired_columns

    found = find_unpaired_columns(release.measurements, method=release.statement["method"])
    if found is not None:
        say(f"note: {found.text}")


def note_lost_in_noise(release: Release) -> None:
    """Note on stderr when most of what was measured is lost in noise, by the report's own reading."""
    from populace.release.report.comparison import Quality, can_lose_most_tables, compare_all

    if release.selection is not None and not release.synthetic.num_rows:
        say(
            f"note: the model expects fewer than one row where {release.selection.where}, so the table is empty "
            "(hint: `populace generate` draws other rows from this release, free of cost)"
        )
    for name, column in release.measurements.schema.columns.items():
        if column.domain_learnt and not column.levels:
            say(
                f"note: no value of {name!r} was frequent enough to be released, so the column is empty (hint: list "
                "its values in the schema, or ask with a larger epsilon)"
            )
    if release.measurements.released_rows is not None and not len(release.measurements.released_rows.counts):
        say(
            "note: no row was frequent enough to be released, so the table is empty, however many rows were asked for "
            "(hint: leave out or coarsen columns, or use --method auto)"
        )
    total = max(1.0, float(release.intervals.of().estimate))
    if release.selection is None and not can_lose_most_tables(
        release.measurements, total=total, rows=release.synthetic.num_rows
    ):
        return
    seen = compare_all(release.measurements, codes=release.compared_codes, total=total)
    lost = sum(comparison.quality is Quality.LOST for _, _, comparison in seen)
    if 2 * lost > len(seen):
        say(
            f"note: {lost} of {len(seen)} measured columns and pairs are dominated by noise (hint: look at the report "
            "before you publish; a larger epsilon, fewer columns or coarser domains help)"
        )
