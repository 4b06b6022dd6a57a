"""A real household survey with its areas: persons and households of every area agree, exact totals hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import populace as pp
from populace.release.verify.verify import verify
from populace.schema.geocodes import Geography
from populace.schema.schema import Schema

ROOT = Path(__file__).resolve().parents[2]
SURVEY = ROOT.parent / "shared" / "data" / "households"
LEVELS = ("SUBREGCluster", "SUBREG_GRP", "SUBREG")


def load_survey() -> tuple[dict[str, pd.DataFrame], Schema]:
    """Two files, and the schema of the examples with fewer columns and with the areas of the crosswalk."""
    tables = {name: pd.read_parquet(SURVEY / f"{name}s.parquet") for name in ("household", "person")}
    spine = pd.read_csv(SURVEY / "geo_cross_walk.csv")[list(LEVELS)].drop_duplicates()
    for frame in (tables["household"], spine):
        frame[list(LEVELS)] = frame[list(LEVELS)].astype(float).astype(str)
    text = (ROOT / "examples" / "schemas" / "household-survey.toml").read_text("utf-8")
    kept = [
        part
        for part in text.split("\n\n")
        if not any(f".{name}]" in part for name in ("SUBREGCluster", "POcc", "PComm"))
    ]
    flat = Schema.parse("\n\n".join(kept))
    schema = Schema(
        columns=flat.columns,
        unit=flat.unit,
        dataset="areas",
        zeros=flat.zeros,
        linked=flat.linked,
        geography=Geography.of_paths(list(spine.itertuples(index=False, name=None)), levels=LEVELS),
        invariants=("SUBREGCluster",),
    )
    return tables, schema


@pytest.mark.slow
@pytest.mark.skipif(not SURVEY.is_dir(), reason="the survey is not beside the project")
def test_persons_and_households_agree_in_every_area(tmp_path: Path) -> None:
    tables, schema = load_survey()
    release = pp.synthesize(tables, schema=schema, epsilon=1, delta="1e-9", ledger=tmp_path / "ledger.db")
    release.save(tmp_path / "out", report=False)
    assert verify(tmp_path / "out").passed
    homes, people = (release.table[name] for name in ("household", "person"))
    true, found = (frame["SUBREGCluster"].value_counts() for frame in (tables["household"], homes))
    assert found.to_dict() == true.to_dict()
    sizes = people.groupby("hhID").size().reindex(homes["hhID"], fill_value=0)
    by_area = pd.Series(sizes.to_numpy()).groupby([homes[name].to_numpy() for name in LEVELS]).sum()
    households, persons = release.hierarchies
    totals = persons.smallest.reshape(len(persons.smallest), -1).sum(axis=1)
    paths = release.hierarchy.geography.paths()
    assert [int(by_area.get(path, 0)) for path in paths] == totals.tolist()
    spine = release.hierarchy.geography.spine
    for each in (households, persons):
        for level in range(1, spine.depth):
            above = spine.sum_children(each.published[level], level=level)
            assert np.array_equal(above, each.published[level - 1])
