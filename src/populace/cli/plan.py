"""populace plan: what a run will give, before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from populace.cli import options
from populace.cli.console import emit, emit_json, progress, say
from populace.cli.notes import note_weak_guarantee
from populace.core.errors import UsageError

# A population of more rows than there are people is hardly meant.
MAX_PLAUSIBLE_ROWS = 10**10


def plan(
    schema: options.SchemaFile,
    population: Annotated[
        int,
        typer.Option(
            "--population",
            metavar="N",
            help="About how many rows there are. It must be public: a published figure or a guess, not a count.",
        ),
    ],
    delta: options.Delta,
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon",
            metavar="E",
            help="The privacy loss to allow, such as 1 or 0.5. It may be left out with --target-error.",
        ),
    ] = None,
    target_error: Annotated[
        float | None,
        typer.Option(
            "--target-error",
            metavar="X",
            help="Find the smallest epsilon with which the mean error of columns (total variation) is at most this, "
            "such as 0.01.",
        ),
    ] = None,
    shares: Annotated[
        Path | None,
        typer.Option(
            "--shares",
            metavar="FILE",
            readable=False,
            help="A CSV file of public shares of values: column, value and share (or percent, or count), for some "
            "columns or all. It makes a plan much more precise. It is treated as public.",
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            metavar="FILE",
            readable=False,
            help="A public table of the same schema. Whole runs are simulated on it, so that errors include dependence "
            "that the model leaves out. It is treated as public.",
        ),
    ] = None,
    method: options.Method = "auto",
    workload: options.Workload = None,
    ledger: options.KnownPrivate = None,
    public: Annotated[
        Path | None,
        typer.Option(
            "--public",
            metavar="FILE",
            readable=False,
            help="Refused: what a public table saves depends on how like the private one it is.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            readable=False,
            help="A new folder for plan.html and plan.json, if wanted.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Predict the error, time and memory of a run, before anything is spent.

    It reads no private row and books nothing. The method is simulated on populations that are invented from the schema,
    with as much noise as the budget buys. Errors are total variation: the share of rows in the wrong cell.

    \b
    Examples:
      populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9
      populace plan --schema schema.toml --population 50000 --target-error 0.01 --delta 1e-9
      populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9 --shares published.csv
      populace plan --schema schema.toml --population 50000 --epsilon 1 --delta 1e-9 --like survey-2018.csv
    """
    from populace.planning.plan import plan as make_plan
    from populace.planning.plan_text import format_plan

    if out is not None:
        from populace.release.folder.destination import check_destination

        check_destination(out)
    if epsilon is None and target_error is None:
        raise UsageError("neither --epsilon nor --target-error is given.", hint="give one of them")
    if public is not None:
        raise UsageError(
            "no plan can predict what a public table saves: that depends on how like the private table it is.",
            hint="leave --public out, which plans for a run without it; --like simulates runs on a public table",
        )
    if epsilon is not None:
        note_weak_guarantee(epsilon=epsilon, delta=delta)
    if population > MAX_PLAUSIBLE_ROWS:
        say(f"{population:,}"[:60] + " rows are more than there are people: is the population right?")
    for path in (shares, like):
        if path is not None:
            say(f"{path} is treated as public: it is read without any protection.")
    with progress() as moved:
        found = make_plan(
            schema,
            population=population,
            epsilon=epsilon,
            delta=delta,
            target_error=target_error,
            shares=shares,
            like=like,
            method=method,
            workload=workload,
            ledger=ledger,
            progress=moved,
        )
        if out is not None:
            from populace.planning.plan_page import write_plan

            moved("writing the plan", 0.9)
            write_plan(found, out)
    if json:
        emit_json(found.to_json())
        return
    for line in format_plan(found):
        emit(line)
    if out is not None:
        emit(str(out))
