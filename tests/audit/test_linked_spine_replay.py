"""Both tables of linked households in every unit: a whole household more or less, and nothing released differs."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from populace.api import reservation
from populace.api.generate import generate
from populace.api.measure import measure
from populace.core.errors import PopulaceError
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.methods.fit_measurements import fit
from populace.methods.topdown.topdown import measure_topdown
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.ledger.run_record import RunRecord
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.release.manifest import digest_files
from tests.audit.replay import (
    LeakError,
    RecordingNoise,
    ReplayingNoise,
    check_exact_totals,
    check_sensitivities,
)
from tests.audit.test_linked_replay import NO_KEY, PERSON_ROWS, UNCHECKED
from tests.audit.test_noise_scale import Scaled
from tests.audit.transcripts import Workspace
from tests.helpers.linked_files import draw_neighbours, place_frames, placed_schema
from tests.helpers.planted_faults import seeded

MOST = 3
TRACTS = [("A", "1"), ("A", "2"), ("B", "1"), ("Z", "9"), ("A", "")]


def run_pair(number: int, *, neighbours: str = "add-remove", exact: tuple[str, ...] = ()):
    """Record a run on random files and play its answers to a neighbour; return both sets of measurements."""
    rng = np.random.default_rng(number)
    schema = placed_schema(most=MOST, neighbours=neighbours, exact=exact)
    swap = bool(exact) or neighbours == "replace-one"
    pair = draw_neighbours(rng, most=MOST, swap=swap)
    tracts = {f"h{n}": TRACTS[rng.integers(len(TRACTS))] for n in range(6)}
    # One household takes the place of another: within a county where its total is exact.
    tracts |= {"new0": TRACTS[rng.integers(2)], "new1": TRACTS[rng.integers(2 if exact else len(TRACTS))]}
    asked = {"schema": schema, "epsilon": "4", "delta": "1e-3", "method": "topdown"}
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(number)))
    first = measure(place_frames(pair[0], tracts=tracts), noise=recorder, **asked)
    player = ReplayingNoise(recorder.transcript.entries)
    second = measure(place_frames(pair[1], tracts=tracts), noise=player, **asked)
    player.finish()
    check_sensitivities(recorder.transcript.entries, player.transcript.entries, record=first.record)
    return first, second


@pytest.fixture(autouse=True)
def _no_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservation, "Ledger", Workspace)
    # What is given back at the end takes longer than the rest of a run, and is tested elsewhere.
    monkeypatch.setattr(RunRecord, "compute_unneeded", lambda _: None)


def has_units(number: int, exact: tuple[str, ...]) -> bool:
    """Whether both neighbours have as many households: one that has no row of its own is none."""
    rng = np.random.default_rng(number)
    pair = draw_neighbours(rng, most=MOST, swap=bool(exact))
    new = [len([key for key, _ in homes if key in ("new0", "new1")]) > 0 for homes, _ in pair]
    return not exact or new[0] == new[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pairs", [2, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("neighbours", "exact"),
    [("add-remove", ()), ("replace-one", ()), ("add-remove", ("county",)), ("add-remove", ("",))],
)
def test_a_whole_household_is_covered_in_every_unit(
    neighbours: str, exact: tuple[str, ...], pairs: int
) -> None:
    for number in [n for n in range(4 * pairs) if has_units(n, exact)][:pairs]:
        first, second = run_pair(number, neighbours=neighbours, exact=exact)
        check_exact_totals(first.items, second.items)
        for one, other in zip(first.items, second.items, strict=True):
            assert one.marginal == other.marginal
            assert one.counts.tolist() == other.counts.tolist()


@pytest.mark.slow
def test_a_release_of_both_tables_is_the_same_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    digests = []
    for measured in run_pair(3):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        release = generate(fit(measured), seed=1, like="people.csv")
        with pytest.warns(match="is gone"):
            release.save(tmp_path / "out", report=False)
        digests.append(digest_files(tmp_path / "out"))
    own = ("synthetic-household.csv", "synthetic-person.csv", "tables.parquet", "noisy_measurements.parquet")
    for name in own:
        assert digests[0][name] == digests[1][name]


def test_a_row_for_every_person_is_seen_by_the_replay() -> None:
    def run_all() -> None:
        for number in range(20):
            run_pair(number)

    with seeded(*NO_KEY), seeded(*UNCHECKED), seeded(*PERSON_ROWS), pytest.raises(LeakError):
        run_all()


def test_persons_of_a_household_counted_as_one_are_seen_by_the_replay() -> None:
    """The planted fault: all places of persons for the price of one; the barrier refuses it, or the replay sees it."""
    plan = "noise = dict(zip(shares, oracle.budget.plan_noise(shares), strict=True))"
    cheap = (
        measure_topdown,
        "shares = [share / len(marginals) for share, marginals in questions for _ in marginals]\n"
        f"    {plan}\n"
        "    batches = [(marginals, noise[share / len(marginals)]) for share, marginals in questions]",
        f"shares = [share for share, _ in questions]\n    {plan}\n"
        "    batches = [(marginals, noise[share]) for share, marginals in questions]",
    )
    with seeded(*cheap), pytest.raises(PopulaceError):
        run_pair(0)
    booked = (Barrier.measure_batches, "answers=len(marginals)", "answers=1")
    with seeded(*cheap), seeded(*booked), pytest.raises(LeakError):
        run_pair(0)


def second_moments(noise: object) -> tuple[float, float]:
    """Return the mean square of all noise, and of the noise of persons, in units of its stated variance.

    Nobody is counted, so every count is noise.
    """
    schema = placed_schema(most=MOST, roles=False)
    frames = place_frames(([], []), tracts={})
    found = measure(frames, schema=schema, epsilon="1", delta="1e-6", method="topdown", noise=noise)
    booked = [
        charged.spend.mechanism.variance
        for charged in found.record.spends
        for _ in range(charged.spend.answers)
    ]
    assert all(isinstance(charged.spend.mechanism, DiscreteGaussian) for charged in found.record.spends)
    every = [(item.counts.ravel() ** 2 / float(v)) for item, v in zip(found.items, booked, strict=True)]
    persons = MeasuredHierarchy.of_members(schema, found.items)
    squares = [
        counts.ravel() ** 2 / float(query.variance)
        for level, tables in zip(persons.plan.levels, persons.noisy, strict=True)
        for query, counts in zip(level.queries, tables, strict=True)
    ]
    return float(np.concatenate(every).mean()), float(np.concatenate(squares).mean())


def test_noise_is_that_which_was_paid_for() -> None:
    """Second moments of over 4,000 and 500 counts: 1 ± .15 and ± .4 is over 6 standard errors either way."""
    whole, persons = second_moments(ExactNoise(RehearsalEntropy(1)))
    assert abs(whole - 1) < 0.15
    assert abs(persons - 1) < 0.4
    for factor in (Fraction(1, 2), Fraction(2)):
        whole, persons = second_moments(Scaled(factor, seed=1))
        assert abs(whole - 1) > 0.15
        assert abs(persons - 1) > 0.4
