"""populace weights: a synthetic table as a survey file that meets public totals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, progress, say

RELEASE = Option("DIR", "A release folder with a synthetic table.", Path, required=True, name="release")
TOTALS = Option(
    "--totals FILE",
    "A design.toml with [[totals]]: how many people there are, by which columns. All of it is public.",
    Path,
    required=True,
)
OUT = Option("--out FILE", "The .csv or .parquet file to write; it must not exist yet.", Path, required=True)
REPLICATES = Option("--replicates R", "How many replicate weights to make.", options.whole, default=80)
WEIGHT = Option("--weight NAME", "The name of the column of weights.", default="weight")
SEED = replace(options.SEED, help="Makes the drawing of replicates repeatable.", shown="the release's own")


@command(RELEASE, TOTALS, OUT, REPLICATES, WEIGHT, SEED, options.JSON)
def weights(
    release: Path, totals: Path, out: Path, replicates: int, weight: str, seed: int | None, json: bool
) -> None:
    """Calibrate a synthetic table to public totals, with replicate weights, at no cost.

    The file has the rows of the release (of its first table), a weight, and replicate weights rep01, rep02 and so on.
    Their variance holds sampling error and privacy noise together, for survey software: svrepdesign of R with
    type = "other", rscales = rep(1, R), mse = FALSE and the scale that is printed, as for Fay's method. All weights are
    positive, and within ten times and a tenth of their base weights unless totals force them. No private row is read.

    Examples:
      populace weights release --totals design.toml --out survey.csv
      populace weights release --totals design.toml --out survey.parquet --replicates 200
    """
    from populace.release.bundle import Release
    from populace.release.survey_file import make_survey_file
    from populace.release.table_files import check_new_file, write_new_file
    from populace.survey.design.design import Design

    check_new_file(out)
    found = Release.load(release)
    design = Design.load(totals, schema=found.measurements.schema)
    with progress() as moved:
        moved("weighting", 0.0)
        made = make_survey_file(found, design=design, replicates=replicates, weight=weight, seed=seed)
    write_new_file(made.table, out)
    rows = made.table.num_rows
    if nobody := int((made.table.column(weight).to_numpy() == 0).sum()):
        say(
            f"note: {nobody} of {rows} rows stand for nobody: by the totals, no one is where they are, or their base "
            'weight is 0 (hint: empty cells are such places; other = "…" in the schema counts them as a value)'
        )
    if made.beyond:
        say(
            f"note: the totals force {made.beyond} of {rows} rows beyond ten times, or below a tenth of, their base "
            "weight (hint: give totals by coarser bins)"
        )
    say(
        f"the weights are worth {made.effective_rows:.0f} rows of equal weight; in R: svrepdesign(data = d, weights = "
        f'~{weight}, repweights = "^rep[0-9]+$", type = "other", combined.weights = TRUE, scale = {made.scale:.10g}, '
        f"rscales = rep(1, {replicates}), mse = FALSE)"
    )
    if found.statement["stamp"]:
        say(f"note: {found.statement['stamp']}")
    people = float(design.totals[0].total)
    result = {"file": str(out), "people": people, "replicates": replicates, "scale": made.scale}
    emit_result(result, json=json)
