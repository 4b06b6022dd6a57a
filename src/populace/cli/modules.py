"""The modules that a run needs in the end, loaded before anything is paid for: an import can fail as a disk can."""

from __future__ import annotations

from importlib import import_module

# What every result is written with.
WRITING = (
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "populace.cli.stages",
    "populace.infer.intervals",
    "populace.release.answers",
    "populace.release.manifest",
    "populace.release.paid_for",
    "populace.report.compare",
)
# What a report is made with.
REPORT = (
    "encodings.unicode_escape",
    "jinja2.ext",
    "vl_convert",
    "populace.report.document",
    "populace.report.rehearsal",
    "populace.report.render",
)
ESTIMATES = (
    "populace.private.statistics.smooth",
    "populace.private.statistics.sums",
)
ESTIMATES_REPORT = (*REPORT, "populace.report.estimates")


def load_modules(*names: str) -> None:
    """Load modules now; what cannot be loaded fails while nothing is spent."""
    for name in names:
        import_module(name)
