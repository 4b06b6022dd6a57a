"""What a run is asked for, as a value: parsed and complete before anything is read or spent."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from populace.core.errors import UsageError
from populace.core.memory_limit import parse_memory
from populace.core.table_address import PushDown, TableAddress, parse_tables
from populace.methods.registry import find_method
from populace.privacy.accounting.budget import Number, parse_delta, parse_epsilon
from populace.privacy.ledger.ledger import Ledger, default_ledger_path
from populace.schema.hints import table_stem
from populace.schema.schema import Schema

if TYPE_CHECKING:
    from populace.methods.method import Method
    from populace.methods.workload import Workload
    from populace.privacy.noise.noise_source import NoiseSource

ESTIMATE_METHOD = "estimate"
# A digest, or a key of git-annex, which also gives the size of the file.
_CONTENT_ADDRESS = re.compile(r"[0-9a-fA-F]{16}|^[A-Z0-9_]+(-[a-zA-Z][0-9]+)+--")


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRequest:
    """A run on a private table: under which schema, for which budget, from which account, and by which method.

    `data` is a path, the address of a table in a database, or a frame, and `public` a table that everybody may know.
    `noise` other than the operating system's makes the run a rehearsal.

    >>> request = RunRequest.of("people.csv", schema=Schema.from_sizes({"sex": 2}), epsilon="0.1", delta=0)
    >>> request.dataset, request.epsilon, request.method_name
    ('people', Fraction(1, 10), 'adaptive')
    """

    data: Any = field(repr=False)
    schema: Schema = field(repr=False)
    epsilon: Fraction
    delta: Fraction
    ledger: Path
    dataset: str
    method: Method | None
    purpose: str = ESTIMATE_METHOD
    """What a run without a method is for, as the ledger names it."""
    workload: Workload | Path | str | None = None
    public: Any = field(default=None, repr=False)
    noise: NoiseSource | None = None
    memory: int | None = None
    """How many bytes the run may use; None for as many as this process may."""
    named: bool = False
    """Whether the caller named the account; a schema's or a file's name opens none beside one of the same columns."""
    earlier: tuple[Path, ...] = ()
    """Folders of earlier releases of the account, whose tables are used beside those of this run."""
    check_rules: bool = False
    """Whether rows that break each rule of the schema are counted, with noise and for a part of the budget."""

    @classmethod
    def of(
        cls,
        data: Any,
        schema: Schema | Path | str,
        epsilon: Number,
        delta: Number,
        method: str | None = "auto",
        workload: Workload | Path | str | None = None,
        ledger: Path | str | None = None,
        memory: int | str | None = None,
        *,
        dataset: str | None = None,
        purpose: str = ESTIMATE_METHOD,
        public: Any = None,
        noise: NoiseSource | None = None,
        check_rules: bool = False,
        earlier: Sequence[Path | str] | None = (),
    ) -> Self:
        """Return a request as it is typed: a schema's file is loaded, numbers are parsed, and defaults filled in.

        A run without a `method` asks for estimates, or for what its `purpose` says.
        """
        spent, offered = parse_epsilon(epsilon), parse_delta(delta)
        data = parse_tables(data)
        schema = as_schema(schema)
        chosen = None if method is None else find_method(method, schema=schema)
        if schema.linked is not None and isinstance(data, Mapping):
            # The table of the units names the account, and says how files are written.
            first = {name: data[name] for name in (schema.linked.units,) if name in data}
            data = {**first, **data}
        return cls(
            data=data,
            schema=schema,
            epsilon=spent,
            delta=offered,
            ledger=resolve_ledger(ledger),
            dataset=dataset or schema.dataset or default_dataset(data),
            method=chosen,
            purpose=purpose,
            workload=workload,
            public=public,
            noise=noise,
            memory=None if memory is None else parse_memory(memory),
            named=dataset is not None,
            check_rules=check_rules,
            earlier=tuple(map(Path, (earlier,) if isinstance(earlier, (str, Path)) else earlier or ())),
        )

    @property
    def method_name(self) -> str:
        """The name under which the ledger records the run."""
        return self.purpose if self.method is None else self.method.name

    @property
    def synthesizer(self) -> Method:
        """The method that measures; a request for estimates has none."""
        if self.method is None:
            raise UsageError("the request names no method.", hint="name one, or ask for estimates")
        return self.method


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRequest:
    """Which rows are drawn from what was measured, and how: none of it costs budget.

    Without `rows` there are as many as the noisy total says. `where` keeps rows that meet a condition, `implicates`
    draws as many tables, and `seed` makes the drawing repeatable.
    """

    inference: str = "tree"
    rows: int | None = None
    where: str | None = None
    implicates: int = 1
    seed: int | None = None


def as_schema(schema: Schema | Path | str) -> Schema:
    """Return a schema as it is, or load it from its file."""
    return schema if isinstance(schema, Schema) else Schema.load(schema)


def default_dataset(data: Any) -> str:
    """Return the account's name for data that comes without one: a file's stem, a database's table, or "table".

    Symbolic links are followed, or one file had as many accounts as it has links.
    """
    if isinstance(data, Mapping):
        # Linked tables: that of the units is named first.
        return default_dataset(next(iter(data.values()), None))
    if isinstance(data, PushDown):
        return default_dataset(data.data)
    if isinstance(data, TableAddress):
        return data.table
    if not isinstance(data, (str, Path)):
        return "table"
    given, real = Path(data), Path(os.path.realpath(data))
    if str(given) == "-":
        raise UsageError(
            "standard input has no name that could name an account.",
            hint="give --dataset, or name the dataset in the schema: dataset = … under [table]",
        )
    if not table_stem(real):
        raise UsageError(
            f"{str(given)!r} has no name that could name an account.",
            hint="give --dataset, or name the dataset in the schema: dataset = … under [table]",
        )
    if given.name == real.name:
        return table_stem(real)
    if not (real.is_file() or real.is_dir()):
        return table_stem(given)
    if _CONTENT_ADDRESS.search(table_stem(real)):
        # Content stores name a file by a digest of it, which must not reach the ledger or a statement.
        raise UsageError(
            f"{str(given)!r} is a link to a file that is named by its content, which cannot name an account.",
            hint="name the dataset in the schema: dataset = … under [table]",
        )
    return table_stem(real)


def resolve_ledger(ledger: Path | str | None) -> Path:
    """Return where the ledger is: where the caller says, or where it always is."""
    return Path(ledger) if ledger else default_ledger_path()


def list_private_datasets(ledger: Path) -> set[str]:
    """Return the names of tables that a ledger knows to be private; none where there is no ledger yet."""
    known = Ledger.existing(ledger).accounts() if os.path.lexists(ledger) else ()
    return {account.dataset for account in known}
