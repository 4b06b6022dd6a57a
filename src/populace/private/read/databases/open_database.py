"""Tables of databases by their address, opened once for a whole run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from populace.core.errors import DataError, PopulaceError
from populace.core.run_state import current_state
from populace.core.table_address import PushDown, TableAddress, parse_address
from populace.private.read.databases.missing_library import require_library
from populace.private.read.databases.postgres_source import PostgresSource
from populace.private.read.sources import FrameSource, Source
from populace.private.redact import redact_open_errors


@dataclass(frozen=True, slots=True)
class OpenTable:
    """A table that was opened already: whoever reads it again sees the same snapshot."""

    source: Source = field(repr=False)


def open_snapshot(data: Any) -> Any:
    """Return data with its tables of databases opened: all who read them in a run see one snapshot of each.

    They are closed when the run ends, or when its state says so.
    """
    if isinstance(data, Mapping):
        return {name: open_snapshot(each) for name, each in data.items()}
    if isinstance(data, PushDown):
        return PushDown(open_snapshot(data.data))
    address = data if isinstance(data, TableAddress) else parse_address(data)
    if address is None:
        return data
    source = open_database(address)
    current_state().opened.callback(source.close)
    return OpenTable(source)


def open_database(address: TableAddress) -> PostgresSource | FrameSource:
    """Look at the columns of a table; no row is read."""
    if address.kind == "postgresql":
        return PostgresSource(address)
    with redact_open_errors(address.title):
        if address.kind == "spark":
            return FrameSource(_open_spark(address), title=address.title)
        table, close = _open_duckdb(address)
        return FrameSource(table, title=address.title, close=close)


def _open_duckdb(address: TableAddress) -> tuple[Any, Callable[[], None]]:
    """Return a table of a DuckDB file as a relation, in a transaction of a connection that can only read."""
    duckdb = require_library("duckdb", extra="duckdb")
    if not Path(address.location).is_file():
        raise DataError("there is no such DuckDB file.", hint="check the path before the two colons")
    # Names of tables must not reach variables of this program.
    connection = duckdb.connect(
        address.location, read_only=True, config={"python_enable_replacements": "false"}
    )
    try:
        connection.execute("SET enable_progress_bar = false")
        # Moments have the same text on every machine.
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("BEGIN TRANSACTION")
        return connection.sql(f"FROM {_find_duckdb_table(connection, address)}"), connection.close
    except BaseException:
        connection.close()
        raise


_FIND_TABLE = """
SELECT table_catalog, table_schema, table_name FROM information_schema.tables
WHERE lower(table_name) = lower($table) AND lower(table_schema) = lower($schema)
    AND lower(table_catalog) = lower(coalesce($catalog, current_database()))
"""


def _find_duckdb_table(connection: Any, address: TableAddress) -> str:
    """Return the whole name of a table or view, in quotation marks: DuckDB takes shorter ones for files too."""
    *above, table = address.names
    places: list[tuple[str | None, str]] = [(None, "main")]
    if len(above) == 1:
        # That of a schema, or that of the database.
        places = [(None, above[0]), (above[0], "main")]
    elif above:
        places = [(above[0], above[-1])]
    for catalog, schema in places:
        asked = {"table": table, "schema": schema, "catalog": catalog}
        if found := connection.execute(_FIND_TABLE, asked).fetchall():
            return replace(address, names=found[0]).quoted
    raise _no_table_error(address)


def _open_spark(address: TableAddress) -> Any:
    """Return a table of Spark's catalogue as a frame of the session that there is, or of a new one."""
    sql = require_library("pyspark.sql", extra="spark")
    # Workers on this machine run the Python that runs this.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    # Spark's own words about a failure quote cells.
    session.sparkContext.setLogLevel("OFF")
    try:
        return session.table(".".join("`" + name.replace("`", "``") + "`" for name in address.names))
    except PopulaceError:
        raise
    except Exception as failure:
        if type(failure).__name__ != "AnalysisException":
            raise
        raise _no_table_error(address) from None


def _no_table_error(address: TableAddress) -> DataError:
    return DataError(
        f"there is no table {address.table!r} in this database.", hint="check its name, to the letter"
    )
