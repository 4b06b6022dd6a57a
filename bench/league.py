"""Every method on four tables at three ε: error of pairs and triples, time and memory.

    python bench/league.py                                 everything, once, the default
    python bench/league.py --runs 3 --keep FILE            three runs each; FILE keeps finished ones
    python bench/league.py --data nltcs --method auto mst  a part of it
    python bench/league.py --runs 3 --keep FILE --show     what FILE keeps, and nothing is run
    python bench/league.py --method aim --beside TABLE     a part, and the rest from a table that was printed before

Tables: adult and nltcs (delta 1e-9); ma2019 (24 columns, imported with the shipped overlay, delta 1e-5) with ma2018 as
public table; and nist2020-acs, whose years 2012 to 2015 are public and 2016 to 2018 are released (delta 1e-9), counted
first by area and year, with the groups of columns of the source for `dpsyn`. Methods that can use a public table are
there with one, as `auto+public` and `dpsyn`.
Every run is a fresh process on one thread, from file to file without the report. One that takes more than --cap CPU
seconds is stopped; one that a method refuses says why. Errors are mean total variations over all pairs and over 100
triples (tools/score.py beside the shared data).

Below the table: which of the orders that one would expect are there, and which are not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codebooks import imported
from error import COMMAND, SHARED, environment, files, here, score

from populace.methods.registry import METHODS
from populace.schema.schema import Schema

DATA = ["adult", "nltcs", "ma2019", "nist2020-acs"]
EPSILON = ["0.1", "1", "10"]
PUBLIC = ("auto+public", "dpsyn")
# What the source of `dpsyn` recodes into one column each.
GROUPS = (
    ("SEX", "MARST"),
    ("HCOVANY", "HCOVPRIV", "HINSEMP", "HINSCAID", "HINSCARE"),
    ("EMPSTAT", "LABFORCE", "EMPSTATD"),
    ("WORKEDYR", "WRKLSTWK"),
    ("ABSENT", "LOOKING"),
    ("AVAILBLE", "WRKRECAL"),
)
# Years are codes: 2012 is 0.
FIRST_PRIVATE_YEAR = 4
MEMORY = 16 * 2**30
MOST_ROWS = 200_000
Key = tuple[str, str, str]
Runs = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of the league: its rows, schema and δ, what scores are read with, and a public table if there is one.

    `grouped` is the schema with groups of columns for `dpsyn`, where it has some.
    """

    rows: Path
    schema: Path
    delta: str
    domain: Path | None = None
    public: Path | None = None
    grouped: Path | None = None


def tables(names: list[str], *, place: Path) -> dict[str, Table]:
    """Return the tables by name; those that are made of others are written into a folder."""
    found = {}
    for name in names:
        if name == "ma2019":
            folder = SHARED / "data" / "nist-acs"
            words = [str(folder / "ma2019.json"), "--dictionary", str(folder / "data_dictionary.json")]
            schema = bounded(
                imported(*words, "--overlay", "nist-acs", out=place / "imported.toml"), name, place=place
            )
            rows, public = folder / "ma2019.csv", folder / "ma2018.csv"
            found[name] = Table(rows=rows, schema=schema, delta="1e-5", public=public)
        elif name == "nist2020-acs":
            found[name] = by_year(*files(name), place=place)
        else:
            rows, domain = files(name)
            found[name] = Table(
                rows=rows, schema=bounded(domain, name, place=place), delta="1e-9", domain=domain
            )
    return found


def bounded(
    schema: Path,
    name: str,
    *,
    place: Path,
    partition: tuple[str, ...] = (),
    groups: tuple[tuple[str, ...], ...] = (),
) -> Path:
    """Write a schema that bounds the number of rows, which one of the methods needs to know."""
    out = place / f"{name}.toml"
    described = replace(Schema.load(schema), max_rows=MOST_ROWS, partition=partition, groups=groups)
    out.write_text(described.to_toml(), encoding="utf-8")
    return out


def by_year(rows: Path, domain: Path, *, place: Path) -> Table:
    """Return the later years of a table, with the earlier ones as public table and areas and years as partition."""
    import pandas as pd

    table = pd.read_parquet(rows)
    later = table["YEAR"] >= FIRST_PRIVATE_YEAR
    table[later].to_parquet(place / "later.parquet", index=False)
    table[~later].to_parquet(place / "earlier.parquet", index=False)
    schema = bounded(domain, "by_year", place=place, partition=("PUMA", "YEAR"))
    grouped = bounded(domain, "grouped", place=place, partition=("PUMA", "YEAR"), groups=GROUPS)
    later_rows, earlier = place / "later.parquet", place / "earlier.parquet"
    return Table(rows=later_rows, schema=schema, delta="1e-9", domain=domain, public=earlier, grouped=grouped)


def once(table: Table, *, method: str, epsilon: str, cap: int) -> dict[str, Any]:
    """Run one release in a child process and score it, or say why there is none."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        schema = table.schema if method != "dpsyn" or table.grouped is None else table.grouped
        words = ["synth", str(table.rows), "--schema", str(schema), "--epsilon", epsilon]
        words += ["--delta", table.delta, "--method", method.removesuffix("+public")]
        words += ["--public", str(table.public)] if method in PUBLIC else []
        words += ["--ledger", f"{place}/ledger.db", "--out", f"{place}/release", "--no-report"]
        begun = time.perf_counter()
        with (place / "said.txt").open("wb") as said:
            child = subprocess.Popen(
                [*COMMAND, *words],
                stdout=said,
                stderr=said,
                env=environment() | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"},
                preexec_fn=lambda: _limit(cap),
            )
            _, status, used = os.wait4(child.pid, 0)
        run: dict[str, Any] = {
            "wall_s": time.perf_counter() - begun,
            "cpu_s": used.ru_utime + used.ru_stime,
            "peak_mb": used.ru_maxrss / 1024,
        }
        if status:
            over = run["cpu_s"] >= cap
            return run | {"why": f"over {cap} CPU seconds" if over else _reason(place / "said.txt")}
        (made,) = (place / "release").glob("synthetic.*")
        told = score(table.rows, made, domain=table.domain)
        return run | {"pairs": told["tv2"], "triples": told["tv3"]}


def _limit(cap: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (cap, cap))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _reason(said: Path) -> str:
    """Return the first line in which a command says what is wrong."""
    lines = [text.strip() for text in said.read_text(errors="replace").splitlines() if text.strip()]
    errors = [text for text in lines if text.lower().startswith("error")]
    return (errors or lines or ["silently"])[0][:90]


def entries(name: str, table: Table, *, methods: list[str]) -> Iterator[Key]:
    for method in methods:
        if method in PUBLIC and table.public is None:
            continue
        for epsilon in EPSILON:
            yield name, method, epsilon


@dataclass(frozen=True, kw_only=True)
class Standing:
    """One line of the table: means over runs, or why there are none."""

    runs: int
    pairs: float = math.inf
    spread: float | None = None
    triples: float = math.inf
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    why: str = ""

    @classmethod
    def of(cls, runs: Runs) -> Standing:
        """Return the line of some runs."""
        done = [run for run in runs if "pairs" in run]
        if not done:
            return cls(runs=len(runs), why=runs[0]["why"])
        pairs = [run["pairs"] for run in done]
        return cls(
            runs=len(runs),
            pairs=statistics.mean(pairs),
            spread=statistics.stdev(pairs) if len(pairs) > 1 else None,
            triples=statistics.mean(run["triples"] for run in done),
            cpu_s=statistics.mean(run["cpu_s"] for run in runs),
            peak_mb=max(run["peak_mb"] for run in runs),
        )

    def told(self) -> str:
        """Return it as it is printed, behind its table, epsilon and method."""
        if self.why:
            return f"{self.runs:4}  {self.why}"
        spread = " " * 8 if self.spread is None else f"({self.spread:.4f})"
        return f"{self.runs:4}  {self.pairs:.4f} {spread}  {self.triples:.4f}  {self.cpu_s:7.1f}  {self.peak_mb:7.0f}"


def earlier(table: Path) -> dict[Key, Standing]:
    """Return the lines of a table that was printed before."""
    head = r"(\S+)\s+(0\.1|1|10)\s\s(\S+)\s+([0-9]+)\s\s"
    number = r"\s+([0-9.]+)"
    found = {}
    for text in table.read_text(encoding="utf-8").splitlines():
        match = re.match(head, text)
        if match is None:
            continue
        data, epsilon, method, runs = match.groups()
        rest = text[match.end() :]
        told = re.fullmatch(rf"([0-9.]+)(?:\s+\(([0-9.]+)\))?{number * 3}", rest.rstrip())
        if told is None:
            found[data, method, epsilon] = Standing(runs=int(runs), why=rest)
            continue
        pairs, spread, triples, cpu, peak = told.groups()
        found[data, method, epsilon] = Standing(
            runs=int(runs),
            pairs=float(pairs),
            spread=None if spread is None else float(spread),
            triples=float(triples),
            cpu_s=float(cpu),
            peak_mb=float(peak),
        )
    return found


def standings(found: dict[Key, Standing]) -> Iterator[str]:
    """Yield a line for every table, ε and method, the most accurate first."""
    for data in [name for name in DATA if name in {data for data, _, _ in found}]:
        for epsilon in EPSILON:
            members = [
                (line.pairs, key[1], line) for key, line in found.items() if key[::2] == (data, epsilon)
            ]
            for _, method, line in sorted(members, key=lambda member: member[:2]):
                yield f"{data:13} {epsilon:>4}  {method:21} {line.told()}"


def orders(found: dict[Key, Standing]) -> Iterator[str]:
    """Say of each order that one would expect whether it is there, a twentieth being no difference."""

    def mean(data: str, method: str, epsilon: str) -> float | None:
        line = found.get((data, method, epsilon))
        return None if line is None or line.why else line.pairs

    chain = [("auto", "aim"), ("aim", "mst")]
    chain += [("mst", other) for other in ("field-groups", "privbayes", "mwem")]
    chain += [(other, "independent") for other in ("field-groups", "privbayes", "mwem")]
    expected = [("1", better, worse) for better, worse in chain]
    expected += [
        ("0.1", better, worse) for better in PUBLIC for worse in METHODS if worse not in ("adaptive", "dpsyn")
    ]
    expected += [("0.1", better, "auto") for better in PUBLIC]
    for data in dict.fromkeys(data for data, _, _ in found):
        for epsilon, better, worse in expected:
            left, right = mean(data, better, epsilon), mean(data, worse, epsilon)
            if left is None or right is None:
                continue
            verdict = "as expected" if left <= 1.05 * right else "DIFFERS"
            yield f"{data} {epsilon}: {better} {left:.4f}, {worse} {right:.4f}: {verdict}"
    bar = mean("ma2019", "auto+public", "1")
    if bar is not None:
        yield f"ma2019 1: auto beside ma2018 {bar:.4f} ≤ 0.070: {'holds' if bar <= 0.07 else 'MISSED'}"


def main() -> None:
    named = ["auto" if name == "adaptive" else name for name in METHODS]
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    ask.add_argument("--method", nargs="+", default=[*named, "auto+public"])
    ask.add_argument("--runs", type=int, default=1)
    ask.add_argument("--cap", type=int, default=900, help="CPU seconds that a run may take")
    ask.add_argument("--keep", type=Path, help="where finished runs are kept; those there are not made again")
    ask.add_argument("--show", action="store_true", help="print what is kept, and run nothing")
    ask.add_argument("--beside", type=Path, help="an earlier table, whose other lines are printed too")
    told = ask.parse_args()
    found: dict[Key, Runs] = {}
    if told.keep is not None and told.keep.exists():
        for line in map(json.loads, told.keep.read_text().splitlines()):
            found.setdefault(tuple(line["key"]), []).append(line["run"])
    with tempfile.TemporaryDirectory() as name:
        known = tables(told.data, place=Path(name))
        asked = [key for data in told.data for key in entries(data, known[data], methods=told.method)]
        for data, method, epsilon in asked:
            runs = found.setdefault((data, method, epsilon), [])
            # What is refused, or takes too long, is not tried again.
            while not told.show and len(runs) < told.runs and not (runs and "why" in runs[-1]):
                runs.append(once(known[data], method=method, epsilon=epsilon, cap=told.cap))
                if told.keep is not None:
                    with told.keep.open("a") as file:
                        file.write(json.dumps({"key": (data, method, epsilon), "run": runs[-1]}) + "\n")
    shown = {} if told.beside is None else earlier(told.beside)
    made = {key: Standing.of(found[key][: told.runs]) for key in asked if found[key]}
    print(here() + (f"; {len(shown.keys() - made.keys())} lines are of an earlier day" if shown else ""))
    shown |= made
    print("data           eps  method                runs  pairs (sd)       triples    cpu s  peak MB")
    for line in standings(shown):
        print(line)
    print()
    for line in orders(shown):
        print(line)


if __name__ == "__main__":
    main()
