"""Whole tables to codes and back: all columns of a schema at once, with everything that ties them together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from populace.schema.codec.cell_texts import Array, pc
from populace.schema.codec.decoder import arrow_type, decode_codes
from populace.schema.codec.encoder import Codes, Encoder, encode_values
from populace.schema.codec.rule_repair import RuleRepair
from populace.schema.codec.split_codes import join_variables, split_variables
from populace.schema.conditions.derived_columns import RecodeTable
from populace.schema.exact_numbers import parse_number
from populace.schema.geocodes import GEOCODE
from populace.schema.schema import Schema

CodeArrays = Mapping[str, npt.NDArray[Any]]


class TableCodec:
    """Turns the cells of a schema's columns into the codes of its variables, and codes into a table.

    >>> schema = Schema.parse('''
    ... [columns.AGE]
    ... kind = "integer"
    ... min = 0
    ... max = 99
    ... [columns.JOB]
    ... kind = "categorical"
    ... values = ["yes", "no"]
    ... universe = "AGE >= 15"
    ... outside = "N"
    ... ''')
    >>> codes = TableCodec(schema).encode({"AGE": pa.array([7, 50, 50]), "JOB": pa.array(["yes", "no", "N"])})
    >>> codes["JOB"].tolist()           # 2: outside the universe, 3: everything else
    [2, 1, 3]
    """

    def __init__(self, schema: Schema) -> None:
        layout = schema.layout
        self._schema = schema
        self._layout = layout
        self._geography = schema.geography
        self._columns = {name: c for name, c in schema.columns.items() if name not in layout.functions}
        self._repair = (
            RuleRepair(schema.rulebook, variables=schema.variables) if schema.rulebook.rules.rules else None
        )

    @cached_property
    def _encoders(self) -> dict[str, Encoder]:
        levels = () if self._geography is None else self._geography.levels
        return {name: Encoder(column, names_units=name in levels) for name, column in self._columns.items()}

    @property
    def domain(self) -> Mapping[str, int]:
        """The variables and their sizes."""
        return self._schema.domain

    @property
    def input_columns(self) -> tuple[str, ...]:
        """The columns that are read from a file: all that follow from no others."""
        return tuple(self._columns)

    def encode(self, cells: Mapping[str, Array], *, decimal: str = ".") -> dict[str, Codes]:
        """Return the codes of the variables, held to the schema's rules row by row.

        `decimal` is the mark that may stand in for the point in numbers written as text.
        """
        return self.enforce(self.encode_cells(cells, decimal=decimal))

    def enforce(self, codes: CodeArrays) -> dict[str, npt.NDArray[Any]]:
        """Return codes of rows that keep the schema's rules; a row that does is left as it is."""
        # A row that became special has no remainder any more.
        return dict(codes) if self._repair is None else self.normalize(self._repair(codes))

    def decode(self, codes: CodeArrays, *, rng: np.random.Generator) -> pa.Table:
        """Return rows in the schema's own values and types; inside a bin a value is drawn uniformly."""
        return pa.table({name: self._decode_column(name, codes, rng=rng) for name in self._schema.columns})

    def normalize(self, codes: CodeArrays) -> dict[str, npt.NDArray[Any]]:
        """Return codes as encoding gives them: a special code of a split column has no remainder."""
        found = dict(codes)
        for column in self._columns.values():
            if len(column.variables) > 1:
                found |= split_variables(column, join_variables(column, found))
        return found

    def count_violations(self, table: pa.Table) -> dict[str, int]:
        """Return for each rule and each function, in words, how many rows of a synthetic table break it."""
        codes = self.encode_cells({name: table[name] for name in self._columns})
        derived = {
            name: encode_values(self._schema.columns[name], table[name]) for name in self._layout.functions
        }
        return {text: int(broken.sum()) for text, broken in self.find_violations(codes, derived).items()}

    def find_violations(self, codes: CodeArrays, derived: CodeArrays) -> dict[str, npt.NDArray[np.bool_]]:
        """Return for each rule and each function, in words, which rows break it.

        `derived` are the codes that columns which follow from others have in the file; those it lacks are not checked.
        """
        found = {}
        if self._repair is not None:
            found = {rule.text: self._repair.violates(codes, rule) for rule in self._schema.rules.rules}
        for name, written in derived.items():
            view = self._layout.view(name)
            found[self._layout.functions[name].text] = written != view.codes[_table_cells(view, codes)]
        return found

    def join_columns(self, codes: CodeArrays) -> dict[str, npt.NDArray[Any]]:
        """Return the codes of the columns that are read, from those of the variables."""
        if self._geography is None:
            return {name: join_variables(column, codes) for name, column in self._columns.items()}
        levels = {name: self._geography.level_codes(name)[codes[GEOCODE]] for name in self._geography.levels}
        return levels | {n: join_variables(c, codes) for n, c in self._columns.items() if n not in levels}

    def find_outside(
        self, cells: Mapping[str, Array], *, decimal: str = "."
    ) -> dict[str, npt.NDArray[np.bool_]]:
        """Return for each column which cells lie outside its domain."""
        return {name: e.find_outside(cells[name], decimal=decimal) for name, e in self._encoders.items()}

    def encode_cells(self, cells: Mapping[str, Array], *, decimal: str = ".") -> dict[str, Codes]:
        """Return the codes of the variables as the cells have them, whether or not they keep the rules."""
        codes: dict[str, Codes] = {}
        for name, encoder in self._encoders.items():
            codes |= split_variables(self._columns[name], encoder(cells[name], decimal=decimal))
        if self._geography is not None:
            levels = {level: codes.pop(level) for level in self._geography.levels}
            units = self._geography.encode(levels)
            codes = {GEOCODE: units.astype(np.min_scalar_type(self._geography.spine.leaves - 1)), **codes}
        return codes

    def _decode_column(self, name: str, codes: CodeArrays, *, rng: np.random.Generator) -> Array:
        column = self._schema.columns[name]
        if name in self._layout.functions:
            return self._derive_column(name, codes, rng=rng)
        if self._geography is not None and name in self._geography.levels:
            return decode_codes(column, self._geography.level_codes(name)[codes[GEOCODE]], rng=rng)
        return decode_codes(column, join_variables(column, codes), rng=rng)

    def _derive_column(self, name: str, codes: CodeArrays, *, rng: np.random.Generator) -> Array:
        """Return a function's values: exactly those that its map names, never another one of a bin."""
        view, column = self._layout.view(name), self._schema.columns[name]
        kind = arrow_type(column)
        known = [view.scale.code(text) for text in view.results]
        own = [code for code in known if code is not None]
        if len(own) < len(known):
            raise TypeError("a map leads to values of its column alone")
        results: list[Any] = []
        cells = decode_codes(column, np.array(own), rng=rng).to_pylist()
        for text, code, cell in zip(view.results, own, cells, strict=True):
            value = parse_number(text)
            if view.scale.count(code) == 1 or value is None:
                results.append(cell)
            elif pa.types.is_string(kind):
                results.append(text)
            else:
                results.append(int(value) if pa.types.is_integer(kind) else float(value))
        places = view.codes if view.places is None else view.places
        return pc.take(pa.array(results, kind), pa.array(places[_table_cells(view, codes)]))


def _table_cells(view: RecodeTable, codes: CodeArrays) -> tuple[npt.NDArray[Any], ...]:
    return tuple(codes[name] for name in view.variables)
