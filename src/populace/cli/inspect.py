"""populace inspect: a draft of a schema from a file's header, without a look at its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, save_text, say
from populace.core.errors import DataError
from populace.core.table_address import TableAddress

if TYPE_CHECKING:
    from populace.private.read.sources import Source
    from populace.schema.imports.draft import ObservedCells


DATA = Option(
    "DATA",
    f"A table: {options.TABLE_FORMS}; or a folder or a pattern of files.",
    options.parse_table,
    required=True,
)
PUBLIC = Option(
    "--data-is-public",
    "Read the rows too, and write their values and ranges. Only for data that everybody may see.",
    name="public",
)


@command(DATA, options.SCHEMA_OUT, PUBLIC, options.KNOWN_PRIVATE, options.JSON)
def inspect(data: Path | TableAddress, out: Path, public: bool, ledger: Path | None, json: bool) -> None:
    """Draft a schema from the header of a file: names, declared types, labels and missing codes where it has them.

    No row is read. Value labels of SPSS and Stata files become domains of origin "codebook". Every unknown is marked
    with "fill in": values and ranges come from a codebook, or are learnt with budget.

    Examples:
      populace inspect people.csv --out schema.toml
      populace inspect survey.dta --out schema.toml
      populace inspect public-2018.csv --data-is-public --out schema.toml
    """
    import numpy  # noqa: F401 (where memory is short, pyarrow would go on without it and fail later)

    from populace.private.read.file_source import open_file
    from populace.private.read.rows_to_codes import open_source
    from populace.schema.hints import table_stem
    from populace.schema.imports.codebooks.embedded_labels import document_from_labels
    from populace.schema.imports.draft import (
        FROM_LABELS,
        FROM_ROWS,
        NAMES_ONLY,
        draft_from_rows,
        draft_schema,
    )

    if public:
        from populace.api.request import list_private_datasets, resolve_ledger
        from populace.private.public_table import check_not_private

        check_not_private(data, accounts=list_private_datasets(resolve_ledger(ledger)))
    types: dict[str, tuple[str, str]] = {}
    metadata = None
    source: Source
    if isinstance(data, TableAddress):
        source, named = open_source(data), data.table
    else:
        source = file = open_file(data)
        named, metadata = table_stem(data), file.metadata
        types = {name: _describe_type(kind) for name, kind in file.types.items()}
    names = _find_names(source, public=public)
    _check_names(names)
    if public:
        _warn_of_accounts(names, ledger=ledger)
    if public:
        document = draft_from_rows(_collect_values(source, names, types), dataset=named)
        text = document.text(heading=FROM_ROWS)
    elif metadata is not None:
        document = document_from_labels(metadata, source=Path(str(data)).name, dataset=named)
        text = document.text(heading=FROM_LABELS)
    else:
        document = draft_schema({name: types.get(name, ("", "")) for name in names}, dataset=named)
        text = document.text(heading=NAMES_ONLY)
    save_text(text, out)
    left = [name for name, keys in document.columns.items() if "kind" not in keys]
    say(f"{len(names)} columns, {len(left)} of them to fill in")
    for remark in document.remarks:
        say(f"note: {remark}")
    if json or str(out) != "-":
        emit_result({"schema": str(out), "columns": len(names), "to_fill_in": left}, json=json)


def _warn_of_accounts(names: tuple[str, ...], *, ledger: Path | None) -> None:
    """Warn where an account has columns of the same names: under another name, its private rows would be read."""
    import os

    from populace.api.request import resolve_ledger
    from populace.api.reservation import digest_names
    from populace.privacy.ledger.account import has_column_names
    from populace.privacy.ledger.ledger import Ledger

    path = resolve_ledger(ledger)
    accounts = Ledger.existing(path).accounts() if os.path.lexists(path) else ()
    alike = [repr(account.dataset) for account in accounts if has_column_names(account, digest_names(names))]
    if alike:
        say(
            f"WARNING: columns of the same names have an account: {', '.join(alike)}. If these are its rows, they are "
            "private, and the draft that is written now publishes values and ranges of theirs: remove it"
        )


def _find_names(source: Source, *, public: bool) -> tuple[str, ...]:
    """Return the names of the columns; of a table without a header they stand in its rows alone."""
    from populace.private.read.file_parts import PartsSource
    from populace.private.read.json_lines_source import AnyNames, JsonLinesSource

    if not isinstance(source, JsonLinesSource | PartsSource) or not isinstance(source.names, AnyNames):
        return source.names
    if not public:
        raise DataError(
            "JSON Lines have no header: which keys there are stands in the rows alone.",
            hint="write the schema from a codebook, give a CSV or Parquet file, or --data-is-public if everybody may "
            "see it",
        )
    return source.collect_names()


def _check_names(names: tuple[str, ...]) -> None:
    """Refuse a header that is none; its fields are not quoted, for they may be a row's."""
    from populace.private.read.file_signatures import can_be_header

    if any(not name.strip() for name in names):
        raise DataError("a column of the data has no name.", hint="name every column in the header")
    if len({name.strip() for name in names}) < len(names):
        raise DataError("two columns of the data have the same name.", hint="rename or remove one of them")
    if not can_be_header(names):
        raise DataError(
            "the first line of the data does not look like a header: half of its fields or more look like values.",
            hint="put a line with the names of the columns first",
        )


def _describe_type(kind: Any) -> tuple[str, str]:
    """Return a type as the draft of a schema knows it, and in words that people use."""
    import pyarrow as pa

    from populace.schema.codec.cell_texts import has_no_text

    types = pa.types
    if types.is_dictionary(kind):
        sort, words = _describe_type(kind.value_type)
        return sort, f"{words} with a list of values"
    known: tuple[tuple[Callable[[Any], bool], str, str], ...] = (
        (has_no_text, "nested", "list, structure or length of time"),
        (types.is_boolean, "truth", "yes or no"),
        (types.is_integer, "whole", "whole number"),
        (types.is_floating, "decimal", "number"),
        (types.is_decimal, "decimal", "number"),
        (types.is_timestamp, "time", "date and time"),
        (types.is_time, "time", "time"),
        (types.is_temporal, "time", "date"),
    )
    return next(((sort, words) for holds, sort, words in known if holds(kind)), ("text", "text"))


def _collect_values(
    source: Source, names: tuple[str, ...], types: Mapping[str, tuple[str, str]]
) -> dict[str, ObservedCells]:
    """Read all rows and return the distinct cells of each column. Called for public data alone."""
    from populace.schema.codec.cell_texts import find_distinct, to_texts, trim_texts
    from populace.schema.imports.draft import ObservedCells

    found: dict[str, set[str]] = {name: set() for name in names}
    for batch in source.batches(names):
        for name, cells in found.items():
            written = trim_texts(to_texts(find_distinct(batch.column(name))[0]))
            cells.update(text for text in written.to_pylist() if text)
    whole = {name for name, (sort, _) in types.items() if sort == "whole"}
    return {n: ObservedCells(texts=frozenset(cells), typed_whole=n in whole) for n, cells in found.items()}
