"""A proportion on a secret piece beside the same on the whole: how sampling and noise weigh against each other.

A sample of a tenth of the 1980 census is cut into 10 secret pieces, by the code that cuts private tables. Ten questions
are asked: either each of one piece, with the whole ε, or all of the whole sample, with a tenth of it each. One of them
is the proportion of men among those of 65 and more. Its law over many runs is shown by its quartiles and by the ends of
the middle 90 %, with and without noise, beside what theory says its deviation is. Nothing here is private.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

import numpy as np
from weighting import Census

from populace.privacy.accounting.amplification import piece_variance, whole_variance
from populace.privacy.accounting.parallel_composition import amplified_piece_epsilon
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.split_key import Split, SplitKey
from populace.schema.unit import Neighbours

PIECES = 10
EPSILONS = (Fraction(1, 100), Fraction(3, 100), Fraction(1, 10), Fraction(3, 10), Fraction(1), Fraction(3))
SPLIT = Split(shares=(Fraction(1, PIECES),) * PIECES, neighbours=Neighbours.REPLACE_ONE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=51)
    arguments = parser.parse_args()
    census, began = Census(), time.process_time()
    rng, entropy = np.random.default_rng(arguments.seed), RehearsalEntropy(arguments.seed)
    old = np.flatnonzero(census.codes["AGE"] >= 50)
    people = rng.choice(old, size=len(old) // 10, replace=False)
    men = census.codes["SEX"][people] == 0
    truth, size = float(men.mean()), len(people)
    labels = [int(person).to_bytes(8, "big") for person in people]
    shares = np.zeros(arguments.runs)
    piece = SPLIT.sizes(size)[0]
    for run in range(arguments.runs):
        first = SPLIT.pieces(labels, key=SplitKey.draw(entropy)) == 0
        shares[run] = men[first].mean()
    print(f"{size} persons, {100 * truth:.2f} % men; a piece has {piece}; {arguments.runs} runs\n")
    print(
        f"{'':9}{'':21}{'5 %':>8}{'25 %':>8}{'50 %':>8}{'75 %':>8}{'95 %':>8}{'deviation':>12}{'theory':>9}"
    )
    print(
        row(
            "",
            "piece, no noise",
            shares,
            piece_variance(Fraction(truth), piece=piece, population=size, epsilon=Fraction(1))[0],
        )
    )
    better = {}
    for epsilon in EPSILONS:
        drawing, noise = piece_variance(Fraction(truth), piece=piece, population=size, epsilon=epsilon)
        cut = shares + rng.laplace(scale=1 / (piece * float(epsilon)), size=arguments.runs)
        whole = truth + rng.laplace(scale=PIECES / (size * float(epsilon)), size=arguments.runs)
        print(row(f"ε = {float(epsilon):g}", "piece", cut, drawing + noise))
        theory = whole_variance(population=size, queries=PIECES, epsilon=epsilon)
        print(row("", "whole, a tenth each", whole, theory))
        better[epsilon] = float(np.std(cut) / np.std(whole))
    print(
        "\ndeviation of a piece, as a multiple of the whole's: "
        + "  ".join(f"ε = {float(epsilon):g}: {ratio:.2f}" for epsilon, ratio in better.items())
    )
    print(
        "what whoever sees one piece alone is told: "
        + "  ".join(
            f"{float(epsilon):g} → {float(amplified_piece_epsilon(epsilon, split=SPLIT, pieces=[0], persons=size)):.3g}"
            for epsilon in EPSILONS
        )
    )
    print(f"\n{time.process_time() - began:.0f} CPU seconds")


def row(epsilon: str, title: str, found: np.ndarray, variance: Fraction) -> str:
    ends = "".join(f"{100 * value:8.1f}" for value in np.quantile(found, [0.05, 0.25, 0.5, 0.75, 0.95]))
    return f"{epsilon:9}{title:21}{ends}{100 * found.std():12.2f}{100 * float(variance) ** 0.5:9.2f}"


if __name__ == "__main__":
    main()
