"""Time and loss of fitting MST's measurements, beside mbi 2.0.0 in its own environment (make bench-env).

    python bench/mst_vs_mbi.py            the table; the last line says whether the claim holds
    python bench/mst_vs_mbi.py --json     the same for machines

Both get the same counts of Adult: every 1-way and the 13 pairs of a spanning tree, with Gaussian noise of the size that
MST has at ε = 1, δ = 1e-9; once on the full domain, once with rare codes merged as MST does before it measures pairs.
(The tree is that of the exact counts and the noise that of a seeded NumPy generator: nothing here is private.)
Both losses are computed here, from the exported marginals, as ½ Σ (marginal − count)² / variance.

Claim: populace's first fit takes at most a tenth of mbi's first fit, which compiles, and no more than mbi's second fit
in the same process, and its loss is no larger.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.fit.estimator import fit_least_squares
from populace.inference.gls.observations import observe
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement
from populace.methods.selection.merge_rare_codes import merge_rare_codes

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "shared" / "data" / "adult"
PEER = HERE.parent / ".bench" / "mbi" / "bin" / "python"
COLUMN_DEVIATION, PAIR_DEVIATION = 36, 34
SEEDS = (0, 1, 2)


def read() -> tuple[Domain, dict[str, np.ndarray]]:
    domain = Domain(json.loads((DATA / "domain.json").read_text()))
    table = pq.read_table(DATA / "adult.parquet")
    return domain, {name: table[name].to_numpy().astype(np.int64) for name in domain}


def count(codes: dict[str, np.ndarray], marginal: Marginal, domain: Domain) -> np.ndarray:
    number = np.zeros(len(next(iter(codes.values()))), dtype=np.int64)
    for name, size in zip(marginal.clique, marginal.shape(domain), strict=True):
        grouping = marginal.grouping(name)
        number = number * size + (codes[name] if grouping is None else grouping.lookup[codes[name]])
    shape = marginal.shape(domain)
    return np.bincount(number, minlength=int(np.prod(shape))).reshape(shape)


def spanning_tree(codes: dict[str, np.ndarray], domain: Domain) -> list[tuple[str, str]]:
    """The pairs farthest from independence that join all columns without a cycle."""
    rows = len(next(iter(codes.values())))
    single = {name: count(codes, Marginal((name,)), domain) for name in domain}
    distance = {
        pair: np.abs(
            count(codes, Marginal(pair), domain) - np.outer(single[pair[0]], single[pair[1]]) / rows
        ).sum()
        for pair in combinations(domain, 2)
    }
    part = {name: {name} for name in domain}
    tree = []
    for one, two in sorted(distance, key=lambda pair: -distance[pair]):
        if part[one] is not part[two]:
            tree.append((one, two))
            part[one] |= part[two]
            for name in part[two]:
                part[name] = part[one]
    return tree


def measure(
    codes: dict[str, np.ndarray], domain: Domain, tree: list[tuple[str, str]], *, seed: int, merge: bool
) -> tuple[list[Measurement], dict[str, Grouping]]:
    rng = np.random.default_rng(seed)

    def noisy(marginal: Marginal, deviation: int) -> Measurement:
        counts = count(codes, marginal, domain)
        counts = counts + np.rint(rng.normal(0, deviation, counts.shape)).astype(np.int64)
        return Measurement(marginal, counts, Fraction(deviation**2))

    columns = [noisy(Marginal((name,)), COLUMN_DEVIATION) for name in domain]
    found = merge_rare_codes(columns, ordered=(), classes={}) if merge else ()
    groups = {grouping.column: grouping for grouping in found}
    pairs = [
        noisy(Marginal(pair, tuple(groups[name] for name in pair if name in groups)), PAIR_DEVIATION)
        for pair in tree
    ]
    return columns + pairs, groups


def fit_by_mbi(items: list[Measurement], domain: Domain, groups: dict[str, Grouping]) -> dict[str, Any]:
    told = {
        "fine": dict(domain),
        "grouped": dict(domain.group(groups.values())),
        "groups": {name: list(grouping.groups) for name, grouping in groups.items()},
        "cliques": [item.marginal.clique for item in items],
        "deviations": [float(item.variance) ** 0.5 for item in items],
    }
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "given.npz", Path(folder) / "answer.npz"
        np.savez(
            given, told=np.array(json.dumps(told)), **{f"counts{i}": m.counts for i, m in enumerate(items)}
        )
        subprocess.run([str(PEER), str(HERE / "peers" / "mbi_fit.py"), str(given), str(answer)], check=True)
        with np.load(answer) as found:
            tables = [found[f"table{i}"] for i in range(len(items))]
            first, second = found["seconds"].tolist()
            return {
                "first": first,
                "second": second,
                "tables": tables,
                "versions": json.loads(str(found["versions"])),
            }


def fit_by_populace(items: list[Measurement], domain: Domain) -> dict[str, Any]:
    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        model = fit_least_squares(items, space=ModelSpace(domain=domain))
        tables = [model.grouped_marginal(item.marginal.clique) for item in items]
        seconds.append(time.perf_counter() - begun)
    return {"first": seconds[0], "second": seconds[1], "tables": tables}


def loss(
    tables: list[np.ndarray], items: list[Measurement], domain: Domain, groups: dict[str, Grouping]
) -> float:
    found = 0.0
    for table, item in zip(tables, items, strict=True):
        (seen,) = observe([item], domain=domain, groupings=groups)
        order = [item.marginal.clique.index(name) for name in seen.clique]
        missed = (
            table.reshape(item.marginal.shape(domain.group(groups.values()))).transpose(order) - seen.values
        )
        found += 0.5 * float((missed**2 / seen.variance).sum())
    return found


def compare() -> list[dict[str, Any]]:
    domain, codes = read()
    tree = spanning_tree(codes, domain)
    results = []
    for merge in (False, True):
        for seed in SEEDS:
            items, groups = measure(codes, domain, tree, seed=seed, merge=merge)
            ours, peer = fit_by_populace(items, domain), fit_by_mbi(items, domain, groups)
            results.append(
                {
                    "domain": "merged" if merge else "full",
                    "seed": seed,
                    "cells": sum(item.counts.size for item in items),
                    "versions": peer["versions"] | {"populace": version("populace")},
                }
                | {f"mbi_{key}_s": peer[key] for key in ("first", "second")}
                | {f"populace_{key}_s": ours[key] for key in ("first", "second")}
                | {"mbi_loss": loss(peer["tables"], items, domain, groups)}
                | {"populace_loss": loss(ours["tables"], items, domain, groups)}
            )
    return results


def holds(run: dict[str, Any]) -> bool:
    return (
        run["populace_first_s"] <= run["mbi_first_s"] / 10
        and run["populace_first_s"] <= run["mbi_second_s"]
        and run["populace_loss"] <= run["mbi_loss"]
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--json", action="store_true")
    told = ask.parse_args()
    if not PEER.exists():
        sys.exit("mbi has no environment here.\nhint: make bench-env")
    runs = compare()
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}, NumPy {version('numpy')}",
        "claim_holds": all(map(holds, runs)),
    }
    if told.json:
        print(json.dumps(about | {"runs": runs}, indent=1))
        sys.exit(0 if about["claim_holds"] else 1)
    print(f"{about['date']}, {about['machine']}; {runs[0]['versions']}")
    heads = f"{'1st s':>10} {'2nd s':>7} {'loss':>10}"
    print(f"{'':12} {'mbi ' + heads.strip():>29}   {'populace ' + heads.strip():>29}")
    for run in runs:
        print(
            f"{run['domain']:7} {run['seed']:4} {run['mbi_first_s']:10.2f} {run['mbi_second_s']:7.2f} "
            f"{run['mbi_loss']:10.2f}   {run['populace_first_s']:10.3f} {run['populace_second_s']:7.3f} "
            f"{run['populace_loss']:10.2f}"
        )
    for place in ("full", "merged"):
        here = [run for run in runs if run["domain"] == place]
        for name in ("first", "second"):
            ratios = [run[f"mbi_{name}_s"] / run["populace_first_s"] for run in here]
            print(
                f"{place}: mbi's {name} fit takes {statistics.median(ratios):.0f} times ours "
                f"({min(ratios):.0f} to {max(ratios):.0f})"
            )
    print("the claim holds" if about["claim_holds"] else "THE CLAIM DOES NOT HOLD")
    sys.exit(0 if about["claim_holds"] else 1)


if __name__ == "__main__":
    main()
