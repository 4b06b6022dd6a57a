"""The modules that a run needs in the end, loaded before anything is paid for: an import can fail as a disk can."""

from __future__ import annotations

from importlib import import_module

import pyarrow as pa

from populace.api.request import RunRequest
from populace.release.table_files import TableFormat, table_format_like

# What every result is written with.
WRITING = (
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "populace.release.report.comparison",
)
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


def load_modules(request: RunRequest, *names: str) -> None:
    """Load modules now; what cannot be loaded fails while nothing is spent."""
    for name in names:
        import_module(name)
    if table_format_like(request.data) is TableFormat.CSV:
        # With its first list of texts, Arrow loads pandas where it is installed.
        pa.array([""])
