"""The whole of a study: runs in parallel, results that survive a kill, a summary, and a report."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from populace.core.errors import ResourceError, UsageError
from populace.core.pretty_json import pretty_json
from populace.core.progress import Progress, silent
from populace.studies.runs import StudyRuns, list_runs, work_through
from populace.studies.study import Study
from populace.studies.study_document import build_document
from populace.studies.study_page import render_study
from populace.studies.study_reader import load_study
from populace.studies.study_results import ResultFolder, write_whole
from populace.studies.truths import digest_inputs, open_truth

DOCUMENT_FILE, PAGE_FILE = "study.json", "study.html"
DEFAULT_WORKERS = 2
_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyResult:
    """What a study gave: every number of every run, and the document with its summary that the report shows."""

    folder: Path
    table: pa.Table
    document: dict[str, Any]

    @property
    def summary(self) -> list[dict[str, Any]]:
        """Bias, variance, mean squared error, coverage and cost by method, ε and query."""
        found: list[dict[str, Any]] = self.document["summary"]
        return found

    @property
    def crossovers(self) -> list[dict[str, Any]]:
        """By method and query, the ε at which privacy noise falls below sampling error."""
        found: list[dict[str, Any]] = self.document["crossovers"]
        return found

    def __repr__(self) -> str:
        return f"StudyResult({self.document['title']!r}, {self.document['runs']} runs)"


def simulate(
    study: Path | str,
    out: Path | str,
    *,
    seeds: int | None = None,
    workers: int = DEFAULT_WORKERS,
    ledger: Path | str | None = None,
    progress: Progress | None = None,
) -> StudyResult:
    """Run a simulation study and write its results, summary and report to a folder.

    `study` is a study.toml: a population whose answers are known, a sampling design, methods, ε and queries. Every
    method answers every query on the same samples, on the street of a release but with rehearsal noise; no budget is
    spent. A study of a file that is not public is for INTERNAL use, and says so everywhere.
    Runs that are finished are kept at once: what was killed half-way goes on where it stopped if it is started again
    with the same folder. `seeds` overrides how many samples are drawn, and `workers` is the number of processes.

    >>> import tempfile
    >>> import populace as pp
    >>> home = Path(tempfile.mkdtemp())
    >>> _ = (home / "study.toml").write_text('''
    ... epsilon = [1, 10]
    ... [truth]
    ... population = "embedded"
    ... households = 500
    ... [sample]
    ... design = "srs"
    ... rate = 0.5
    ... [[methods]]
    ... kind = "estimate"
    ... [[queries]]
    ... statistic = "proportion"
    ... that = "sex == 'female'"
    ... ''')
    >>> found = pp.simulate(home / "study.toml", home / "out", seeds=3, workers=1)
    >>> found.table.num_rows, [row["runs"] for row in found.summary]
    (6, [3, 3])
    """
    if workers < 1 or (seeds is not None and seeds < 1):
        raise UsageError("seeds or workers are below 1.", hint="give whole numbers from 1")
    progress = progress or silent
    loaded = load_study(study)
    loaded = loaded if seeds is None else replace(loaded, seeds=seeds)
    results = ResultFolder(folder=Path(out), digest=digest_inputs(loaded))
    results.make_folder()
    truth = open_truth(loaded, ledger=ledger)
    todo = list_runs(loaded, results=results)
    progress("simulating", 0.0)
    if workers == 1 or len(todo) <= 1:
        counted = [0]

        def step() -> None:
            counted[0] += 1
            progress("simulating", 0.9 * counted[0] / len(todo))

        work_through(StudyRuns(study=loaded, truth=truth), todo, results=results, after=step)
    else:
        _run_workers(loaded, results, ledger=ledger, workers=workers, runs=len(todo), progress=progress)
    progress("writing the report", 0.9)
    table = results.join(internal=truth.internal)
    document = build_document(loaded, truth=truth, table=table)
    write_whole(results.folder / DOCUMENT_FILE, (pretty_json(document) + "\n").encode())
    write_whole(results.folder / PAGE_FILE, render_study(document).encode())
    return StudyResult(folder=results.folder, table=table, document=document)


def _run_workers(
    study: Study,
    results: ResultFolder,
    *,
    ledger: Path | str | None,
    workers: int,
    runs: int,
    progress: Progress,
) -> None:
    """Start processes that each do a share of the runs, and wait for all of them."""
    words = [sys.executable, "-m", "populace.studies.runs", str(study.path.absolute())]
    words += [str(results.folder.absolute()), "" if ledger is None else str(Path(ledger).absolute())]
    kept = len(list(results.parts.iterdir()))
    started = [
        subprocess.Popen(
            [*words, str(study.seeds), str(place), str(workers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for place in range(workers)
    ]
    try:
        while any(process.poll() is None for process in started):
            time.sleep(_POLL_SECONDS)
            progress("simulating", 0.9 * min(1.0, (len(list(results.parts.iterdir())) - kept) / runs))
            if any(process.poll() for process in started):
                break
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
        spoken = [process.communicate() for process in started]
    for process, (said, _) in zip(started, spoken, strict=True):
        if process.returncode > 0:
            raise _read_failure(said)
    if list_runs(study, results=results):
        raise ResourceError("some runs were not finished.", hint="run it again: finished runs are kept")


def _read_failure(said: str) -> Exception:
    """Return what a worker could not do, in its own words."""
    try:
        message, hint = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        return ResourceError(
            "a run of the study failed.", hint="--workers 1 runs all in this process and shows why"
        )
    return UsageError(message, hint=hint)
