"""populace area: estimates for any set of units of a hierarchical release."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, emit_result, progress
from populace.core.errors import UsageError

RELEASE = Option("DIR", "A release folder of a geography.", Path, required=True, name="release")
UNITS = Option(
    "--units FILE",
    "A CSV or Parquet file with the ids of units of one level, in columns named as the levels.",
    Path,
    required=True,
)
BY = Option(
    "--by COLUMNS", "Columns to count by, with commas between them.", default="", shown="the total alone"
)
OUT = Option("--out FILE", "A .csv or .parquet file to write; it must not exist yet.", Path)


@command(RELEASE, UNITS, BY, OUT, options.JSON)
def area(release: Path, units: Path, by: str, out: Path | None, json: bool) -> None:
    """Estimate the counts of any set of units of a hierarchical release, at no cost.

    The area need not be a unit itself: a district, a coast, a sales region. Each count has an unbiased estimate, its
    95 % margin of error with the interval from low to high, and the published count, which adds up with all others.
    Units of a wider level stand for all smallest units in them; wider columns tell apart ids that repeat.

    Examples:
      populace area release --units district.csv
      populace area release --units district.csv --by race,age --json
      populace area release --units district.csv --by race --out district-race.parquet
    """
    from populace.api.area import estimate_area
    from populace.release.folder.hidden_folder import hidden_folder
    from populace.release.table_files import parse_table_format, write_table

    if out is not None:
        parse_table_format(out.suffix[1:])
        if out.exists():
            raise UsageError(f"{out} exists already.", hint="name a file that does not exist yet")
    names = tuple(name.strip() for name in by.split(",") if name.strip())
    with progress() as moved:
        moved("estimating", 0.0)
        found = estimate_area(release, units, by=names)
    if out is None:
        emit_json(found.to_json()) if json else emit(found.format())
        return
    with hidden_folder(out.absolute().parent, name=out.name) as place:
        whole = place / f"area{out.suffix}"
        write_table(found.table, whole)
        whole.rename(out)
    emit_result({"file": str(out), **found.to_json()}, json=json)
