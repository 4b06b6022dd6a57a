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
    └── InternalError        1   something failed inside; what it was is not said, what was charged stays charged

    Terminated             143   a signal, as KeyboardInterrupt is one; 128 and the number of the signal
    NotBooked                –   a warning: a release was saved after its ledger had gone
    OtherFormat              –   a warning: a table was written as Parquet, since it did not fit in memory otherwise
    NotCompiled              –   a warning: the loops in C are missing, so the same results take longer

Every message says what is wrong, with the values, and then a hint. No message depends on private rows.

Once a run has reserved its budget, its state decides: the command line leaves with 4 in place of 2 or 3, and every
exception carries a note of what was booked (`populace.core.run_state`).
"""

from __future__ import annotations

import errno

# What a disk or the system says when it fails; what else it says is about the file that was asked for.
_FAILED = (errno.ENOMEM, errno.EIO, errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOSPC)
# How the loader of libraries and the makers of threads say that there is no memory.
_NO_MEMORY = (
    "failed to map",
    "cannot allocate",
    "cannot create shared object",
    "start new thread",
    "out of memory",
)


class PopulaceError(Exception):
    """Anything populace refuses to do; `str()` gives the message and, on its own line, the hint.

    >>> import populace as pp
    >>> try:
    ...     pp.Schema.load("missing.toml")
    ... except pp.PopulaceError as refusal:
    ...     print(refusal.exit_code, bool(refusal.hint))
    2 True
    """

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
    """A question costs more than is left. Nothing was read.

    >>> import populace as pp
    >>> pp.OverBudget("1 is asked; 0.5 is left.", hint="grant more").exit_code
    3
    """

    exit_code = 3


class ResourceError(PopulaceError):
    """Disk, memory or permissions do not suffice."""

    exit_code = 4


class InternalError(PopulaceError):
    """Something failed inside. What was charged stays charged, and what failed is not said: it may follow from rows."""

    def __init__(self, message: str = "something went wrong inside populace.") -> None:
        super().__init__(
            f"{message} What was charged stays charged.",
            hint="run it again; if it fails again, report the command you ran",
        )


class NotBooked(UserWarning):
    """A release was saved whose ledger is gone: the digests of its files are booked nowhere."""


class OtherFormat(UserWarning):
    """A table does not fit in memory as a file of SPSS, Stata or SAS: it was written as Parquet."""


class NotCompiled(UserWarning):
    """The loops in C were not built when populace was installed: the same results take longer."""


class Terminated(BaseException):
    """A signal other than Ctrl-C asked the process to end; like Ctrl-C, it is raised wherever the main thread is."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def environment_cause(failure: BaseException) -> MemoryError | OSError | None:
    """Return the lack of memory or the failure of a disk that an exception comes from, if it does.

    A file that could not be read for that reason was not altered.

    >>> environment_cause(ImportError("libarrow.so: failed to map segment from shared object"))
    MemoryError()
    >>> environment_cause(ValueError("no number"))
    """
    seen: list[BaseException] = []
    found: BaseException | None = failure
    while found is not None and found not in seen:
        if isinstance(found, MemoryError) or (isinstance(found, OSError) and found.errno in _FAILED):
            return found
        # Arrow has no other word for a thread that cannot be started than an exception of no kind in particular.
        unkind = type(found).__name__ == "ArrowException"
        if unkind or isinstance(found, ImportError | RuntimeError | SystemError | OSError):
            said = str(found).lower()
            if unkind or any(words in said for words in _NO_MEMORY):
                return MemoryError()
        seen.append(found)
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
    return None
