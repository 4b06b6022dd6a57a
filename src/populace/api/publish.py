"""From a request to a folder on disk: what a run pays for is kept beside it until the folder is whole."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pyarrow as pa

from populace.api.check import check_request
from populace.api.estimate import estimate_request
from populace.api.generate import check_row_request
from populace.api.measure import measure_request
from populace.api.request import RowRequest, RunRequest
from populace.api.safety_net import check_writable, safety_net
from populace.api.stage_folders import save_measurements
from populace.api.synthesize import fit_and_draw
from populace.core.memory_limit import limit_memory
from populace.core.progress import Progress, silent
from populace.core.run_state import run_state
from populace.measurements.measurements import Measurements
from populace.release.bundle import Release
from populace.release.checks_bundle import Checks
from populace.release.estimates_bundle import Estimates
from populace.release.row_selection import expected_row_count
from populace.release.table_files import (
    TableFormat,
    check_table_format,
    parse_table_format,
    table_format_like,
)

# Modules loaded before anything is paid for, since an import can fail as a disk can.
# What every result is written with.
WRITING = (
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "populace.measurements.measured_cells",
    "populace.release.report.comparison",
)
# What files of statistical packages are written with.
STAT_FILES = ("pandas", "pyreadstat")
# What a report is made with.
REPORT = (
    "encodings.unicode_escape",
    "jinja2.ext",
    "vl_convert",
    "populace.release.report.report_data",
    "populace.release.report.bootstrap_error",
    "populace.release.report.render",
)
ESTIMATES = (
    "populace.private.survey.smooth_answers",
    "populace.private.survey.exact_sums",
)
ESTIMATES_REPORT = (*REPORT, "populace.release.report.estimates_report")


@run_state()
def publish_release(
    request: RunRequest,
    drawn: RowRequest,
    out: Path,
    *,
    table_format: str | None = None,
    report: bool = True,
    progress: Progress | None = None,
) -> Release:
    """Synthesize what is asked for and write its release folder.

    From when all is measured until the release is whole, the measurements lie beside it.
    """
    check_writable(out, ledger=request.ledger)
    chosen = table_format_like(request.data) if table_format is None else parse_table_format(table_format)
    with limit_memory(request.memory):
        # Where the format follows the input, or the rows the noisy total, too many of them become Parquet.
        rows = expected_row_count(request.schema, 0.0) if drawn.rows is None else drawn.rows
        check_table_format(request.schema, chosen, rows=rows if table_format else 0)
    _load_modules(request, *WRITING, *(STAT_FILES if chosen.stat else ()), *(REPORT if report else ()))
    with limit_memory(request.memory), ExitStack() as entered:
        check_row_request(drawn, schema=request.schema, method=request.synthesizer)
        net = entered.enter_context(safety_net(out, ledger=request.ledger, inference=drawn.inference))
        measurements = measure_request(request, progress=progress)
        net.keep()
        release = fit_and_draw(measurements, drawn, progress=progress)
        (progress or silent)("making the report" if report else "writing the release", 0.0)
        release.save(out, format=table_format, report=report)
    return release


@run_state()
def publish_measurements(request: RunRequest, out: Path, *, progress: Progress | None = None) -> Measurements:
    """Measure what is asked for, and write the folder that fitting starts from."""
    check_writable(out, ledger=request.ledger)
    _load_modules(request, *WRITING)
    with safety_net(out, ledger=request.ledger):
        measurements = measure_request(request, progress=progress)
        save_measurements(measurements, out)
    return measurements


@run_state()
def publish_estimates(
    request: RunRequest,
    out: Path,
    *,
    design: Path,
    queries: Path,
    report: bool = True,
    progress: Progress | None = None,
) -> Estimates:
    """Estimate what is asked for, and write the folder of estimates."""
    check_writable(out, ledger=request.ledger)
    _load_modules(request, *WRITING, *ESTIMATES, *(ESTIMATES_REPORT if report else ()))
    with safety_net(out, ledger=request.ledger) as net:
        estimates = estimate_request(request, design=design, queries=queries, progress=progress)
        net.keep()
        (progress or silent)("writing the release", 0.5)
        estimates.save(out, report=report)
    return estimates


@run_state()
def publish_checks(
    request: RunRequest, out: Path, *, release: Path, claims: Path, progress: Progress | None = None
) -> Checks:
    """Check what is claimed of a release, and write the folder of answers."""
    check_writable(out, ledger=request.ledger)
    _load_modules(request, *WRITING, *ESTIMATES)
    with safety_net(out, ledger=request.ledger) as net:
        checks = check_request(request, release=release, claims=claims, progress=progress)
        net.keep()
        (progress or silent)("writing the answers", 0.5)
        checks.save(out)
    return checks


def _load_modules(request: RunRequest, *names: str) -> None:
    """Load modules now; what cannot be loaded fails while nothing is spent."""
    for name in names:
        import_module(name)
    if table_format_like(request.data) is TableFormat.CSV:
        # With its first list of texts, Arrow loads pandas where it is installed.
        pa.array([""])
