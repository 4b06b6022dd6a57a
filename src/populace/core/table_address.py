"""The address of a table in a database: which kind, where, and the name of the table. It never holds a password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from populace.core.errors import UsageError

Kind = Literal["duckdb", "postgresql", "spark"]
TITLES: Mapping[Kind, str] = {"duckdb": "DuckDB", "postgresql": "PostgreSQL", "spark": "Spark"}
FORMS = "file.duckdb::TABLE, postgresql://HOST/DATABASE::TABLE or spark:TABLE"
# What follows the last two colons is a table's name, and no part of a host's number.
_TABLE = re.compile(r"(?P<where>.+)::(?P<table>[^/\]]+)")
# A name in quotation marks may hold anything, points too; a mark in it is doubled.
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_DUCKDB_SUFFIXES = (".duckdb", ".ddb")
# A scheme has two letters or more, or it would be a drive. A path object has but one of the two strokes.
_OTHER_ADDRESS = re.compile(
    r"(?i)^[a-z][a-z0-9+.-]+:/|://|^(?:jdbc|odbc|sqlserver|mysql|oracle):|\bpassword\s*=|\bpwd\s*="
)
_SECRETS = ("password", "sslpassword", "oauth_client_secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAddress:
    """A table of a database. It prints the table's name alone: where the database is stays with its owner.

    >>> address = parse_address("postgresql://db.example/health::surveys.people")
    >>> address, address.table
    (TableAddress(kind='postgresql', names=('surveys', 'people')), 'people')
    """

    kind: Kind
    location: str = field(repr=False)
    names: tuple[str, ...]

    @property
    def table(self) -> str:
        """The name of the table, without those of its schema and catalogue."""
        return self.names[-1]

    @property
    def title(self) -> str:
        """The table as messages name it."""
        return f"the {TITLES[self.kind]} table {self.table!r}"

    @property
    def quoted(self) -> str:
        """The names in quotation marks, as SQL takes them."""
        return ".".join('"' + name.replace('"', '""') + '"' for name in self.names)


@dataclass(frozen=True, slots=True, eq=False)
class PushDown:
    """A table whose rows may not leave the place where they are: they are counted there, and only counts come here.

    >>> PushDown("spark:people")
    PushDown()
    """

    data: Any = field(repr=False)


def parse_address(data: Any) -> TableAddress | None:
    """Return the address that a text or a path is; None where it is the path of a file, or no text.

    >>> parse_address("people.csv") is None
    True
    >>> parse_address("people.duckdb::people").table, parse_address("spark:census.people").names
    ('people', ('census', 'people'))
    >>> parse_address("postgresql://me:secret@db/health::people")
    Traceback (most recent call last):
    populace.core.errors.UsageError: the address of the database holds a password.
    hint: leave it out: set PGPASSWORD, or write it to a password file (~/.pgpass, PGPASSFILE)
    """
    if not isinstance(data, str | Path):
        return None
    text = str(data).strip()
    scheme, _, rest = text.partition(":")
    if scheme.lower() in ("postgresql", "postgres"):
        # A path object has lost one of the two strokes.
        where, names = _split_table(f"{scheme.lower()}:{re.sub(r'^/(?!/)', '//', rest)}")
        _refuse_secrets(where)
        return TableAddress(kind="postgresql", location=where, names=names)
    if scheme.lower() == "spark":
        return TableAddress(kind="spark", location="", names=_split_names(rest))
    if _OTHER_ADDRESS.search(text):
        # Not quoted: it may hold a password.
        raise UsageError(
            "the data is the address of something that is not read here.", hint=f"give a file, or {FORMS}"
        )
    if text.endswith(_DUCKDB_SUFFIXES) or any(f"{suffix}::" in text for suffix in _DUCKDB_SUFFIXES):
        where, names = _split_table(text)
        return TableAddress(kind="duckdb", location=where, names=names)
    return None


def parse_tables(data: Any) -> Any:
    """Return data with addresses in place of texts that are such; of linked tables, each by its name."""
    if isinstance(data, Mapping):
        return {name: parse_tables(each) for name, each in data.items()}
    if isinstance(data, PushDown):
        return PushDown(parse_tables(data.data))
    return parse_address(data) or data


def refuse_push_down(data: Any, *, what: str) -> None:
    """Refuse, before anything is spent, what cannot be done where the rows are."""
    tables = data.values() if isinstance(data, Mapping) else (data,)
    if any(isinstance(each, PushDown) for each in tables):
        raise UsageError(
            f"rows are to be counted where they are, and {what}.",
            hint="let them be read: leave --push-down out",
        )


def _split_table(text: str) -> tuple[str, tuple[str, ...]]:
    found = _TABLE.fullmatch(text)
    if found is None:
        raise UsageError(
            "the address of the database names no table.", hint=f"put its name behind two colons: {FORMS}"
        )
    return found["where"], _split_names(found["table"])


def _split_names(text: str) -> tuple[str, ...]:
    """Return the names of a table, its schema and its catalogue, written with points between them.

    >>> _split_names('health."people.2020"')
    ('health', 'people.2020')
    """
    names, place = [], 0
    while found := _NAME.match(text, place):
        names.append(found[2] or found[1].replace('""', '"'))
        place = found.end() + 1
        if text[place - 1 : place] != ".":
            break
    if not names or place != len(text) + 1 or "\0" in text:
        raise UsageError("the address does not end in the name of a table.", hint=f"write {FORMS}")
    return tuple(names)


def _refuse_secrets(where: str) -> None:
    """Refuse an address with a password in it, before it can reach a file or a message."""
    try:
        parts = urlsplit(where)
        secret = parts.password is not None
    except ValueError:
        raise UsageError("the address of the database cannot be read.", hint=f"write {FORMS}") from None
    if secret or any(key.lower() in _SECRETS for key, _ in parse_qsl(parts.query, keep_blank_values=True)):
        raise UsageError(
            "the address of the database holds a password.",
            hint="leave it out: set PGPASSWORD, or write it to a password file (~/.pgpass, PGPASSFILE)",
        )
