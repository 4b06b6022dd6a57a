"""A schema beside the rows it is meant for, without noise: for the curator's eyes, and for nothing that is released.

The look is booked in the ledger before a row is read. Statements of later runs of the account say that it took place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from populace.api.request import as_schema, default_dataset, resolve_ledger
from populace.api.reservation import digest_columns
from populace.core.number_format import format_percent
from populace.evaluation.schema_mistakes import guess_mistake
from populace.measurements.rule_checks import RuleOutcome
from populace.privacy.ledger.account import check_account_name
from populace.privacy.ledger.ledger import Ledger
from populace.private.read.rows_to_codes import check_header, columns_to_read, open_source
from populace.private.read.value_counts import cells_to_texts
from populace.private.redact import redact_row_errors
from populace.private.rule_table import RuleCodec, list_rules, rule_outcomes
from populace.release.statement.domain_fit import MAX_EXPECTED_SHARE, MAX_UNEXPECTED_SHARE
from populace.release.statement.rule_fit import BROKEN_RULE_CAUSES, max_broken_share
from populace.schema.codec.encoder import encode_values
from populace.schema.codec.table_codec import TableCodec
from populace.schema.columns.range_columns import RangeColumn
from populace.schema.linked.linked_tables import refuse_linked
from populace.schema.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """Something that does not fit: a column, a rule or the id; the share of rows, and the likely mistake."""

    subject: str
    what: str
    share: float
    hint: str

    def __str__(self) -> str:
        return f"{self.subject}: {format_percent(self.share)} of the rows {self.what} (hint: {self.hint})"


@dataclass(slots=True)
class _Seen:
    """What the rows hold, added up batch by batch."""

    rows: int = 0
    outside: Counter[str] = field(default_factory=Counter)
    texts: dict[str, Counter[str]] = field(default_factory=dict)
    """The texts of cells outside the domain, by column."""
    beyond: dict[str, Counter[str]] = field(default_factory=dict)
    """The texts of numbers and dates before the first or after the last of the domain, by column."""
    outcomes: dict[str, Counter[RuleOutcome]] = field(default_factory=dict)
    functions: Counter[str] = field(default_factory=Counter)
    ids: Counter[str] = field(default_factory=Counter)


def read_misfits(
    data: Any, *, schema: Schema | Path | str, ledger: Path | str | None = None, dataset: str | None = None
) -> tuple[Misfit, ...]:
    """Compare a schema with rows, without protection, after the look is booked in the ledger."""
    schema = as_schema(schema)
    refuse_linked(
        schema.linked, what="rows are compared with the schema of one", hint="check each table alone"
    )
    source = open_source(data)
    check_header(source, schema)
    name = dataset or schema.dataset or default_dataset(data)
    books = Ledger.open(resolve_ledger(ledger))
    check_account_name(name, others=[account.dataset for account in books.accounts()])
    books.book_internal_read(name, schema_digest=schema.digest, columns=digest_columns(schema))
    codec, rules, seen = TableCodec(schema), RuleCodec(schema), _Seen()
    functions = [each for each in schema.layout.functions if each in source.names]
    with redact_row_errors("the data"):
        for batch in source.batches([*columns_to_read(schema), *functions]):
            cells = {each: batch.column(each) for each in codec.input_columns}
            _add_cells(seen, cells, codec=codec, schema=schema, decimal=source.decimal)
            for text, codes in rules.encode(cells, decimal=source.decimal).items():
                outcomes = rule_outcomes(list_rules(schema)[text])
                counts = np.bincount(codes, minlength=len(outcomes))
                seen.outcomes.setdefault(text, Counter()).update(
                    dict(zip(outcomes, counts.tolist(), strict=True))
                )
            derived = {each: encode_values(schema.columns[each], batch.column(each)) for each in functions}
            coded = codec.encode_cells(cells, decimal=source.decimal)
            for text, broken in codec.find_violations(coded, derived).items():
                seen.functions[text] += int(broken.sum()) if text not in seen.outcomes else 0
            if schema.unit.id is not None:
                seen.ids.update(cells_to_texts(batch.column(schema.unit.id)).to_pylist())
            seen.rows += batch.num_rows
    return tuple(_list_misfits(seen, schema))


def _add_cells(
    seen: _Seen, cells: Mapping[str, Any], *, codec: TableCodec, schema: Schema, decimal: str
) -> None:
    for name, lost in codec.find_outside(cells, decimal=decimal).items():
        column = schema.columns[name]
        texts = cells_to_texts(cells[name])
        places = texts.indices.to_numpy(zero_copy_only=False)
        written = texts.dictionary.to_pylist()
        if "" in written and column.other is None and "" not in (*column.missing, column.outside):
            # An empty cell stays one, but nobody declared that there are any.
            lost = lost | (places == written.index(""))
        seen.outside[name] += int(lost.sum())
        found = seen.texts.setdefault(name, Counter())
        for place, count in zip(*np.unique(places[lost], return_counts=True), strict=True):
            found[written[place]] += int(count)
        if isinstance(column, RangeColumn) and not column.unknown:
            counts = np.bincount(places, minlength=len(written))
            beyond = seen.beyond.setdefault(name, Counter())
            for place, text in enumerate(written):
                if counts[place] and _is_beyond(text.replace(decimal, "."), column):
                    beyond[text] += int(counts[place])


def _is_beyond(text: str, column: RangeColumn) -> bool:
    """Say whether a text is a number or date beyond the ends of a column that has no code for what lies there."""
    if text in column.specials or (value := column.value(text)) is None:
        return False
    if any(column.value(special) == value for special in column.specials if special):
        return False
    first, last = _find_ends(column)
    bottom, top = getattr(column, "ends", (False, False))
    return (value < first and not bottom) or (value > last and not top)


def _find_ends(column: Any) -> tuple[Any, Any]:
    """Return the first and the last value of a column with a range."""
    return (column.min, column.max) if hasattr(column, "min") else (column.edges[0], column.edges[-1])


def _list_misfits(seen: _Seen, schema: Schema) -> Iterator[Misfit]:
    if not seen.rows:
        return
    for name, column in schema.columns.items():
        beyond = seen.beyond.get(name, Counter())
        lost = seen.outside[name] / seen.rows
        far = beyond.total() / seen.rows
        others = {n: c for n, c in schema.columns.items() if n != name and seen.outside[n]}
        # What goes to a code of its own is expected where the schema names one; what becomes a value never is.
        own_code = column.other is not None and column.other_code >= column.levels
        if lost > (MAX_EXPECTED_SHARE if own_code else MAX_UNEXPECTED_SHARE):
            hint = guess_mistake(column, seen.texts[name], others=others)
            yield Misfit(subject=name, what="lie outside its domain", share=lost, hint=hint)
        elif far > MAX_UNEXPECTED_SHARE:
            hint = guess_mistake(column, beyond, others={})
            yield Misfit(
                subject=name, what="lie beyond its ends and become the nearest one", share=far, hint=hint
            )
    for text, counts in seen.outcomes.items():
        for outcome, count in counts.items():
            limit = max_broken_share(text, outcome, schema=schema)
            if limit is not None and count / seen.rows > limit:
                what = "break it" if outcome is RuleOutcome.BROKEN else f"break it ({outcome.value})"
                yield Misfit(
                    subject=text, what=what, share=count / seen.rows, hint=BROKEN_RULE_CAUSES[outcome]
                )
    for text, broken in seen.functions.items():
        if broken / seen.rows > MAX_UNEXPECTED_SHARE:
            hint = "is the map the one that the file was made with?"
            yield Misfit(subject=text, what="have another value", share=broken / seen.rows, hint=hint)
    yield from _list_id_misfits(seen, schema)


def _list_id_misfits(seen: _Seen, schema: Schema) -> Iterator[Misfit]:
    unit = schema.unit
    if unit.id is None:
        return
    empty = seen.ids.pop("", 0) / seen.rows
    if empty > MAX_UNEXPECTED_SHARE:
        hint = "rows without an id are dropped: is this the column that names the units?"
        yield Misfit(subject=unit.id, what="have no id", share=empty, hint=hint)
    dropped = sum(max(0, count - unit.rows) for count in seen.ids.values()) / seen.rows
    if dropped > MAX_UNEXPECTED_SHARE:
        hint = f"is {unit.id!r} the id of one {unit.word}, and rows_per_unit = {unit.rows} enough?"
        yield Misfit(
            subject=unit.id, what="are more than rows_per_unit allows, and dropped", share=dropped, hint=hint
        )
    if unit.rows > 1 and seen.ids and max(seen.ids.values()) == 1:
        hint = f"is it the number of a row, and not the id of one {unit.word}?"
        yield Misfit(subject=unit.id, what="have an id of their own", share=1.0, hint=hint)
