"""populace area: estimates for any set of units of a hierarchical release."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, emit_result, progress

RELEASE = Option(
    "DIR",
    "A release folder of a geography, or a folder of noisy-measurement files of the US Census Bureau.",
    Path,
    required=True,
    name="release",
)
UNITS = Option(
    "--units FILE",
    "A CSV or Parquet file with the ids of units of one level, in columns named as the levels.",
    Path,
    required=True,
)
BY = Option(
    "--by COLUMNS", "Columns to count by, with commas between them.", default="", shown="the total alone"
)
TABLE = Option(
    "--table NAME",
    "Of two linked tables, the one to count in.",
    default="",
    shown="the first that has the columns",
)
OUT = Option("--out FILE", "A .csv or .parquet file to write; it must not exist yet.", Path)


@command(RELEASE, UNITS, BY, TABLE, OUT, options.JSON)
def area(release: Path, units: Path, by: str, table: str, out: Path | None, json: bool) -> None:
    """Estimate the counts of any set of units of a hierarchical release, at no cost.

    The area need not be a unit itself: a district, a coast, a sales region. Each count has an unbiased estimate, its
    95 % margin of error with the interval from low to high, and the published count, which adds up with all others.
    Units of a wider level stand for all smallest units in them; wider columns tell apart ids that repeat. Of the Census
    Bureau's files there is no published count; blocks are named by their 15-digit GEOID in a column block.

    Examples:
      populace area release --units district.csv
      populace area release --units district.csv --by race,age --json
      populace area release --units district.csv --by age --table person
      populace area release --units district.csv --by race --out district-race.parquet
    """
    from populace.api.area import estimate_area
    from populace.release.table_files import check_new_file, write_new_file

    if out is not None:
        check_new_file(out)
    names = tuple(name.strip() for name in by.split(",") if name.strip())
    with progress() as moved:
        moved("estimating", 0.0)
        found = estimate_area(release, units, by=names, table=table or None)
    if out is None:
        emit_json(found.to_json()) if json else emit(found.format())
        return
    write_new_file(found.table, out)
    emit_result({"file": str(out), **found.to_json()}, json=json)
