"""How near rows come to the tables that `dpsyn` measured: from a tree and moves, and from moves alone.

    python bench/gum.py                       epsilon 20, both ways, the default
    python bench/gum.py --epsilon 1 --way gum

nist2020-acs, whose years 2012 to 2015 are public and 2016 to 2018 are released, counted first by area and year, with
the groups of columns of the source (delta 1e-9). Every pair that was measured is compared with its target, which is
that table made to agree with the others and without most of its noise: the mean and the largest total variation, and
the pair that is farthest. CPU seconds are those of fitting and drawing. It stars where a pair is not within .05.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from error import here
from league import tables

from populace.api.measure import measure
from populace.core.marginals import Clique, Marginal, tabulate
from populace.inference.model import Model
from populace.methods.fit_measurements import fit
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.sampling.draw_rows import draw_groups
from populace.schema.schema import Schema

BAR = 0.05


def distances(model: Model, *, rules: object, seed: int) -> dict[Clique, float]:
    """Return the total variation between rows of a model and each of its targets that no public table gave."""
    rows, areas = round(model.total), {name for clique in model.exact for name in clique}
    codes = draw_groups(model, rows=rows, rng=np.random.default_rng(seed), rules=rules)  # type: ignore[arg-type]
    found = {}
    for clique, target in model.targets.items():
        if areas & set(clique):
            continue
        counts = tabulate(Marginal(clique), codes=codes, domain=model.grouped_domain)
        found[clique] = float(np.abs(counts / rows - target / target.sum()).sum() / 2)
    return found


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--epsilon", nargs="+", default=["20"])
    ask.add_argument("--way", nargs="+", choices=["tree", "gum"], default=["tree", "gum"])
    ask.add_argument("--seed", type=int, default=1)
    told = ask.parse_args()
    print(here())
    print("eps   rows from   pairs     rows  mean    farthest  which                            cpu s")
    with tempfile.TemporaryDirectory() as name:
        table = tables(["nist2020-acs"], place=Path(name))["nist2020-acs"]
        schema = Schema.load(table.grouped or table.schema)
        for epsilon in told.epsilon:
            measured = measure(
                table.rows, schema=schema, epsilon=epsilon, delta=table.delta, method="dpsyn",
                public=table.public, ledger=Path(name) / f"{epsilon}.db", dataset="bench",
                noise=ExactNoise(RehearsalEntropy(told.seed)),
            )  # fmt: skip
            for way in told.way:
                begun = time.process_time()
                model = fit(measured, inference=way)
                found = distances(model, rules=schema.rules, seed=told.seed)
                spent, worst = time.process_time() - begun, max(found, key=found.__getitem__)
                print(
                    f"{epsilon:>4}  {way:9}  {len(found):6}  {round(model.total):7}  "
                    f"{np.mean(list(found.values())):.4f}  {found[worst]:.4f}    {' × '.join(worst):31}  {spent:5.1f}"
                    f"{' *' if found[worst] > BAR else ''}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
