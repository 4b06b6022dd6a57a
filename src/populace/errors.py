"""Everything populace refuses to do, as one tree.

::

    PopulaceError            exit code
    ├── UsageError           2   a wrong argument, schema, file or ledger; nothing was reserved
    │   ├── SchemaError          the schema contradicts itself or asks for the impossible
    │   ├── DataError            the file cannot be read as a table, or lacks a column
    │   ├── LedgerError          the ledger is damaged or is not a ledger
    │   └── ReleaseError         a folder of ours that is incomplete or was altered
    ├── OverBudget           3   a question costs more than is left; nothing was read
    ├── ResourceError        4   disk, memory or permissions
    └── InternalError        1   something failed inside; what it was is not told, what was charged stays charged

    NotCompiled              –   a warning: the loops in C are missing, so the same results take longer

Every message says what is wrong, with the values, and then a hint. No message depends on private rows.

Once a run has reserved its budget, its state decides: the command line leaves with 4 in place of 2 or 3, and every
exception carries a note of what was booked (`populace.run_state`).
"""


class PopulaceError(Exception):
    """Anything populace refuses to do; `str()` gives the message and, on its own line, the hint."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(f"{message}\nhint: {hint}")
        self.message = message
        self.hint = hint


class UsageError(PopulaceError):
    """A wrong argument, schema, file or ledger. Nothing was spent."""

    exit_code = 2


class SchemaError(UsageError):
    """The schema contradicts itself or asks for something impossible."""


class DataError(UsageError):
    """The file cannot be read as a table at all, or its header lacks a column."""


class LedgerError(UsageError):
    """The ledger is damaged, is not a ledger, or does not know the account."""


class ReleaseError(UsageError):
    """A folder written by populace that is incomplete or was altered."""


class OverBudget(PopulaceError):
    """A question costs more than is left. Nothing was read."""

    exit_code = 3


class ResourceError(PopulaceError):
    """Disk, memory or permissions do not suffice."""

    exit_code = 4


class InternalError(PopulaceError):
    """Something failed inside. What was charged stays charged, and what failed is not told: it may follow from rows."""

    def __init__(self, message: str = "something went wrong inside populace.") -> None:
        super().__init__(
            f"{message} What was charged stays charged.",
            hint="run it again; if it fails again, report the command you ran",
        )


class NotCompiled(UserWarning):
    """The loops in C were not built when populace was installed: the same results take longer."""
