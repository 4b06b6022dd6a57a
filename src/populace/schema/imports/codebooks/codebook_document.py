"""From variables of codebooks to the text of a schema: merged, with bins that fit the conditions, and compiled.

A universe that does not compile is taken out and listed with the line that it came from: a wrong one would empty a
column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from populace.core.errors import SchemaError
from populace.schema.conditions import syntax_tree as syntax
from populace.schema.conditions.condition_parser import (
    condition_atoms,
    condition_columns,
    parse_condition,
)
from populace.schema.exact_numbers import parse_number
from populace.schema.hints import quote_names
from populace.schema.imports.codebooks.variable import Codebook
from populace.schema.imports.schema_document import Keys, SchemaDocument
from populace.schema.schema import Schema

OPEN_MARK = "OPEN"
_DOMAIN = (
    "kind",
    "type",
    "values",
    "min",
    "max",
    "width",
    "edges",
    "bins",
    "top",
    "bottom",
    "split",
    "decimals",
)
_BINS = ("min", "max", "width", "edges")
_ASKED = ("universe", "outside", "other")
_NOT_APPLICABLE = re.compile(
    r"(n/?a|niu|not applicable|not in universe|inapplicable|skipped|not asked)\b", re.IGNORECASE
)


def codebook_to_document(codebook: Codebook, *, source: str) -> SchemaDocument:
    """Return the columns of a codebook; `source` names its file in remarks."""
    notes = {each.name: f"{OPEN_MARK}: {each.open_because}" for each in codebook.variables if each.is_open}
    remarks = [each.describe(source) for each in codebook.untranslated]
    if codebook.id is not None:
        remarks.append(
            f"{codebook.id} is the record id and no column; where a unit has several rows, add rows_per_unit and "
            f'id = "{codebook.id}" to [table]'
        )
    return SchemaDocument(
        columns={each.name: each.keys() for each in codebook.variables},
        zeros=tuple({"when": str(condition)} for _, _, condition in codebook.zeros),
        notes=notes,
        remarks=tuple(remarks),
        places={each.name: f"{source} line {each.line}" for each in codebook.variables if each.line},
    )


def merge_documents(first: SchemaDocument, *others: SchemaDocument) -> SchemaDocument:
    """Return the columns of the first document with what later ones add: domains, labels, missing codes, universes.

    The first says which columns there are, and where two disagree, it is right.
    """
    merged = first
    for other in others:
        columns = {
            name: _merge_columns(keys, other.columns.get(name, {})) for name, keys in merged.columns.items()
        }
        known = {name: note for name, note in merged.notes.items() if _is_open(columns[name]) or note}
        notes = {
            name: note
            for name, note in known.items()
            if not note.startswith(OPEN_MARK) or _is_open(columns[name])
        }
        more = [name for name in other.columns if name not in merged.columns]
        aside = (
            (f"not among the columns of the first file, and left out: {quote_names(more)}",) if more else ()
        )
        merged = replace(
            merged,
            columns=columns,
            notes=notes,
            zeros=(*merged.zeros, *other.zeros),
            remarks=(*merged.remarks, *other.remarks, *aside),
            places={
                **merged.places,
                **{n: p for n, p in other.places.items() if "universe" in other.columns[n]},
            },
        )
    return merged


def settle_document(document: SchemaDocument) -> SchemaDocument:
    """Return the document with bins that its conditions do not cut, and without conditions that do not compile."""
    columns: dict[str, Keys] = {name: _settle_column(keys) for name, keys in document.columns.items()}
    dropped: list[str] = []
    notes = dict(document.notes)
    for name, keys in columns.items():
        if not _is_open(keys) and (problem := _find_problem({name: _without_universe(keys)})):
            columns[name] = {
                key: value for key, value in keys.items() if key not in (*_DOMAIN, "labels", "missing")
            }
            notes[name] = f"{OPEN_MARK}: its domain is not understood ({problem})"
    conditions = [keys["universe"] for keys in columns.values() if "universe" in keys]
    conditions += [zero["when"] for zero in document.zeros]
    columns |= _add_cuts(columns, [parse_condition(text) for text in conditions])

    def drop(name: str, why: str) -> None:
        place = document.places.get(name, "")
        text = columns[name]["universe"]
        dropped.append(f"{f'{place}, ' if place else ''}{name}: universe “{text}” is not translated: {why}")
        columns[name] = _drop_universe(columns[name])

    for name, keys in list(columns.items()):
        if "universe" in keys and (problem := _find_universe_problem(name, columns)):
            drop(name, problem)
    zeros = []
    for zero in document.zeros:
        if problem := _find_zero_problem(zero, columns):
            dropped.append(f"the rule “never {zero['when']}” is not translated: {problem}")
        else:
            zeros.append(zero)
    if _find_problem(_testable(columns), zeros=_known_zeros(zeros, columns)):
        dropped += [
            f"the rule “never {zero['when']}” is not translated: the rules contradict" for zero in zeros
        ]
        zeros = []
        accepted: dict[str, Keys] = {name: _without_universe(keys) for name, keys in columns.items()}
        for name, keys in list(columns.items()):
            if "universe" not in keys:
                continue
            accepted[name] = keys
            if problem := _find_problem(_testable(accepted)):
                accepted[name] = _without_universe(keys)
                drop(name, problem)
    return replace(
        document,
        columns=columns,
        zeros=tuple(zeros),
        notes=notes,
        remarks=(*document.remarks, *dropped),
    )


def list_open_columns(document: SchemaDocument) -> list[str]:
    """Return the columns whose domain somebody has to fill in."""
    return [name for name, keys in document.columns.items() if _is_open(keys)]


def without_open_columns(document: SchemaDocument) -> SchemaDocument:
    """Return the part of a document that is complete, to be checked."""
    columns = _testable(document.columns)
    return replace(document, columns=columns, zeros=tuple(_known_zeros(document.zeros, columns)))


def _is_open(keys: Keys) -> bool:
    return "kind" not in keys


def _merge_columns(keys: Keys, more: Keys) -> dict[str, Any]:
    merged = dict(keys)
    for key in ("label", "description"):
        if more.get(key):
            merged.setdefault(key, more[key])
    if _is_open(keys):
        merged |= {key: more[key] for key in (*_DOMAIN, "origin") if key in more}
    codes = [
        *keys.get("missing", ()),
        *(code for code in more.get("missing", ()) if code not in keys.get("missing", ())),
    ]
    if isinstance(merged.get("values"), list):
        merged["values"] = [code for code in merged["values"] if code not in codes]
    labels = {**more.get("labels", {}), **keys.get("labels", {})}
    if "universe" in more and "universe" not in keys:
        merged |= {key: more[key] for key in _ASKED if key in more}
        asked = [code for code, label in keys.get("labels", {}).items() if _NOT_APPLICABLE.match(label)]
        if len(asked) == 1:
            # This file has a code for those who were not asked.
            merged["outside"] = asked[0]
            merged.pop("other", None)
            if isinstance(merged.get("values"), list):
                merged["values"] = [code for code in merged["values"] if code != asked[0]]
        codes = [code for code in codes if code != merged["outside"]]
    merged["missing"], merged["labels"] = codes, labels
    return {key: value for key, value in merged.items() if value or key in ("outside", "min")}


def _settle_column(keys: Keys) -> dict[str, Any]:
    """Return the keys without labels of codes that the column does not have, and without a type that cannot hold it."""
    kept = dict(keys)
    special = [str(kept[key]) for key in ("outside", "other") if key in kept]
    codes = [str(code) for code in (*kept.get("missing", ()), *special)]
    if isinstance(kept.get("values"), list):
        codes = list(dict.fromkeys((*codes, *kept["values"])))
        whole = [number for code in codes if code and (number := parse_number(code)) is not None]
        if len(whole) < sum(map(bool, codes)) or len(set(whole)) < len(whole):
            kept.pop("type", None)
    elif not _is_open(kept):
        codes += [code for code in kept.get("labels", {}) if _in_range(code, kept)]
    if "labels" in kept and not _is_open(kept):
        kept["labels"] = {code: label for code, label in kept["labels"].items() if code in codes}
        if not kept["labels"]:
            del kept["labels"]
    return kept


def _in_range(code: str, keys: Keys) -> bool:
    number, edges = parse_number(code), keys.get("edges")
    low, high = (edges[0], edges[-1]) if edges else (keys.get("min"), keys.get("max"))
    if number is None or not (isinstance(low, int | Fraction) and isinstance(high, int | Fraction)):
        return False
    return low <= number <= high


def _without_universe(keys: Keys) -> dict[str, Any]:
    """Return a column that anybody may have a value of; who was not asked has a missing code."""
    kept = {key: value for key, value in keys.items() if key not in ("universe", "outside")}
    if "outside" in keys and keys["outside"] != kept.get("other"):
        kept["missing"] = [*kept.get("missing", ()), keys["outside"]]
    return kept


def _drop_universe(keys: Keys) -> dict[str, Any]:
    kept = _without_universe(keys)
    if "" in kept.get("missing", ()):
        # An empty cell stands for itself again.
        other = kept.pop("other", None)
        if other is not None and other not in kept["missing"] and "labels" in kept:
            kept["labels"] = {code: label for code, label in kept["labels"].items() if code != other}
    return {key: value for key, value in kept.items() if value or key == "min"}


def _testable(columns: Mapping[str, Keys]) -> dict[str, Keys]:
    """Return the complete columns; universes that speak of an open one are left out."""
    known = {name: keys for name, keys in columns.items() if not _is_open(keys)}
    return {
        name: keys
        if "universe" not in keys or set(condition_columns(parse_condition(keys["universe"]))) <= known.keys()
        else _without_universe(keys)
        for name, keys in known.items()
    }


def _known_zeros(zeros: Iterable[Keys], columns: Mapping[str, Keys]) -> list[Keys]:
    return [
        zero
        for zero in zeros
        if all(
            not _is_open(columns.get(name, {})) for name in condition_columns(parse_condition(zero["when"]))
        )
    ]


def _find_universe_problem(name: str, columns: Mapping[str, Keys]) -> str | None:
    """Return why a universe alone does not compile; None where it does, or where a column is still open."""
    named = condition_columns(parse_condition(columns[name]["universe"]))
    if unknown := [each for each in named if each not in columns]:
        return f"there is no column {quote_names(unknown)}"
    if any(_is_open(columns[each]) for each in (name, *named)):
        return None
    others = {each: _without_universe(columns[each]) for each in named if each != name}
    return _find_problem({**others, name: columns[name]})


def _find_zero_problem(zero: Keys, columns: Mapping[str, Keys]) -> str | None:
    named = condition_columns(parse_condition(zero["when"]))
    if unknown := [each for each in named if each not in columns]:
        return f"there is no column {quote_names(unknown)}"
    if any(_is_open(columns[each]) for each in named):
        return None
    return _find_problem({each: _without_universe(columns[each]) for each in named}, zeros=[zero])


def _find_problem(columns: Mapping[str, Keys], *, zeros: Sequence[Keys] = ()) -> str | None:
    if not columns:
        return None
    try:
        Schema.parse(SchemaDocument(columns=columns, zeros=tuple(zeros)).text())
    except SchemaError as error:
        return error.message.rstrip(".")
    return None


def _add_cuts(columns: Mapping[str, Keys], conditions: Sequence[syntax.Expression]) -> dict[str, Keys]:
    """Return the columns with an edge wherever a condition compares a binned number."""
    cuts: dict[str, set[Fraction]] = {}
    for atom in (atom for condition in conditions for atom in condition_atoms(condition)):
        if isinstance(atom, syntax.Comparison) and isinstance(atom.right, syntax.Literal):
            keys, number = columns.get(atom.left.name, {}), parse_number(atom.right.text)
            if number is None or not ("width" in keys or "edges" in keys):
                continue
            after = [number + 1] if keys["kind"] == "integer" else []
            at = [] if atom.operator in (syntax.Operator.ABOVE, syntax.Operator.AT_MOST) else [number]
            if atom.operator in (syntax.Operator.BELOW, syntax.Operator.AT_LEAST):
                after = []
            cuts.setdefault(atom.left.name, set()).update(at, after)
    return {name: _cut(keys, cuts[name]) if name in cuts else keys for name, keys in columns.items()}


def _cut(keys: Keys, cuts: set[Fraction]) -> dict[str, Any]:
    if keys["kind"] not in ("integer", "numeric") or "top" in keys or "bottom" in keys:
        return dict(keys)
    if "edges" in keys:
        edges = {Fraction(edge) for edge in keys["edges"]}
    else:
        low, high, width = (Fraction(keys[key]) for key in ("min", "max", "width"))
        edges = {low + width * step for step in range(int((high - low) // width) + 1)} | {high}
    low, high = min(edges), max(edges)
    joined = sorted(edges | {cut for cut in cuts if low < cut < high})
    whole = keys["kind"] == "integer"
    kept = {key: value for key, value in keys.items() if key not in _BINS}
    return {**kept, "edges": [int(edge) if whole else edge for edge in joined]}
