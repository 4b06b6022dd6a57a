"""Standard errors that an earlier round of a survey has published, of the same queries: public, for forecasts.

A CSV file with columns named query and error, or query, estimate and cv (the error over the estimate). A column rows
may say how many rows that round had; several lines of one query are its groups, whose median counts.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import numpy as np

from populace.core.errors import UsageError
from populace.schema.hints import suggest

# A file, or the standard error of each query.
ErrorsSource = Path | str | Mapping[str, float]
FORMAT_HINT = (
    "give a CSV file with columns named query and error (or estimate and cv), and rows if they were others"
)


def read_published_errors(source: ErrorsSource, *, queries: Collection[str], rows: int) -> dict[str, float]:
    """Return the standard error to expect of each query that is published, for a sample of so many rows.

    >>> read_published_errors({"mean income": 250.0}, queries=["mean income"], rows=1000)
    {'mean income': 250.0}
    """
    found: dict[str, list[float]] = {}
    lines = source.items() if isinstance(source, Mapping) else _read_lines(Path(source), rows=rows)
    for query, error in lines:
        if query not in queries:
            raise UsageError(
                f"an error of {query!r} is given, which is no query.",
                hint=suggest(query, queries, otherwise="use the names of the queries"),
            )
        if not (math.isfinite(error) and error > 0):
            raise UsageError(f"the error of {query!r} is {error:g}.", hint="give a number above 0")
        found.setdefault(query, []).append(float(error))
    return {query: float(np.median(errors)) for query, errors in found.items()}


def _read_lines(path: Path, *, rows: int) -> Iterator[tuple[str, float]]:
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}.", hint=FORMAT_HINT)
    try:
        lines = list(csv.DictReader(path.read_text("utf-8-sig").splitlines(), strict=True))
        for line in lines:
            direct = line.get("error")
            error = float(direct) if direct else abs(float(line["estimate"])) * float(line["cv"])
            yield line["query"], error * math.sqrt(float(line.get("rows") or rows) / rows)
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, TypeError, ValueError):
        raise UsageError(f"{path.name} holds no published errors.", hint=FORMAT_HINT) from None
