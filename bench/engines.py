"""CPU seconds to count all pairs of a table that lies in a database: pulled into our counters, or grouped there.

    python bench/engines.py          1,000,000 rows x 15 columns of 2 to 40 codes, 105 pairs

The table is made here and written to a DuckDB file. Pulled: rows stream from DuckDB, or from Polars over a Parquet
file, through the codec of the schema into our counters; reading and encoding are included. Grouped there: the cells are
codes already, so DuckDB and Polars only count. All ways must give the same counts. CPU time of all threads, the median
of three.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from error import here

import populace as pp
from populace.core.marginals import Marginal
from populace.core.run_state import run_state
from populace.private.private_table import PrivateTable
from populace.private.read.databases.open_database import open_snapshot

ROWS, ROUNDS = 1_000_000, 3
SIZES = {
    f"c{number}": size for number, size in enumerate((2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 30, 40))
}
PAIRS = list(combinations(SIZES, 2))
Tables = dict[tuple[str, ...], list[int]]


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def make_table() -> pa.Table:
    rng = np.random.default_rng(1)
    base = rng.integers(0, 40, ROWS)
    return pa.table(
        {name: ((base + rng.integers(0, size, ROWS)) % size).astype(np.int16) for name, size in SIZES.items()}
    )


def pull(data: object) -> Tables:
    pairs = [Marginal(pair) for pair in PAIRS]
    with run_state():
        counts = (
            PrivateTable.of(open_snapshot(data), schema=pp.Schema.from_sizes(SIZES)).engine().counts(pairs)
        )
    return {pair.clique: found.ravel().tolist() for pair, found in zip(pairs, counts, strict=True)}


def to_table(pair: tuple[str, ...], cells: object, numbers: object) -> list[int]:
    whole = np.zeros(SIZES[pair[0]] * SIZES[pair[1]], dtype=np.int64)
    whole[np.asarray(cells)] = np.asarray(numbers)
    return whole.tolist()


def main() -> None:
    import duckdb
    import polars as pl

    print(f"{here()}; duckdb {duckdb.__version__}, polars {pl.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        table, path = make_table(), Path(folder)
        pq.write_table(table, path / "people.parquet")
        with duckdb.connect(str(path / "people.duckdb")) as connection:
            connection.register("held", table)
            connection.execute("CREATE TABLE people AS FROM held")
        connection = duckdb.connect(str(path / "people.duckdb"), read_only=True)

        def one_by_one() -> Tables:
            found = {}
            for pair in PAIRS:
                cell = f"{pair[0]}::int * {SIZES[pair[1]]} + {pair[1]}"
                rows = connection.sql(
                    f"SELECT {cell} AS k, count(*) AS n FROM people GROUP BY 1"
                ).fetchnumpy()
                found[pair] = to_table(pair, rows["k"], rows["n"])
            return found

        def grouping_sets() -> Tables:
            sets = ", ".join(f"({a}, {b})" for a, b in PAIRS)
            names = ", ".join(SIZES)
            query = f"SELECT {names}, count(*) AS n FROM people GROUP BY GROUPING SETS ({sets})"
            rows = connection.sql(query).fetchnumpy()
            masks = {name: np.ma.getmaskarray(np.ma.asarray(rows[name])) for name in SIZES}
            found = {}
            for a, b in PAIRS:
                own = ~masks[a] & ~masks[b]
                cells = np.asarray(rows[a])[own].astype(int) * SIZES[b] + np.asarray(rows[b])[own].astype(int)
                found[a, b] = to_table((a, b), cells, rows["n"][own])
            return found

        def polars_groups() -> Tables:
            frame = pl.scan_parquet(path / "people.parquet")
            lazy = [frame.group_by(*pair).agg(pl.len().alias("n")) for pair in PAIRS]
            return {
                pair: to_table(
                    pair,
                    found[pair[0]].to_numpy().astype(int) * SIZES[pair[1]] + found[pair[1]].to_numpy(),
                    found["n"],
                )
                for pair, found in zip(PAIRS, pl.collect_all(lazy), strict=True)
            }

        ways: dict[str, Callable[[], Tables]] = {
            "our counters, rows in memory": lambda: pull(table),
            "our counters, pulled from a DuckDB file": lambda: pull(f"{path}/people.duckdb::people"),
            "our counters, pulled from a lazy Polars scan": lambda: pull(
                pl.scan_parquet(path / "people.parquet")
            ),
            "DuckDB, grouping sets": grouping_sets,
            "DuckDB, a query for each pair": one_by_one,
            "Polars, a group-by for each pair": polars_groups,
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        expected = pull(table)
        for _ in range(ROUNDS):
            for name, count in ways.items():
                start = cpu_seconds()
                found = count()
                seconds[name].append(cpu_seconds() - start)
                if found != expected:
                    sys.exit(f"{name}: other counts")
        connection.close()
    for name, each in seconds.items():
        median = statistics.median(each)
        per = median * 1e9 / (ROWS * len(PAIRS))
        print(f"{name:46} {median:7.2f} CPU s  {per:6.2f} ns per row and pair")


if __name__ == "__main__":
    main()
