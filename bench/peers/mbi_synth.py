"""Make synthetic rows with mbi; run by bench/peers.py with mbi's own Python.

    python bench/peers/mbi_synth.py DATA.parquet DOMAIN.json EPSILON DELTA METHOD OUT.parquet

mbi fits models and draws rows but brings no mechanism, so the two loops are here: MST (McKenna, Miklau and Sheldon
2021) and AIM (McKenna, Mullins, Sheldon and Miklau 2022; its workload is all pairs, its model at most 80 MB).
Neighbours differ by one added or removed row; noise is Gaussian floats, choices are exponential, and all of ρ is
spent: the largest for which ρ-zCDP implies (ε, δ)-DP. For measuring only: floats from NumPy are no exact noise.

METHOD is mst or aim with mbi's recommended estimator as it comes, in single precision, in which mirror descent stalls
early on large tables; mst64 and aim64 are the same in double precision.
"""

import json
import math
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import combinations

import jax
import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.optimize import brentq, minimize_scalar
from scipy.special import softmax

warnings.simplefilter("ignore")

from mbi import Dataset, Domain, LinearMeasurement, MarkovRandomField, estimation  # noqa: E402
from mbi.junction_tree import hypothetical_model_size, make_junction_tree  # noqa: E402

COLUMN_STEPS, MST_STEPS, AIM_STEPS = 1_000, 10_000, 1_000
MOST_MEGABYTES = 80
RNG = np.random.default_rng()
# The seconds of every fit.
FITTING: list[float] = []

Clique = tuple[str, ...]


def largest_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta)-DP; Canonne, Kamath and Steinke 2020."""

    def log_delta(rho: float) -> float:
        def bound(t: float) -> float:
            order = 1 + math.exp(t)
            return (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - t

        return float(minimize_scalar(bound, bounds=(-10, 20), method="bounded", options={"xatol": 1e-10}).fun)

    return float(brentq(lambda rho: log_delta(rho) - math.log(delta), 1e-9, epsilon, xtol=1e-14))


def measure(data: Dataset, clique: Clique, deviation: float) -> LinearMeasurement:
    counts = count(data, clique)
    return LinearMeasurement(counts + RNG.normal(0, deviation, counts.shape), clique, deviation)


def count(data: Dataset, clique: Clique) -> np.ndarray:
    number = np.ravel_multi_index([data.data[name] for name in clique], data.domain.project(clique).shape)
    return np.bincount(number, minlength=data.domain.size(clique)).astype(float)


def choose(scores: np.ndarray, *, epsilon: float, sensitivity: float) -> int:
    """Draw an index by the exponential mechanism, at epsilon² / 8 of zCDP."""
    return int(RNG.choice(len(scores), p=softmax(epsilon / (2 * sensitivity) * scores)))


def rows_of(items: list[LinearMeasurement]) -> float:
    return estimation.minimum_variance_unbiased_total(items)


def fit(
    domain: Domain, items: list[LinearMeasurement], *, rows: float, steps: int, start: object = None
) -> MarkovRandomField:
    begun = time.perf_counter()
    found = estimation.MirrorDescent().estimate(domain, items, rows, iters=steps, warm_start=start)
    jax.block_until_ready(found.potentials)
    FITTING.append(time.perf_counter() - begun)
    return found


def mst(data: Dataset, rho: float) -> Dataset:
    """A third of rho on every column, a third on choosing a tree of pairs, a third on the pairs."""
    names = list(data.domain)
    deviation = math.sqrt(3 * len(names) / (2 * rho))
    columns = [measure(data, (name,), deviation) for name in names]
    groups = {item.clique[0]: merge(np.asarray(item.noisy_measurement), 3 * deviation) for item in columns}
    merged = [item.compress(groups, data.domain) for item in columns]
    data = data.compress(groups)
    model = fit(data.domain, merged, rows=rows_of(columns), steps=COLUMN_STEPS)
    tree = spanning_tree(data, model, rho=rho / 3)
    deviation = math.sqrt(3 * len(tree) / (2 * rho))
    pairs = [measure(data, pair, deviation) for pair in tree]
    model = fit(data.domain, merged + pairs, rows=rows_of(columns + pairs), steps=MST_STEPS)
    return model.synthetic_data().decompress(groups)


def merge(counts: np.ndarray, least: float) -> np.ndarray:
    """Return the new code of each code: those counted below `least` become one."""
    rare = counts < least
    codes = np.cumsum(~rare) - 1
    return np.where(rare, (~rare).sum(), codes)


def spanning_tree(data: Dataset, columns: MarkovRandomField, *, rho: float) -> list[Clique]:
    """Join all columns by the pairs farthest from independence, each chosen with noise."""
    single = {name: np.asarray(columns.project((name,)).datavector(), dtype=float) for name in data.domain}
    distance = {
        (a, b): np.abs(count(data, (a, b)) - np.outer(single[a], single[b]).ravel() / single[a].sum()).sum()
        for a, b in combinations(data.domain, 2)
    }
    epsilon = math.sqrt(8 * rho / (len(single) - 1))
    part = {name: name for name in single}
    tree: list[Clique] = []
    while len(tree) < len(single) - 1:
        open_pairs = [pair for pair in distance if part[pair[0]] != part[pair[1]]]
        scores = np.array([distance[pair] for pair in open_pairs])
        pair = open_pairs[choose(scores, epsilon=epsilon, sensitivity=1)]
        tree.append(pair)
        one, two = part[pair[0]], part[pair[1]]
        part = {name: one if where == two else where for name, where in part.items()}
    return tree


def aim(data: Dataset, rho: float) -> Dataset:
    """Measure every column, then the pairs that the model misses most, with less noise once it hides what is new."""
    domain, names = data.domain, list(data.domain)
    pairs = list(combinations(names, 2))
    # The weight of a candidate is its overlap with the workload of all pairs.
    weights: dict[Clique, int] = {(name,): len(names) - 1 for name in names}
    weights |= dict.fromkeys(pairs, 2 + 2 * (len(names) - 2))
    answers = {clique: count(data, clique) for clique in weights}
    rounds = 16 * len(names)
    deviation = math.sqrt(rounds / (2 * 0.9 * rho))
    epsilon = math.sqrt(8 * 0.1 * rho / rounds)
    items = [measure(data, (name,), deviation) for name in names]
    spent = len(items) / (2 * deviation**2)
    model = fit(domain, items, rows=rows_of(items), steps=AIM_STEPS)
    last = False
    while not last:
        if rho - spent < 2 * (1 / (2 * deviation**2) + epsilon**2 / 8):
            left = rho - spent
            deviation, epsilon, last = math.sqrt(1 / (2 * 0.9 * left)), math.sqrt(8 * 0.1 * left), True
        spent += 1 / (2 * deviation**2) + epsilon**2 / 8
        allowed = within(MOST_MEGABYTES * spent / rho, domain, model, list(weights))
        before = dict(marginals(model, allowed))
        scores = [
            weights[clique]
            * (
                np.abs(answers[clique] - before[clique]).sum()
                - math.sqrt(2 / math.pi) * deviation * domain.size(clique)
            )
            for clique in allowed
        ]
        clique = allowed[
            choose(np.array(scores), epsilon=epsilon, sensitivity=max(weights[clique] for clique in allowed))
        ]
        items.append(measure(data, clique, deviation))
        model = fit(domain, items, rows=rows_of(items), steps=AIM_STEPS, start=model)
        after = np.asarray(model.project(clique).datavector(), dtype=float)
        moved = np.abs(after - before[clique]).sum()
        print(f"{spent / rho:.3f} of the budget, {clique}", file=sys.stderr, flush=True)
        if moved <= math.sqrt(2 / math.pi) * deviation * domain.size(clique):
            deviation, epsilon = deviation / 2, epsilon * 2
    return model.synthetic_data()


def within(
    megabytes: float, domain: Domain, model: MarkovRandomField, candidates: list[Clique]
) -> list[Clique]:
    """Return the candidates that the model has already, or that leave it small enough."""
    known = [set(clique) for clique in model.cliques]
    cliques = list(model.cliques)
    return [
        clique
        for clique in candidates
        if any(set(clique) <= old for old in known)
        or hypothetical_model_size(domain, [*cliques, clique]) <= megabytes
    ]


def marginals(model: MarkovRandomField, cliques: list[Clique]) -> Iterator[tuple[Clique, np.ndarray]]:
    """Yield the model's tables of columns and pairs, walking its junction tree once from every column.

    mbi has functions for this, but they compile one program for each pair in each round.
    """
    domain = model.domain
    tree, _ = make_junction_tree(domain, model.cliques)
    index = {name: number for number, name in enumerate(domain)}
    full = estimation.marginal_oracles.message_passing_hugin(
        model.potentials.expand(list(tree.nodes)), model.total
    )
    tables = {node: np.asarray(full[node].values, dtype=float) for node in tree.nodes}
    total = next(iter(tables.values())).sum()

    def table(node: Clique, wanted: Clique) -> np.ndarray:
        return np.einsum(tables[node], [index[n] for n in node], [index[n] for n in wanted])

    def home(name: str) -> Clique:
        return min((node for node in tree.nodes if name in node), key=domain.size)

    single = {name: table(home(name), (name,)) for name in domain}
    wanted = set(cliques)
    found: dict[Clique, np.ndarray] = {(name,): single[name] for name in domain if (name,) in wanted}
    for one in domain:
        others = {two for two in domain if (one, two) in wanted}
        if not others:
            continue
        root = home(one)
        # For each clique reached: the columns it shares with the one before it, and their table with `one`.
        shared: dict[Clique, tuple[Clique, np.ndarray]] = {}

        def joint(
            node: Clique,
            names: Clique,
            *,
            one: str = one,
            shared: dict[Clique, tuple[Clique, np.ndarray]] = shared,
        ) -> np.ndarray:
            if one in node:
                return table(node, (one, *names))
            border, known = shared[node]
            union = tuple(dict.fromkeys(border + names))
            below = table(node, border)
            ratio = np.divide(known, below, out=np.zeros_like(known), where=below > 0)
            letters = [index[n] for n in union]
            return np.einsum(
                ratio,
                [index[one], *(index[n] for n in border)],
                table(node, union),
                letters,
                [index[one], *(index[n] for n in names)],
                optimize=True,
            )

        reached = {root: None, **{node: before for before, node in nx.bfs_edges(tree, root)}}
        for node, before in reached.items():
            if before is not None and one not in node:
                border = tuple(name for name in node if name in before)
                shared[node] = (border, joint(before, border))
            for two in others & set(node):
                found[one, two] = joint(node, (two,))
                others = others - {two}
        found |= {(one, two): np.outer(single[one], single[two]) / total for two in others}
    for clique in cliques:
        yield clique, found[clique].ravel()


def main() -> None:
    given, sizes, epsilon, delta, method, out = sys.argv[1:]
    jax.config.update("jax_enable_x64", method.endswith("64"))
    with open(sizes) as file:  # noqa: PTH123
        domain = Domain.fromdict(json.load(file))
    table = pq.read_table(given, columns=list(domain))
    data = Dataset({name: table[name].to_numpy() for name in domain}, domain)
    rows = {"mst": mst, "aim": aim}[method.removesuffix("64")](
        data, largest_rho(float(epsilon), float(delta))
    )
    pq.write_table(pa.table({name: np.asarray(rows.data[name]) for name in domain}), out)
    print(f"fitting took {sum(FITTING):.2f} s")


if __name__ == "__main__":
    main()
