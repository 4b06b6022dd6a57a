"""Likely errors: what a rehearsal from the release says of it, beside what is true of a known population."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from populace.api.request import RowRequest
from populace.api.synthesize import fit_and_draw, synthesize
from populace.core.errors import UsageError
from populace.core.marginals import Marginal, tabulate
from populace.measurements.measurements import Measurement
from populace.release.bundle import Release
from populace.release.report import bootstrap_error as rehearsal
from populace.release.report.bootstrap_error import bootstrap_errors
from populace.release.report.comparison import GAUSSIAN, Comparison, Quality
from populace.release.report.report_data import build_report
from populace.release.table_files import encode_table
from populace.schema.schema import Schema
from tests.helpers import releases


def released(folder: Path, *, epsilon: str, seed: int = 1) -> Release:
    table, schema = releases.small_sample()
    ledger = folder / f"ledger-{epsilon}-{seed}.db"
    measured = releases.measure(table, schema, ledger=ledger, epsilon=epsilon, seed=seed)
    return fit_and_draw(measured, RowRequest(seed=seed))


def guessed(release: Release) -> Mapping[Marginal, float]:
    total = max(1.0, float(release.intervals.of().estimate))
    return bootstrap_errors(release.measurements, codes=release.compared_codes, total=total, gradual=False)


def true_errors(release: Release) -> dict[Marginal, float]:
    table, schema = releases.small_sample()
    real, made = encode_table(table, schema=schema), release.compared_codes
    found = {}
    for marginal in {item.marginal for item in release.measurements.items}:
        shares = [tabulate(marginal, codes=codes, domain=schema.domain) for codes in (real, made)]
        found[marginal] = 0.5 * float(np.abs(shares[0] / shares[0].sum() - shares[1] / shares[1].sum()).sum())
    return found


@pytest.mark.parametrize("epsilon", ["1", "10"])
@pytest.mark.slow
def test_likely_errors_are_near_the_true_ones(tmp_path: Path, epsilon: str) -> None:
    """Means over 6 releases, which differ by less than a fifth from run to run; half or twice the noise would show."""
    true: dict[int, list[float]] = {1: [], 2: []}
    likely: dict[int, list[float]] = {1: [], 2: []}
    for seed in range(6):
        release = released(tmp_path, epsilon=epsilon, seed=seed)
        guesses = guessed(release)
        for marginal, error in true_errors(release).items():
            if marginal.clique:
                true[len(marginal.clique)].append(error)
                likely[len(marginal.clique)].append(guesses[marginal])
    assert np.mean(likely[1]) == pytest.approx(np.mean(true[1]), rel=0.35)
    assert 0.6 * np.mean(true[2]) < np.mean(likely[2]) < 1.35 * np.mean(true[2])


@pytest.mark.slow
def test_more_noise_is_likely_worse(tmp_path: Path) -> None:
    means = []
    for epsilon in ("12", "3", "0.75"):
        found = guessed(released(tmp_path, epsilon=epsilon))
        means.append(np.mean([error for marginal, error in found.items() if marginal.clique]))
    assert means[0] < 0.6 * means[1] < 0.36 * means[2]


def test_fewer_rows_than_there_are_do_not_have_more_noise(tmp_path: Path) -> None:
    """A fifth of the rows is rehearsed with noise for all of them: errors stay as they are, not five times that."""
    table, schema = releases.small_sample()
    measured = releases.measure(table, schema, ledger=tmp_path / "ledger.db", epsilon="3")
    means = []
    for rows in (None, table.num_rows // 5):
        found = guessed(fit_and_draw(measured, RowRequest(seed=3, rows=rows)))
        means.append(np.mean([error for marginal, error in found.items() if len(marginal.clique) == 1]))
    assert 0.6 * means[0] < means[1] < 2.5 * means[0]


def test_more_rows_than_the_limit_are_rehearsed_by_fewer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released(tmp_path, epsilon="3")
    whole = guessed(release)
    monkeypatch.setattr(rehearsal, "MAX_ROWS_DRAWN", release.synthetic.num_rows // 2)
    half = guessed(release)
    means = [
        np.mean([error for marginal, error in found.items() if marginal.clique]) for found in (whole, half)
    ]
    assert means[0] != means[1]
    assert means[1] == pytest.approx(means[0], rel=0.3)


def test_what_a_model_cannot_hold_is_added() -> None:
    """Squares by hand: the rehearsal is 10 rows off in two cells, the measured counts 30 rows more than by noise."""
    synthetic, drawn = np.array([100.0, 100.0]), np.array([110.0, 90.0])
    real = Measurement(Marginal(("a",)), np.array([130, 70]), Fraction(1))
    rehearsed = Measurement(Marginal(("a",)), np.array([110, 90]), Fraction(1))
    chance = 3 * (2 * 2 * 2) ** 0.5 + 9
    added = 1800 * (1 - (chance / 1800) ** 2)
    words = {"synthetic": synthetic, "stand_in": synthetic, "drawn": drawn, "shape": GAUSSIAN}
    assert rehearsal._bootstrap_error(real, rehearsed, **words) == pytest.approx(
        0.05 * (1 + added / 200) ** 0.5
    )
    # Two rows off in both cells, 8 together, may be chance.
    for apart in (0, 1, 2):
        by_chance = replace(real, counts=np.array([100 + apart, 100 - apart]))
        assert rehearsal._bootstrap_error(by_chance, rehearsed, **words) == pytest.approx(0.05)
    # The error is how far rows are from their stand-ins, whatever the released ones are.
    farther = words | {"stand_in": np.array([90.0, 110.0])}
    assert rehearsal._bootstrap_error(
        replace(real, counts=np.array([100, 100])), rehearsed, **farther
    ) == pytest.approx(0.1)


def test_stand_ins_are_drawn_as_people_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    people = rehearsal._resample(50, 100_000, rng=rng)
    counts = np.bincount(people, minlength=50)
    # 49 degrees of freedom: outside these bounds once in 10,000 seeds.
    assert 19 < ((counts - 2000) ** 2 / 2000).sum() < 98
    monkeypatch.setattr(rehearsal, "MAX_ROWS_RESAMPLED", 99)
    assert rehearsal._resample(50, 100, rng=rng).tolist() == list(range(50))


@pytest.mark.slow
def test_what_is_rough_and_hidden_by_noise_is_likely_too(tmp_path: Path) -> None:
    """Of rows drawn from a smooth law a model holds the law, and errs by how rows lie about it: mean of three runs."""
    rng = np.random.default_rng(2)
    age = rng.integers(0, 60, 20_000)
    pay = np.clip(np.rint(age / 6 + rng.normal(0, 3, 20_000)), 0, 11).astype(int)
    schema = Schema.from_sizes({"age": 60, "pay": 12})
    true, likely = [], []
    for seed in range(3):
        release = synthesize(
            pa.table({"age": age, "pay": pay}),
            schema=schema,
            epsilon="1",
            delta="1e-9",
            method="mst",
            ledger=tmp_path / f"{seed}.db",
            seed=seed,
        )
        pair = next(item.marginal for item in release.measurements.items if len(item.marginal.clique) == 2)
        likely.append(guessed(release)[pair])
        shares = [
            tabulate(pair, codes=codes, domain=schema.domain) / 20_000
            for codes in ({"age": age, "pay": pay}, release.compared_codes)
        ]
        true.append(0.5 * np.abs(shares[0] - shares[1] * 20_000 / len(release.compared_codes["age"])).sum())
    assert 0.8 * np.mean(true) < np.mean(likely) < 1.3 * np.mean(true)


def test_the_same_release_is_rehearsed_alike(tmp_path: Path) -> None:
    release = released(tmp_path, epsilon="3")
    once, again = guessed(release), guessed(release)
    assert once == again
    assert set(once) == {item.marginal for item in release.measurements.items}


def test_what_cannot_be_rehearsed_has_no_likely_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = released(tmp_path, epsilon="3")
    measurements, codes = release.measurements, release.compared_codes
    own = replace(measurements, record=replace(measurements.record, method="copula"))
    assert not bootstrap_errors(own, codes=codes, total=100.0, gradual=False)
    assert not bootstrap_errors(
        measurements, codes={name: values[:0] for name, values in codes.items()}, total=100.0, gradual=False
    )

    def refuse(*_: object, **__: object) -> None:
        raise UsageError("no rows can be so.", hint="none")

    monkeypatch.setattr(rehearsal, "fit", refuse)
    assert not bootstrap_errors(measurements, codes=codes, total=100.0, gradual=False)


def test_hidden_tables_have_none_and_no_guess_is_above_the_bound() -> None:
    clear = Comparison(distance=0.02, noise_alone=0.01, beyond_noise=False)
    assert clear.with_likely(0.02).likely == 0.02
    assert clear.with_likely(0.2).likely == clear.error_bound
    assert clear.with_likely(None).likely is None
    for beyond in (False, True):
        hidden = Comparison(distance=0.4, noise_alone=0.4, beyond_noise=beyond)
        assert hidden.quality in (Quality.LOST, Quality.FAR)
        assert hidden.with_likely(0.1).likely is None


def test_the_report_tells_them(tmp_path: Path) -> None:
    release = released(tmp_path, epsilon="10")
    likely = guessed(release)
    told = build_report(
        release.statement,
        measurements=release.measurements,
        intervals=release.intervals,
        codes=release.compared_codes,
        likely=likely,
    )
    assert all(column.comparison.likely is not None for column in told.columns)
    assert any("estimated by bootstrap: " in line for line in told.summary)
    assert "bootstrap estimate of its error 1" in told.summary[0]
    page = release.report()
    assert "<strong>Bootstrap estimate of the error</strong>" in page
    assert 'class="n">bootstrap estimate</th>' in page
    without = build_report(
        release.statement,
        measurements=release.measurements,
        intervals=release.intervals,
        codes=release.compared_codes,
    )
    assert not any("bootstrap" in line for line in without.summary)


def test_a_part_of_the_rows_is_not_guessed_at(tmp_path: Path) -> None:
    table, schema = releases.small_sample()
    measured = releases.measure(table, schema, ledger=tmp_path / "ledger.db", epsilon="10")
    told = fit_and_draw(measured, RowRequest(seed=1, where="sex == 'female'"))
    shown = told.document()
    assert all(column.comparison.likely is None for column in shown.columns)
    assert "It does not assess the released rows" in shown.summary[0]
