"""populace evaluate: a synthetic file against the real one, for internal use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from populace.cli import options
from populace.cli.command import Bundle, Option, command
from populace.cli.console import emit, emit_json, progress, say
from populace.core.table_address import TableAddress

REAL = Option(
    "REAL",
    f"The real table: {options.TABLE_FORMS}. Its rows are read without protection.",
    options.parse_table,
    required=True,
)
SYNTHETIC = Option(
    "SYNTHETIC", "The synthetic table, of any tool: a CSV or Parquet file.", Path, required=True
)
SCHEMA = replace(options.SCHEMA, help="The schema.toml of the release, or a domain.json (column → size).")
WEIGHTS = Option("--weights COLUMN", "A column of weights: adds scores in which rows count by it.")
AREA = Option(
    "--area COLUMN",
    "Compare all pairs within each value of a column, such as a county. Repeat it for more.",
    repeated=True,
    name="areas",
)
SUBGROUP = Option(
    "--subgroup COLUMN",
    "List the groups of this column alone. Repeat it for more.",
    repeated=True,
    shown="all columns",
    name="subgroups",
)
INCOME = Option(
    "--income COLUMN", "A column of incomes; with --gender and --area it adds the income-gap score."
)
GENDER = Option("--gender COLUMN", "The column whose two largest groups the income gap lies between.")
CLAIMS = Option(
    "--claims FILE",
    "A TOML file of claims: which hold in the real rows, and which in the synthetic ones.",
    Path,
)
ROLES = Bundle("roles", (WEIGHTS, AREA, SUBGROUP, INCOME, GENDER, CLAIMS), dict)


@command(REAL, SYNTHETIC, SCHEMA, options.OUT, ROLES, options.JSON)
def evaluate(
    real: Path | TableAddress, synthetic: Path, schema: Path, out: Path, roles: dict[str, Any], json: bool
) -> None:
    """Score a synthetic file against the real one, whichever tool made it. The result is INTERNAL.

    The folder gets scores.json, every score with its interval and direction, and evaluation.html, the worst columns,
    pairs, areas and subgroups first. Both are computed from the real rows without protection: they must not be
    published, and no release folder takes them. The ledger is not asked, because nothing leaves the house.

    Examples:
      populace evaluate people.csv release/synthetic.csv --schema schema.toml --out evaluation
      populace evaluate people.csv other-tool.csv --schema schema.toml --area county --weights weight --out evaluation
    """
    from populace.evaluation.internal_marking import INTERNAL
    from populace.evaluation.score_files import evaluate as evaluate_files
    from populace.release.folder.destination import check_destination, check_outside_release

    check_outside_release(out)
    check_destination(out)
    say(INTERNAL)
    roles |= {key: tuple(roles[key] or ()) for key in ("areas", "subgroups")}
    with progress() as moved:
        found = evaluate_files(real, synthetic, schema=schema, **roles, progress=moved)
        found.save(out)
    if json:
        emit_json({"evaluation": str(out), **found.to_json()})
        return
    for score in found.scores:
        low, high = score.interval or (score.value, score.value)
        shown = "" if low == high else f"  ({low:.5g} to {high:.5g})"
        emit(f"{score.name:30}  {score.value:<12.5g}{score.direction.value} is better{shown}")
    emit(str(out))
