"""The report of a hierarchical release."""

from __future__ import annotations

from html import escape

from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.statement.statement import Statement, describe_guarantee


def build_hierarchy_report(statement: Statement, released: ReleasedHierarchy) -> str:
    """Return the report as one HTML page, from the statement and the tables of all levels."""
    title = f"Release of “{statement['dataset']}”"
    levels = "".join(
        f"<li>{escape(name)}: {released.geography.spine.units(number)} units</li>"
        for number, name in enumerate(released.geography.spine.levels)
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title></head>\n'
        f"<body><h1>{escape(title)}</h1>\n<p>{escape(statement['stamp'] or '')}</p>\n"
        f"<p>{escape(describe_guarantee(statement))}</p>\n<ul>{levels}</ul>\n"
        "<p>Estimates with margins of error of all levels: tables.parquet.</p></body></html>\n"
    )
