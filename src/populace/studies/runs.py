"""The runs of a study: each method on each sample, at every ε. One process does its share of them, one by one."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from populace.core.array_types import Floats
from populace.core.errors import PopulaceError
from populace.studies.nonresponse import drop_answers, nonresponse_probabilities
from populace.studies.samples import Sample, draw_sample
from populace.studies.study import Study, StudyMethod
from populace.studies.study_methods import METHOD_KINDS, SimulatedSurvey
from populace.studies.study_reader import load_study
from populace.studies.study_results import ResultFolder, StudyRow
from populace.studies.truths import Truth
from populace.studies.truths import digest_inputs as digest_inputs
from populace.studies.truths import open_truth as open_truth
from populace.survey.estimate_result import Estimate, Group

# Linux forgets the peak of a process's memory when this is written to that file.
_PEAK_FILE, _FORGET_PEAK = Path("/proc/self/clear_refs"), "5"


@dataclass(frozen=True, kw_only=True, eq=False)
class StudyRuns:
    """A study with its population: what every run of it shares."""

    study: Study
    truth: Truth

    @cached_property
    def answers(self) -> dict[tuple[str, Group], float | None]:
        """The true answers."""
        found = self.truth.answer(self.study.queries)
        return {(row.query, row.group): row.estimate for row in found}

    @cached_property
    def silent(self) -> Floats | None:
        """How likely each person is not to answer."""
        model = self.study.nonresponse
        return None if model is None else nonresponse_probabilities(model, self.truth.rows)

    def survey(self, seed: int) -> tuple[pa.Table, Sample]:
        """Return the rows of one survey, with answers missing as the model says; all methods see the same."""
        rng = np.random.default_rng([self.study.seed, seed])
        sample = draw_sample(self.study.sample, self.truth, rng=rng)
        table = self.truth.table.take(pa.array(sample.rows))
        if self.study.nonresponse is not None and self.silent is not None:
            silent = rng.random(sample.rows.size) < self.silent[sample.rows]
            table = drop_answers(table, self.study.nonresponse, silent=silent)
        return table, sample

    def run(self, number: int, seed: int) -> Iterator[StudyRow]:
        """Yield the numbers of one method on one sample, at every ε."""
        method: StudyMethod = self.study.methods[number]
        table, sample = self.survey(seed)
        seeds = np.random.SeedSequence([self.study.seed, seed, number]).generate_state(
            1 + len(self.study.epsilon), dtype=np.uint64
        )
        answer = METHOD_KINDS[method.kind]
        survey = SimulatedSurvey.of(
            table,
            method,
            truth=self.truth,
            fields=sample.fields,
            queries=self.study.queries,
            seed=int(seeds[0]),
        )
        alone = {(row.query, row.group): row.estimate for row in answer(survey)}
        for epsilon, noise_seed in zip(self.study.epsilon, seeds[1:], strict=True):
            noisy = replace(
                survey, epsilon=epsilon * method.share, delta=self.study.delta, noise_seed=int(noise_seed)
            )
            rows, seconds, peak = measure_cost(partial(answer, noisy))
            for row in rows:
                key = (row.query, row.group)
                yield StudyRow(
                    run=f"{method.name}/{float(epsilon):g}/{seed}",
                    method=method.name,
                    epsilon=float(epsilon),
                    seed=seed,
                    query=row.query,
                    group=" · ".join(value for _, value in row.group),
                    truth=self.answers.get(key),
                    estimate=row.estimate,
                    low=row.low,
                    high=row.high,
                    sampling_only=alone.get(key),
                    cpu_seconds=seconds,
                    peak_mb=peak,
                )


def measure_cost(work: Callable[[], tuple[Estimate, ...]]) -> tuple[tuple[Estimate, ...], float, float]:
    """Return what some work gives, its CPU seconds, and the largest memory of the process meanwhile, in MB."""
    with contextlib.suppress(OSError):
        _PEAK_FILE.write_text(_FORGET_PEAK)
    begun = time.process_time()
    found = work()
    return found, time.process_time() - begun, read_peak() / 1e6


def read_peak() -> float:
    """Return the largest memory of this process so far, in bytes: since it was last forgotten, where it can be."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024.0 * int(line.split()[1])
    # macOS counts bytes, others KiB.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)


def list_runs(
    study: Study, *, results: ResultFolder, place: int = 0, workers: int = 1
) -> list[tuple[int, int]]:
    """Return the runs that one of several workers has to do, by number of the method and seed, sample by sample.

    Samples are dealt out by their seed alone, so that no two workers do the same, whatever is done already.
    """
    done = results.done([each.name for each in study.methods])
    seeds = range(place, study.seeds, workers)
    every = ((number, seed) for seed in seeds for number in range(len(study.methods)))
    return [run for run in every if run not in done]


def work_through(
    runs: StudyRuns, todo: Sequence[tuple[int, int]], *, results: ResultFolder, after: Callable[[], None]
) -> None:
    """Do runs one by one; each is kept when it is finished."""
    for number, seed in todo:
        results.write_part(number, seed, list(runs.run(number, seed)))
        after()


def main(arguments: Sequence[str]) -> int:
    """Do the runs of one of several workers: STUDY FOLDER LEDGER SEEDS PLACE WORKERS. Failures are printed as JSON."""
    path, folder, ledger, seeds, place, workers = arguments
    parent = os.getppid()

    def check_parent() -> None:
        # Whoever started this process was killed: it does not go on alone.
        if os.getppid() != parent:
            sys.exit(1)

    try:
        study = replace(load_study(path), seeds=int(seeds))
        results = ResultFolder(folder=Path(folder), digest=digest_inputs(study))
        runs = StudyRuns(study=study, truth=open_truth(study, ledger=ledger or None))
        todo = list_runs(study, results=results, place=int(place), workers=int(workers))
        work_through(runs, todo, results=results, after=check_parent)
    except PopulaceError as failure:
        print(json.dumps([failure.message, failure.hint]))
        return failure.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
