"""populace evaluate: a synthetic file against the real one, for internal use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from populace.cli import options
from populace.cli.command import Bundle, Option, command
from populace.cli.console import emit, emit_json, progress, say
from populace.core.errors import UsageError

FILES = Option(
    "REAL SYNTHETIC",
    f"The real table: {options.TABLE_FORMS}; its rows are read without protection. Then the synthetic one, a file of "
    "any tool or a release folder. Of linked tables both by name, twice: household=FILE person=FILE.",
    required=True,
    repeated=True,
    name="files",
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


@command(FILES, SCHEMA, options.OUT, ROLES, options.JSON)
def evaluate(files: list[str], schema: Path, out: Path, roles: dict[str, Any], json: bool) -> None:
    """Score a synthetic file against the real one, whichever tool made it. The result is INTERNAL.

    The folder gets scores.json, every score with its interval and direction, and evaluation.html, the worst columns,
    pairs, areas and subgroups first. Both are computed from the real rows without protection: they must not be
    published, and no release folder takes them. The ledger is not asked, because nothing leaves the house.

    Examples:
      populace evaluate people.csv release/synthetic.csv --schema schema.toml --out evaluation
      populace evaluate people.csv other-tool.csv --schema schema.toml --area county --weights weight --out evaluation
      populace evaluate household=h.csv person=p.csv release --schema homes.toml --out evaluation
    """
    from populace.evaluation.internal_marking import INTERNAL
    from populace.evaluation.score_files import evaluate as evaluate_files
    from populace.release.folder.destination import check_destination, check_outside_release

    real, synthetic = parse_both(files)
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


def parse_both(files: Sequence[str]) -> tuple[options.Tables, options.Tables]:
    """Return the real and the synthetic table, each a file or the files of linked tables by name.

    >>> parse_both(["people.csv", "synthetic.csv"])
    (PosixPath('people.csv'), PosixPath('synthetic.csv'))
    >>> parse_both(["household=h.csv", "person=p.csv", "release"])[1]
    PosixPath('release')
    """
    half = len(files) // 2
    named = ["=" in each and not Path(each).exists() for each in files]
    if len(files) > 1 and (len(files) == 2 or (all(named) and len(files) % 2 == 0)):
        parts = files[:half], files[half:]
    elif len(files) > 2 and all(named[:-1]) and not named[-1]:
        parts = files[:-1], files[-1:]
    else:
        raise UsageError(
            f"{len(files)} {'table is' if len(files) == 1 else 'tables are'} given where a real and a synthetic one "
            "are compared.",
            hint="give two files, or linked tables by name, the real ones first: household=FILE person=FILE RELEASE",
        )
    real, synthetic = map(options.parse_tables, parts)
    return real, synthetic
