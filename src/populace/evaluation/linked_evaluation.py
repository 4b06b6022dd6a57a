"""Linked tables, such as households and their persons: scores of each table, and of what goes across them.

Both files are joined unit by unit, as a release is made: members beyond the most that count are left out. Wide rows
then give the rows of either table, each member beside its unit, and the members of one unit beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np

from populace.core.array_types import Truth
from populace.core.errors import UsageError
from populace.core.number_format import format_number
from populace.core.progress import Progress
from populace.evaluation.compared_rows import ComparedRows, RowPair, pair_rows, read_both
from populace.evaluation.evaluation_result import Evaluation, PairResult
from populace.evaluation.input_files import check_columns
from populace.evaluation.score_row_pair import list_rules, score_row_pair, score_rules
from populace.evaluation.scores.correlation_difference import associate
from populace.evaluation.scores.marginal_distance import Pair, compare_pair, total_variation
from populace.evaluation.scores.score import Direction, Score
from populace.private.read.rows_to_codes import open_source
from populace.private.read.value_counts import cells_to_texts
from populace.schema.columns.column import Column
from populace.schema.linked.linked_reader import list_unit_columns
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.schema import Schema


def evaluate_linked(
    real: Any,
    synthetic: Any,
    *,
    schema: Schema,
    areas: Sequence[str],
    subgroups: Sequence[str],
    progress: Progress,
) -> Evaluation:
    """Return the scores of both tables, under names that begin with theirs, and those that go across them."""
    linked = schema.linked
    if linked is None:
        raise TypeError("the schema declares one table")
    for data, what in ((real, "real"), (synthetic, "synthetic")):
        if not isinstance(data, Mapping):
            raise UsageError(
                f"the schema links the tables {linked.units!r} and {linked.members!r}, and one {what} file is given.",
                hint=f"give both by name: {linked.units}=FILE {linked.members}=FILE, or a release folder second",
            )
    own = [*list_unit_columns(linked, schema.columns), linked.count]
    check_columns([*own, *linked.columns], [*areas, *subgroups])
    progress("reading four files", 0.0)
    wide = read_both(real, synthetic, schema=schema)
    units = pair_rows(*(_keep(each, own) for each in wide), columns=schema.columns)
    columns = _member_columns(schema, linked)
    members = pair_rows(*(_stack(each, schema, linked) for each in wide), columns=columns)
    joined = pair_rows(
        *(_stack(each, schema, linked, beside=own) for each in wide), columns={**schema.columns, **columns}
    )
    parts = []
    for table, rows, part in ((linked.units, units, 0.1), (linked.members, members, 0.5)):
        progress(f"scores of {table}", part)
        found = score_row_pair(
            rows,
            areas=[name for name in areas if name in rows.domain],
            subgroups=[name for name in subgroups if name in rows.domain],
        )
        parts.append(_prefix(found, table))
    progress("across both tables", 0.9)
    across = _compare_pairs(joined, product(own, columns))
    within = _compare_pairs(pair_rows(*wide, columns=schema.columns), _pairs_of_members(linked))
    names = {name: f"{linked.units}.{name}" for name in own}
    wides = [wide for place in linked.places for wide in linked.names_at(place).values()]
    names |= {name: f"{linked.members}.{name}" for name in (*columns, *wides)}
    scores = [
        _score_pairs(
            "tv_pairs_across", f"Pairs of a column of {linked.units} and one of {linked.members}", across
        ),
        *(
            [_score_pairs("tv_pairs_within", f"Pairs of columns of two rows of one {linked.units}", within)]
            if within
            else []
        ),
        _score_links(real, synthetic, linked),
        *score_rules(wide[1], [each.violating / each.rows for each in wide]),
    ]
    progress("done", 1.0)
    return _join(
        parts,
        scores=scores,
        pairs=[
            replace(each, columns=(names[each.columns[0]], names[each.columns[1]]))
            for each in (*across.values(), *within.values())
        ],
        rules=list_rules(*wide),
        notes=[
            f"{table}: {format_number(rows.real.rows)} real and {format_number(rows.synthetic.rows)} synthetic rows"
            + ("." if table == linked.units else f", at most {linked.max_rows} of each {linked.units}.")
            for table, rows in ((linked.units, units), (linked.members, members))
        ],
    )


def _keep(rows: ComparedRows, names: Sequence[str], *, where: Truth | None = None) -> ComparedRows:
    """Return some columns of rows, without their rules."""
    chosen = slice(None) if where is None else where
    return replace(
        rows,
        codes={name: rows.codes[name][chosen] for name in names if name in rows.codes},
        numbers={name: rows.numbers[name][chosen] for name in names if name in rows.numbers},
        rows=rows.rows if where is None else int(where.sum()),
        outside={name: rows.outside[name] for name in names if name in rows.outside},
        broken={},
        violating=0,
        violating_share=0.0,
    )


def _stack(
    rows: ComparedRows, schema: Schema, linked: LinkedTables, *, beside: Sequence[str] = ()
) -> ComparedRows:
    """Return a row for each member, in the columns of members and in some of their units."""
    counted = schema.columns[linked.count]
    sizes = np.array([int(counted.code(str(size)) or 0) for size in range(linked.max_rows + 1)])
    members = np.searchsorted(sizes, rows.codes[linked.count])
    parts = []
    for place in linked.places:
        named = {wide: name for name, wide in linked.names_at(place).items()}
        part = _keep(rows, [*named, *beside], where=members >= place)
        parts.append(
            replace(
                part,
                codes={named.get(name, name): codes for name, codes in part.codes.items()},
                numbers={named.get(name, name): values for name, values in part.numbers.items()},
                outside={named[name]: lost for name, lost in part.outside.items() if name in named},
            )
        )
    first = parts[0]
    return replace(
        first,
        codes={name: np.concatenate([part.codes[name] for part in parts]) for name in first.codes},
        numbers={name: np.concatenate([part.numbers[name] for part in parts]) for name in first.numbers},
        rows=sum(part.rows for part in parts),
        outside={name: sum(part.outside.get(name, 0) for part in parts) for name in linked.columns},
    )


def _member_columns(schema: Schema, linked: LinkedTables) -> dict[str, Column]:
    """Return the columns of members; what stands for nobody is a code of theirs, which no member has."""
    return {
        name: replace(schema.columns[wide], name=name, labels=linked.columns[name].labels)
        for name, wide in linked.names_at(1).items()
    }


def _pairs_of_members(linked: LinkedTables) -> Iterator[Pair]:
    for first, second in combinations(linked.places, 2):
        yield from product(linked.names_at(first).values(), linked.names_at(second).values())


def _compare_pairs(rows: RowPair, pairs: Iterator[Pair]) -> dict[Pair, PairResult]:
    codes, found = (rows.real.codes, rows.synthetic.codes), {}
    for pair in pairs:
        if all(name in rows.domain for name in pair):
            real, drawn = compare_pair(pair, *codes, rows.domain)
            both = associate(real), associate(drawn)
            found[pair] = PairResult(
                columns=pair,
                distance=total_variation(real, drawn),
                association=None if any(map(math.isnan, both)) else both,
            )
    return found


def _score_pairs(name: str, title: str, found: Mapping[Pair, PairResult]) -> Score:
    return Score(
        name=name,
        title=f"{title}: mean total variation",
        value=math.fsum(each.distance for each in found.values()) / len(found),
        direction=Direction.LOWER,
        scale="0 (the same shares) to 1 (no row in common), in total variation",
        blind_to="dependence among more than two columns",
        note=f"{len(found)} pairs",
    )


def _score_links(real: Any, synthetic: Any, linked: LinkedTables) -> Score:
    """Return the share of rows whose key does not fit: members of no unit, and units that come twice."""
    shares = []
    for data in (real, synthetic):
        units, members = (
            _read_keys(data[table], key)
            for table, key in ((linked.units, linked.unit_key), (linked.members, linked.member_key))
        )
        lost = len(units) - len(np.unique(units)) + int((~np.isin(members, units)).sum())
        shares.append(lost / (len(units) + len(members)))
    return Score(
        name="link_violations",
        title="Rows whose key does not fit",
        value=shares[1],
        direction=Direction.LOWER,
        scale="0 (every key fits) to 1 (none does)",
        blind_to="rows that belong to another unit than they should",
        note=f"Rows of {linked.members} whose {linked.units} is missing, and rows of {linked.units} that repeat a key; "
        f"of the real rows {shares[0]:.3g}",
    )


def _read_keys(data: Any, key: str) -> Any:
    parts = [cells_to_texts(batch.column(key)).to_pylist() for batch in open_source(data).batches([key])]
    return np.array([text or "" for part in parts for text in part], dtype=np.str_)


def _prefix(found: Evaluation, table: str) -> Evaluation:
    """Return an evaluation in which everything is named after its table."""

    def name(column: str) -> str:
        return f"{table}.{column}"

    return replace(
        found,
        scores=tuple(
            each.rename(f"{table}_{each.name}", title=f"{table}: {each.title}") for each in found.scores
        ),
        columns=tuple(replace(each, name=name(each.name)) for each in found.columns),
        pairs=tuple(replace(p, columns=(name(p.columns[0]), name(p.columns[1]))) for p in found.pairs),
        triples=tuple((tuple(map(name, names)), distance) for names, distance in found.triples),
        groups=tuple(replace(each, column=name(each.column)) for each in found.groups),
        areas=tuple(replace(each, column=name(each.column)) for each in found.areas),
        numbers=tuple(replace(each, column=name(each.column)) for each in found.numbers),
        predictions=tuple(replace(each, column=name(each.column)) for each in found.predictions),
        coefficients=tuple(
            replace(each, outcome=name(each.outcome), feature=name(each.feature))
            for each in found.coefficients
        ),
        notes=tuple(f"{table}: {note}" for note in found.notes),
    )


def _join(
    parts: Sequence[Evaluation],
    *,
    scores: Sequence[Score],
    pairs: Sequence[PairResult],
    rules: Sequence[Any],
    notes: Sequence[str],
) -> Evaluation:
    """Return both evaluations as one, the worst of either first."""
    first, second = parts
    return replace(
        first,
        scores=(*scores, *first.scores, *second.scores),
        columns=tuple(
            sorted((*first.columns, *second.columns), key=lambda each: (-each.distance, each.name))
        ),
        pairs=tuple(
            sorted((*pairs, *first.pairs, *second.pairs), key=lambda each: (-each.distance, each.columns))
        ),
        triples=tuple(sorted((*first.triples, *second.triples), key=lambda each: (-each[1], each[0]))),
        groups=tuple(
            sorted(
                (*first.groups, *second.groups), key=lambda each: (-each.distance, each.column, each.value)
            )
        ),
        areas=(*first.areas, *second.areas),
        rules=tuple(rules),
        numbers=tuple(
            sorted((*first.numbers, *second.numbers), key=lambda each: (-each.quantiles, each.column))
        ),
        predictions=tuple(
            sorted(
                (*first.predictions, *second.predictions),
                key=lambda each: (each.synthetic - each.real, each.column),
            )
        ),
        coefficients=tuple(
            sorted(
                (*first.coefficients, *second.coefficients),
                key=lambda each: (each.overlap, each.outcome, each.feature),
            )
        ),
        expected=(),
        notes=(*notes, *first.notes, *second.notes),
    )
