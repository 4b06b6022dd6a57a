"""Score two CSV files of codes with SDMetrics; run by bench/evaluate.py and tests/golden/peer_scores.py.

python bench/peers/sdmetrics_scores.py REAL.csv SYNTHETIC.csv
"""

import json
import sys
import time
import warnings
from importlib.metadata import version

import pandas as pd

warnings.simplefilter("ignore")

from sdmetrics.reports.single_table import QualityReport  # noqa: E402


def main() -> None:
    real, synthetic = (pd.read_csv(path).astype(str) for path in sys.argv[1:3])
    begun = time.process_time()
    report = QualityReport()
    report.generate(
        real, synthetic, {"columns": {name: {"sdtype": "categorical"} for name in real}}, verbose=False
    )
    shapes, pairs = (report.get_details(name) for name in ("Column Shapes", "Column Pair Trends"))
    found = {
        "column_shapes": float(shapes["Score"].mean()),
        "column_pair_trends": float(pairs["Score"].mean()),
        "pairs": [
            [a, b, None if pd.isna(s) else float(s)]
            for a, b, s in pairs[["Column 1", "Column 2", "Score"]].values
        ],
        "seconds": time.process_time() - begun,
        "version": version("sdmetrics"),
    }
    print(json.dumps(found))


main()
