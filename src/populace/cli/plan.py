"""populace plan: what a run will give, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from populace.cli import options
from populace.cli.command import Bundle, Option, command
from populace.cli.console import emit, emit_json, progress, say
from populace.cli.notes import note_large_delta
from populace.core.errors import UsageError

# A population of more rows than there are people is hardly meant.
MAX_PLAUSIBLE_ROWS = 10**10


POPULATION = replace(
    options.POPULATION,
    help="About how many rows there are. It must be public: a published figure or a guess, not a count.",
    required=True,
)
EPSILON = replace(options.EPSILON, help=f"{options.EPSILON.help} Or give --target-error.", required=False)
TARGET_ERROR = Option(
    "--target-error X",
    "Search for the smallest epsilon with which noise moves at most this share of the rows of a column to a wrong "
    "code, on average over columns, such as 0.01. Of a geography: with which totals of the smallest units have a "
    "margin of error of at most this share of an average unit.",
    options.number,
)
SHARES = Option(
    "--shares FILE",
    "A CSV file of public shares: column, value and share (or percent, or count), as far as they are known. Errors are "
    "then predicted much more closely.",
    Path,
)
LIKE = Option(
    "--like FILE",
    "A public table of the same schema: whole runs are simulated on it, and the error of released rows is predicted.",
    Path,
)
PUBLIC = Option(
    "--public FILE", "Refused: plan without it; what a public table saves cannot be predicted.", Path
)
OUT = Option("--out DIR", "A new folder for plan.html and plan.json.", Path)


TERMS = (options.SCHEMA, POPULATION, options.DELTA, EPSILON, TARGET_ERROR, SHARES, LIKE)
# By the names under which `populace.plan` takes them.
REQUEST = Bundle(
    "request", (*TERMS, options.METHOD, options.WORKLOAD, options.KNOWN_PRIVATE, options.CHECK_RULES), dict
)


@command(REQUEST, PUBLIC, OUT, options.JSON)
def plan(request: Mapping[str, Any], public: Path | None, out: Path | None, json: bool) -> None:
    """Predict the error, time and memory of a run, before anything is spent.

    No private row is read. The method runs on populations simulated from the schema, from uneven to even ones, with as
    much noise as the budget buys. Errors are total variation: the share of rows that noise moves to a wrong cell.
    Of a schema with a geography nothing need be simulated: the plan has the 95 % margins of error of every level and
    table, exactly as the release will state them.

    Examples:
      populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9
      populace plan --schema schema.toml --population 50000 --target-error 0.01 --delta 1e-9
      populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9 --like survey-2018.csv
    """
    from populace.planning.level_plan import GeographyPlan
    from populace.planning.level_plan_text import format_level_plan
    from populace.planning.plan import plan as make_plan
    from populace.planning.plan_text import format_plan
    from populace.privacy.accounting.budget import parse_delta

    if out is not None:
        from populace.release.folder.destination import check_destination

        check_destination(out)
    epsilon, population = request["epsilon"], request["population"]
    if epsilon is None and request["target_error"] is None:
        raise UsageError("neither --epsilon nor --target-error is given.", hint="give one of them")
    if public is not None:
        raise UsageError(
            "no plan can predict what a public table saves: that depends on how like the private table it is.",
            hint="leave --public out, which plans for a run without it; --like simulates runs on a public table",
        )
    note_large_delta(parse_delta(request["delta"]))
    if population > MAX_PLAUSIBLE_ROWS:
        say(f"{population:,}"[:60] + " rows are more than there are people: is the population right?")
    for path in (request["shares"], request["like"]):
        if path is not None:
            say(f"{path} is treated as public: it is read without any protection.")
    with progress() as moved:
        found = make_plan(**request, progress=moved)
        if out is not None:
            from populace.planning.level_plan_page import render_level_plan
            from populace.planning.plan_page import render_plan, write_plan

            moved("writing the plan", 0.9)
            page = render_level_plan(found) if isinstance(found, GeographyPlan) else render_plan(found)
            write_plan(found.to_json(), page, out)
    if json:
        emit_json(found.to_json())
        return
    lines = format_level_plan(found) if isinstance(found, GeographyPlan) else format_plan(found)
    for line in lines:
        emit(line)
    if out is not None:
        emit(str(out))
