"""populace disclosure: what a table gives away about the people in it."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, say
from populace.core.errors import UsageError

TABLES = Option(
    "TABLE",
    "The table: a CSV or Parquet file. Several are pieces of one, and their union is checked as well.",
    Path,
    required=True,
    repeated=True,
    name="tables",
)
QUASI = Option(
    "--quasi-identifiers COLUMNS",
    "Columns that others may know of a person, with commas between them.",
    required=True,
)
SENSITIVE = Option(
    "--sensitive COLUMNS",
    "Columns that nobody should learn, with commas between them.",
    default="",
    shown="none",
)
REAL = Option("--real FILE", "The private rows that the table was made from: for attacks.", Path)
CONTROL = Option("--control FILE", "Rows of the same population that it was not made from.", Path)
RELEASE = Option("--release DIR", "The release folder: what its ε and δ promise stands beside.", Path)


@command(TABLES, options.SCHEMA, QUASI, SENSITIVE, REAL, CONTROL, RELEASE, options.OUT, options.JSON)
def disclosure(
    tables: list[Path],
    schema: Path,
    quasi_identifiers: str,
    sensitive: str,
    real: Path | None,
    control: Path | None,
    release: Path | None,
    out: Path,
    json: bool,
) -> None:
    """Check what a table discloses: k-anonymity, ℓ-diversity, t-closeness, and attacks with a control.

    Values are taken as they are published, so recoded ones (20-29, *) are values like others. Of several pieces, the
    criteria that survive their union are shown. Attacks need the rows that the table was made from, and a control. All
    of it is INTERNAL, but for files of a release that is named, without attacks. Nothing is charged or protected.

    Examples:
      populace disclosure release/synthetic.csv --schema schema.toml --quasi-identifiers age,sex --sensitive income \\
        --release release --out disclosure
      populace disclosure north.csv south.csv --schema schema.toml --quasi-identifiers age,sex --sensitive disease \\
        --out disclosure
      populace disclosure release/synthetic.csv --schema schema.toml --quasi-identifiers age,sex --sensitive income \\
        --real people.csv --control others.csv --release release --out disclosure
    """
    from populace.evaluation.disclosure.disclosure_result import measure_disclosure
    from populace.schema.schema import Schema

    names = [path.name for path in tables]
    if len(set(names)) < len(names):
        names = [str(path) for path in tables]
    if len(set(names)) < len(names):
        raise UsageError("a table is given twice.", hint="give each piece once")
    found = measure_disclosure(
        dict(zip(names, tables, strict=True)),
        schema=Schema.load(schema),
        quasi_identifiers=_split_names(quasi_identifiers),
        sensitive=_split_names(sensitive),
        real=real,
        control=control,
        release=release,
    )
    found.save(out)
    for alarm in found.alarms:
        say(f"WARNING: {alarm}")
    if not json:
        say(f"k = {found.anonymity.k}, {found.anonymity.unique_rows} unique rows of {found.anonymity.rows}")
        if found.marking:
            say(f"note: {found.marking}")
    emit_result({"disclosure": str(out), **found.to_json()}, json=json)


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
