"""Rows held to rules one by one: no row says anything about another, and all of them keep every rule."""

from __future__ import annotations

import numpy as np
import pytest

from populace.schema.codec.table_codec import TableCodec
from populace.schema.schema import Schema

COLUMNS = """
[columns.A]
kind = "integer"
min = 0
max = 5
missing = ["R"]

[columns.B]
kind = "categorical"
values = ["x", "y", "z"]
{b}

[columns.C]
kind = "integer"
min = 0
max = 4
{c}
"""
# What else stands in B and in C, and the structural zeros.
SCHEMAS = {
    "a recipe for each cell": ("", 'other = "0"', ["A > C", "A is missing and C >= 2 and B == 'z'"]),
    "a zero moves what a universe depends on": (
        'universe = "C >= 2"\noutside = "N"',
        "",
        ["A >= 2 and C in [1, 3]", "A == 0 and C >= 2"],
    ),
    "universes of universes": (
        'universe = "A >= 2"\noutside = "N"',
        'universe = "B != \'N\'"\noutside = "-1"',
        ["A == 3 and C != 0", "B == 'z' and C == 4"],
    ),
    "rules that undo each other": (
        "",
        "",
        ["A >= 3 and B in ['x', 'y']", "A >= 3 and B not in ['x', 'y']", "A == 1 and C > 0 and B == 'x'"],
    ),
}


def made(b: str, c: str, zeros: list[str]) -> Schema:
    text = COLUMNS.format(b=b, c=c) + "".join(f'[[zeros]]\nwhen = "{when}"\n' for when in zeros)
    return Schema.parse(text)


def all_rows(schema: Schema) -> dict[str, np.ndarray]:
    """Every combination of codes, in an order that looks like nothing."""
    sizes = list(schema.domain.values())
    cells = np.random.default_rng(1).permutation(int(np.prod(sizes)))
    return dict(zip(schema.domain, np.unravel_index(cells, sizes), strict=True))


@pytest.mark.parametrize(("b", "c", "zeros"), SCHEMAS.values(), ids=SCHEMAS)
def test_a_row_becomes_the_same_whatever_stands_beside_it(b, c, zeros):
    schema = made(b, c, zeros)
    codec, rows = TableCodec(schema), all_rows(schema)
    together = codec.enforce(rows)
    changed = 0
    for place in range(len(rows["A"])):
        alone = codec.enforce({name: codes[[place]] for name, codes in rows.items()})
        assert {n: int(k[0]) for n, k in alone.items()} == {n: int(k[place]) for n, k in together.items()}
        changed += any(alone[name][0] != rows[name][place] for name in rows)
    assert 0 < changed < len(rows["A"]), "some rows break a rule, and some keep them all"


@pytest.mark.parametrize(("b", "c", "zeros"), SCHEMAS.values(), ids=SCHEMAS)
def test_rows_that_keep_the_rules_stay_and_all_others_keep_them_afterwards(b, c, zeros):
    schema = made(b, c, zeros)
    rows = all_rows(schema)
    held = TableCodec(schema).enforce(rows)

    def kept(codes):
        return np.logical_and.reduce(
            [
                rule.allowed[tuple(schema.rules.classes[name].lookup[codes[name]] for name in rule.clique)]
                for rule in schema.rules.rules
            ]
        )

    assert kept(held).all()
    for name in rows:
        assert (held[name] == rows[name])[kept(rows)].all()
