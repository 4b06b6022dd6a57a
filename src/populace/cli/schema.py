"""populace schema: check a schema, show it the way populace reads it, or import it from a codebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from populace.cli import options
from populace.cli.command import Group, Option, command
from populace.cli.console import emit, emit_json, emit_result, save_text, say
from populace.core.errors import UsageError
from populace.core.number_format import count_of

if TYPE_CHECKING:
    from populace.schema.columns.column import Column
    from populace.schema.schema import Schema
    from populace.schema.writer import TomlValue

MAX_SHOWN = 6
# What a key means that is not there and that no value can stand for.
TABLE_ABSENT = {
    "dataset": "the data file's name",
    "id": "none, each unit has one row",
    "max_rows": "not declared",
}
COLUMN_KEYS = (
    *("kind", "values", "min", "max", "width", "edges", "beyond"),
    *("missing", "other", "labels", "origin"),
)
COLUMN_ABSENT = {"other": "whatever lies outside the domain becomes an empty cell"}

FILE = Option("FILE", "A schema.toml or a domain.json.", Path, required=True)
SOURCE = Option(
    "FILE",
    "A REDCap data dictionary, an XLSForm, document.json of Survey Solutions, a DDI-Codebook, an ACS PUMS dictionary, "
    "a Frictionless Table Schema, SDV metadata, a codebook as CSV (variable, label, value, value label, missing), a "
    ".sav, .dta or .sas7bdat with labels, a domain.json, the JSON file of a NIST excerpt, or the specs of the 2018 "
    "NIST challenge. The first says which columns there are; others add labels, missing codes and universes.",
    Path,
    required=True,
    repeated=True,
)
DICTIONARY = Option(
    "--dictionary FILE",
    "What the values of the first file mean: data_dictionary.json of the NIST excerpts, codebook.cbk of the challenge, "
    "or the sheet of choices of an XLSForm as CSV.",
    Path,
)
OVERLAY = Option(
    "--overlay NAME|FILE",
    "Universes, rules, functions and bins to lay over it: a TOML file, or one that comes with populace (nist-acs, "
    "nist2018). May be repeated.",
    repeated=True,
)
DATASET = Option("--dataset NAME", "The account of the ledger to charge.", shown="the data file's name")
DATA = Option("--data FILE", "Compare the schema with these rows, without noise, on this screen alone.", Path)
UNIT = Option("--unit WORD", "Who is protected, in a word.", shown="row")


@command(FILE, DATA, options.LEDGER, options.DATASET, options.JSON)
def check(file: Path, data: Path | None, ledger: Path | None, dataset: str | None, json: bool) -> None:
    """Read a schema and say whether it holds together; exit code 2 if not.

    With --data it is compared with the rows, without noise. What is printed then is INTERNAL: for the curator's screen,
    and never for a release. The look is booked in the ledger, and statements of later releases say that it took place.

    Examples:
      populace schema check schema.toml
      populace schema check schema.toml --data people.csv
    """
    from populace.schema.schema import Schema

    if data is not None:
        _check_rows(file, data, ledger=ledger, dataset=dataset, json=json)
        return
    schema = Schema.load(file)
    rules, follow = len(schema.rules.rules), len(schema.layout.functions)
    found: dict[str, Any] = {
        "schema": str(file),
        "columns": len(schema.columns),
        "rules": rules,
        "follow": follow,
        "impossible": find_impossible_values(schema),
        "digest": schema.digest,
    }
    if json:
        emit_json(found)
        return
    facts = [count_of(len(schema.columns), "column")]
    facts += [f"{follow} of which follow from others"] if follow else []
    facts += [count_of(rules, "rule")] if rules else []
    if schema.geography is not None:
        spine = schema.geography.spine
        units = [f"{spine.units(number)} of {name}" for number, name in enumerate(spine.levels) if number]
        facts.append(f"units: {', '.join(units)}")
    emit(f"{file}: {', '.join(facts)}, unit {schema.unit.name!r}, no contradiction found")
    for name, values in found["impossible"].items():
        shown = ", ".join(values[:MAX_SHOWN]) + (
            f" and {len(values) - MAX_SHOWN} more" * (len(values) > MAX_SHOWN)
        )
        say(f"note: by the rules no row can have {name} = {shown}; real rows that do are moved")


def _check_rows(file: Path, data: Path, *, ledger: Path | None, dataset: str | None, json: bool) -> None:
    from populace.evaluation.internal_marking import INTERNAL
    from populace.evaluation.schema_fit import read_misfits

    if json:
        raise UsageError(
            "what is found in rows is for the screen, and not for a file.", hint="leave --json or --data out"
        )
    # Where it is kept after all, the mark is kept with it.
    emit(INTERNAL)
    found = read_misfits(data, schema=file, ledger=ledger, dataset=dataset)
    for each in found:
        emit(str(each))
    if not found:
        emit("the rows fit the schema")
    say(
        "this look is booked in the ledger; statements of later releases say that the schema was checked against rows"
    )


def find_impossible_values(schema: Schema) -> dict[str, list[str]]:
    """Return the values that the rules leave to nobody, by column: a rule that says more than was meant shows here."""
    from populace.inference.constraints.support import Support
    from populace.schema.codec.decoder import code_labels

    if not schema.rules.rules:
        return {}
    possible, found = Support(schema.rules), {}
    for name, classes in schema.rules.classes.items():
        allowed = possible.table((name,))[classes.lookup]
        column = schema.variables[name]
        values = [
            label
            for code, label in enumerate(code_labels(column))
            if not allowed[code] and code != column.other_code
        ]
        if values:
            found[name] = values
    return found


@command(FILE, options.JSON)
def show(file: Path, json: bool) -> None:
    """Print the schema in full, defaults included, as TOML or as JSON.

    What has no default value, such as the code for everything outside the domain, is explained in a comment;
    in JSON it is null.
    """
    from populace.schema.schema import Schema

    schema = Schema.load(file)
    if not json:
        emit(_format_in_full(schema))
        return
    import tomllib

    shown = tomllib.loads(_format_in_full(schema))
    shown["table"] = {**dict.fromkeys(TABLE_ABSENT), **shown["table"]}
    shown["columns"] = {name: {**dict.fromkeys(COLUMN_ABSENT), **c} for name, c in shown["columns"].items()}
    emit_json({"digest": schema.digest, **shown})


@command(SOURCE, options.SCHEMA_OUT, DICTIONARY, OVERLAY, DATASET, UNIT, options.JSON)
def import_(
    file: list[Path],
    out: Path,
    dictionary: Path | None,
    overlay: list[str] | None,
    dataset: str | None,
    unit: str | None,
    json: bool,
) -> None:
    """Write a schema from files that describe a table. No data is read.

    Domains from a dictionary have the origin "codebook", those from a table's own file "declared". Skip logic becomes
    universes. What was computed from rows, such as ranges and frequencies, is not taken: such a domain is left open,
    and marked. What could not be translated is listed with its line.

    Examples:
      populace schema import dictionary.csv --out schema.toml
      populace schema import survey.dta form.xlsx --out schema.toml
      populace schema import survey.csv --dictionary choices.csv --out schema.toml
      populace schema import domain.json --out schema.toml
      populace schema import ma2019.json --dictionary data_dictionary.json --overlay nist-acs --out schema.toml
      populace schema import colorado-specs.json --dictionary codebook.cbk --overlay nist2018 --out schema.toml
    """
    from dataclasses import replace

    from populace.schema.imports.codebooks.codebook_document import (
        list_open_columns,
        merge_documents,
        settle_document,
        without_open_columns,
    )
    from populace.schema.imports.detect_format import import_document
    from populace.schema.imports.overlay import lay_over
    from populace.schema.schema import Schema

    first, *others = file
    documents = [import_document(first, dictionary=dictionary), *map(import_document, others)]
    document = settle_document(merge_documents(*documents))
    for name in overlay or ():
        document = lay_over(document, name)
    named = {key: value for key, value in (("dataset", dataset), ("unit", unit)) if value is not None}
    document = replace(document, table={**document.table, **named})
    left = list_open_columns(document)
    known = without_open_columns(document) if left else document
    # A schema of open columns alone has nothing to check yet.
    schema = Schema.parse(known.text()) if known.columns else None
    save_text(document.text(), out)
    for remark in document.remarks:
        say(f"note: {remark}")
    complete = {} if schema is None else schema.columns
    origins = Counter(str(column.origin) for column in complete.values())
    counts = ", ".join(f"{count} {origin}" for origin, count in sorted(origins.items()))
    say(
        f"{count_of(len(document.columns), 'column')}; where their domains come from: {counts or 'nowhere yet'}"
    )
    if left:
        say(
            f"open: {', '.join(left)}\nhint: each is marked OPEN in the file; fill in its domain, or remove it"
        )
    if json or str(out) != "-":
        found = {
            "schema": str(out),
            "columns": len(document.columns),
            "digest": None if left or schema is None else schema.digest,
            "open": left,
            "not_translated": list(document.remarks),
        }
        emit_result(found, json=json)


schema = Group(
    "schema",
    """Check, show or import a schema.

    A schema is the public description of a private table: columns, values, and who is protected.

    Examples:
      populace schema check schema.toml
      populace schema show domain.json
      populace schema import ma2019.json --dictionary data_dictionary.json --overlay nist-acs --out schema.toml
    """,
    (check, show, import_),
)


def _format_in_full(schema: Schema) -> str:
    """Return the schema as TOML that says every default; it reads back as the same schema.

    That of linked tables stands as it is written: columns belong to their tables, and not to the wide row.
    """
    from populace.schema.writer import format_key, format_table, unit_to_table

    if schema.linked is not None:
        return schema.to_toml().rstrip()
    table = {
        **({} if schema.dataset is None else {"dataset": schema.dataset}),
        **unit_to_table(schema.unit),
        "neighbours": schema.unit.neighbours.value,
        **({} if schema.frequency is None else {"frequency": schema.frequency}),
        **({} if schema.max_rows is None else {"max_rows": schema.max_rows}),
    }
    parts = [format_table("table", table) + _describe_absent(TABLE_ABSENT, table)]
    # Geography, rules and totals have no defaults: they stand as they are written.
    written = schema.to_toml()
    if schema.geography is not None:
        parts.append(
            written[written.index("\n[geography]") + 1 : written.index("\n[columns.") + 1].rstrip() + "\n"
        )
    for name, column in schema.declared_columns.items():
        shown = _full_column_table(column)
        parts.append(
            format_table(format_key("columns", name), shown) + _describe_absent(COLUMN_ABSENT, shown)
        )
    rules = [mark for mark in ("\n[[zeros]]", "\n[[totals]]") if mark in written]
    if rules:
        parts.append(written[min(map(written.index, rules)) + 1 :])
    return "\n".join(parts).rstrip()


def _full_column_table(column: Column) -> dict[str, TomlValue]:
    from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
    from populace.schema.writer import column_to_table

    shown = column_to_table(column)
    if isinstance(column, IntegerColumn) and "edges" not in shown:
        shown.setdefault("width", 1)
    if isinstance(column, IntegerColumn | DecimalColumn):
        shown.setdefault("beyond", str(column.beyond))
    shown.setdefault("missing", [])
    shown["origin"] = str(column.origin)
    order = [*(key for key in COLUMN_KEYS if key in shown), *(key for key in shown if key not in COLUMN_KEYS)]
    return {key: shown[key] for key in order}


def _describe_absent(meaning: Mapping[str, str], table: Mapping[str, TomlValue]) -> str:
    return "".join(f"# {key}: {words}\n" for key, words in meaning.items() if key not in table)
