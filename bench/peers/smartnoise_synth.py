"""Make synthetic rows with smartnoise-synth; run by bench/peers.py with smartnoise's own Python.

    python bench/peers/smartnoise_synth.py DATA.parquet DOMAIN.json EPSILON DELTA mst OUT.parquet

The codes of each column come from the domain and not from the rows: the transformer is fitted to a table that holds
every code. As many rows as the data has, which smartnoise takes as known.
"""

import json
import sys
import warnings
from pathlib import Path

import pandas as pd

warnings.simplefilter("ignore")

from snsynth import Synthesizer  # noqa: E402
from snsynth.transform import LabelTransformer, TableTransformer  # noqa: E402


def main() -> None:
    given, sizes, epsilon, delta, method, out = sys.argv[1:]
    domain = json.loads(Path(sizes).read_text())
    table = pd.read_parquet(given)[list(domain)]
    codes = pd.DataFrame(
        {name: [min(code, size - 1) for code in range(max(domain.values()))] for name, size in domain.items()}
    )
    transformer = TableTransformer([LabelTransformer(nullable=False) for _ in domain])
    transformer.fit(codes)
    model = Synthesizer.create(method, epsilon=float(epsilon), delta=float(delta))
    model.fit(table, transformer=transformer)
    rows = model.sample(len(table))
    pd.DataFrame(rows, columns=list(domain)).to_parquet(out, index=False)


if __name__ == "__main__":
    main()
