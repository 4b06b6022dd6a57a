"""The type in which a release writes a column, where the schema asks for one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import SchemaError
from populace.schema.codec.decoder import arrow_type, decode_codes
from populace.schema.codec.encoder import encode_values
from populace.schema.schema import Schema


def column(text: str):
    return Schema.parse(f"[columns.x]\n{text}").columns["x"]


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ('kind = "categorical"\nvalues = ["01", "02"]\nother = "01"\ntype = "integer"', pa.int64(), [1, 2]),
        ('kind = "categorical"\nvalues = ["1", "2"]\ntype = "float"', pa.float64(), [1.0, 2.0, None]),
        ('kind = "ordinal"\nvalues = ["0", "1.5"]\nother = "0"\ntype = "float64"', pa.float64(), [0.0, 1.5]),
        ('kind = "integer"\nmin = -2\nmax = 2\ntype = "int8"', pa.int8(), [-2, -1, 0, 1, 2, None]),
        (
            'kind = "integer"\nmin = 0\nmax = 2\nmissing = ["9"]\ntype = "float"',
            pa.float64(),
            [0.0, 1.0, 2.0, 9.0, None],
        ),
        ('kind = "integer"\nmin = 0\nmax = 1\ntype = "text"', pa.string(), ["0", "1", None]),
    ],
)
def test_every_code_comes_back_in_the_type_asked_for(text, kind, values):
    x = column(text)
    found = decode_codes(x, np.arange(x.size), rng=np.random.default_rng(1))
    assert arrow_type(x) == found.type == kind
    assert found.to_pylist() == values
    assert encode_values(x, found).tolist() == list(range(x.size))
    assert Schema.parse(Schema(columns={"x": x}).to_toml()).columns["x"] == x


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kind = "categorical"\nvalues = ["1", "b"]\ntype = "integer"', "every value"),
        ('kind = "categorical"\nvalues = ["1", "01"]\ntype = "integer"', "occurs twice"),
        ('kind = "categorical"\nvalues = ["1"]\nmissing = ["R"]\ntype = "float"', "'R'"),
        ('kind = "integer"\nmin = 0\nmax = 300\ntype = "uint8"', "every value"),
        ('kind = "integer"\nmin = -1\nmax = 3\ntype = "uint8"', "every value"),
        ('kind = "numeric"\nedges = [0, 10]\ntype = "int32"', "every value"),
        ('kind = "date"\nmin = "2020-01-01"\nmax = "2020-12-31"\ntype = "int32"', "every value"),
        ('kind = "categorical"\nvalues = "learn"\ntype = "int32"', "every value"),
        ('kind = "integer"\nmin = 0\nmax = 3\ntype = "int23"', "int23"),
    ],
)
def test_a_type_that_cannot_hold_the_column_is_refused(text, said):
    with pytest.raises(SchemaError, match=said):
        column(text)
