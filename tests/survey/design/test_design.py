"""Designs are read in full, and what does not fit together is refused from public facts, with a hint."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from populace.core.errors import SchemaError, UsageError
from populace.privacy.accounting.amplification import SamplingDesign as Drawing
from populace.privacy.json_codec import decode_json, encode_json
from populace.privacy.sensitivity.nn_imputation import DonorValue
from populace.schema.schema import Schema
from populace.survey.design.design import Design
from populace.survey.design.design_parts import LonelyPsu, MissingHandling

SCHEMA = Schema.parse(
    """
[columns.STRATUM]
kind = "categorical"
values = ["north", "south"]
[columns.PSU]
kind = "integer"
min = 1
max = 3
[columns.AGE]
kind = "integer"
min = 0
max = 99
missing = ["-9"]
[columns.SEX]
kind = "categorical"
values = ["f", "m"]
[columns.WEIGHT]
kind = "numeric"
min = 0
max = 5000
width = 100
[columns.DEBT]
kind = "numeric"
min = -100
max = 0
width = 10
[columns.CODE]
kind = "categorical"
values = "learn"
"""
)


def parsed(text: str) -> Design:
    return Design.parse(text, schema=SCHEMA)


def test_a_design_is_read_in_full(tmp_path: Path) -> None:
    path = tmp_path / "design.toml"
    path.write_text(
        """
[design]
weights = "WEIGHT"
max_weight = 1_000
strata = "STRATUM"
psu = "PSU"
psus = { north = [1, 2] }
fpc = { north = 40, south = 0.25 }
lonely = "adjust"
population = 500
sampling = { design = "poisson", share = 0.1 }
replicates = { columns = ["WEIGHT", "AGE"], type = "Fay", rho = 0.5 }

[missing.AGE]
how = "impute"
match = ["STRATUM", "PSU"]
widths = { PSU = 2 }
k = 3
take = "mean"

[[totals]]
by = ["AGE", "SEX"]
edges = { AGE = [0, 18, 65] }
counts = [
    { AGE = 0, SEX = "f", count = 50 }, { AGE = 0, SEX = "m", count = 50 },
    { AGE = 18, SEX = "f", count = 150 }, { AGE = 18, SEX = "m", count = 150 },
    { AGE = 65, SEX = "f", count = 100 }, { AGE = 65, SEX = "m", count = 0 },
]
[[totals.bins]]
name = "both sexes"
join = { SEX = [["f", "m"]] }
[[totals.bins]]
name = "minors and others"
edges = { AGE = [0, 18] }
""",
        encoding="utf-8",
    )
    design = Design.load(path, schema=SCHEMA)
    assert [(psu.stratum, psu.value) for psu in design.psu_list] == [
        (0, "1"), (0, "2"), (1, "1"), (1, "2"), (1, "3"),
    ]  # fmt: skip
    assert design.degrees == 3
    assert design.weight_bound == 1000
    assert design.weight is not None
    assert (design.weight.low, design.weight.high) == (0, 1000)
    assert design.unsampled_fraction([2.0, 3.0]).tolist() == [0.95, 0.75]
    assert design.lonely is LonelyPsu.ADJUST
    assert design.sampling is not None
    assert (design.sampling.design, design.sampling.share) == (Drawing.POISSON, Fraction(1, 10))
    assert design.replicates is not None
    assert design.replicates.scale == 2
    assert design.handling("AGE") is MissingHandling.IMPUTE
    assert design.handling("SEX") is MissingHandling.IGNORE
    donors = design.missing["AGE"].donors(SCHEMA)
    assert (donors.k, donors.take, donors.default) == (3, DonorValue.MEAN, Fraction(99, 2))
    assert donors.match.grouping("PSU").groups == (0, 0, 1, 2)
    (control,) = design.totals
    assert control.total == 500
    # Each of 3 ages, −9 and everything else, by each of 2 sexes and everything else.
    assert control.populations == (50, 50, 0, 150, 150, 0, 100, 0, 0, *[0] * 6)
    assert control.binnings[0].bins[0] == (0, 1)
    assert control.binnings[1].bins[:4] == ((0,), (1,), (2,), (3, 6))


def test_numbers_given_in_python_are_exact() -> None:
    design = Design(schema=SCHEMA, strata="STRATUM", base={"north": 44.21, "south": 3}, fpc=0.1)
    assert design.stratum_base == (Fraction(4421, 100), 3)
    assert design.weight_bound == Fraction(4421, 100)
    assert design.degrees is None
    assert Design(schema=SCHEMA).stratum_base == (1,)


REFUSED = [
    ('weights = "WEIGTH"', "no column 'WEIGTH'", "'WEIGHT'"),
    ('weights = "SEX"', "'SEX' holds no numbers", "integer"),
    ('weights = "DEBT"', "no weight of 'DEBT' is above 0", "range"),
    ('weights = "WEIGHT"\nbase = 3', "weights and base weights", "one of the two"),
    ("max_weight = 3", "max_weight, but no weights", "leave"),
    ('weights = "WEIGHT"\nmax_weight = 0', "max_weight is 0", "above 0"),
    ('wieghts = "WEIGHT"', "unknown key 'wieghts'", "'weights'"),
    ('strata = "CODE"', "to be learnt", "declared domain"),
    ('strata = "PSU"\npsu = "PSU"', "strata and of psus", "two columns"),
    ('psus = { north = ["1"] }', "no column of psus", "psu ="),
    ('strata = "STRATUM"\npsu = "PSU"\npsus = { nroth = [1, 2] }', "stratum 'nroth'", "'north'"),
    ('strata = "STRATUM"\npsu = "PSU"\npsus = { north = [1, 7] }', "'7' is not a value", "'1', '2', '3'"),
    ('strata = "STRATUM"\npsu = "PSU"\npsus = { north = [1, 1] }', "one of them twice", "once"),
    ('strata = "STRATUM"\npsu = "PSU"\npsus = { north = [1] }', "one psu in stratum 'north'", "adjust"),
    ('strata = "STRATUM"\nfpc = { north = 40 }', "nothing of stratum 'south'", "every stratum"),
    ("fpc = { north = 40 }", "names stratum 'north'", "strata ="),
    ('strata = "STRATUM"\npsu = "PSU"\nfpc = 2', "3 psus of stratum 'north'", "counts psus"),
    ("fpc = -1", "fpc holds -1", "above 0"),
    ('strata = "STRATUM"\nbase = { north = 1, south = 0 }', "base holds 0", "above 0"),
    ('psu = "PSU"\nfpc_within = { 1 = 10, 2 = 10 }', "differ in '3'", "every psu"),
    ('lonely = "adjsut"', "lonely is 'adjsut'", "'adjust'"),
    ('replicates = { columns = ["AGE", "WEIGHT"], type = "BRR" }', "but no weights", "weights ="),
    ('replicates = { columns = ["AGE"], type = "BRR" }', "1 columns", "at least two"),
    ('replicates = { columns = ["AGE", "WEIGHT"] }', "has no type", "'BRR'"),
    ('replicates = { columns = ["AGE", "WEIGHT"], type = "JKn" }', "need rscales", "JKn"),
    ('replicates = { columns = ["AGE", "WEIGHT"], type = "JKn", rscales = [1] }', "1 rscales", "each column"),
    ('replicates = { columns = ["AGE", "WEIGHT"], type = "Fay" }', "rho is None", "Fay"),
    ('sampling = { design = "simple", share = 2 }', "share is 2", "at most 1"),
    ('sampling = { design = "snowball", share = 0.1 }', "'snowball'", "poisson"),
    ("population = 0", "population is 0", "above 0"),
    ('[missing.AGE]\nhow = "impute"', "matched on nothing", "each once"),
    ('[missing.AGE]\nmatch = ["SEX"]', "ignored need no match", "impute"),
    ('[missing.AGE]\nhow = "impute"\nmatch = ["SEX"]\nk = 2', "k is 2", "mean"),
    ('[missing.AGE]\nhow = "impute"\nmatch = ["SEX"]\ndefault = 100', "default 100", "range"),
    (
        '[missing.AGE]\nhow = "impute"\nmatch = ["SEX"]\nwidths = { SEX = 2 }',
        "no groups of width 2",
        "numbers",
    ),
    ('[missing.SEX]\nhow = "impute"\nmatch = ["AGE"]', "'SEX' holds no numbers", "integer"),
    ('[[totals]]\nby = ["SEX"]\ncounts = { f = 3 }', "no population for 'm'", "every cell"),
    ('[[totals]]\nby = ["SEX"]\ncounts = { f = 3, m = -1 }', "counts -1", "from 0"),
    ('[[totals]]\nby = ["SEX"]\ncounts = { f = 3, m = 4, x = 1 }', "'x' is not a value", "'f', 'm'"),
    (
        '[[totals]]\nby = ["AGE"]\nwidths = { AGE = 50 }\ncounts = { 0 = 3, 49 = 4, 50 = 1 }',
        "cell of '49' twice",
        "whole group",
    ),
    ('[[totals]]\nby = ["AGE"]\nedges = { AGE = [18, 65] }\ncounts = { 18 = 3 }', "begin at 18", "lowest"),
    (
        'population = 9\n[[totals]]\nby = ["SEX"]\ncounts = { f = 3, m = 4 }',
        "'SEX' add up to 7, population is 9",
        "must be equal",
    ),
    (
        '[[totals]]\nby = ["AGE"]\nedges = { AGE = [0, 18] }\ncounts = { 0 = 3, 18 = 4 }\n'
        "[[totals.bins]]\nedges = { AGE = [0, 20] }",
        "cut a cell",
        "some of those",
    ),
    (
        '[[totals]]\nby = ["SEX"]\ncounts = { f = 3, m = 4 }\n[[totals.bins]]\njoin = { SEX = [["f", "m"], ["m"]] }',
        "two groups",
        "one",
    ),
]


@pytest.mark.parametrize(("text", "said", "hint"), REFUSED, ids=[said for _, said, _ in REFUSED])
def test_a_design_that_does_not_fit_is_refused(text: str, said: str, hint: str) -> None:
    with pytest.raises(SchemaError) as refused:
        parsed(text if text.startswith("[") else f"[design]\n{text}")
    assert said in refused.value.message
    assert hint in refused.value.hint


def test_files_that_are_no_designs_are_refused(tmp_path: Path) -> None:
    for path, said in (
        (tmp_path / "none.toml", "no design file"),
        (tmp_path, "is a folder, not a design file"),
    ):
        with pytest.raises(UsageError, match=said):
            Design.load(path, schema=SCHEMA)
    with pytest.raises(UsageError, match="not valid TOML"):
        parsed("[design\n")


@pytest.mark.parametrize(
    ("old", "new"), [("most_weight", "max_weight"), ("most_effect", "max_design_effect")]
)
def test_a_key_that_was_renamed_is_refused_by_its_new_name(old: str, new: str) -> None:
    with pytest.raises(SchemaError, match=f"{old} is now named {new}") as refused:
        Design.parse(f"[design]\n{old} = 4\n", schema=Schema.from_sizes({"A": 2}))
    assert new in refused.value.hint


def test_groups_of_one_width_begin_where_the_design_says() -> None:
    """Ages by tens: 18 and 19, 20 to 29 and so on, not 18 to 27."""
    schema = Schema.parse(
        '[columns.AGE]\nkind = "integer"\nmin = 18\nmax = 45\n[columns.G]\nkind = "integer"\nmin = 0\nmax = 3\n'
        '[columns.X]\nkind = "integer"\nmin = 0\nmax = 9\nmissing = ["-9"]\n'
    )
    text = '[missing.X]\nhow = "impute"\nmatch = ["AGE", "G"]\nwidths = { AGE = 10 }\n'
    for origin, sizes in (("", (10, 10, 8, 1)), ("origins = { AGE = 0 }\n", (2, 10, 10, 6, 1))):
        design = Design.parse(f'{text}{origin}one_hot = ["G"]\n', schema=schema)
        (grouping,) = design.missing["X"].cells(schema).groupings
        assert tuple(map(len, grouping.members)) == sizes
        assert design.missing["X"].donors(schema).one_hot == ("G",)
        again = decode_json(Design, encode_json(design, without=("schema",)), {"schema": schema})
        assert again.missing == design.missing


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("origins = { AGE = 0 }", "no width"),
        ('one_hot = ["SEX"]', "not matched on"),
    ],
)
def test_codings_of_columns_that_are_not_matched_are_refused(text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        parsed(f'[missing.DEBT]\nhow = "impute"\nmatch = ["AGE"]\n{text}\n')
