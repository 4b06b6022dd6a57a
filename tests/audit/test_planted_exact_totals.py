"""Faults about exact totals and fixed plans, each of one line: every one is seen by a check that sound code passes.

The faults that matter most: √2 is forgotten, totals are published without the relation that they need, totals are read
before they are booked, accounts mix relations or partitions, and an adaptive run gives budget back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from populace.core.errors import InternalError, PopulaceError
from populace.core.marginals import Marginal
from populace.measurements.measurements import Measurements
from populace.privacy.accounting import privacy_loss_distribution as pld
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.accounting.spend_record import _min_sensitivity
from populace.privacy.ledger import exact_totals as totals
from populace.privacy.ledger.account import Account, fix_protected
from populace.privacy.ledger.exact_totals import ExactTotals
from populace.privacy.ledger.ledger_state import LedgerState
from populace.privacy.ledger.run_record import Adaptivity, RunRecord
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.invariant_checks import check_invariant
from populace.release.statement import limitations
from populace.release.statement.membership_power import bound_membership_power, gaussian_curve
from populace.release.statement.statement import RowCountOrigin, compute_statement
from populace.release.verify import verify_measurements
from populace.schema.geocodes import GEOCODE
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.audit.replay import LeakError, check_exact_totals
from tests.audit.transcripts import Workspace
from tests.helpers.geographies import OTHER_GEOGRAPHY, ROWS, make_schema, make_table, reserve
from tests.helpers.planted_faults import seeded
from tests.release.statement.test_exact_totals_statement import MeasuredContent

EXACT, PLAIN = make_schema(), make_schema(invariants=())
# One person of county A moves to another tract of it, and then to county B.
WITHIN, BEYOND = ((1, 1), *ROWS[1:]), ((2, 1), *ROWS[1:])
DETAILED = Marginal((GEOCODE, "sex"))


def refused(deed: Callable[[], object]) -> None:
    with pytest.raises(PopulaceError) as refusal:
        deed()
    # A fault that cannot run is none.
    assert not isinstance(refusal.value, InternalError)


def open_door(schema, *, rows=ROWS, run=None) -> tuple[Barrier, Any]:
    run = run or reserve(Workspace(), schema)
    return Barrier(make_table(schema, rows), run=run, noise=ExactNoise(RehearsalEntropy(1))), run


def check_prices() -> None:
    """Neighbours within a county are no further apart than what is charged: (c − c′)²/σ² against the booked price."""
    barrier, run = open_door(EXACT)
    noise = DiscreteGaussian(Fraction(10**4))
    barrier.measure([DETAILED], noise=noise)
    (charged,) = run.record().spends
    one, other = (make_table(EXACT, rows).engine().counts([DETAILED])[0] for rows in (ROWS, WITHIN))
    moved = np.abs(one - other)
    assert int(moved.sum()) <= charged.spend.l1
    assert int((moved**2).sum()) <= charged.spend.l2_squared
    assert float(charged.price) >= float((moved**2).sum() / noise.variance)
    assert run.record().budget.measure_noise(Fraction(1), marginals=1).variance > 0
    l1, l2_squared = _min_sensitivity(charged.spend, EXACT.unit)
    assert (l1, l2_squared) == (2, 2)
    refused(lambda: run.charge(replace(charged.spend, l1=1, l2_squared=1)))


def check_relation() -> None:
    """Exact totals leave only where neighbours agree on them, by what the schema and the books say, each alone."""
    for schema in (
        PLAIN,
        make_schema(invariants=("all",), unit=PrivacyUnit(neighbours=Neighbours.REPLACE_ONE)),
    ):
        run = reserve(Workspace(), schema, exact=None)
        door, _ = open_door(schema, run=run)
        refused(lambda door=door: door.publish_totals("all"))
        refused(lambda run=run: run.book_totals("all", what="x"))
        refused(lambda schema=schema: check_invariant("all", schema=schema))
    barrier, run = open_door(EXACT)
    refused(lambda: check_invariant("tract", schema=EXACT))
    refused(lambda: barrier.publish_totals("tract"))
    refused(lambda: run.book_totals("tract", what="x"))
    refused(lambda: reserve(Workspace(), PLAIN, exact=ExactTotals.of(EXACT)))
    refused(lambda: reserve(Workspace(), EXACT, exact=None))
    refused(lambda: replace(run.record(), invariants=(totals.PublishedTotals("tract", "x"),)).check())
    refused(lambda: replace(run.record(), exact=None).check())
    refused(lambda: PrivacyUnit(within="county"))
    refused(lambda: PrivacyUnit(neighbours=Neighbours.REPLACE_WITHIN))
    refused(lambda: PrivacyUnit(neighbours=Neighbours.REPLACE_WITHIN, within="all", rows=2, id="p"))


def check_accounts() -> None:
    """One relation, one level and one partition for an account, also after a checkpoint; void accounts tell nothing."""

    def account(neighbours: Neighbours) -> Workspace:
        workspace = Workspace()
        workspace.open_account("counted", epsilon=9, delta="1e-3", neighbours=neighbours)
        return workspace

    workspace = account(Neighbours.ADD_REMOVE)
    refused(lambda: reserve(workspace, EXACT))
    reserve(workspace, PLAIN)
    refused(lambda: reserve(workspace, EXACT))
    workspace = account(Neighbours.REPLACE_WITHIN)
    run = reserve(workspace, EXACT)
    refused(lambda: reserve(workspace, PLAIN))
    refused(lambda: reserve(workspace, make_schema(invariants=("all",))))
    refused(lambda: reserve(workspace, EXACT, exact=ExactTotals(("all", "county"), "0" * 64)))
    reserve(workspace, make_schema(invariants=("county",)))
    kept = workspace.account("counted")
    assert Account.from_json(kept.to_json()) == kept
    tracts = [
        ExactTotals.of(make_schema(invariants=("tract",), geography=g))
        for g in (EXACT.geography, OTHER_GEOGRAPHY)
    ]
    assert tracts[0].partition != tracts[1].partition
    run.book_totals("all", what="x")
    assert len(run.record().invariants) == 1
    workspace.declare_nonprivate("counted", reason="test")
    refused(lambda: run.book_totals("all", what="x"))


def check_order() -> None:
    """Rows are read once the event is in the books, and not before."""
    run = reserve(Workspace(), EXACT)
    seen = []

    class Engine(MemoryEngine):
        def counts(self, marginals):
            seen.append(len(run.record().invariants))
            return super().counts(marginals)

    door = Barrier(make_table(EXACT, engine=Engine), run=run, noise=ExactNoise(RehearsalEntropy(1)))
    for times in (1, 2):
        door.publish_totals("county")
        assert seen == list(range(1, times + 1))


def check_replay() -> None:
    """Neighbours have the same exact totals; those that do not are no neighbours, which the replay sees."""
    told = [open_door(EXACT, rows=rows)[0] for rows in (ROWS, WITHIN, BEYOND)]
    first, second, third = ([door.publish_totals(level) for level in EXACT.invariants] for door in told)
    check_exact_totals(first, second)
    with pytest.raises(LeakError):
        check_exact_totals(first, third)


def fixed_run(*, plan=Adaptivity.FIXED) -> Any:
    run = reserve(Workspace(), EXACT, plan=plan)
    barrier, _ = open_door(EXACT, run=run)
    barrier.measure([DETAILED] * 4, noise=run.record().budget.measure_noise(Fraction(1), marginals=4))
    return run


def check_return() -> None:
    """What is given back leaves enough for the noise itself: two cells of four marginals, added up directly."""
    run = fixed_run()
    back = run.record().compute_unneeded()
    variance = float(run.record().spends[0].spend.mechanism.variance)
    reach = int(12 * variance**0.5)
    law = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance))
    law /= law.sum()
    total = np.ones(1)
    for _ in range(8):
        total = np.convolve(total, law)
    losses = (2 * (np.arange(len(total)) - 8 * reach) + 8) / (2 * variance)
    kept = float(1 - back[0])
    above = losses > kept
    delta = float((total[above] * -np.expm1(kept - losses[above])).sum())
    assert 0.99e-6 < delta <= 1e-6
    refused(lambda: run.finish(returned=(back[0] + Fraction(1, 10**5), Fraction(0))))
    run.finish(returned=back)
    assert bound_membership_power(run.record()) > bound_membership_power(replace(run.record(), spends=()))
    adaptive = fixed_run(plan=Adaptivity.ADAPTIVE)
    assert adaptive.record().compute_unneeded() == (0, 0)
    refused(lambda: adaptive.finish(returned=back))
    refused(lambda: replace(run.record(), plan=Adaptivity.ADAPTIVE).check())


def check_statement() -> None:
    run = fixed_run()
    run.book_totals("county", what="county")
    statement = compute_statement(
        run.record(), schema=EXACT, answers=MeasuredContent(), rows=4, rows_from=RowCountOrigin.of(
            EXACT, rows=4, total=4.0, asked=None, selection=None
        ),
    )  # fmt: skip
    assert any("in a county is not protected" in line for line in statement["not_covered"])
    assert any("totals by county are published" in line for line in statement["not_covered"])
    assert statement["invariants"] == ["county"]
    assert "in the same county" in statement["reading"]
    assert "not protected" in statement["total"]["text"]


def check_verify() -> None:
    barrier, run = open_door(EXACT)
    county = barrier.publish_totals("county")
    run.finish()
    sound = Measurements(schema=EXACT, items=(county,), record=run.record())
    verify_measurements.check_measurements_paid(sound)
    bare = replace(county, marginal=Marginal(("sex",)), counts=np.array([2, 2]))
    other = replace(run.record(), exact=ExactTotals(("all", "county"), "0" * 64))
    for forged in (
        replace(sound, items=(county, bare)),
        replace(sound, record=replace(run.record(), invariants=())),
        replace(sound, record=other),
        replace(sound, record=replace(run.record(), unit=PLAIN.unit, exact=None)),
        replace(sound, items=(bare,)),
    ):
        refused(lambda forged=forged: verify_measurements.check_measurements_paid(forged))


CHECKS = {
    "prices": check_prices,
    "relation": check_relation,
    "accounts": check_accounts,
    "order": check_order,
    "replay": check_replay,
    "return": check_return,
    "statement": check_statement,
    "verify": check_verify,
}
BOOK = "self._run.book_totals(level, what=describe_totals(level))"
COUNT = "(exact,) = self._table.engine().counts([marginal])"
FAULTS: list[tuple[str, Any, str, str]] = [
    # √2 and 2 are forgotten.
    (
        "prices",
        PrivacyUnit.marginal_l2_squared,
        "is Neighbours.ADD_REMOVE else 2",
        "is not Neighbours.REPLACE_ONE else 2",
    ),
    (
        "prices",
        PrivacyUnit.marginal_l1,
        "is Neighbours.ADD_REMOVE else 2",
        "is not Neighbours.REPLACE_ONE else 2",
    ),
    (
        "prices",
        _min_sensitivity,
        "return unit.marginal_l1, unit.marginal_l2_squared",
        "return unit.rows, unit.rows**2",
    ),
    # Totals without the relation that they need.
    ("relation", check_invariant, "schema.unit.neighbours is not Neighbours.REPLACE_WITHIN or ", ""),
    ("relation", check_invariant, " or level not in schema.invariants", ""),
    (
        "relation",
        totals.check_published,
        "exact is None or totals.level not in exact.levels",
        "exact is None",
    ),
    ("relation", totals.check_published, "exact is None or", "exact is not None and"),
    ("relation", totals.check_declared, "unit.within is None and exact is not None", "False"),
    ("relation", totals.check_declared, "unit.within is not None and (levels", "False and (levels"),
    ("relation", RunRecord.check, "check_declared(self.exact, unit=self.unit)", "pass"),
    ("relation", RunRecord.check, "check_published(totals, exact=self.exact, run=self.run)", "pass"),
    (
        "relation",
        LedgerState._publish_totals,
        "check_published(totals, exact=run.exact, run=run.run)",
        "pass",
    ),
    ("relation", fix_protected, "check_declared(record.exact, unit=record.unit)", "pass"),
    ("relation", PrivacyUnit._check_within, "self.within and self.rows > 1", "False"),
    ("relation", PrivacyUnit._check_within, "is (self.within is None)", "is None"),
    # Accounts that mix.
    ("accounts", fix_protected, "record.unit.neighbours is not account.neighbours", "False"),
    (
        "accounts",
        fix_protected,
        "(account.within, account.partition) != (",
        "(account.within, partition) != (",
    ),
    ("accounts", fix_protected, "within=record.unit.within,", ""),
    ("accounts", fix_protected, "partition=partition,", ""),
    ("accounts", Account.to_json, "if value or key not in optional", "if key not in optional"),
    (
        "accounts",
        ExactTotals.of,
        "_digest_units(geography.levels[:last], paths,",
        "_digest_units(geography.levels[:last], (),",
    ),
    (
        "accounts",
        LedgerState.write,
        "EventKind.SPEND, EventKind.INVARIANT)",
        "EventKind.SPEND)",
    ),
    ("accounts", LedgerState._publish_totals, "(*run.invariants, totals)", "run.invariants"),
    # Totals that are read first, or that are booked once.
    (
        "order",
        Barrier.publish_totals,
        f"{BOOK}\n    {COUNT}",
        f"{COUNT}\n    {BOOK}",
    ),
    (
        "order",
        Barrier.publish_totals,
        "self._run.book_totals(",
        "self._table._read_engine.cache_info().currsize or self._run.book_totals(",
    ),
    # Budget that is given back.
    ("return", RunRecord.compute_unneeded, "self.plan is not Adaptivity.FIXED", "False"),
    ("return", RunRecord.compute_unneeded, "(1 + EPSILON_SLACK)", "(1 - 1000 * EPSILON_SLACK)"),
    ("return", RunRecord.check_return, "self.plan is not Adaptivity.FIXED", "False"),
    ("return", RunRecord._is_within_distribution, "<= delta", "<= 2 * delta"),
    ("return", pld.gaussian_variances, "spend.answers * spend.l1", "spend.answers"),
    ("return", pld.gaussian_variances, "spend.answers * spend.l1", "spend.l1"),
    ("return", gaussian_curve, "max(most, record.used)", "most"),
    # What a reader is told, and what verification sees.
    ("statement", limitations.list_limitations, "record.unit.within is not None", "False"),
    ("statement", limitations._exact_totals, "for totals in record.invariants", "for totals in ()"),
    ("verify", verify_measurements.check_measurements_paid, "check_exact_totals(measurements)", "pass"),
    ("verify", verify_measurements.check_exact_totals, "ExactTotals.of(schema) != record.exact or ", ""),
    (
        "verify",
        verify_measurements.check_exact_totals,
        "for marginal in exact:",
        "for marginal in exact[:1]:",
    ),
    (
        "verify",
        verify_measurements.check_exact_totals,
        "for item in measurements.items if not item.variance",
        "for item in ()",
    ),
]


@pytest.mark.parametrize("name", CHECKS)
def test_sound_code_passes(name):
    CHECKS[name]()


@pytest.mark.sampled(13)
@pytest.mark.parametrize(
    ("check", "held", "old", "new"), FAULTS, ids=[f"{n} {fault[0]}" for n, fault in enumerate(FAULTS)]
)
def test_a_fault_is_seen(check, held, old, new):
    with (
        seeded(held, old, new),
        pytest.raises((AssertionError, PopulaceError, pytest.fail.Exception)) as found,
    ):
        CHECKS[check]()
    # A fault that cannot run is none.
    assert not isinstance(found.value, InternalError)
