"""Ways to spoil a table, each with the scores that must see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from populace.evaluation.scores.score import Direction, Score

ALWAYS = ("tv_pairs", "tv_triples", "k_marginal", "equivalent_sample_size", "propensity_mse")


@dataclass(frozen=True)
class Corruption:
    change: Callable[[pa.Table, np.random.Generator], pa.Table]
    seen: tuple[str, ...]


def is_worse(score: Score, other: Score) -> bool:
    """Say whether another value of the same score is better, by its direction."""
    return score.value < other.value if score.direction is Direction.HIGHER else score.value > other.value


def _shuffle(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Shuffle the third column: it becomes independent of all others."""
    name = table.column_names[2]
    return table.set_column(2, name, table[name].take(rng.permutation(table.num_rows)))


def _drop(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Drop all rows of the first column's first value."""
    first = sorted(set(table.column(0).to_pylist()))[0]
    return table.filter(pa.array([value != first for value in table.column(0).to_pylist()]))


def _noise(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Add a fifth of rows whose cells are drawn column by column, each from its own values."""
    rows = table.num_rows // 5
    drawn = {n: table[n].take(rng.integers(0, table.num_rows, rows)) for n in table.column_names}
    return pa.concat_tables([table, pa.table(drawn, schema=table.schema)])


def _duplicate(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Repeat a tenth of the rows ten times."""
    chosen = rng.choice(table.num_rows, table.num_rows // 10, replace=False)
    return pa.concat_tables([table, table.take(np.repeat(chosen, 9))])


def _swap(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Swap two values of a column."""
    name = "SEX"
    values = table[name].to_pylist()
    one, other = sorted(set(values))[:2]
    turned = {one: other, other: one}
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array([turned.get(v, v) for v in values], table[name].type))


def _sample(table: pa.Table, rng: np.random.Generator) -> pa.Table:
    """Draw a tenth of the rows."""
    return table.take(rng.choice(table.num_rows, table.num_rows // 10, replace=False))


CORRUPTIONS = {
    "shuffle a column": Corruption(_shuffle, (*ALWAYS, "cramers_v", "conjunctions", "prediction_loss")),
    "drop a category": Corruption(_drop, (*ALWAYS, "tv_columns", "tv_subgroups", "tv_areas")),
    "add noise rows": Corruption(
        _noise, (*ALWAYS, "tv_columns", "cramers_v", "conjunctions", "rule_violations")
    ),
    "repeat some rows": Corruption(_duplicate, (*ALWAYS, "tv_columns", "conjunctions")),
    "swap two labels": Corruption(_swap, (*ALWAYS, "tv_subgroups", "tv_areas", "regression_overlap")),
    "draw a tenth": Corruption(_sample, (*ALWAYS, "tv_columns", "conjunctions", "tv_subgroups")),
}


def corrupt(table: pa.Table, name: str, *, seed: int) -> pa.Table:
    """Return a spoilt copy of a table."""
    return CORRUPTIONS[name].change(table, np.random.default_rng(seed))
