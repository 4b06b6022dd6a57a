"""The options that several verbs share, each said once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from populace.cli.command import Bundle, Option
from populace.core.errors import UsageError
from populace.core.table_address import FORMS, PushDown, TableAddress, parse_address

if TYPE_CHECKING:
    from populace.api.request import RowRequest, RunRequest

DEFAULT_LEDGER = "~/.local/state/populace/ledger.db"
MAX_SEED = 2**64 - 1
# A table by its name, and not an address with options.
_NAMED = re.compile(r"(?!postgres(ql)?:)[^=]*=")
Parsed = TypeVar("Parsed")


def _parse_as(kind: Callable[[str], Parsed], words: str) -> Callable[[str], Parsed]:
    """Return a parser that says in words what it takes."""

    def parse(text: str) -> Parsed:
        try:
            return kind(text)
        except ValueError:
            raise ValueError(words) from None

    return parse


whole = _parse_as(int, "a whole number")
number = _parse_as(float, "a number")


def parse_seed(text: str) -> int:
    """Parse the seed of a generator."""
    wanted = f"a whole number from 0 to {MAX_SEED}"
    seed = _parse_as(int, wanted)(text)
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(wanted)
    return seed


def choice(*words: str) -> Callable[[str], str]:
    """Return a parser of one of some words."""

    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return text

    return parse


def parse_table(text: str) -> Path | TableAddress:
    """Return the path of a file, or the address of a table in a database."""
    return parse_address(text) or Path(text)


TABLE_FORMS = (
    "a CSV, Parquet, Arrow, JSON Lines, Excel, SPSS, Stata or SAS file (- is stdin), or a table of a database "
    f"({FORMS})"
)
DATA = Option("DATA", f"The private table: {TABLE_FORMS}.", parse_table, required=True)
TABLES = Option(
    "DATA",
    f"The private table: {TABLE_FORMS}. Of linked tables both, by name: household=FILE person=FILE.",
    required=True,
    repeated=True,
)
PUSH_DOWN = Option(
    "--push-down",
    "Count rows where they are, on the Spark cluster, and bring only counts here. Its workers need populace.",
)
SCHEMA = Option("--schema FILE", "A schema.toml, or a domain.json (column → size).", Path, required=True)
EPSILON = Option("--epsilon E", "The privacy loss to allow, such as 1, 0.5 or 1/3.", required=True)
DELTA = Option("--delta D", "The failure probability to allow, such as 1e-9; 0 for pure ε-DP.", required=True)
OUT = Option("--out DIR", "The folder to write; it must be empty or not exist yet.", Path, required=True)
METHOD = Option(
    "--method NAME",
    "The synthesizer: adaptive, aim, mst, independent, nist2018, dpsyn, field-groups, stability, histogram, "
    "histogram-exponential, copula, gem, mwem, pmw, privbayes or topdown (docs/methods); auto is adaptive, or topdown "
    "where the schema has a geography.",
    default="auto",
)
WORKLOAD = Option(
    "--workload pairs|triples|FILE",
    "Which marginals should be accurate: all pairs, pairs and small triples, or those of a TOML file with weights. "
    "It costs no budget.",
    shown="triples",
)
PUBLIC = Option(
    "--public FILE",
    "A public table of the same schema, such as last year's release. It is read without protection: never give a "
    "part of the private table.",
    Path,
)
WITH = Option(
    "--with DIR",
    "An earlier release of the same account, or measurements: its tables are used beside the new ones, which costs "
    "nothing more and lowers the error. It may be given several times.",
    Path,
    repeated=True,
    name="earlier",
)
INFERENCE = Option(
    "--inference tree|gum",
    "How rows are made: by a junction tree, or by gradual updates (GUM).",
    default="tree",
)
LEDGER = Option("--ledger FILE", "The privacy ledger to charge.", Path, shown=DEFAULT_LEDGER)
KNOWN_PRIVATE = replace(LEDGER, help="The ledger: tables with an account there are refused as public ones.")
DATASET = Option(
    "--dataset NAME",
    "The account to charge.",
    shown="the schema's dataset, or the data file's name",
)
MEMORY = Option(
    "--memory SIZE",
    "How much memory to use, such as 4GiB. Beyond a quarter of it, codes of rows lie in a private file in TMPDIR.",
    shown="all that this process may use",
)
CHECK_RULES = Option(
    "--check-rules",
    "Count the rows that break each universe and structural zero, with noise, for a twentieth of the budget.",
)
POPULATION = Option(
    "--population N",
    "About how many rows there are, as a public figure or a guess has it, never a count. What the run can give is "
    "then judged as `plan` does, before anything is spent; so it is with max_rows or public totals in the schema. "
    "Where nothing about their number is public, too few rows show only in the release.",
    whole,
)
YES = Option(
    "--yes",
    "Do not ask where there are too few rows. On a terminal the run asks then; in scripts (stdin or stderr is no "
    "terminal) it warns and goes on.",
)
ROWS = Option("--rows N", "How many synthetic rows.", whole, shown="the noisy number of rows")
WHERE = Option(
    "--where EXPR",
    "Release only rows that meet a condition, such as \"age >= 65 and sex == 'f'\". It conditions the model, not the "
    "data, and costs no budget.",
)
IMPLICATES = Option(
    "--implicates M",
    "Draw 1 to 100 tables from the one model, at no further cost.",
    whole,
    default=1,
)
FORMAT = Option(
    "--format csv|parquet|sav|dta|xpt",
    "The file format of the table: CSV, Parquet, SPSS, Stata or SAS.",
    shown="as the input; csv from a model",
    name="table_format",
)
SEED = Option(
    "--seed N",
    "Makes the sampling of rows repeatable, never the noise.",
    parse_seed,
    shown="drawn, and recorded",
)
NO_REPORT = Option("--no-report", "Leave out report.html, which takes a second or two.")
JSON = Option("--json", "Print the result to stdout, and an error to stderr, as JSON.")
SCHEMA_OUT = Option(
    "--out FILE", "The schema.toml to write; it must not exist yet. - is stdout.", Path, required=True
)


def build_run_request(values: Mapping[str, Any]) -> RunRequest:
    """Return what a run is asked for."""
    from populace.api.request import RunRequest

    given = dict(values)
    tables = parse_tables(given.pop("data"))
    return RunRequest.of(data=PushDown(tables) if given.pop("push_down") else tables, **given)


Tables = Path | TableAddress | dict[str, Path | TableAddress]


def parse_tables(given: Sequence[str]) -> Tables:
    """Return the file or address of a table, or those of linked tables by name.

    >>> parse_tables(["people.csv"]), sorted(parse_tables(["household=h.csv", "person=p.csv"]))
    (PosixPath('people.csv'), ['household', 'person'])
    """
    parts = [each.partition("=") for each in given]
    # A file or address that has a sign of equality is one table.
    if len(given) == 1 and (not _NAMED.match(given[0]) or Path(given[0]).exists()):
        return parse_table(given[0])
    named = {name: parse_table(path) for name, _, path in parts if name and path}
    if len(named) < len(given):
        raise UsageError(
            f"{len(given)} tables are given, and not each by a name of its own.",
            hint="give one file, or linked tables by name: household=FILE person=FILE",
        )
    return named


def build_row_request(values: Mapping[str, Any]) -> RowRequest:
    """Return which rows are asked for."""
    from populace.api.request import RowRequest

    return RowRequest(**values)


RUN_REQUEST = Bundle(
    "request",
    (
        TABLES,
        SCHEMA,
        EPSILON,
        DELTA,
        METHOD,
        WORKLOAD,
        PUBLIC,
        LEDGER,
        DATASET,
        MEMORY,
        PUSH_DOWN,
        CHECK_RULES,
        WITH,
    ),
    build_run_request,
)
ROW_REQUEST = Bundle("drawn", (INFERENCE, ROWS, WHERE, IMPLICATES, SEED), build_row_request)
