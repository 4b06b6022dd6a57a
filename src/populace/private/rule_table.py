"""A private table seen through the rules of its schema: for each rule a column that says what a row does to it.

The columns are public: one for each rule, with two or three values. A row's values follow from that row alone, and lie
in exactly one cell of each column, so the barrier measures them as it measures any marginal, at the same price.
Proof: docs/proofs/rule-checks.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from populace.core.errors import UsageError
from populace.measurements.rule_checks import RuleOutcome
from populace.private.code_store import CodeStore
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.private.read.household_source import open_tables
from populace.private.read.rows_to_codes import check_header, read_counted_codes
from populace.schema.codec.cell_texts import Array
from populace.schema.codec.encoder import Codes
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.column import CategoricalColumn
from populace.schema.conditions.structural_zeros import UniverseRule, ZeroRule
from populace.schema.schema import Schema

UNIVERSE = (RuleOutcome.KEPT, RuleOutcome.UNASKED, RuleOutcome.UNANSWERED)
ZERO = (RuleOutcome.KEPT, RuleOutcome.BROKEN)


def list_rules(schema: Schema) -> dict[str, UniverseRule | ZeroRule]:
    """Return the rules of a schema by their words, each once."""
    rules: list[UniverseRule | ZeroRule] = [*schema.rulebook.universes, *schema.rulebook.zeros]
    return {rule.text: rule for rule in rules}


def rule_outcomes(rule: UniverseRule | ZeroRule) -> tuple[RuleOutcome, ...]:
    """Return what a row can do to a rule, in the order of its codes."""
    return UNIVERSE if isinstance(rule, UniverseRule) else ZERO


def rule_schema(schema: Schema) -> Schema:
    """Return the schema of a table with a column for each rule, about the same units as the table itself."""
    rules = list_rules(schema)
    if not rules:
        raise UsageError(
            "the schema has no rules that rows could break.",
            hint="leave --check-rules out, or declare universes or [[zeros]]",
        )
    if schema.linked is not None:
        raise UsageError("rules of linked tables cannot be checked.", hint="leave --check-rules out")
    columns = {
        text: CategoricalColumn(
            name=text, values=tuple(each.value for each in rule_outcomes(rule)), other=RuleOutcome.KEPT.value
        )
        for text, rule in rules.items()
    }
    return Schema(columns=columns, unit=schema.unit, frequency=schema.frequency, max_rows=schema.max_rows)


class RuleCodec:
    """Turns the cells of a table into codes of its rules: what each row does to them as it stands in the file."""

    def __init__(self, schema: Schema) -> None:
        self._codec = TableCodec(schema)
        self._rules = list_rules(schema)
        self.input_columns = self._codec.input_columns
        self.domain = {text: len(rule_outcomes(rule)) for text, rule in self._rules.items()}

    def encode(self, cells: Mapping[str, Array], *, decimal: str = ".") -> dict[str, Codes]:
        """Return for each rule the code of what each row does to it; no row is held to a rule first."""
        codes = self._codec.encode_cells(cells, decimal=decimal)
        found: dict[str, Codes] = {}
        for text, rule in self._rules.items():
            holds = np.asarray(rule.condition(codes))
            if isinstance(rule, UniverseRule):
                has_value = codes[rule.variable] != rule.outside
                outcome = np.where(~holds & has_value, 1, np.where(holds & ~has_value, 2, 0))
            else:
                outcome = holds
            found[text] = outcome.astype(np.uint8)
        return found


def rule_table(data: Any, *, schema: Schema) -> PrivateTable:
    """Return a handle on the rules of a file or frame whose header fits the schema; rows are read after a charge."""
    seen = rule_schema(schema)
    source = open_tables(data, schema=schema)
    check_header(source, schema)
    store = CodeStore.of(seen)
    return PrivateTable(
        lambda: MemoryEngine(
            read_counted_codes(source, schema, store, codec=RuleCodec(schema)), domain=seen.domain
        ),
        schema=seen,
    )
