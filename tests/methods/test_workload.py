"""Workloads: what they hold, how they are written, and what is refused before anything is spent."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pytest

from populace.api.measure import measure
from populace.api.synthesize import synthesize
from populace.core.errors import PopulaceError, UsageError
from populace.core.marginals import Domain
from populace.methods import workload
from populace.methods.independent import INDEPENDENT, measure_independent
from populace.methods.workload import Workload, resolve_workload
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema

pytestmark = pytest.mark.sampled(6)

SCHEMA = Schema.parse("""
[columns.AGE]
kind = "integer"
min = 0
max = 99

[columns.CITY]
kind = "categorical"
values = ["101", "102", "201"]

[columns.REGION]
kind = "categorical"
values = ["1", "2"]
function_of = "CITY"
map = { "101" = "1", "102" = "1", "201" = "2" }

[columns.PAY]
kind = "integer"
min = 0
max = 999
split = 10

[columns.SEX]
kind = "categorical"
values = ["f", "m"]
""")
DOMAIN = Domain({"a": 2, "b": 30, "c": 4, "d": 50})


def named(text: str, schema: Schema = SCHEMA) -> dict[tuple[str, ...], Fraction]:
    return dict(Workload.parse(text, schema=schema).weights)


def marginal(columns: str, more: str = "") -> str:
    return f"[[marginals]]\ncolumns = {columns}\n{more}\n"


def test_pairs_and_triples_come_in_the_order_of_the_domain() -> None:
    assert list(Workload.pairs(DOMAIN).weights) == list(combinations("abcd", 2))
    assert list(Workload.triples(DOMAIN).weights) == [
        *combinations("abcd", 2),
        *combinations("abcd", 3),
    ]
    assert set(Workload.triples(DOMAIN).weights.values()) == {1}
    assert Workload.default(DOMAIN) == Workload.triples(DOMAIN)


def test_pairs_with_a_key_weigh_more_where_nobody_names_a_workload() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
    keyed = schema.replace_columns({"b": replace(schema.columns["b"], key=True)})
    weights = {clique: int(weight) for clique, weight in Workload.choose_default(keyed).weights.items()}
    assert weights == {("a", "b"): 4, ("a", "c"): 1, ("b", "c"): 4, ("a", "b", "c"): 1}
    assert set(Workload.choose_default(schema).weights.values()) == {1}
    assert not Workload.pairs(Domain({"a": 2})).weights


def test_triples_above_the_limit_are_left_out() -> None:
    few = Workload.triples(DOMAIN, cells=400)
    assert [c for c in few.weights if len(c) == 3] == [("a", "b", "c"), ("a", "c", "d")]
    assert [c for c in few.weights if len(c) == 2] == list(combinations("abcd", 2)), "pairs have no limit"
    exact = Workload.triples(DOMAIN, cells=2 * 30 * 4)
    assert [c for c in exact.weights if len(c) == 3] == [("a", "b", "c")]
    assert ("a", "b", "c") not in Workload.triples(DOMAIN, cells=2 * 30 * 4 - 1).weights


def test_of_very_many_triples_the_smallest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "MAX_TRIPLES", 2)
    kept = [c for c in Workload.triples(DOMAIN).weights if len(c) == 3]
    assert kept == [("a", "b", "c"), ("a", "c", "d")]


def test_a_file_names_marginals_with_weights() -> None:
    text = marginal('["SEX", "AGE"]', "weight = 2.5") + marginal('["CITY"]')
    assert named(text) == {("CITY",): 1, ("AGE", "SEX"): Fraction(5, 2)}
    assert list(named(text)) == [("CITY",), ("AGE", "SEX")], "the order of the file does not matter"


def test_shorthand_is_overridden_by_name() -> None:
    text = 'pairs = ["AGE", "SEX", "CITY"]\n' + marginal('["AGE", "SEX"]', "weight = 3")
    assert named(text) == {("AGE", "CITY"): 1, ("AGE", "SEX"): 3, ("CITY", "SEX"): 1}
    everything = named("pairs = true\ntriples = true")
    assert everything == dict(Workload.triples(SCHEMA.domain).weights)
    assert named('triples = ["AGE", "CITY", "SEX"]') == {("AGE", "CITY", "SEX"): 1}
    assert named("pairs = true\ntriples = false") == dict(Workload.pairs(SCHEMA.domain).weights)


def test_columns_become_the_variables_behind_them() -> None:
    assert list(named(marginal('["REGION", "SEX"]'))) == [("CITY", "SEX")], "what a function follows from"
    assert list(named(marginal('["PAY", "SEX"]'))) == [("PAY // 10", "SEX")], "the coarse part beside others"
    assert list(named(marginal('["PAY"]'))) == [("PAY // 10", "PAY % 10")], "both parts alone"
    assert list(named(marginal('["PAY % 10", "SEX"]'))) == [("PAY % 10", "SEX")], "variables by their name"
    assert list(named('pairs = ["PAY", "SEX"]')) == [
        ("PAY // 10", "PAY % 10"),
        ("PAY // 10", "SEX"),
        ("PAY % 10", "SEX"),
    ]


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (marginal('["AGE", "SEXX"]'), "'SEXX'", "did you mean 'SEX'?"),
        ('pairs = ["age", "SEX"]', "'age'", "did you mean 'AGE'?"),
        (marginal('["AGE", "WEIGHT"]'), "'WEIGHT', which is no column", "name a column of the schema"),
        (marginal('["AGE", "AGE"]'), "names column 'AGE' twice", "each column once"),
        (
            marginal('["AGE", "SEX"]') + marginal('["SEX", "AGE"]'),
            "[[marginals]] 2 of the workload",
            "keep one",
        ),
        (marginal('["CITY", "SEX"]') + marginal('["REGION", "SEX"]'), "again", "keep one"),
        (marginal('["AGE"]', "weight = 0"), "the weight is 0", "above 0"),
        (marginal('["AGE"]', "weight = -1.5"), "the weight is -1.5", "above 0"),
        (marginal('["AGE"]', "weight = nan"), "the weight is NaN", "finite"),
        (marginal('["AGE"]', "weight = inf"), "the weight is Infinity", "finite"),
        (marginal('["AGE"]', 'weight = "2"'), "the weight is 2", "number"),
        (marginal('["AGE"]', "weight = true"), "the weight is True", "number"),
        (marginal('["AGE"]', "wieght = 2"), "unknown key 'wieght'", "did you mean 'weight'?"),
        (marginal("[]"), "has no columns", 'columns = ["AGE", "SEX"]'),
        ("[[marginals]]\nweight = 2", "has no columns", 'columns = ["AGE", "SEX"]'),
        ("[marginals]\ncolumns = ['AGE']", "not a list of tables", "[[marginals]]"),
        ("pair = true", "unknown key 'pair'", "did you mean 'pairs'?"),
        ("pairs = 2", "neither true nor a list", "pairs = true"),
        ("", "asks for nothing", "pairs = true"),
        ("pairs = false", "asks for nothing", "pairs = true"),
        ("pairs = yes", "not valid TOML", "[[marginals]]"),
    ],
)
def test_mistakes_are_named_with_a_way_out(text: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as found:
        Workload.parse(text, schema=SCHEMA)
    assert what in found.value.message
    assert hint in found.value.hint


def test_a_marginal_too_large_to_hold_is_refused() -> None:
    schema = Schema.from_sizes(dict.fromkeys("abcde", 64))
    assert named(marginal('["a", "b", "c", "d"]'), schema)
    with pytest.raises(UsageError, match="1073741824 cells; 16777216 is the most"):
        named(marginal('["a", "b", "c", "d", "e"]'), schema)


def test_a_workload_made_by_hand_is_checked() -> None:
    made = Workload(weights={("SEX", "AGE"): 0.1}).for_schema(SCHEMA)
    assert dict(made.weights) == {("AGE", "SEX"): Fraction(1, 10)}
    for weights in ({(): 1}, {("a", "a"): 1}, {("a",): 0}, {("a",): float("inf")}):
        with pytest.raises(UsageError):
            Workload(weights=weights)
    with pytest.raises(UsageError, match="no column"):
        Workload(weights={("AGE", "WAGE"): 1}).for_schema(SCHEMA)
    with pytest.raises(UsageError, match="twice"):
        Workload(weights={("AGE", "SEX"): 1, ("SEX", "AGE"): 2}).for_schema(SCHEMA)
    with pytest.raises(TypeError):
        made.weights["AGE",] = 1  # type: ignore[index]


def test_the_digest_follows_the_meaning() -> None:
    one = Workload.parse(marginal('["SEX", "AGE"]', "weight = 2.0"), schema=SCHEMA)
    same = Workload.parse("# a comment\n" + marginal('["AGE", "SEX"]', "weight = 2"), schema=SCHEMA)
    other = Workload.parse(marginal('["AGE", "SEX"]'), schema=SCHEMA)
    assert one.digest == same.digest != other.digest
    assert one.label == f"own {one.digest}"


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "wish.toml"
    path.write_text("pairs = true", encoding="utf-8-sig")
    wanted = resolve_workload(path)
    path.unlink()
    assert wanted(SCHEMA) == Workload(weights=Workload.pairs(SCHEMA.domain).weights)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("pair", "did you mean 'pairs'?"),
        ("wish.toml", "the path of a TOML file"),
        (".", "the path of a TOML file"),
    ],
)
def test_a_file_that_is_not_there(
    given: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="is no file") as found:
        resolve_workload(given)
    assert hint in found.value.hint


TABLE = pa.table({"a": [0, 1, 1, 0] * 20, "b": [2, 0, 0, 1] * 20})
SMALL = Schema.from_sizes({"a": 2, "b": 3})


def asked(tmp_path: Path, **options: object) -> dict[str, object]:
    return {
        "schema": SMALL,
        "epsilon": "1",
        "delta": "1e-6",
        "ledger": tmp_path / "ledger.db",
        "noise": ExactNoise(RehearsalEntropy(1)),
        **options,
    }


@pytest.mark.slow
def test_the_method_gets_it_and_the_release_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Workload] = []

    def curious(oracle, workload, progress):  # type: ignore[no-untyped-def]
        seen.append(workload)
        return measure_independent(oracle, workload, progress)

    watched = replace(INDEPENDENT, name="curious", measure=curious)
    monkeypatch.setattr("populace.methods.registry.METHODS", {"curious": watched})
    (tmp_path / "wish.toml").write_text(marginal('["b", "a"]', "weight = 4"), encoding="utf-8")
    told = []
    for number, wish in enumerate([None, "pairs", tmp_path / "wish.toml", Workload.triples(SMALL.domain)]):
        release = synthesize(
            TABLE, **asked(tmp_path, method="curious", workload=wish, ledger=tmp_path / f"{number}.db")
        )
        assert release.measurements.record.workload == release.statement.get("workload")
        release.save(tmp_path / f"release{number}")
        told.append((tmp_path / f"release{number}" / "manifest.json").read_text("utf-8"))
    assert [dict(each.weights) for each in seen] == [
        {("a", "b"): 1},
        {("a", "b"): 1},
        {("a", "b"): 4},
        {("a", "b"): 1},
    ]
    assert ["--workload" in text for text in told] == [False, True, True, True]
    assert "--workload pairs" in told[1]
    assert "--workload FILE" in told[2]
    assert "wish.toml" not in told[2]
    pages = [(tmp_path / f"release{n}" / "statement.md").read_text("utf-8") for n in range(4)]
    assert ["| workload |" in page for page in pages] == [False, True, True, True]
    assert seen[2].digest in pages[2]


def test_a_bad_workload_spends_nothing(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    for wish in ("none-such.toml", Workload(weights={("c",): 1})):
        with pytest.raises(PopulaceError):
            measure(TABLE, **asked(tmp_path, workload=wish))
    assert not ledger.exists() or not Ledger.existing(ledger).accounts()


@pytest.mark.slow
def test_triples_are_found_again_when_domains_are_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before learning, a column has more cells than any triple may have."""
    schema = Schema.parse("""
[columns.pay]
kind = "integer"
min = 0
max = 999999
bins = "learn"
[columns.a]
kind = "integer"
min = 0
max = 1
[columns.b]
kind = "integer"
min = 0
max = 2
""")
    seen = []

    def curious(oracle, workload, progress):  # type: ignore[no-untyped-def]
        seen.append(workload)
        return measure_independent(oracle, workload, progress)

    watched = replace(INDEPENDENT, name="mst", measure=curious)
    monkeypatch.setattr("populace.methods.registry.METHODS", {"mst": watched})
    table = TABLE.append_column("pay", pa.array(range(80)))
    measure(table, **asked(tmp_path, schema=schema, workload="triples", method="mst", epsilon="5"))
    assert ("pay", "a", "b") in seen[0].weights
