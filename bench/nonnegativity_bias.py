"""The bias that non-negativity causes in a hierarchical release, against true counts: a simulation, never a release.

    python bench/nonnegativity_bias.py [CHART.svg]

Counts of Rhode Island's blocks of 2010 by race and age (shared/data beside the checkout) are released once at ε = 4.
Cells are classed by their true count; B = (σ₊² − σ₋²)/(σ₊² + σ₋²) of published minus true counts is 1 where all are
too high, −1 where all are too low.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from error import SHARED

import populace as pp
from populace.release.report.hierarchy.bias_charts import asymmetry_chart
from populace.release.report.hierarchy.hierarchy_document import LevelBias
from populace.release.report.hierarchy.nonnegativity_bias import TRUE_CLASS_ENDS, classify_bias
from populace.release.report.hierarchy.published_hierarchy import PublishedHierarchy
from populace.release.report.palette import fill_colours

LEVELS = ["county", "tract", "block_group", "block"]


def main() -> None:
    wide = pd.read_parquet(SHARED / "data" / "us-2010-redistricting" / "ri_blocks.parquet")
    wide = wide.drop(columns="state").astype(dict.fromkeys(LEVELS, str)).sort_values(LEVELS, kind="stable")
    cells = [name for name in wide if name not in LEVELS]
    races, ages = (list(dict.fromkeys(name.split("_")[place] for name in cells)) for place in (0, 1))
    long = wide.melt(id_vars=LEVELS, value_vars=cells, var_name="cell", value_name="n").query("n > 0")
    long[["race", "age"]] = long["cell"].str.split("_", expand=True)
    columns = {"race": races, "age": ages}
    with tempfile.TemporaryDirectory() as folder:
        wide[LEVELS].to_csv(f"{folder}/units.csv", index=False)
        lines = ["[table]", 'unit = "person"', 'frequency = "n"']
        lines += ["[geography]", f"levels = {json.dumps(LEVELS)}", 'units = "units.csv"']
        for name, values in columns.items():
            lines += [f"[columns.{name}]", 'kind = "categorical"', f"values = {json.dumps(values)}"]
            lines.append(f"other = {json.dumps(values[-1])}")
        Path(f"{folder}/schema.toml").write_text("\n".join(lines), encoding="utf-8")
        measured = pp.measure(
            pa.Table.from_pandas(long[[*LEVELS, *columns, "n"]], preserve_index=False),
            schema=f"{folder}/schema.toml",
            epsilon=4,
            delta="1e-10",
            dataset="blocks",
            method="topdown",
            ledger=f"{folder}/ledger.db",
        )
    shown = PublishedHierarchy.of(measured, model=pp.fit(measured))
    spine = shown.geography.spine
    tables = [wide[cells].to_numpy().reshape(-1, len(races), len(ages))]
    for level in range(spine.depth - 1, 0, -1):
        tables.insert(0, np.asarray(spine.sum_children(tables[0], level=level)))
    below = list(zip(spine.levels, shown.tables, tables, strict=True))[1:]
    found = [
        LevelBias(
            level=name, classes=classify_bias(published - true, by=true.astype(float), ends=TRUE_CLASS_ENDS)
        )
        for name, published, true in below
    ]
    chart = asymmetry_chart(found, of="true")
    for level in found:
        print(f"{level.level}: cells of a true count, how many, mean of published − true, B")
        for each in level.classes:
            told = "    –" if each.asymmetry is None else f"{each.asymmetry:+5.2f}"
            print(f"  {each.label:>16} {each.counts:9,} {each.mean:+8.2f} {told}")
    if len(sys.argv) > 1:
        import vl_convert

        drawn = vl_convert.vegalite_to_svg({**fill_colours(chart), "width": 600})
        Path(sys.argv[1]).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
