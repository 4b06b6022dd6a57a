"""Groups of columns in a schema: read, written, part of the digest, and refused where they make no sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from populace.core.errors import SchemaError
from populace.schema.schema import Schema

SIZES = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
TEXT = """
[table]
groups = {groups}

[columns.a]
kind = "integer"
min = 0
max = 9
split = 3

[columns.b]
kind = "categorical"
values = ["x", "y"]

[columns.d]
kind = "categorical"
function_of = "b"
map = {{ "x" = "1", "y" = "2" }}
"""


def test_groups_are_read_and_written():
    schema = replace(SIZES, groups=[["c", "a"]])
    again = Schema.parse(schema.to_toml())
    assert again == schema
    assert again.groups == (("c", "a"),)
    assert 'groups = [["c", "a"]]' in schema.to_toml()


def test_a_schema_without_groups_is_what_it_was():
    assert SIZES.groups == ()
    assert "groups" not in SIZES.to_toml()
    assert SIZES.digest != replace(SIZES, groups=(("a",),)).digest


REFUSED = {
    '["a", "b"]': "list of lists",
    '"a"': "not a list",
    "[[]]": "empty",
    '[["b"], ["b"]]': "twice",
    '[["b", "b"]]': "twice",
    '[["B"]]': "no column is called",
    '[["a"]]': "no column is called",
    '[["b", "d"]]': "follows from others",
}


@pytest.mark.parametrize(("groups", "what"), REFUSED.items())
def test_groups_that_make_no_sense_are_refused(groups, what):
    with pytest.raises(SchemaError, match=what):
        Schema.parse(TEXT.format(groups=groups))


def test_parts_of_a_split_column_may_be_grouped():
    schema = Schema.parse(TEXT.format(groups="[]"))
    first, second, *_ = schema.domain
    assert replace(schema, groups=((first, "b"),)).groups == ((first, "b"),)
    assert second not in ("b", "d")
