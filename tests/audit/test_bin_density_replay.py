"""Neighbours under frozen answers when it is learnt what lies inside bins: the same law, questions and files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from populace.api.generate import release_from
from populace.methods.fit_measurements import fit
from populace.private.barrier import Barrier
from populace.schema.columns.range_columns import RangeColumn
from tests.audit.replay import LeakError
from tests.audit.test_discovery_replay import CANARIES, SCHEMA, People, neighbour_pairs, random_row
from tests.audit.test_replay import check_same_folder, check_twin
from tests.audit.tiny_tables import Twin, run_twin

TEXT = (
    SCHEMA.format(unit="")
    .replace('min = 0\nmax = 63\nbins = "learn"', 'edges = [0, 16, 32, 63]\ninside = "learn"')
    .replace('decimals = 0\nbins = "learn"', 'width = 250\ndecimals = 0\ninside = "learn"')
)
# The grid of this one has ten times as many cells.
TENTHS = TEXT.replace("decimals = 0", "decimals = 1")


def run(pair, *, ledgers, seed, method="independent", text=TEXT) -> Twin:
    return run_twin(pair, method=method, ledgers=ledgers, seed=seed, epsilon="20", delta="1e-2", text=text)


def check(twin: Twin) -> None:
    assert twin.first.schema == twin.second.schema, "the law inside bins follows from the answers alone"
    check_twin(twin)
    for name in ("age", "income"):
        column = twin.first.schema.columns[name]
        assert isinstance(column, RangeColumn)
        assert column.density is not None
        assert column.density.known
        asked = [s for s in twin.first.record.spends if s.spend.what == f"bins of {name!r}"]
        assert len(asked) in (2, 3), "stretches, classes, and finer stretches where there are rows"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (6, TEXT),
        *(pytest.param(20, text, marks=pytest.mark.slow) for text in (TEXT, TENTHS)),
        *(pytest.param(60, text, marks=pytest.mark.full) for text in (TEXT, TENTHS)),
    ],
    ids=["some", "more", "more tenths", "many", "many tenths"],
)
def test_neighbours_agree_on_what_lies_inside_bins(count, text):
    seen = 0
    for number, pair in enumerate(neighbour_pairs(18 + count, seed=5)[18:]):
        twin = run(pair, ledgers=None, seed=number, text=text)
        check(twin)
        column = twin.first.schema.columns["age"]
        assert isinstance(column, RangeColumn)
        seen += column.density is not None and len(column.density.starts) > 12
    assert seen > count / 4, "the replay hardly learnt anything"


@pytest.mark.slow
def test_release_folders_of_neighbours_are_the_same_files(tmp_path):
    """To the byte, with the law in the codebook, and rows drawn from it."""
    (pair,) = neighbour_pairs(17, seed=3)[16:]
    twin = run(pair, ledgers=tmp_path, seed=1)
    second = replace(twin.second, record=twin.first.record, context=twin.first.context)
    for name, measurements in (("a", twin.first), ("b", second)):
        release_from(measurements, fit(measurements), seed=7).save(tmp_path / name)
    check_same_folder(tmp_path / "a", tmp_path / "b")


def test_groups_that_follow_the_rows_are_caught(tmp_path, monkeypatch):
    """A question that turns its groups around where a code has a single row."""
    genuine = Barrier.discover_bins

    def nosy(self, column, *, groups, noise):
        (cells,) = self._table.engine().counts([_marginal(column)])
        return genuine(
            self, column, groups=groups.max() - groups if (cells == 1).any() else groups, noise=noise
        )

    monkeypatch.setattr(Barrier, "discover_bins", nosy)
    rng = np.random.default_rng(9)
    rest = tuple(random_row(rng) for _ in range(250))
    with pytest.raises((LeakError, AssertionError)):
        check(run((People(rest), People((*rest, CANARIES[0]))), ledgers=tmp_path, seed=1))


def test_a_row_counted_in_two_groups_is_caught(tmp_path, monkeypatch):
    """Counts that move by two for one row."""
    from populace.private.engines.memory_engine import MemoryEngine

    genuine = MemoryEngine.counts
    monkeypatch.setattr(
        MemoryEngine, "counts", lambda self, marginals: [2 * each for each in genuine(self, marginals)]
    )
    rng = np.random.default_rng(9)
    rest = tuple(random_row(rng) for _ in range(250))
    with pytest.raises(LeakError, match="further than the ledger was told"):
        check(run((People(rest), People((*rest, CANARIES[0]))), ledgers=tmp_path, seed=1))


def _marginal(column: str):
    from populace.core.marginals import Marginal

    return Marginal((column,))
