"""Make synthetic rows with dpmm's pipelines; run by bench/peers.py with dpmm's own Python.

    python bench/peers/dpmm_synth.py DATA.parquet DOMAIN.json EPSILON DELTA mst|aim OUT.parquet

Its defaults but for three: no binning (the columns are codes already, and their sizes are public), one process, and
for AIM the model of at most 80 MB that dpmm recommends for comparisons. As many rows as its model counts.
"""

import json
import sys
import warnings
from pathlib import Path

import pandas as pd

warnings.simplefilter("ignore")

from dpmm.pipelines import AIMPipeline, MSTPipeline  # noqa: E402


def main() -> None:
    given, sizes, epsilon, delta, method, out = sys.argv[1:]
    domain = json.loads(Path(sizes).read_text())
    table = pd.read_parquet(given)[list(domain)]
    kind, most = {"mst": (MSTPipeline, None), "aim": (AIMPipeline, 80)}[method]
    pipeline = kind(
        epsilon=float(epsilon), delta=float(delta), max_model_size=most, n_jobs=1, disable_processing=True
    )
    pipeline.fit(table, domain=domain)
    rows = pipeline.generate(n_records=round(float(pipeline.gen.generator.model.total)))
    rows[list(domain)].to_parquet(out, index=False)


if __name__ == "__main__":
    main()
