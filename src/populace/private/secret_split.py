"""Private tables cut into secret pieces, by person: each behind a handle of its own, with an account of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from populace.core.marginals import Counts
from populace.privacy.noise.split_key import Split, SplitKey
from populace.private.engines.memory_engine import MemoryEngine
from populace.private.private_table import PrivateTable
from populace.private.read.rows_to_codes import check_header, open_source, read_rows
from populace.private.read.sources import Source
from populace.private.read.value_counts import cells_to_texts, select_first_rows, unify_texts
from populace.private.redact import redact_row_errors
from populace.private.survey.survey_rows import SurveyRows
from populace.schema.schema import Schema


def split_table(data: Any, *, schema: Schema, split: Split, key: SplitKey) -> tuple[PrivateTable, ...]:
    """Return a handle on each piece of a file or frame. Rows are read when the first question is paid for.

    All rows of a unit go into one piece. Who has no id is a unit by its own row: rows alike are told apart by counting
    them, so that the order of rows in the file makes no difference to what any piece holds.
    Proof: docs/proofs/partition.md
    """
    source = open_source(Path(data) if isinstance(data, str) else data)
    check_header(source, schema)
    whole = _SplitRows(source, schema=schema, split=split, key=key)
    return tuple(whole.table(piece) for piece in range(len(split.shares)))


class _SplitRows:
    """All rows, read once, and the piece of each."""

    def __init__(self, source: Source, *, schema: Schema, split: Split, key: SplitKey) -> None:
        self._source, self._schema, self._split, self._key = source, schema, split, key
        self._read: tuple[SurveyRows, Counts] | None = None

    def table(self, piece: int) -> PrivateTable:
        """Return a handle on one piece."""
        domain = self._schema.domain
        return PrivateTable(
            lambda: MemoryEngine(self.rows(piece).codes, domain=domain),
            schema=self._schema,
            read_survey_rows=lambda: self.rows(piece),
        )

    def rows(self, piece: int) -> SurveyRows:
        """Return the rows of one piece."""
        if self._read is None:
            rows = read_rows(self._source, self._schema)
            persons, labels = self._persons(rows)
            self._read = rows, self._split.pieces(labels, key=self._key)[persons]
        rows, pieces = self._read
        here = pieces == piece
        return SurveyRows(
            codes={name: codes[here] for name, codes in rows.codes.items()},
            numbers={name: numbers[here] for name, numbers in rows.numbers.items()},
        )

    def _persons(self, rows: SurveyRows) -> tuple[Counts, list[bytes]]:
        """Return the person of each row, and a label for each person."""
        name = self._schema.unit.id
        if name is None:
            return _label_by_content(rows)
        ids = []
        with redact_row_errors("the data"):
            for batch in self._source.batches([name]):
                ids.append(cells_to_texts(batch.column(name)))
            if not ids:
                return np.empty(0, dtype=np.int64), []
            kept = select_first_rows(ids, rows=self._schema.unit.rows)
            chunks = unify_texts(ids)
            texts = chunks[0].dictionary.to_pylist()
            place = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks])[kept]
        present, persons = np.unique(place, return_inverse=True)
        return persons.astype(np.int64), [texts[number].encode() for number in present]


def _label_by_content(rows: SurveyRows) -> tuple[Counts, list[bytes]]:
    columns = [np.ascontiguousarray(codes) for codes in rows.codes.values()]
    columns += [np.ascontiguousarray(numbers) for numbers in rows.numbers.values()]
    size = len(columns[0])
    seen: dict[bytes, int] = {}
    labels = []
    for row in range(size):
        content = b"".join(column[row].tobytes() for column in columns)
        seen[content] = seen.get(content, 0) + 1
        labels.append(content + seen[content].to_bytes(8, "big"))
    return np.arange(size), labels
