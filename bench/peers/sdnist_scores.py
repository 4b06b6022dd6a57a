"""Score two CSV files of codes with SDNist; run by bench/evaluate.py and tests/golden/peer_scores.py.

python bench/peers/sdnist_scores.py REAL.csv SYNTHETIC.csv [AREA]
"""

import json
import sys
import time
import warnings
from importlib.metadata import version

import pandas as pd

warnings.simplefilter("ignore")

import sdnist.report  # noqa: E402, F401 (first: its modules import each other)
from sdnist.metrics.kmarginal import KMarginal  # noqa: E402


def main() -> None:
    real, synthetic = (pd.read_csv(path) for path in sys.argv[1:3])
    areas = sys.argv[3:]
    begun = time.process_time()
    plain = KMarginal(real, synthetic)
    found = {
        "k_marginal": float(plain.compute_score()),
        "columns": sorted({n for pair in plain.marginals for n in pair}),
    }
    if areas:
        by_area = KMarginal(real, synthetic, areas)
        by_area.compute_score()
        found["k_marginal_areas"] = float(by_area.scores.mean())
    print(json.dumps(found | {"seconds": time.process_time() - begun, "version": version("sdnist")}))


main()
