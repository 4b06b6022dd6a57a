"""Where rows can lie: each back end is handed an Arrow table and returns what a user would give to populace."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

Load = Callable[[pa.Table], Any]
FAST = ("polars-lazy", "duckdb-file", "duckdb-parquet")
SLOW = ("arrow", "polars-scan", "duckdb-relation", "postgres", "spark-frame", "spark-table")


def as_slow(*names: str) -> list[Any]:
    """Return names of back ends as parameters of slow tests."""
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


BACKENDS = (*FAST, *as_slow(*SLOW))
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@contextmanager
def open_backend(name: str, folder: Path) -> Iterator[Load]:
    """Yield the function that puts a table there."""
    if name == "arrow":
        yield lambda table: table
    elif name.startswith("polars"):
        pl = pytest.importorskip("polars")

        def load_polars(table: pa.Table) -> Any:
            if name == "polars-lazy":
                return pl.from_arrow(table).lazy()
            pl.from_arrow(table).write_parquet(folder / "scanned.parquet")
            return pl.scan_parquet(folder / "scanned.parquet")

        yield load_polars
    elif name.startswith("duckdb"):
        with ExitStack() as stack:
            yield lambda table: _load_duckdb(table, name=name, folder=folder, stack=stack)
    elif name == "postgres":
        yield _load_postgres
    else:
        yield lambda table: _load_spark(table, registered=name == "spark-table")


def _load_duckdb(table: pa.Table, *, name: str, folder: Path, stack: ExitStack) -> Any:
    duckdb = pytest.importorskip("duckdb")
    if name == "duckdb-parquet":
        import pyarrow.parquet as pq

        path = folder / "written-by-arrow.parquet"
        pq.write_table(table, path)
        return stack.enter_context(duckdb.connect()).sql(f"FROM '{path}'")
    path = Path(tempfile.mkdtemp(dir=folder)) / "tables.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("held", table)
        hugeint = "* REPLACE (huge::HUGEINT AS huge)" if "huge" in table.column_names else "*"
        connection.execute(f"CREATE OR REPLACE TABLE people AS SELECT {hugeint} FROM held")
    if name == "duckdb-file":
        return f"{path}::people"
    return stack.enter_context(duckdb.connect(str(path), read_only=True)).table("people")


def _load_postgres(table: pa.Table) -> str:
    address = start_postgres()
    with connect_postgres(address) as connection, connection.cursor() as cursor:
        cursor.execute('DROP TABLE IF EXISTS "The people"')
        cursor.adbc_ingest("The people", table, mode="create")
        connection.commit()
    return f"{address}::The people"


def connect_postgres(address: str) -> Any:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    return dbapi.connect(address)


_SERVERS = ExitStack()
_STARTED: dict[str, Any] = {}


def start_postgres() -> str:
    """Return the address of a server of our own on a local socket; the first call starts it."""
    if "postgres" not in _STARTED:
        pytest.importorskip("adbc_driver_postgresql")
        if not POSTGRES:
            pytest.skip("there is no PostgreSQL server on this machine")
        folder = Path(tempfile.mkdtemp(prefix="populace-postgres-", dir="/tmp"))
        _SERVERS.callback(shutil.rmtree, folder, ignore_errors=True)
        # A server refuses to run for root.
        user = next((u for u in ("postgres", "nobody") if os.getuid() == 0 and _has_user(u)), None)
        if user is not None:
            shutil.chown(folder, user)
        run = {"user": user} if user is not None else {}
        binaries = POSTGRES[-1]
        subprocess.run(
            [binaries / "initdb", "-D", folder / "data", "-U", "tester", "-A", "trust", "-E", "UTF8",
             "--locale=C", "--no-sync"],
            check=True, capture_output=True, cwd=folder, **run,
        )  # fmt: skip
        server = subprocess.Popen(
            [binaries / "postgres", "-D", folder / "data", "-k", folder, "-F", "-c", "listen_addresses="],
            stderr=subprocess.DEVNULL, cwd=folder, **run,
        )  # fmt: skip
        _SERVERS.callback(server.wait)
        _SERVERS.callback(server.terminate)
        for _ in range(100):
            ready = subprocess.run([binaries / "pg_isready", "-q", "-h", folder, "-t", "5"], check=False)
            if ready.returncode == 0:
                break
        _STARTED["postgres"] = f"postgresql:///postgres?host={folder}&user=tester"
    return str(_STARTED["postgres"])


def _has_user(name: str) -> bool:
    return any(each.pw_name == name for each in pwd.getpwall())


def start_spark() -> Any:
    """Return a session of Spark on this machine; the first call starts it."""
    if "spark" not in _STARTED:
        sql = pytest.importorskip("pyspark.sql")
        if shutil.which("java") is None:
            pytest.skip("there is no Java on this machine")
        os.environ["PYSPARK_PYTHON"] = sys.executable
        folder = _SERVERS.enter_context(tempfile.TemporaryDirectory())
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "3")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder}")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        _SERVERS.callback(session.stop)
        _STARTED["spark"] = session
    return _STARTED["spark"]


def _load_spark(table: pa.Table, *, registered: bool) -> Any:
    session = start_spark()
    frame = session.createDataFrame(table)
    # Arrow's moments without a zone become those of the session's zone.
    naive = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    frame = frame.withColumns({name: frame[name].cast("timestamp_ntz") for name in naive}).repartition(3)
    if not registered:
        return frame
    frame.createOrReplaceTempView("people")
    return "spark:people"


def stop_servers() -> None:
    """End every server that a test started."""
    _STARTED.clear()
    _SERVERS.close()
