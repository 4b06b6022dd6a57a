"""Checks of claims: neighbours with frozen barrier outputs get the same answers, and every sum is paid for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import populace as pp
from populace.api.check import check
from populace.core.errors import PopulaceError
from populace.privacy.accounting.mechanisms import DiscreteGaussian
from populace.privacy.accounting.privacy_loss import Currency, cap, price
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.bundle import Release
from populace.release.checks_bundle import Checks
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from populace.survey.claims.claims import Claims
from tests.audit.replay import LeakError, RecordingNoise, ReplayingNoise, check_sensitivities
from tests.helpers.small_claims import CLAIMS, SCHEMA, SCHEMA_TEXT, make_rows

# The richest and oldest there can be; one beyond all ranges; one that says nothing.
LOUD = {"sex": "f", "age": 99, "work": "employed", "income": "1000"}
WILD = {"sex": "f", "age": 10**6, "work": "inactive", "income": "1e308"}
MUTE = {"sex": "?", "age": -4, "work": "retired", "income": "nan"}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("release")
    return pp.synthesize(
        make_rows(800),
        schema=SCHEMA,
        epsilon=2,
        delta="1e-9",
        dataset="made",
        ledger=folder / "l.db",
        method="mst",
    )


def run(table, noise, *, release, folder: Path, schema: Schema = SCHEMA, delta: str = "1e-9") -> Checks:
    return check(
        release,
        table,
        schema=schema,
        claims=Claims.parse(CLAIMS, schema=schema),
        epsilon=1,
        delta=delta,
        ledger=folder / f"{id(noise)}.db",
        noise=noise,
    )


def twins(rows: pa.Table, other: pa.Table, *, release: Release, folder: Path, schema: Schema = SCHEMA):
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(7)))
    first = run(rows, recorder, release=release, folder=folder, schema=schema)
    player = ReplayingNoise(recorder.transcript.entries)
    second = run(other, player, release=release, folder=folder, schema=schema)
    player.finish()
    return first, second, recorder.transcript.entries, player.transcript.entries


def with_rows(rows: pa.Table, *more: dict[str, object]) -> pa.Table:
    return pa.concat_tables([rows, pa.Table.from_pylist(list(more), schema=rows.schema)])


def check_twins(first: Checks, second: Checks, folder: Path) -> None:
    """All that leaves is the same, to the byte, but for the run's random name and what follows from it."""
    assert first.answers == second.answers
    assert first.transcript == second.transcript
    named = {"run": first.record.run, "digest": first.record.digest}
    assert replace(second.record, **named) == first.record
    same = replace(second, record=first.record)
    for place, found in (("a", first), ("b", same)):
        replace(found, ledger=None).save(folder / place)
    files = sorted(path.name for path in (folder / "a").iterdir())
    assert files == sorted(path.name for path in (folder / "b").iterdir())
    assert all((folder / "a" / name).read_bytes() == (folder / "b" / name).read_bytes() for name in files)


@pytest.mark.parametrize("row", [LOUD, WILD, MUTE], ids=["loud", "wild", "mute"])
@pytest.mark.parametrize("count", [0, 60], ids=["empty", "some"])
def test_neighbours_agree_under_frozen_outputs(row, count: int, release: Release, tmp_path: Path) -> None:
    rows = make_rows(count)
    first, second, entries, others = twins(rows, with_rows(rows, row), release=release, folder=tmp_path)
    check_sensitivities(entries, others, record=first.record)
    check_twins(first, second, tmp_path)


@pytest.mark.parametrize("neighbours", [Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE])
def test_units_of_several_rows_agree_and_reach_no_further(
    neighbours, release: Release, tmp_path: Path
) -> None:
    unit = PrivacyUnit(name="person", rows=3, id="who", neighbours=neighbours)
    schema = replace(SCHEMA, unit=unit)
    rest = make_rows(30).append_column("who", pa.array([f"p{place}" for place in range(30)]))
    ours = [{**LOUD, "who": "us"}] * 3
    # Of a share against one half, an employed row adds as much as another takes away.
    theirs = [{**LOUD, "work": "inactive", "who": "us"}] * 5
    other = with_rows(rest, *theirs) if neighbours is Neighbours.REPLACE_ONE else rest
    first, second, entries, others = twins(
        with_rows(rest, *ours), other, release=release, folder=tmp_path, schema=schema
    )
    check_sensitivities(entries, others, record=first.record)
    assert first.answers == second.answers
    moved = max(int(np.abs(one.exact - two.exact).sum()) for one, two in zip(entries, others, strict=True))
    assert moved == first.record.spends[0].spend.l1, "the bound is reached"


def test_two_rows_are_seen_to_move_further(release: Release, tmp_path: Path) -> None:
    """The same check fails where a unit moves more than one row can."""
    rows = make_rows(40)
    first, _, entries, others = twins(rows, with_rows(rows, LOUD, LOUD), release=release, folder=tmp_path)
    with pytest.raises(LeakError, match="further"):
        check_sensitivities(entries, others, record=first.record)


@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_every_claim_is_charged_and_all_fit_the_budget(delta: str, release: Release, tmp_path: Path) -> None:
    """Ledger conservation: the loss that the recorded laws imply ≤ the ledger ≤ the budget."""
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(3)))
    found = run(make_rows(50), recorder, release=release, folder=tmp_path, delta=delta)
    found.record.check()
    met = [entry.mechanism for entry in recorder.transcript.entries]
    assert met == [
        charged.spend.mechanism for charged in found.record.spends for _ in range(charged.spend.answers)
    ]
    currency, most = cap(Fraction(1), Fraction(delta))
    assert currency is (Currency.PURE if delta == "0" else Currency.GDP)
    implied = sum(price(charged.spend, currency=currency) for charged in found.record.spends)
    assert Fraction(999, 1000) * most < implied <= found.record.used <= most
    # Half the noise would cost four times as much, and twice the noise a quarter.
    if delta != "0":
        for factor, fits in ((Fraction(1, 4), False), (Fraction(4), True)):
            laws = [
                DiscreteGaussian(entry.mechanism.variance * factor) for entry in recorder.transcript.entries
            ]
            spends = [
                replace(each.spend, mechanism=law)
                for each, law in zip(found.record.spends, laws, strict=True)
            ]
            other = sum(price(spend, currency=currency) for spend in spends)
            assert (other <= most) is fits
            assert not Fraction(999, 1000) * most < other <= most


def test_the_noise_that_is_drawn_is_the_noise_that_is_charged(release: Release, tmp_path: Path) -> None:
    """The variance of 500 draws is the booked one within 40 %: six standard errors. Half and twice the noise fail."""
    claims = "\n".join(
        f"[[claims]]\nclaim = \"count(age >= {age} and sex == '{sex}') > 3\""
        for age in range(1, 50)
        for sex in "fm"
    )
    noise: list[float] = []
    for seed in range(6):
        recorder = RecordingNoise(ExactNoise(RehearsalEntropy(seed)))
        check(
            release,
            make_rows(20),
            schema=SCHEMA,
            claims=Claims.parse(claims, schema=SCHEMA),
            epsilon=1,
            delta="1e-9",
            ledger=tmp_path / f"{seed}.db",
            noise=recorder,
        )
        for entry in recorder.transcript.entries:
            deviation = float(entry.mechanism.variance) ** 0.5
            noise += ((entry.answer - entry.exact) / deviation).ravel().tolist()

    def fits(values: np.ndarray) -> bool:
        return bool(0.6 < values.var() < 1.6)

    drawn = np.array(noise)
    assert len(drawn) > 500
    assert fits(drawn)
    assert not fits(drawn / 2)
    assert not fits(drawn * 2)


BAD = {
    "median": "[[claims]]\nclaim = 'median(income) < 3'",
    "no column": "[[claims]]\nclaim = 'mean(wage) < 3'",
    "no estimate": "[[claims]]\nclaim = \"mean(income | age >= 98 and age <= 97)\"\nwithin = '5 %'",
    "too many": "\n".join(f"[[claims]]\nclaim = 'count(age > {age}) > 3'\nweight = 1e-30" for age in range(9))
    + "\n[[claims]]\nclaim = 'count() > 3'",
}


@pytest.mark.parametrize("name", BAD)
def test_refusals_spend_nothing_and_read_nothing(name: str, release: Release, tmp_path: Path) -> None:
    """The file is not even there."""
    (tmp_path / "claims.toml").write_text(BAD[name])
    with pytest.raises(PopulaceError) as refusal:
        check(
            release,
            tmp_path / "none.csv",
            schema=SCHEMA,
            claims=tmp_path / "claims.toml",
            epsilon=1,
            delta="1e-9",
            ledger=tmp_path / "l.db",
        )
    assert refusal.value.exit_code == 2
    assert refusal.value.hint
    assert "none.csv" not in refusal.value.message
    assert not (tmp_path / "l.db").exists()


def test_schemas_that_claims_do_not_go_with_are_refused(release: Release, tmp_path: Path) -> None:
    learnt = Schema.parse(SCHEMA_TEXT.replace('values = ["f", "m"]', 'values = "learn"'))
    with pytest.raises(PopulaceError, match="learnt"):
        run(make_rows(3), None, release=release, folder=tmp_path, schema=learnt)
    places = "[geography]\nlevels = ['area']\nunits = ['a', 'b']\n"
    places += "[columns.sex]\nkind = 'categorical'\nvalues = ['f', 'm']"
    people = pa.table({"area": ["a", "b"] * 50, "sex": ["f", "m"] * 50})
    asked = {"epsilon": 1, "delta": "1e-9", "dataset": "places", "ledger": tmp_path / "places.db"}
    units = pp.synthesize(people, schema=Schema.parse(places), **asked)
    with pytest.raises(PopulaceError, match="geography"):
        run(make_rows(3), None, release=units, folder=tmp_path)
    other = Schema.parse(SCHEMA_TEXT + "\n[columns.more]\nkind = 'integer'\nmin = 0\nmax = 3")
    with pytest.raises(PopulaceError, match="the release has no column"):
        run(make_rows(3), None, release=release, folder=tmp_path, schema=other)


def test_a_release_without_rows_is_no_reason_to_look_at_private_ones(
    release: Release, tmp_path: Path
) -> None:
    empty = replace(release, synthetic=release.synthetic.slice(0, 0))
    claims = Claims.parse(
        "[[claims]]\nclaim = \"mean(income | sex == 'f') > mean(income | sex == 'm')\"\n", schema=SCHEMA
    )
    rows = make_rows(60)
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(7)))
    found = []
    for place, table in enumerate((rows, with_rows(rows, LOUD))):
        noise = ReplayingNoise(recorder.transcript.entries) if place else recorder
        ledger = tmp_path / f"{place}.db"
        asked = {"schema": SCHEMA, "claims": claims, "epsilon": 1, "delta": "1e-9"}
        found.append(check(empty, table, **asked, ledger=ledger, noise=noise))
    check_twins(*found, tmp_path)
