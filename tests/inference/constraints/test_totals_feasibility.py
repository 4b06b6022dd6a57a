"""Several tables of public totals: refused where rows cannot have them under the rules, and met where they can."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import populace as pp
from populace.cli.main import main
from populace.core.errors import UsageError
from populace.core.marginals import Domain
from populace.inference.constraints import public_totals
from populace.inference.constraints.public_totals import check_totals_feasible
from populace.inference.model_space import ModelSpace
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.sampling.swap_rows import swap_rows
from populace.schema.conditions.rules import Totals
from tests.helpers.random_rules import allowed_rows, random_rules
from tests.helpers.sampled_cases import sample_cases

pytestmark = pytest.mark.sampled(4)

# Without exchanges rows are left over in all of these.
SEEDS = (4, 9, 12, 22)


def solvable(totals: list[Totals], allowed: np.ndarray, domain: Domain) -> bool:
    """Say whether some table has the totals, by a linear programme over all cells that the rules allow."""
    cells = np.argwhere(allowed)
    sums, wanted = [], []
    for each in totals:
        axes = [list(domain).index(name) for name in each.clique]
        at = np.ravel_multi_index(cells[:, axes].T, domain.shape(each.clique))
        sums.append(np.arange(domain.cells(each.clique))[:, None] == at)
        wanted.append(each.counts.ravel())
    told = linprog(np.zeros(len(cells)), A_eq=np.vstack(sums), b_eq=np.concatenate(wanted), method="highs")
    return told.status == 0


@pytest.mark.parametrize("seed", sample_cases(range(100), to=25))
def test_totals_are_refused_exactly_where_no_table_has_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = Domain({name: int(rng.integers(2, 4)) for name in "abcde"})
    rules = random_rules(rng, domain, count=4)
    allowed = allowed_rows(rules, domain)
    pairs = list(combinations(domain, 2)) + [(name,) for name in domain]
    chosen = [pairs[i] for i in rng.choice(len(pairs), 3, replace=False)]
    # Half of the tables come from allowed rows; in the others each total comes from rows of its own.
    joints = [rng.multinomial(40, rng.dirichlet(np.ones(int(allowed.sum())))) for _ in chosen]
    totals = []
    for clique, own in zip(chosen, joints, strict=True):
        joint = np.zeros(allowed.shape, dtype=np.int64)
        joint[allowed] = joints[0] if seed % 2 else own
        others = tuple(axis for axis, name in enumerate(domain) if name not in clique)
        totals.append(Totals(clique=clique, counts=joint.sum(axis=others)))
    if solvable(totals, allowed, domain):
        check_totals_feasible(ModelSpace(domain=domain, rules=rules, totals=tuple(totals)))
    else:
        assert not seed % 2
        with pytest.raises(UsageError, match="no table has the totals"):
            check_totals_feasible(ModelSpace(domain=domain, rules=rules, totals=tuple(totals)))


SCHEMA = """
[columns.a]
kind = "categorical"
values = ["0", "1"]
other = "0"

[columns.b]
kind = "categorical"
values = ["0", "1"]
other = "0"

[[zeros]]
when = "a == '0' and b == '0'"

[[totals]]
by = ["a"]
counts = { "0" = %d, "1" = %d }

[[totals]]
by = ["b"]
counts = { "0" = %d, "1" = %d }
"""


@pytest.mark.parametrize("counts", [(100, 0, 100, 0), (90, 10, 90, 10), (51, 49, 50, 50)])
def test_totals_against_the_rules_cost_nothing(
    counts: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA % counts)
    (tmp_path / "rows.csv").write_text("a,b\n" + "0,1\n1,0\n" * 50)
    words = ["synth", str(tmp_path / "rows.csv"), "--schema", str(tmp_path / "schema.toml"), "--epsilon", "1"]
    words += ["--delta", "1e-9", "--ledger", str(tmp_path / "ledger.db"), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "no table has the totals by a and by b" in capsys.readouterr().err
    assert not (tmp_path / "ledger.db").exists()
    assert not (tmp_path / "out").exists()


def test_totals_that_just_fit_are_met(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": ["0", "1"] * 50, "b": ["1", "0"] * 50})
    schema = pp.Schema.parse(SCHEMA % (50, 50, 50, 50))
    found = pp.synthesize(rows, schema=schema, epsilon=1, delta="1e-9", ledger=tmp_path / "l.db").table
    assert found.groupby(["a", "b"]).size().to_dict() == {("0", "1"): 50, ("1", "0"): 50}


def test_large_tables_of_totals_are_left_to_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pp.Schema.parse(SCHEMA % (90, 10, 90, 10))
    monkeypatch.setattr(public_totals, "MAX_PROGRAMME_CELLS", 1)
    check_totals_feasible(ModelSpace.of(schema))


def test_rows_are_exchanged_as_seldom_as_can_be() -> None:
    """Two tables, four kinds of rows; one exchange mends both, and nothing else changes."""
    rng = np.random.default_rng(1)
    have = [np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1])]
    spare = [np.array([0, 1, 0]), np.array([0, 0, 1])]
    wanted = [np.array([2, 2]), np.array([1, 3])]
    given, taken = swap_rows(have, spare, wanted=wanted, rng=rng) or (None, None)
    assert len(given) == len(taken) == 1
    for own, other, counts in zip(have, spare, wanted, strict=True):
        own = own.copy()
        own[given] = np.concatenate([other, own])[taken]
        assert np.bincount(own, minlength=2).tolist() == counts.tolist()


def test_rows_that_cannot_help_are_not_exchanged() -> None:
    have, spare = [np.array([0, 0]), np.array([0, 1])], [np.array([0]), np.array([0])]
    wanted = [np.array([1, 1]), np.array([1, 1])]
    assert swap_rows(have, spare, wanted=wanted, rng=np.random.default_rng(1)) is None


def overlapping(seed: int) -> tuple[pd.DataFrame, list[list[str]], str]:
    """Return rows of five columns, three tables of totals that they have, and a schema with zeros besides."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 5)
    place = rng.random(600)[:, None] + rng.normal(0, 0.3, (600, 5))
    rows = pd.DataFrame((np.clip(place, 0, 0.999) * sizes).astype(int), columns=list("abcde")).astype(str)
    text = ""
    for name, size in zip(rows, sizes, strict=True):
        values = [str(code) for code in range(size)]
        text += f'[columns.{name}]\nkind = "categorical"\nvalues = {values}\nother = "0"\n'
    for one, other in rng.permutation(list(combinations(rows, 2))):
        seen = pd.crosstab(rows[one], rows[other])
        for i, j in np.argwhere(seen.to_numpy() <= 3):
            if text.count("zeros") < 6:
                i, j = seen.index[i], seen.columns[j]
                rows = rows[(rows[one] != i) | (rows[other] != j)]
                text += f"[[zeros]]\nwhen = \"{one} == '{i}' and {other} == '{j}'\"\n"
    cliques = [list(pair) for pair in rng.permutation(list(combinations(rows, 2)))[:3]]
    for one, other in cliques:
        lines = [
            f'{{ {one} = "{i}", {other} = "{j}", count = {count} }}'
            for (i, j), count in rows.groupby([one, other]).size().items()
        ]
        text += f'[[totals]]\nby = ["{one}", "{other}"]\ncounts = [{", ".join(lines)}]\n'
    return rows, cliques, text


@pytest.mark.parametrize("seed", sample_cases(SEEDS, to=1))
@pytest.mark.parametrize("times", [1, 10])
def test_overlapping_totals_under_zeros_are_met_to_the_row(seed: int, times: int, tmp_path: Path) -> None:
    """Rows for which moves inside the cells of single nodes left some over."""
    rows, cliques, text = overlapping(seed)
    found = pp.synthesize(
        rows,
        schema=pp.Schema.parse(text),
        epsilon=1,
        delta="1e-9",
        rows=times * len(rows),
        seed=1,
        ledger=tmp_path / "ledger.db",
        noise=ExactNoise(RehearsalEntropy(seed)),
    ).table
    assert len(found) == times * len(rows)
    for clique in cliques:
        assert found.groupby(clique).size().to_dict() == (times * rows.groupby(clique).size()).to_dict()
