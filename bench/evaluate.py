"""What `populace evaluate` costs, and its scores beside those of SDNist and SDMetrics on the same files.

    python bench/evaluate.py           both tables and both peers (make bench-env first)

The claims: 27,253 × 24 rows of the American Community Survey in less than 60 CPU seconds, a million rows of 15 columns
in less than 5 CPU minutes and 2 GiB. Peers read the codes in which populace compares: SDNist's k-marginal of the pairs
that it takes (all but those of PUMA and INDP), SDMetrics' column shapes and pair trends. Every run is a process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from error import SHARED, here

import populace as pp
from populace.evaluation.compared_rows import read_row_pair
from populace.evaluation.scores.marginal_distance import pair_total_variation
from populace.schema.imports.detect_format import import_document
from populace.schema.imports.overlay import lay_over

HERE = Path(__file__).resolve().parent
ACS = SHARED / "data" / "nist-acs"
NAMES = ("tv_columns", "tv_pairs", "tv_triples", "k_marginal", "equivalent_sample_size", "propensity_ratio")
LEFT_OUT_BY_SDNIST = ("PUMA", "INDP")


def acs_schema() -> pp.Schema:
    document = import_document(ACS / "national2019.json", dictionary=ACS / "data_dictionary.json")
    return pp.Schema.parse(lay_over(document, "nist-acs").text())


def write_million(folder: Path) -> list[str]:
    """Write two samples of a latent class model: a million rows each of 15 columns of 2 to 60 codes."""
    sizes = {
        f"c{place:02d}": size
        for place, size in enumerate((2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 40, 60))
    }
    (folder / "million.json").write_text(json.dumps(sizes))
    paths = []
    for name, seed in (("million-real", 1), ("million-synthetic", 2)):
        rng = np.random.default_rng(seed)
        hidden = rng.integers(0, 10, 1_000_000)
        columns = {
            column: ((hidden * (place + 3) + rng.geometric(0.35, len(hidden)) - 1) % size).astype(np.int32)
            for place, (column, size) in enumerate(sizes.items())
        }
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        paths.append(str(folder / f"{name}.parquet"))
    return [*paths, str(folder / "million.json")]


def measure(real: str, synthetic: str, schema: str) -> None:
    """Evaluate in this process, and print what it took; run as a child."""
    begun = time.process_time()
    found = pp.evaluate(real, synthetic, schema=schema)
    scores = {name: found[name].value for name in NAMES}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        json.dumps({"seconds": time.process_time() - begun, "gibibytes": peak, "rows": found.rows, **scores})
    )


def peer(name: str, *arguments: str) -> dict[str, object]:
    python = HERE.parent / ".bench" / name / "bin" / "python"
    done = subprocess.run(
        [python, HERE / "peers" / f"{name}_scores.py", *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    print(here())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "acs.toml").write_text(acs_schema().to_toml())
        cases = {
            "27,253 × 24 (national2019, national2018)": [
                *(str(ACS / f"national{year}.csv") for year in (2019, 2018)),
                str(folder / "acs.toml"),
            ],
            "1,000,000 × 15 (latent classes)": write_million(folder),
        }
        for title, files in cases.items():
            child = [sys.executable, __file__, "--child", *files]
            done = subprocess.run(child, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            print(f"{title}: {found['seconds']:.1f} CPU s, {found['gibibytes']:.2f} GiB")
            print("  " + ", ".join(f"{name} {found[name]:.6g}" for name in NAMES))
        compare_peers(cases["27,253 × 24 (national2019, national2018)"], folder)


def compare_peers(files: list[str], folder: Path) -> None:
    rows = read_row_pair(*files[:2], schema=pp.Schema.load(Path(files[2])))
    coded = []
    for name, each in (("real", rows.real), ("synthetic", rows.synthetic)):
        coded.append(str(folder / f"{name}-codes.csv"))
        pacsv.write_csv(pa.table({n: c.astype(np.int32) for n, c in each.codes.items()}), coded[-1])
    ours = pair_total_variation(rows.real.codes, rows.synthetic.codes, rows.domain)
    kept = [d for pair, d in ours.items() if not set(pair) & set(LEFT_OUT_BY_SDNIST)]
    sdnist, sdmetrics = peer("sdnist", *coded, "PUMA"), peer("sdmetrics", *coded)
    print(
        f"SDNist {sdnist['version']}: k-marginal {sdnist['k_marginal']:.4f} in {sdnist['seconds']:.1f} CPU s"
    )
    same, every = (1000 * (1 - np.mean(found)) for found in (kept, list(ours.values())))
    print(f"  populace, the same pairs: {same:.4f}; all pairs: {every:.4f}")
    by_area = pp.evaluate(*files[:2], schema=files[2], areas=["PUMA"])["k_marginal_areas"].value
    print(
        f"  by area: SDNist {sdnist['k_marginal_areas']:.2f}, populace {by_area:.2f} (shares within areas; with INDP)"
    )
    print(
        f"SDMetrics {sdmetrics['version']}: column shapes {sdmetrics['column_shapes']:.6f}, pair trends "
        f"{sdmetrics['column_pair_trends']:.6f} in {sdmetrics['seconds']:.1f} CPU s"
    )
    kept = [frozenset(pair[:2]) for pair in sdmetrics["pairs"] if pair[2] is not None]
    shown = np.mean([1 - distance for pair, distance in ours.items() if frozenset(pair) in kept])
    print(
        f"  its pairs are {len(kept)} of {len(ours)}, of a strong real association; populace, the same: {shown:.6f}"
    )
    columns = pp.evaluate(*files[:2], schema=files[2])
    print(
        f"  populace, 1 − tv: columns {1 - columns['tv_columns'].value:.6f}, pairs {1 - columns['tv_pairs'].value:.6f}"
    )


if __name__ == "__main__":
    if "--child" in sys.argv:
        measure(*sys.argv[2:5])
    else:
        main()
