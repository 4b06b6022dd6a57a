"""The 98 columns of the 1940 census of the NIST challenge of 2018: two rounds of listed queries beside `auto`.

    python bench/census1940.py                          600,000 rows, the default
    python bench/census1940.py --rows 20000 --epsilon 1

The confidential file cannot be had. Its schema is imported from its specs and codebook (shared/data beside the
checkout), and the rows are drawn from `tests.helpers.latent_class_model`: six kinds of people, given
which columns are
independent. How far pairs are from independence is printed. `nist2018` asks examples/workloads/census1940.toml, which
knows nothing of that model; without it, it chooses a tree of pairs privately. Every run is a fresh process, file to
file. Errors are the mean total variation over all 4,753 pairs and 100 triples of columns (tools/score.py beside the
shared data), time and memory those of the child process, on one thread.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from codebooks import from_independence, imported, simulate_rows
from error import SHARED, here, once, score

QUERIES = Path(__file__).resolve().parents[1] / "examples" / "workloads" / "census1940.toml"
WAYS = {
    "nist2018, listed": ("nist2018", QUERIES),
    "nist2018, tree": ("nist2018", None),
    "auto": ("auto", None),
}
# Pairs are compared with independence on so many rows.
LOOKED = 100_000


def draw(folder: Path, *, rows: int) -> None:
    """Write two tables of the same kinds of people and the names of their columns, and print what they are like."""
    import pyarrow.parquet as pq

    from populace.schema.schema import Schema

    schema = Schema.load(folder / "schema.toml")
    table = simulate_rows(schema, rows=2 * rows, rng=np.random.default_rng(1940))
    pq.write_table(table.slice(0, rows), folder / "census1940.parquet")
    pq.write_table(table.slice(rows), folder / "again.parquet")
    (folder / "columns.json").write_text(json.dumps(dict.fromkeys(table.column_names, 0)))
    far = from_independence(table.slice(0, min(LOOKED, rows)).to_pandas())
    print(
        f"{table.num_columns} columns, {rows} rows of the model; mean distance of 200 pairs from independence, "
        f"codes beyond the 15 commonest merged: {far:.3f}"
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--rows", type=int, default=600_000)
    ask.add_argument("--epsilon", nargs="+", default=["0.3", "1"])
    ask.add_argument("--delta", default="1e-9")
    ask.add_argument("--way", nargs="+", choices=list(WAYS), default=["nist2018, listed", "auto"])
    ask.add_argument("--draw", type=Path, help=argparse.SUPPRESS)
    told = ask.parse_args()
    if told.draw is not None:
        draw(told.draw, rows=told.rows)
        return
    print(here(), flush=True)
    source = SHARED / "data" / "nist2018-colorado"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        words = [str(source / "colorado-specs.json"), "--dictionary", str(source / "codebook.cbk")]
        schema = imported(*words, "--overlay", "nist2018", out=folder / "schema.toml")
        # In a process of its own: what this one holds counts as memory of the runs that it starts.
        words = [sys.executable, __file__, "--draw", place, "--rows", str(told.rows)]
        subprocess.run(words, check=True)
        data, columns = folder / "census1940.parquet", folder / "columns.json"
        floor = score(data, folder / "again.parquet", domain=columns)
        print(f"other rows of the model: pairs {floor['tv2']:.4f}, triples {floor['tv3']:.4f}")
        print("method            eps   pairs  triples  wall s   cpu s  peak MB", flush=True)
        for epsilon in told.epsilon:
            for way in told.way:
                method, queries = WAYS[way]
                found = once(
                    data,
                    schema=schema,
                    method=method,
                    epsilon=epsilon,
                    delta=told.delta,
                    workload=queries,
                    columns=columns,
                )
                print(
                    f"{way:16} {epsilon:>4}  {found['pairs']:.4f}   {found['triples']:.4f}  {found['wall_s']:6.1f}  "
                    f"{found['cpu_s']:6.1f}  {found['peak_mb']:7.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
