"""What whoever runs something must not miss, on stderr before anything is spent: from Python as from the command."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from populace.core.number_format import count_of, format_exact
from populace.core.table_address import PushDown
from populace.privacy.ledger.account import MAX_NAMED, Account, has_column_names
from populace.private.read.file_signatures import can_be_header, is_like_value
from populace.private.read.rows_to_codes import columns_to_read, open_source
from populace.schema.hints import quote_names
from populace.schema.schema import Schema

if TYPE_CHECKING:
    from fractions import Fraction

    from populace.api.request import RunRequest

# What a column of counts is usually called.
COUNT_NAMES = (
    "n",
    "count",
    "counts",
    "freq",
    "frequency",
    "number",
    "persons",
    "people",
    "pop",
    "population",
)


def notify(text: str) -> None:
    """Say something on stderr; never data. Words that nobody can hear are no error."""
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def announce_charge(
    request: RunRequest,
    *,
    delta: Fraction,
    new_ledger: bool,
    accounts: Sequence[Account],
    columns: str,
    questions: str,
) -> None:
    """Name the account before it is charged, and say what is made for it: a mistyped name forgets earlier runs.

    `questions` says what will be measured, or nothing where the user listed it.

    A new one is held against accounts with columns of the same names, or of the same schema: an edited domain, or a
    name that somebody gave, must not hide that the people are the same.
    """
    new_account = all(account.dataset != request.dataset for account in accounts)
    digest = request.schema.digest
    alike = [
        repr(other.dataset)
        for other in accounts
        if has_column_names(other, columns) or digest in other.schemas
    ]
    if new_account and alike:
        named = ", ".join(alike[:MAX_NAMED]) + (", …" if len(alike) > MAX_NAMED else "")
        notify(
            f"WARNING: {request.dataset!r} is a new account, and there are other accounts with the same columns: "
            f"{named}.\nhint: if these are the same people, stop and name that account by --dataset or in the schema: "
            "what is spent on two does not add up"
        )
    if questions:
        notify(questions)
    account = f"{'new ' if new_account else ''}account {request.dataset!r}"
    ledger = f"{'new ' if new_ledger else ''}ledger {request.ledger}"
    price = f"epsilon {format_exact(request.epsilon)}, delta {format_exact(delta)}"
    notify(f"charging {account}: {price} ({ledger})")


def describe_questions(request: RunRequest) -> str:
    """Return what a run will measure, from its schema and method.

    >>> from populace.api.request import RunRequest
    >>> request = RunRequest.of("people.csv", schema=Schema.from_sizes({"a": 2, "b": 3}), epsilon=1, delta=0)
    >>> describe_questions(request)
    'to be measured: 2 columns, and of 1 pair what is worth its noise (method adaptive)'
    """
    method, columns = request.synthesizer, len(request.schema.domain)
    text = f"to be measured: {count_of(columns, 'column')}"
    if method.adapts_pair_count and columns > 1:
        text += f", and of {count_of(columns * (columns - 1) // 2, 'pair')} what is worth its noise"
    return f"{text} (method {method.name})"


def note_unread_columns(data: Any, schema: Schema) -> None:
    """Note on stderr which columns of a table the schema does not name, from its header alone."""
    if schema.linked is not None or isinstance(data, PushDown):
        # Of linked tables either names columns of its own, and a table that is counted elsewhere is not opened here.
        return
    names, wanted = open_source(data).names, columns_to_read(schema)
    known = {*wanted, *schema.columns}
    more = [name for name in names if name not in known]
    # A first line that lacks columns is refused later; it may be no header. Names like 0 or 1 are found in rows too.
    has_header = can_be_header(names) and not all(map(is_like_value, wanted))
    if more and set(wanted) <= set(names) and has_header:
        notify(f"note: not in the schema, so not read and not released: {quote_names(more)}")
        counts = [name for name in more if name.lower() in COUNT_NAMES]
        if counts and schema.frequency is None:
            what = (
                f"write frequency = {counts[0]!r} under [table] of the schema"
                if schema.geography is not None
                else "repeat it so often in the file; frequency = … is for tables of a geography"
            )
            notify(
                f"note: every row counts as one {schema.unit.word} (hint: if a row stands for as many as "
                f"{counts[0]!r} says, {what})"
            )
