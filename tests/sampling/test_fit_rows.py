"""Rows fitted to tables: nearer with every sweep, by the rules, and the same compiled or not."""

from itertools import combinations

import numpy as np
import pytest

import populace.sampling.fit_rows
from populace._native import kernels
from populace.core.errors import UsageError
from populace.core.marginals import Domain, Grouping
from populace.sampling.fit_rows import DEFICIT_SLOPE, fit_rows
from populace.schema.conditions.rules import Rule, Rules
from tests.helpers.random_rules import allowed_rows, broken_rows, random_rules
from tests.helpers.sampled_cases import sample_cases


def drawn(rng, domain, *, rows):
    """Rows of columns that depend on each other through one common number."""
    common = rng.random(rows)
    return {
        name: np.minimum((common + rng.normal(0, 0.3, rows)).clip(0, 0.999) * size, size - 1).astype(np.uint8)
        for name, size in domain.items()
    }


def counted(codes, clique, domain):
    cells = np.zeros(len(codes[clique[0]]), dtype=int)
    for name in clique:
        cells = cells * domain[name] + codes[name]
    return np.bincount(cells, minlength=domain.cells(clique)).reshape(domain.shape(clique)).astype(float)


def cliques_of(rng, domain):
    """Some cliques of one, two and three columns, in any order of columns."""
    every = [c for width in (1, 2, 3) for c in combinations(domain, width)]
    chosen = rng.choice(len(every), size=min(len(every), int(rng.integers(1, 12))), replace=False)
    return [tuple(str(name) for name in rng.permutation(every[i])) for i in chosen]


def problem(seed, *, rows=300):
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(1, 6)) for name in "abcde"[: rng.integers(1, 6)]})
    wanted = drawn(rng, domain, rows=rows)
    targets = {c: counted(wanted, c, domain) + rng.random(domain.shape(c)) for c in cliques_of(rng, domain)}
    codes = {name: rng.integers(0, size, rows).astype(np.uint8) for name, size in domain.items()}
    return rng, domain, targets, codes


def distance(codes, targets, domain):
    rows = len(next(iter(codes.values())))
    return sum(
        np.abs(counted(codes, clique, domain) - rows * table / table.sum()).sum()
        for clique, table in targets.items()
    )


# The plain loops are asked for here.
pytestmark = pytest.mark.filterwarnings("ignore::populace.core.errors.NotCompiled")


@pytest.fixture(params=["compiled", "plain"])
def path(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(kernels, "_native", None)
    elif not kernels.compiled():
        pytest.skip("the loops in C were not built")


def check_deficits(deficits, codes, targets, domain, *, atol):
    """What all rows lack of each target, kept once with every column last."""
    kept = []
    for clique, table in targets.items():
        lack = len(codes[clique[0]]) * table / table.sum() - counted(codes, clique, domain)
        kept += [np.moveaxis(lack, axis, -1).ravel() for axis in reversed(range(len(clique)))]
    np.testing.assert_allclose(deficits, np.concatenate(kept), atol=atol)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("seed", sample_cases(range(10), to=4))
def test_the_deficits_kept_are_those_of_the_rows(seed, monkeypatch):
    rng, domain, targets, codes = problem(seed)
    seen = []

    def move(*call):
        kernels.move_cells(*call)
        seen.append(call[4])

    monkeypatch.setattr(populace.sampling.fit_rows, "move_cells", move)
    fit_rows(codes, targets=targets, domain=domain, sweeps=2, rng=rng)
    check_deficits(seen[-1], codes, targets, domain, atol=1e-4)


def total_cost(codes, targets, domain):
    """The sum over all cells of what their deficits cost, built up row by row from the one next to no deficit."""
    whole = 0.0
    for clique, table in targets.items():
        lack = np.abs(len(codes[clique[0]]) * table / table.sum() - counted(codes, clique, domain))
        steps = np.round(lack)
        near = lack - steps
        whole += (DEFICIT_SLOPE * near**2).sum()
        for step in range(int(steps.max())):
            whole += np.clip(DEFICIT_SLOPE * (1 + 2 * (near + step)), -1, 1)[steps > step].sum()
    return whole


@pytest.mark.parametrize("seed", sample_cases(range(20), to=8))
def test_no_sweep_raises_the_cost(seed):
    costs, distances = [], []
    for sweeps in range(5):
        rng, domain, targets, codes = problem(seed)
        fit_rows(codes, targets=targets, domain=domain, sweeps=sweeps, rng=rng)
        costs.append(total_cost(codes, targets, domain))
        distances.append(distance(codes, targets, domain))
    assert (np.diff(costs) <= 1e-3).all()
    assert distances[-1] < 0.6 * distances[0] or distances[0] < 40


@pytest.mark.parametrize("seed", sample_cases([5, 2, 7], to=1))
def test_compiled_and_plain_loops_move_the_same_cells(monkeypatch, seed):
    found = []
    for native in (kernels._native, None):
        monkeypatch.setattr(kernels, "_native", native)
        rng, domain, targets, _ = problem(seed)
        rules = random_rules(rng, domain, count=3)
        cells = np.argwhere(allowed_rows(rules, domain))
        codes = dict(zip(domain, cells[rng.integers(0, len(cells), 1100)].T.astype(np.uint8), strict=True))
        fit_rows(codes, targets=targets, domain=domain, rules=rules, sweeps=2, rng=rng)
        found.append(codes)
    assert all((found[0][name] == found[1][name]).all() for name in found[0])


def test_a_seed_repeats_the_rows_and_another_changes_them():
    def rows(seed):
        _, domain, targets, codes = problem(7)
        fit_rows(codes, targets=targets, domain=domain, rng=np.random.default_rng(seed))
        return np.stack(list(codes.values()))

    assert (rows(1) == rows(1)).all()
    assert (rows(1) != rows(2)).any()


@pytest.mark.parametrize("seed", range(5))
def test_rows_disturbed_a_little_come_back_to_their_tables(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    domain = Domain({"a": 4, "b": 3, "c": 5, "d": 2})
    codes = drawn(rng, domain, rows=2000)
    targets = {pair: counted(codes, pair, domain) for pair in combinations(domain, 2)}
    for name, size in domain.items():
        here = rng.choice(2000, 80, replace=False)
        codes[name][here] = rng.integers(0, size, 80)
    assert distance(codes, targets, domain) > 200
    fit_rows(codes, targets=targets, domain=domain, sweeps=20, rng=rng)
    assert distance(codes, targets, domain) <= 20


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("seed", sample_cases(range(10), to=4))
def test_rules_hold_and_fixed_columns_stay(seed):
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(1, 6)) for name in "abcde"})
    rules = random_rules(rng, domain, count=int(rng.integers(1, 7)))
    cells = np.argwhere(allowed_rows(rules, domain))
    start, wanted = (cells[rng.integers(0, len(cells), 300)].T.astype(np.uint16) for _ in range(2))
    codes = dict(zip(domain, start.copy(), strict=True))
    # The targets themselves break the rules: columns of the wanted rows are mixed up.
    mixed = {name: rng.permutation(column) for name, column in zip(domain, wanted, strict=True)}
    targets = {clique: counted(mixed, clique, domain) + 0.1 for clique in combinations(domain, 2)}
    fixed = {str(name) for name in rng.choice(list(domain), 2, replace=False)}
    before = distance(codes, targets, domain)
    fit_rows(codes, targets=targets, domain=domain, rules=rules, fixed=fixed, rng=rng)
    assert set(broken_rows(codes, rules).values()) == {0}
    for name, column in zip(domain, start, strict=True):
        assert name not in fixed or (codes[name] == column).all()
    assert distance(codes, targets, domain) <= before


def test_without_its_rule_a_column_would_have_moved():
    """The rule, not the targets, holds the rows back; and what it allows is still taken."""
    domain = Domain({"a": 3, "b": 2})
    targets = {("a",): np.array([0.0, 10.0, 10.0]), ("b",): np.array([20.0, 0.0])}
    rules = Rules(
        classes={"a": Grouping("a", (0, 1, 0)), "b": Grouping("b", (0, 1))},
        rules=(
            Rule(text="a = 1 requires b = 1", clique=("b", "a"), allowed=np.array([[1, 0], [1, 1]], bool)),
        ),
    )
    for held, expected in ((rules, [0, 0, 20]), (Rules(), [0, 10, 10])):
        codes = {"a": np.zeros(20, np.uint8), "b": np.zeros(20, np.uint8)}
        options = {"targets": targets, "domain": domain, "rules": held, "sweeps": 4}
        fit_rows(codes, **options, rng=np.random.default_rng(0))
        counts = np.bincount(codes["a"], minlength=3).tolist()
        assert counts == expected or (held is rules and counts[1] == 0 and counts[2] > 8)


@pytest.mark.parametrize(("slope", "least", "most"), [(DEFICIT_SLOPE, 13, 23), (1.0, 0, 8)])
def test_rare_codes_keep_their_rows(monkeypatch, slope, least, most):
    """Cells that expect a third of a row each: costs straight to the middle let many of them outvote the column."""
    monkeypatch.setattr(populace.sampling.fit_rows, "DEFICIT_SLOPE", slope)
    rng, others = np.random.default_rng(0), [f"b{i}" for i in range(20)]
    domain = Domain({"a": 2, **dict.fromkeys(others, 60)})
    counts = np.array([982.0, 18.0])
    targets = {("a",): counts, **{("a", other): counts[:, None] * np.full(60, 1 / 60) for other in others}}
    codes = {other: (rng.permutation(1000) % 60).astype(np.uint8) for other in others}
    codes["a"] = (rng.permutation(1000) < 18).astype(np.uint8)
    fit_rows(codes, targets=targets, domain=domain, sweeps=3, rng=rng)
    assert least <= codes["a"].sum() <= most


def test_files_longer_than_a_piece_fit_as_a_whole(monkeypatch):
    monkeypatch.setattr(populace.sampling.fit_rows, "BLOCK_ROWS", 64)
    rng, domain, targets, codes = problem(3, rows=1000)
    before = distance(codes, targets, domain)
    fit_rows(codes, targets=targets, domain=domain, sweeps=3, rng=rng)
    assert distance(codes, targets, domain) < 0.1 * before


@pytest.mark.usefixtures("path")
def test_no_rows_no_targets_and_columns_of_one_code():
    rng, domain = np.random.default_rng(0), Domain({"a": 1, "b": 3})
    empty = {name: np.zeros(0, np.uint8) for name in domain}
    targets = {("a",): np.ones(1), ("a", "b"): np.ones((1, 3))}
    fit_rows(empty, targets=targets, domain=domain, rng=rng)
    codes = {"a": np.zeros(9, np.uint8), "b": np.zeros(9, np.uint32)}
    fit_rows(codes, targets={}, domain=domain, rng=rng)
    fit_rows(codes, targets=targets, domain=domain, sweeps=0, rng=rng)
    fit_rows(codes, targets=targets, domain=domain, fixed=("a", "b"), rng=rng)
    assert not codes["b"].any()
    fit_rows(codes, targets=targets, domain=domain, sweeps=4, rng=rng)
    assert np.bincount(codes["b"]).tolist() == [3, 3, 3]
    assert not codes["a"].any()


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32])
def test_codes_keep_their_type(kind):
    codes = {"a": np.zeros(10, kind)}
    fit_rows(codes, targets={("a",): np.ones(2)}, domain=Domain({"a": 2}), rng=np.random.default_rng(0))
    assert codes["a"].dtype == kind
    assert codes["a"].sum() == 5


@pytest.mark.usefixtures("path")
def test_columns_of_very_many_codes():
    codes = {"a": np.zeros(30, np.uint32)}
    target = np.zeros(70_000)
    target[[3, 69_999]] = 1.0
    fit_rows(codes, targets={("a",): target}, domain=Domain({"a": 70_000}), rng=np.random.default_rng(0))
    assert np.unique(codes["a"], return_counts=True)[1].tolist() == [15, 15]
    assert set(codes["a"].tolist()) == {3, 69_999}


@pytest.mark.usefixtures("path")
def test_a_rule_reaches_columns_without_a_target():
    domain = Domain({"a": 2, "b": 2})
    rule = Rule(text="b = 1 requires a = 0", clique=("a", "b"), allowed=np.array([[1, 1], [1, 0]], bool))
    rules = Rules(classes={name: Grouping(name, (0, 1)) for name in domain}, rules=(rule,))
    codes = {"a": np.zeros(40, np.uint8), "b": np.arange(40, dtype=np.uint8) % 2}
    targets = {("a",): np.array([0.0, 1.0])}
    fit_rows(codes, targets=targets, domain=domain, rules=rules, sweeps=3, rng=np.random.default_rng(0))
    assert (codes["a"] == 1 - codes["b"]).all()


GOOD = {"a": np.zeros(4, np.uint8), "b": np.zeros(4, np.uint8)}
SOUND = {("a", "b"): np.ones((2, 3))}


@pytest.mark.parametrize(
    ("codes", "targets", "options"),
    [
        (GOOD, {("a", "b"): np.ones((3, 2))}, {}),
        (GOOD, {("a", "b"): np.zeros((2, 3))}, {}),
        (GOOD, {("a", "b"): np.full((2, 3), np.nan)}, {}),
        (GOOD, {("a", "a"): np.ones((2, 2))}, {}),
        (GOOD, {(): np.array(1.0)}, {}),
        (GOOD, {("a", "z"): np.ones((2, 3))}, {}),
        (GOOD, SOUND, {"sweeps": -1}),
        (GOOD, SOUND, {"rules": Rules(classes={"a": Grouping("a", (0, 1, 1))})}),
        ({"a": GOOD["a"]}, SOUND, {}),
        ({"a": GOOD["a"], "b": np.zeros(3, np.uint8)}, SOUND, {}),
        ({"a": GOOD["a"], "b": np.full(4, 3, np.uint8)}, SOUND, {}),
        ({"a": GOOD["a"], "b": np.zeros(4, np.int8)}, SOUND, {}),
    ],
)
def test_what_does_not_fit_together_is_refused(codes, targets, options):
    with pytest.raises(UsageError):
        fit_rows(
            codes, targets=targets, domain=Domain({"a": 2, "b": 3}), rng=np.random.default_rng(0), **options
        )
