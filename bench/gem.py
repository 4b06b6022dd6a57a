"""What `gem` learns, with its network and with components that are free of one, on the same measurements.

    python bench/gem.py                          nltcs and adult at epsilon 1
    python bench/gem.py --data nltcs --runs 1

The measurements are those of `gem`, with seeded noise. Both mixtures have as many components, start from the same noisy
columns and are trained alike, free components with longer steps. The error is the mean total variation over all pairs,
and over 40 triples of at most 200,000 cells, between the real rows and the mixture itself: no rows are drawn. "Apart"
is the network without what draws columns of which nothing was measured to independence. The model that other methods
fit to such measurements stands beside them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from error import files, here

from populace.api.measure import measure
from populace.inference.factor import Table
from populace.inference.fit.fit_model import fit_model
from populace.inference.model import Model
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurements
from populace.methods.literature.gem import gem as mixture
from populace.methods.literature.gem import gem_network as generator
from populace.methods.literature.gem.gem_network import GeneratorNetwork
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.schema.schema import Schema

FREE_RATE = 0.05


class Free(GeneratorNetwork):
    """Components without a network: their logits are the parameters."""

    def __init__(self, start: Mapping[str, Table], *, components: int) -> None:
        super().__init__(start, components=components)
        rng = np.random.default_rng(0)
        base = self._layers(self.parameters)[-1]
        self._many = self.components
        self.parameters = (base + generator._SPREAD * rng.standard_normal((self._many, base.size))).reshape(
            -1
        )

    def _forward(self, flat: Table) -> generator._ForwardPass:
        shares = flat.reshape(self._many, -1).copy()
        shares -= self._spread(np.maximum.reduceat(shares, self._starts, axis=1))
        np.exp(shares, out=shares)
        shares /= self._spread(np.add.reduceat(shares, self._starts, axis=1))
        return generator._ForwardPass(shares, shares, shares, shares)

    def _backward(self, flat: Table, passed: generator._ForwardPass, slope: Table) -> Table:
        weighed = passed.shares * slope
        columns = np.add.reduceat(weighed, self._starts, axis=1)
        return (weighed - passed.shares * self._spread(columns)).reshape(flat.shape)


def trained(found: Measurements) -> Model:
    return mixture.gem_model(found.items, domain=found.schema.domain)


def free(found: Measurements) -> Model:
    rate = generator._RATE
    generator._RATE, mixture.GeneratorNetwork = FREE_RATE, Free
    try:
        return trained(found)
    finally:
        generator._RATE, mixture.GeneratorNetwork = rate, GeneratorNetwork


def apart(found: Measurements) -> Model:
    drawn = generator._INDEPENDENCE_WEIGHT
    generator._INDEPENDENCE_WEIGHT = 0.0
    try:
        return trained(found)
    finally:
        generator._INDEPENDENCE_WEIGHT = drawn


def joined(found: Measurements) -> Model:
    return fit_model(found.items, space=ModelSpace(domain=found.schema.domain))


WAYS: dict[str, Callable[[Measurements], Model]] = {
    "network": trained,
    "free components": free,
    "network, apart": apart,
    "junction tree": joined,
}


def errors(model: Model, rows: pd.DataFrame) -> tuple[float, float]:
    """Return the mean total variation between a model and rows, over pairs and over small triples."""
    domain = model.domain
    joints = model.propagation.joints(model.beliefs)

    def wrong(clique: tuple[str, ...]) -> float:
        table = joints.table(clique)
        for axis, name in enumerate(clique):
            if name in model.groupings:
                shape = tuple(-1 if i == axis else 1 for i in range(table.ndim))
                table = table.take(model.groupings[name].lookup, axis=axis) * model.within[name].reshape(
                    shape
                )
        flat = np.ravel_multi_index([rows[name].to_numpy() for name in clique], domain.shape(clique))
        real = np.bincount(flat, minlength=table.size).reshape(table.shape) / len(rows)
        return 0.5 * float(np.abs(table - real).sum())

    triples = [c for c in combinations(domain, 3) if domain.cells(c) <= 200_000]
    some = [triples[i] for i in np.random.default_rng(0).permutation(len(triples))[:40]]
    return (
        float(np.mean([wrong(pair) for pair in combinations(domain, 2)])),
        float(np.mean([wrong(triple) for triple in some])),
    )


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=["nltcs", "adult"])
    ask.add_argument("--epsilon", default="1")
    ask.add_argument("--delta", default="1e-9")
    ask.add_argument("--runs", type=int, default=2)
    asked = ask.parse_args()
    print(f"{here()}, epsilon {asked.epsilon}, delta {asked.delta}")
    print(f"{'data':8} {'seed':>4} {'way':16} {'pairs':>8} {'triples':>8} {'cpu s':>6}")
    for data in asked.data:
        file, domain = files(data)
        schema = Schema.load(domain)
        rows = pd.read_parquet(file)[list(schema.domain)]
        for seed in range(1, asked.runs + 1):
            with tempfile.TemporaryDirectory() as place:
                begun = time.process_time()
                found = measure(
                    rows,
                    schema=schema,
                    epsilon=asked.epsilon,
                    delta=asked.delta,
                    method="gem",
                    ledger=Path(place) / "ledger.db",
                    noise=ExactNoise(RehearsalEntropy(seed)),
                )
            print(f"{data:8} {seed:>4} {'(measuring)':16} {'':8} {'':8} {time.process_time() - begun:6.1f}")
            for way, fit in WAYS.items():
                begun = time.process_time()
                model = fit(found)
                used = time.process_time() - begun
                pairs, triples = errors(model, rows)
                print(f"{data:8} {seed:>4} {way:16} {pairs:8.5f} {triples:8.5f} {used:6.1f}")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
