"""The codebook of a release: what each column of the synthetic table may hold, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from populace.release.statement.domain_lines import LEVEL_KIND
from populace.release.statement.linked_statement import list_released_columns
from populace.release.statement.statement import Statement
from populace.release.table_files import count_column
from populace.schema.codec.decoder import arrow_type
from populace.schema.columns.column import CategoricalColumn, Column
from populace.schema.columns.date_columns import TemporalColumn
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.exact_numbers import format_decimal
from populace.schema.schema import Schema


def build_codebook(schema: Schema, *, statement: Statement) -> dict[str, Any]:
    """Return `codebook.json`: every column in words, and the whole schema as `schema.toml` would have it.

    It has the format of its statement.
    """
    outside = [line["outside"] for line in statement["domains"]]
    return {
        "format": f"populace codebook {statement['format'].rpartition(' ')[2]}",
        "stamp": statement["stamp"],
        "dataset": statement["dataset"],
        "rows": statement["total"]["rows"],
        **({"linked": statement["linked"]} if "linked" in statement else {}),
        **({"copies": statement["copies"]} if "copies" in statement else {}),
        "columns": list(_entries(schema, outside=outside)),
        "rules": statement["rules"],
        "schema_digest": schema.digest,
        "schema": schema.to_toml(),
    }


def _entries(schema: Schema, *, outside: Sequence[str]) -> Iterator[dict[str, Any]]:
    geography = schema.geography
    for (table, column), text in zip(list_released_columns(schema), outside, strict=True):
        if geography is not None and column.name in geography.levels:
            # The ids of its units stand in the schema, and there alone.
            yield {
                "name": column.name,
                "kind": LEVEL_KIND,
                "type": str(arrow_type(column)),
                "origin": column.origin.value,
                "units": geography.spine.units(geography.spine.levels.index(column.name)),
                "values": "units under [geography] of the schema",
                "outside": text,
            }
        else:
            entry = ({} if table is None else {"table": table}) | _entry(column, outside=text)
            if schema.linked is not None and column.name == schema.linked.count:
                entry["labels"] = schema.linked.count_labels | entry["labels"]
            yield entry
    if (counted := count_column(schema)) is not None:
        yield {"name": counted, "kind": "count", "type": "int64", "of": schema.unit.word, "min": 1}


def _entry(column: Column, *, outside: str) -> dict[str, Any]:
    # How values are drawn inside bins where that was learnt: nothing where they are drawn evenly.
    density = column.density if isinstance(column, RangeColumn) else None
    inside = {} if density is None else {"stretches": len(density.starts), "steps": list(density.steps)}
    relations = {
        "universe": column.universe,
        "not_in_universe": column.outside,
        "function_of": list(column.function_of) or None,
        "parent": column.parent,
    }
    words = {"label": column.label, "description": column.description}
    return {
        "name": column.name,
        **{key: text for key, text in words.items() if text},
        "kind": column.kind,
        "type": str(arrow_type(column)),
        "origin": column.origin.value,
        **_domain(column),
        **({"inside": {"origin": "learnt", **inside}} if inside else {}),
        "missing": list(column.missing),
        "empty_cells": "" in column.specials,
        "labels": dict(column.labels),
        "outside": outside,
        **{key: value for key, value in relations.items() if value is not None},
    }


def _domain(column: Column) -> dict[str, Any]:
    if isinstance(column, CategoricalColumn):
        return {"values": list(column.values)}
    if isinstance(column, IntegerColumn):
        ends: dict[str, Any] = {"min": column.min, "max": column.max, **_codes(column.bottom, column.top)}
        return ends | {"bins_start": list(column.starts)} if column.binned else ends
    if isinstance(column, TemporalColumn):
        ends = {"min": column.iso_text(column.min), "max": column.iso_text(column.max)}
        starts = [column.iso_text(start) for start in column.starts] if column.binned else []
        return ends | {"bins_start": starts} if starts else ends
    if isinstance(column, DecimalColumn):
        edges = [format_decimal(edge) or str(edge) for edge in column.edges]
        bottom, top = column.ends
        codes = _codes(edges[0] if bottom else None, edges[-1] if top else None)
        return {"min": edges[0], "max": edges[-1], **codes, "edges": edges}
    return {}


def _codes(bottom: Any, top: Any) -> dict[str, Any]:
    """Return the codes that stand for everything from a number down or up."""
    return {key: end for key, end in (("bottom", bottom), ("top", top)) if end is not None}
