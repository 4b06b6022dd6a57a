"""Study files: what is read, and what is refused with a hint."""

from __future__ import annotations

from fractions import Fraction

import pytest

from populace.core.errors import UsageError
from populace.studies.study import FigureKind, SampleKind
from tests.helpers.small_studies import METHOD, QUERY, TRUTH, read_small_study


def test_a_whole_study_is_read(tmp_path):
    study = read_small_study(
        tmp_path,
        head='title = "T"\nseeds = 7\nseed = 3\nepsilon = [10, 1]\ndelta = 1e-9\n',
        sample='[sample]\ndesign = "srs"\nrate = 0.2\n[sample.rates]\n"age < 25" = 0.1\n',
        methods=METHOD + '[[methods]]\nkind = "synthesize"\nmethod = "mst"\npieces = 2\nshare = 0.5\n',
        more='[[figures]]\nkind = "noise"\nmethods = ["plain"]\nepsilon = 1\n',
    )
    assert (study.title, study.seeds, study.seed, study.delta) == ("T", 7, 3, Fraction("1e-9"))
    assert study.epsilon == (1, 10)
    assert study.sample.kind is SampleKind.SRS
    assert study.sample.rates == (("age < 25", Fraction("0.1")),)
    assert [(each.name, each.pieces, each.share) for each in study.methods] == [
        ("plain", 1, 1),
        ("synthesize", 2, Fraction(1, 2)),
    ]
    assert study.figures[0].kind is FigureKind.NOISE
    assert study.figures[0].epsilon == (1,)


def test_runs_are_shared_by_studies_that_differ_in_words_alone(tmp_path):
    first = read_small_study(tmp_path, head='title = "A"\nseeds = 3\nepsilon = [1]\n')
    other = read_small_study(tmp_path, head='title = "B"\nseeds = 9\nepsilon = [1]\n')
    third = read_small_study(tmp_path, head="epsilon = [2]\n")
    assert first.content == other.content != third.content


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"head": "seeds = 3\n"}, "a study needs epsilon"),
        ({"head": "epsilon = [0]\n"}, "epsilon holds 0"),
        ({"head": "epsilon = [1]\nseeds = 0\n"}, "seeds is 0"),
        ({"head": "epsilon = [1]\nepsilons = 2\n"}, "unknown key 'epsilons'"),
        ({"truth": ""}, "no population, or several"),
        ({"truth": '[truth]\npopulation = "mine"\n'}, "population is 'mine'"),
        ({"truth": '[truth]\nfile = "people.csv"\n'}, "without its schema"),
        ({"truth": TRUTH + "public = 1\n"}, "neither true nor false"),
        ({"sample": '[sample]\ndesign = "srs"\n'}, "does not go with"),
        ({"sample": '[sample]\ndesign = "stratified"\nn = 3\n'}, "does not go with"),
        ({"sample": '[sample]\ndesign = "srs"\nrate = 2\n'}, "a rate is 2"),
        ({"methods": '[[methods]]\nkind = "magic"\n'}, "kind is 'magic'"),
        ({"methods": "[[methods]]\n"}, "has no kind"),
        ({"methods": METHOD + METHOD}, "two methods are named 'plain'"),
        ({"queries": QUERY + QUERY}, "two queries are named 'women'"),
        ({"queries": '[[queries]]\nstatistic = "count"\nnone = 1\n'}, "unknown key 'none'"),
        (
            {"more": '[[figures]]\nkind = "noise"\nqueries = ["men"]\n'},
            "shows queries that there are not: 'men'",
        ),
        ({"more": '[[figures]]\nkind = "noise"\nepsilon = 3\n'}, "shows epsilon 3"),
        ({"more": "[[figures]]\n"}, "has no kind"),
        ({"more": '[nonresponse]\ncolumn = "income"\n'}, "no column, or no code"),
        ({"more": '[nonresponse]\ncolumn = "income"\ncode = "refused"\n'}, "neither coefficients nor a file"),
    ],
)
def test_a_wrong_study_is_refused(tmp_path, parts, says):
    with pytest.raises(UsageError, match=says) as refusal:
        read_small_study(tmp_path, **parts)
    assert refusal.value.hint
