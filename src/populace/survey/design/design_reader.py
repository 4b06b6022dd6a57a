"""From the tables of a design file to the fields of a `Design`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from populace.core.errors import SchemaError
from populace.core.limits import LIMITS
from populace.core.marginals import Grouping, Marginal
from populace.privacy.accounting.amplification import SamplingDesign
from populace.privacy.sensitivity.nn_imputation import DonorValue, TieBreak
from populace.privacy.sensitivity.poststratification import Binning
from populace.schema.conditions.code_semantics import CodeSemantics
from populace.schema.exact_numbers import to_fraction
from populace.schema.hints import quote_names
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable, read_toml_table, toml_text
from populace.survey.design import survey_columns as columns
from populace.survey.design.design_parts import (
    ByStratum,
    ControlTotals,
    DeclaredSampling,
    DesignEffect,
    ItemNonresponse,
    LonelyPsu,
    MissingHandling,
    ReplicateCentre,
    ReplicateDesign,
    ReplicateType,
)

Groups = Mapping[str, tuple[int, ...]]
Scales = Mapping[str, CodeSemantics]

_KEYS = (
    "weights", "max_weight", "base", "strata", "psu", "psus", "fpc", "fpc_within", "lonely",
    "replicates", "design_effect", "max_design_effect", "population", "rows", "sampling", "shrink",
    "weighting_effect",
)  # fmt: skip
DESIGN_TABLES = ("design", "missing", "totals")
_RENAMED = {"most_weight": "max_weight", "most_effect": "max_design_effect"}
_SAMPLING_DESIGNS = {each.name.lower(): each for each in SamplingDesign}


def read_design(text: str, *, schema: Schema, name: str) -> dict[str, Any]:
    """Return the fields of the design that a TOML text declares, but for the schema."""
    hint = 'write texts in quotes, as in [design] and weights = "WEIGHT"'
    return read_design_tables(read_toml_table(text, name=name, hint=hint), schema=schema)


def read_design_tables(document: TomlTable, *, schema: Schema) -> dict[str, Any]:
    """Return the fields of the design that the tables `design`, `missing` and `totals` declare."""
    document.allow(DESIGN_TABLES)
    table = document.table("design", place="[design]")
    for old, key in _RENAMED.items():
        if old in table:
            raise SchemaError(f"[design]: {old} is now named {key}.", hint=f"write {key} = …")
    table.allow(_KEYS)
    missing = document.table("missing", place="[missing.COLUMN]")
    psus = table.table("psus", place="[design.psus]")
    return {
        "weights": table.text("weights"),
        "max_weight": table.number("max_weight"),
        "base": _read_by_stratum(table, "base"),
        "strata": table.text("strata"),
        "psu": table.text("psu"),
        "psus": {stratum: psus.texts(stratum) for stratum in psus.items},
        "fpc": _read_by_stratum(table, "fpc"),
        "fpc_within": _read_by_stratum(table, "fpc_within"),
        "lonely": table.choice("lonely", default=LonelyPsu.FAIL),
        "replicates": _read_replicates(table) if "replicates" in table else None,
        "design_effect": _read_design_effect(table),
        "max_design_effect": table.number("max_design_effect"),
        "population": table.number("population"),
        "rows": table.number("rows"),
        "sampling": _read_sampling(table) if "sampling" in table else None,
        "missing": {column: _read_missing(missing, column) for column in missing.items},
        "shrink": table.number("shrink") or Fraction(0),
        "weighting_effect": table.number("weighting_effect"),
        "totals": tuple(_read_control(each, schema) for each in document.tables("totals")),
    }


def _read_by_stratum(table: TomlTable, key: str) -> ByStratum | None:
    if isinstance(named := table.items.get(key), str):
        each = "psu" if key == "fpc_within" else "stratum"
        raise SchemaError(
            f"{table.place}: {key} is the text {named!r}, and a column cannot be named here.",
            hint=f"give one number, or one for each {each}: {key} = {{ north = 40, south = 25 }}",
        )
    if not isinstance(table.items.get(key), Mapping):
        return table.number(key)
    given = table.table(key, place=f"{table.place} {key}")
    return {stratum: given.number(stratum) or Fraction(0) for stratum in given.items}


def _read_replicates(table: TomlTable) -> ReplicateDesign:
    given = table.table("replicates", place="[design.replicates]")
    given.allow(("columns", "type", "scale", "rscales", "rho", "around"))
    if "type" not in given:
        raise SchemaError(
            "[design.replicates] has no type.",
            hint=f"choose one of {quote_names(each.value for each in ReplicateType)}",
        )
    return ReplicateDesign(
        columns=given.texts("columns"),
        type=given.choice("type", default=ReplicateType.OTHER),
        scale=given.number("scale"),
        rscales=given.numbers("rscales"),
        rho=given.number("rho"),
        around=given.choice("around", default=ReplicateCentre.MEAN) if "around" in given else None,
    )


def _read_design_effect(table: TomlTable) -> DesignEffect:
    if "design_effect" not in table:
        return DesignEffect()
    given = table.table("design_effect", place="[design.design_effect]")
    given.allow(("median", "factor"))
    median, factor = given.number("median"), given.number("factor")
    if median is None or factor is None:
        raise SchemaError(
            "[design.design_effect] needs a median and a factor.",
            hint="write design_effect = { median = 1.8, factor = 3 }: 95 % of design effects are within that factor",
        )
    return DesignEffect(median=median, factor=factor)


def _read_sampling(table: TomlTable) -> DeclaredSampling:
    given = table.table("sampling", place="[design.sampling]")
    given.allow(("design", "share"))
    name, share = given.text("design") or "", given.number("share")
    if name not in _SAMPLING_DESIGNS or share is None:
        raise SchemaError(
            f"[design.sampling] has design {name!r} and {'a' if share is not None else 'no'} share.",
            hint=f"choose one of {', '.join(_SAMPLING_DESIGNS)}, and a share such as 0.1",
        )
    return DeclaredSampling(design=_SAMPLING_DESIGNS[name], share=share)


def _read_missing(document: TomlTable, column: str) -> ItemNonresponse:
    table = document.table(column, place=f"[missing.{column}]")
    table.allow(("how", "match", "widths", "k", "take", "ties", "default", "max_uses", "origins", "one_hot"))
    widths, origins = (table.table(key, place=f"{table.place} {key}") for key in ("widths", "origins"))
    k = table.integer("k")
    return ItemNonresponse(
        column=column,
        how=table.choice("how", default=MissingHandling.IGNORE),
        match=table.texts("match"),
        widths={name: widths.number(name) or Fraction(0) for name in widths.items},
        k=1 if k is None else k,
        take=table.choice("take", default=DonorValue.COPY),
        ties=table.choice("ties", default=TieBreak.NEXT),
        default=table.number("default"),
        max_uses=table.integer("max_uses"),
        origins={name: origins.number(name) or Fraction(0) for name in origins.items},
        one_hot=table.texts("one_hot"),
    )


def _read_control(table: TomlTable, schema: Schema) -> ControlTotals:
    table.allow(("by", "edges", "widths", "counts", "bins", "bins_share"))
    names = table.texts("by")
    if not names or len(set(names)) < len(names):
        raise SchemaError(
            f"{table.place} is by no column, or by one twice.", hint='write by = ["AGE", "SEX"]'
        )
    scales = {name: columns.scale(schema, name, place=table.place) for name in names}
    groupings = read_groupings(table, scales)
    groups = {
        name: groupings[name].groups if name in groupings else tuple(range(scales[name].size))
        for name in names
    }
    shape = tuple(max(each) + 1 for each in groups.values())
    if (cells := math.prod(shape)) > LIMITS.max_control_cells:
        raise SchemaError(
            f"{table.place} has {cells} cells; {LIMITS.max_control_cells} is the most.",
            hint="give widths or edges, or fewer columns",
        )
    binnings = [
        _read_binning(TomlTable(f"{table.place} bins {number}", each.items), groups, scales)
        for number, each in enumerate(table.tables("bins"), start=1)
    ]
    share = table.number("bins_share")
    if share is not None and not (0 < share < 1 and len(binnings) > 1):
        raise SchemaError(
            f"{table.place}: bins_share is {float(share):g} for {len(binnings)} sets of bins.",
            hint="give a share between 0 and 1, of what counts may spend, with two sets of bins or more",
        )
    alone = Binning(name="alone", bins=tuple((cell,) for cell in range(cells)))
    return ControlTotals(
        by=Marginal.with_groupings(names, groupings),
        populations=tuple(_read_populations(table, groups, scales).ravel().tolist()),
        binnings=tuple(binnings) or (alone,),
        bins_share=share,
    )


def read_groupings(table: TomlTable, scales: Scales) -> dict[str, Grouping]:
    """Return the groups of columns that `edges`, `widths` or `join` of a table give."""
    found: dict[str, Grouping] = {}
    for key in ("edges", "widths", "join"):
        given = table.table(key, place=f"{table.place} {key}")
        for name in given.items:
            if name not in scales or name in found:
                raise SchemaError(
                    f"{given.place}: {name!r} is no column of `by`, or is grouped twice.",
                    hint=f"group {quote_names(scales)}, each at most once",
                )
            if key == "edges":
                found[name] = columns.cut(scales[name], given.numbers(name), place=given.place)
            elif key == "widths":
                found[name] = columns.wide(scales[name], given.number(name) or Fraction(0), place=given.place)
            else:
                groups = given.lists(name, hint='write [["a", "b"], ["c"]]')
                found[name] = columns.join_values(scales[name], groups, place=given.place)
    return found


def _read_populations(table: TomlTable, groups: Groups, scales: Scales) -> npt.NDArray[np.object_]:
    found = np.full([max(each) + 1 for each in groups.values()], Fraction(0), dtype=object)
    seen: set[tuple[int, ...]] = set()
    for texts, count in _read_counts(table, tuple(groups)):
        cell = tuple(
            own[columns.code(scales[name], text, place=table.place)]
            for (name, own), text in zip(groups.items(), texts, strict=True)
        )
        if cell in seen:
            raise SchemaError(
                f"{table.place} counts the cell of {quote_names(texts)} twice.",
                hint="count each cell once; one value of a group stands for the whole group",
            )
        if count < 0:
            raise SchemaError(
                f"{table.place} counts {float(count):g} for {quote_names(texts)}.", hint="count from 0"
            )
        seen.add(cell)
        found[cell] = count
    # Groups of values; those of special codes follow them.
    wanted = [range(max(own[: scales[name].levels]) + 1) for name, own in groups.items()]
    if left := [cell for cell in product(*wanted) if cell not in seen]:
        words = [
            scales[name].text(own.index(group))
            for (name, own), group in zip(groups.items(), left[0], strict=True)
        ]
        more = f" and {len(left) - 1} more cells" if len(left) > 1 else ""
        raise SchemaError(
            f"{table.place} has no population for {quote_names(words)}{more}.",
            hint="count every cell; one that nobody can be in has count = 0",
        )
    return found


def _read_counts(table: TomlTable, clique: tuple[str, ...]) -> list[tuple[tuple[str, ...], Fraction]]:
    given = table.items.get("counts")
    if isinstance(given, Mapping) and len(clique) == 1:
        counts = table.table("counts", place=f"{table.place} counts")
        return [((text,), counts.number(text) or Fraction(0)) for text in counts.items]
    if not isinstance(given, list) or not all(isinstance(row, Mapping) for row in given):
        raise SchemaError(
            f"{table.place}: counts do not fit {quote_names(clique)}.",
            hint='write counts = [ { A = "1", B = "x", count = 5 }, … ], for one column { "1" = 5, … }',
        )
    found = []
    for row in given:
        texts, count = [toml_text(row.get(name)) for name in clique], to_fraction(row.get("count"))
        if set(row) != {*clique, "count"} or None in texts or count is None:
            raise SchemaError(
                f"{table.place}: an entry of counts does not name just {quote_names([*clique, 'count'])}.",
                hint="give each entry one value of every column, and its count",
            )
        found.append((tuple(text or "" for text in texts), count))
    return found


def _read_binning(table: TomlTable, groups: Groups, scales: Scales) -> Binning:
    """Return the bins of a coarser grouping of columns: it joins cells, and never cuts one."""
    table.allow(("name", "edges", "widths", "join"))
    coarse = read_groupings(table, scales)
    maps = []
    for name, fine in groups.items():
        own: dict[int, int] = {}
        for group, to in zip(fine, coarse[name].groups if name in coarse else fine, strict=True):
            if own.setdefault(group, to) != to:
                raise SchemaError(
                    f"{table.place}: its groups of {name!r} cut a cell of the totals.",
                    hint="bins join cells: their edges are some of those of the totals",
                )
        maps.append(own)
    bins: dict[tuple[int, ...], list[int]] = {}
    for cell, place in enumerate(product(*(range(max(own) + 1) for own in maps))):
        key = tuple(own[group] for own, group in zip(maps, place, strict=True))
        bins.setdefault(key, []).append(cell)
    return Binning(name=table.text("name") or table.place, bins=tuple(map(tuple, bins.values())))
