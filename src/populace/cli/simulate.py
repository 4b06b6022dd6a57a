"""populace simulate: a study of methods on a population whose answers are known."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit, emit_json, progress, say

STUDY = Option(
    "STUDY", "A study.toml: population, sample, methods, epsilons and queries.", Path, required=True
)
OUT = Option(
    "--out DIR",
    "The folder for results.parquet, study.json and study.html. A study that was stopped goes on in its folder.",
    Path,
    required=True,
)
SEEDS = Option("--seeds N", "How many samples to draw.", options.whole, shown="the study's")
WORKERS = Option("--workers N", "How many processes run at once.", options.whole, default=2)


@command(STUDY, OUT, SEEDS, WORKERS, options.LEDGER, options.JSON)
def simulate(
    study: Path, out: Path, seeds: int | None, workers: int, ledger: Path | None, json: bool
) -> None:
    """Simulate surveys of a known population, and show privacy noise beside sampling error.

    A population that is public or invented is sampled again and again. Methods answer the queries at every epsilon,
    as a release would but with rehearsal noise: no budget is spent. The report has bias, variance, coverage, time and
    memory, and the epsilon at which privacy noise falls below sampling error. Finished runs are kept: after a stop, the
    same command goes on. A file that is not declared public makes the study INTERNAL.

    Examples:
      populace simulate study.toml --out study
      populace simulate study.toml --out study --seeds 1000 --workers 8
    """
    from populace.studies.simulate import simulate as run_study
    from populace.studies.study_page import describe_crossover

    with progress() as moved:
        found = run_study(study, out, seeds=seeds, workers=workers, ledger=ledger, progress=moved)
    if found.document["internal"]:
        say(f"note: {found.document['internal']}")
    if json:
        emit_json(found.document)
        return
    for each in found.crossovers[:20]:
        name = f"{each['query']}, {each['group']}" if each["group"] else each["query"]
        say(f"{name} by {each['method']}: {describe_crossover(each)}")
    emit(str(out))
