"""Why methods differ: the error of the pairs that a method measured, and of those that it did not.

    python bench/measured_pairs.py
    python bench/measured_pairs.py --data nltcs --method mst mwem --epsilon 1 --runs 3

A pair counts as measured if it lies inside a table that was. `tables` is how many of several columns were measured, of
different columns; `tell` is how far these are from independent columns in the real rows, `noise` how far noise alone
would take them: medians over the tables, as shares of the rows in the wrong cell, of the codes or groups in which they
were asked. `measured` and `others` are mean total variations over pairs between the real rows and the released ones.
`columns` is that over single columns.

Variants change one thing: `mst, apart` leaves rare codes apart, which `mst` asks for in groups; `mst, columns 6%` gives
columns 6 % of the budget, as `aim` does, in place of 50; `mwem, columns 50%` gives them 50 in place of 15. Tables and δ
are those of bench/league.py.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet
from error import here
from league import Table, tables

from populace.api.synthesize import synthesize
from populace.core.marginals import Marginal
from populace.measurements.measurements import Measurement
from populace.measurements.public_marginals import PublicTable
from populace.methods.literature.mwem import MWEM_CONFIG
from populace.methods.mst import MstConfig
from populace.private.public_table import read_public
from populace.schema.schema import Schema

# The method behind each name, and what is put in the place of one of its own.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "auto": ("auto", {}),
    "aim": ("aim", {}),
    "mst": ("mst", {}),
    "mst, apart": ("mst", {"mst.group_rare_codes": lambda *_, **__: ()}),
    "mst, columns 6%": ("mst", {"mst.MST_CONFIG": MstConfig(column_share=Fraction(6, 100))}),
    "privbayes": ("privbayes", {}),
    "mwem": ("mwem", {}),
    "mwem, columns 50%": (
        "mwem",
        {"literature.mwem.MWEM_CONFIG": replace(MWEM_CONFIG, column_share=Fraction(50, 100))},
    ),
    "field-groups": ("field-groups", {}),
    "independent": ("independent", {}),
}


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def tell(real: PublicTable, marginal: Marginal) -> float:
    """Return how far a table of the real rows is from its columns taken for independent."""
    table = real.table(marginal)
    product = np.ones(())
    for axis in range(table.ndim):
        product = np.multiply.outer(product, table.sum(axis=tuple(i for i in range(table.ndim) if i != axis)))
    return distance(table, product)


def noise(item: Measurement, rows: int) -> float:
    """Return the share of rows that Gaussian noise of a table's variance puts into the wrong cell, cell by cell."""
    usual = float(item.variance) ** 0.5 * (2 / np.pi) ** 0.5
    return float(item.counts.size * usual / (2 * rows))


def once(table: Table, *, method: str, epsilon: str, place: Path) -> dict[str, float]:
    """Run one release and compare its pairs with the real ones."""
    schema = Schema.load(table.schema)
    name, changed = METHODS[method]
    with ExitStack() as patches:
        for place_of, value in changed.items():
            patches.enter_context(patch(f"populace.methods.{place_of}", value))
        release = synthesize(
            table.rows, schema=schema, epsilon=epsilon, delta=table.delta, method=name, dataset="bench",
            ledger=place / "ledger.db",
        )  # fmt: skip
    (place / "ledger.db").unlink()
    pyarrow.parquet.write_table(release.synthetic, place / "made.parquet")
    real, made = (read_public(rows, schema=schema) for rows in (table.rows, place / "made.parquet"))
    wide = {
        item.marginal.clique: item for item in release.measurements.items if len(item.marginal.clique) > 1
    }
    inside = {pair for clique in wide for pair in combinations(sorted(clique), 2)}
    errors: dict[bool, list[float]] = {True: [], False: []}
    for pair in combinations(schema.domain, 2):
        error = distance(real.table(Marginal(pair)), made.table(Marginal(pair)))
        errors[tuple(sorted(pair)) in inside].append(error)
    nothing = float("nan")
    return {
        "tables": len(wide),
        "tell": statistics.median(tell(real, i.marginal) for i in wide.values()) if wide else nothing,
        "noise": statistics.median(noise(i, real.rows) for i in wide.values()) if wide else nothing,
        "pairs": len(inside),
        "measured": statistics.mean(errors[True]) if errors[True] else nothing,
        "others": statistics.mean(errors[False]) if errors[False] else nothing,
        "all": statistics.mean([*errors[True], *errors[False]]),
        "columns": statistics.mean(
            distance(real.table(Marginal((name,))), made.table(Marginal((name,)))) for name in schema.domain
        ),
    }


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=["nltcs", "adult", "ma2019"])
    ask.add_argument("--method", nargs="+", default=list(METHODS), choices=list(METHODS))
    ask.add_argument("--epsilon", default="1")
    ask.add_argument("--runs", type=int, default=1)
    told = ask.parse_args()
    print(here())
    print(
        "data          eps  method             runs  tables   tell  noise   pairs  measured  others     all  columns"
    )
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        known = tables(told.data, place=place)
        for data in told.data:
            for method in told.method:
                runs = [
                    once(known[data], method=method, epsilon=told.epsilon, place=place)
                    for _ in range(told.runs)
                ]
                mean = {key: statistics.mean(run[key] for run in runs) for key in runs[0]}
                print(
                    f"{data:13} {told.epsilon:>3}  {method:17}  {told.runs:4}  {mean['tables']:6.0f}  "
                    f"{mean['tell']:.3f}  {mean['noise']:.3f}  {mean['pairs']:6.0f}    {mean['measured']:.4f}  "
                    f"{mean['others']:.4f}  {mean['all']:.4f}   {mean['columns']:.4f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
