"""Samples: their sizes, who is in them, and what estimators are told."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import UsageError
from populace.studies.samples import draw_sample
from populace.studies.study import SampleDesign, SampleKind
from populace.studies.truths import open_truth
from tests.helpers.small_studies import read_small_study


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    return open_truth(read_small_study(tmp_path_factory.mktemp("truth")))


def draw(design, truth, seed=1):
    return draw_sample(design, truth, rng=np.random.default_rng(seed))


def test_simple_random_samples_have_their_size_and_weights_add_up_to_everybody(truth):
    sample = draw(SampleDesign(kind=SampleKind.SRS, n=100), truth)
    assert len(np.unique(sample.rows)) == 100
    assert sample.fields["base"] * 100 == truth.size == sample.fields["fpc"]


def test_rates_by_condition_are_met_exactly_and_told_to_nobody(truth):
    design = SampleDesign(
        kind=SampleKind.SRS,
        rate=Fraction(1, 2),
        rates=(("age < 25", Fraction(1, 4)), ("age < 40", Fraction(1))),
    )
    sample = draw(design, truth)
    for condition, rate in (("age < 25", 0.25), ("age >= 25 and age < 40", 1.0), ("age >= 40", 0.5)):
        inside = truth.rows.meets(condition)
        assert inside[sample.rows].sum() == round(rate * inside.sum())
    assert sample.fields == {"base": 2, "fpc": truth.size}


def test_poisson_samples_include_each_row_at_its_rate(truth):
    design = SampleDesign(kind=SampleKind.POISSON, rate=Fraction(1, 2), rates=(("age < 25", Fraction(1, 4)),))
    young = truth.rows.meets("age < 25")
    found = np.array(
        [np.bincount(draw(design, truth, seed).rows, minlength=truth.size) for seed in range(40)]
    )
    for group, rate in ((young, 0.25), (~young, 0.5)):
        # Five standard errors: a false alarm in less than one of a million runs, on both sides.
        error = (rate * (1 - rate) / (40 * group.sum())) ** 0.5
        assert abs(found[:, group].mean() - rate) < 5 * error


def test_strata_have_their_sizes_and_weights(truth):
    sizes = {"owned": 10, "rented": 20}
    sample = draw(SampleDesign(kind=SampleKind.STRATIFIED, strata="tenure", sizes=sizes), truth)
    codes = truth.rows.codes("tenure")
    assert np.bincount(codes[sample.rows], minlength=2).tolist() == [10, 20]
    there = np.bincount(codes, minlength=2)
    assert [sample.fields["base"][key] * size for key, size in sizes.items()] == there.tolist()
    with pytest.raises(UsageError, match="sizes say nothing of"):
        draw(SampleDesign(kind=SampleKind.STRATIFIED, strata="tenure", sizes={"owned": 3}), truth)


def test_clusters_are_whole_and_listed(truth):
    sample = draw(SampleDesign(kind=SampleKind.CLUSTER, psu="area", n=5), truth)
    codes = truth.rows.codes("area")
    drawn = np.unique(codes[sample.rows])
    assert len(drawn) == 5 == len(sample.fields["psus"][""])
    assert set(sample.rows) == set(np.flatnonzero(np.isin(codes, drawn)))
    assert sample.fields["base"] == Fraction(len(np.unique(codes)), 5)


def test_more_than_there_are_cannot_be_drawn(truth):
    with pytest.raises(UsageError, match="are to be drawn"):
        draw(SampleDesign(kind=SampleKind.SRS, n=10**6), truth)
