"""A condition that all released rows shall meet, made ready for codes and for models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.schema.codec.table_codec import TableCodec
from populace.schema.conditions.column_layout import Condition
from populace.schema.conditions.condition_parser import parse_condition
from populace.schema.conditions.rules import Rules
from populace.schema.conditions.structural_zeros import require_conditions
from populace.schema.conditions.syntax_tree import And
from populace.schema.schema import Schema

PLACE = "where"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowFilter:
    """A condition under a schema: its canonical text, its parts as rules, and those beside the schema's own rules.

    >>> schema = Schema.from_sizes({"AGE": 100, "SEX": 2})
    >>> found = RowFilter.of("(AGE>=65)and SEX==1", schema=schema)
    >>> found.text, [rule.clique for rule in found.rules.rules]
    ('AGE >= 65 and SEX == 1', [('AGE',), ('SEX',)])
    """

    text: str
    schema: Schema
    condition: Condition
    rules: Rules
    together: Rules

    @classmethod
    def of(cls, text: str, *, schema: Schema) -> RowFilter:
        """Read a condition, in the language of universes and zeros."""
        whole = parse_condition(text, place=f"{PLACE}: ")
        layout = schema.layout
        # What must all hold is kept apart: small rules make small models.
        parts = whole.parts if isinstance(whole, And) else (whole,)
        conditions = [layout.condition(part, place=PLACE) for part in parts]
        return cls(
            text=str(whole),
            schema=schema,
            condition=layout.condition(whole, place=PLACE),
            rules=require_conditions(conditions, layout=layout),
            together=require_conditions(conditions, layout=layout, beside=schema.rulebook),
        )

    def holds(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """Say for every row of a synthetic table whether the condition holds."""
        codec = TableCodec(self.schema)
        codes: dict[str, Any] = codec.encode({name: table[name] for name in codec.input_columns})
        return np.broadcast_to(self.condition(codes), (table.num_rows,))
