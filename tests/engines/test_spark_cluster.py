"""Spark counts and draws on its workers: the same on one machine and on a cluster that loses a worker."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.core.marginals import Marginal
from populace.core.run_state import run_state
from populace.core.table_address import PushDown
from populace.private.private_table import PrivateTable
from tests.engines.awkward_table import (
    LEARNT_SCHEMA,
    SCHEMA,
    UNIT_SCHEMA,
    make_awkward_table,
    make_visits,
    sort_visits,
)
from tests.engines.backends import _load_spark, start_spark
from tests.engines.test_same_counts import count_pairs

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def count_there(table: pa.Table, schema: pp.Schema) -> dict[tuple[str, ...], list[int]]:
    return count_pairs(PushDown(_load_spark(table, registered=False)), schema)


def test_workers_count_every_pair_and_whole_rows_as_memory_does() -> None:
    table = make_awkward_table()
    assert count_there(table, SCHEMA) == count_pairs(table, SCHEMA)
    with run_state():
        held = PrivateTable.of(PushDown(_load_spark(table, registered=False)), schema=SCHEMA).engine()
        held.prepare([Marginal(("age",))], memory=2**20)
        expected = PrivateTable.of(table, schema=SCHEMA).engine()
        assert [e.tolist() for e in held.tally()] == [e.tolist() for e in expected.tally()]
        singles = [Marginal((name,)) for name in SCHEMA.domain]
        for one, other in zip(held.counts(singles), expected.counts(singles), strict=True):
            assert one.tolist() == other.tolist()


def test_workers_keep_the_first_rows_of_a_unit() -> None:
    visits = make_visits()
    ordered = sort_visits(visits)
    assert count_there(visits, UNIT_SCHEMA) == count_pairs(ordered, UNIT_SCHEMA)


def test_rows_that_stand_for_several_units_are_counted_so_often() -> None:
    schema = pp.Schema.parse(
        '[table]\nfrequency = "n"\n[columns.a]\nkind = "categorical"\nvalues = ["x"]\n'
        '[columns.b]\nkind = "categorical"\nvalues = ["y"]\n'
    )
    table = pa.table({"a": ["x", "x", "z"], "b": ["y", "q", "y"], "n": [3, 0, 5]})
    assert count_there(table, schema) == count_pairs(table, schema)


def test_what_cannot_be_counted_there_is_refused_before_spending(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    asked: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "ledger": ledger}
    frame = _load_spark(make_visits(), registered=False)
    small = pp.Schema.parse('[columns.place]\nkind = "categorical"\nvalues = ["home"]\n')
    with pytest.raises(UsageError, match="learnt"):
        pp.measure(PushDown(frame), schema=LEARNT_SCHEMA, **asked)
    queries = pp.Queries.parse('[[query]]\nstatistic = "count"\n', schema=small)
    with pytest.raises(UsageError, match="estimates"):
        pp.estimate(PushDown(frame), schema=small, design=pp.Design(schema=small), queries=queries, **asked)
    with pytest.raises(UsageError, match="Spark"):
        pp.measure(PushDown(make_visits()), schema=small, **asked)
    assert not ledger.exists()


def make_model(folder: Path) -> pp.Model:
    schema = pp.Schema.parse(
        '[columns.a]\nkind = "integer"\nmin = 0\nmax = 9\n'
        '[columns.d]\nkind = "date"\nmin = "2020-01-01"\nmax = "2020-01-09"\n'
    )
    table = pa.table({"a": [*range(10)] * 50, "d": ["2020-01-03"] * 500})
    return pp.fit(pp.measure(table, schema=schema, epsilon=1, delta=0, ledger=folder / "m.db"))


@pytest.mark.parametrize("rows", [1050, 2**20 + 1])
def test_workers_draw_the_rows_that_generate_draws(tmp_path: Path, rows: int) -> None:
    model = make_model(tmp_path)
    expected = pp.generate(model, rows=rows, seed=4).table
    found = pp.generate_on_spark(model, start_spark(), rows=rows, seed=4).toArrow()
    assert found.cast(expected.schema).equals(expected)


JOB = """
import os, sys, time
import pyarrow as pa
import populace as pp
from populace.core.table_address import PushDown
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from pyspark.sql import SparkSession, functions as sql

session = SparkSession.builder.getOrCreate()
session.sparkContext.setLogLevel("OFF")
frame = session.range(0, 60000, 1, 12).select(
    (sql.col("id") % 10).alias("a"), (sql.col("id") % 7 % 3).alias("b"), (sql.col("id") % 5).alias("c")
)

def slow(batches):
    # Long enough for a worker to be lost in the middle.
    for batch in batches:
        worker = "second" if "work-2" in os.getcwd() else "first"
        open(f"{os.environ['POPULACE_TEST_FOLDER']}/{worker}-{time.time_ns()}", "w").close()
        time.sleep(1)
        yield batch

if "POPULACE_TEST_FOLDER" in os.environ:
    frame = frame.mapInArrow(slow, frame.schema)
schema = pp.Schema.from_sizes({"a": 10, "b": 3, "c": 5})
noise = ExactNoise(RehearsalEntropy(5))
asked = {"epsilon": 1, "delta": "1e-6", "ledger": sys.argv[1], "dataset": "d", "noise": noise}
found = pp.measure(PushDown(frame), schema=schema, **asked)
with open(sys.argv[2], "w") as file:
    file.write(repr([(str(m.marginal), m.counts.tolist()) for m in found.items]))
"""


@contextmanager
def start_cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a standalone master with two workers on this machine."""
    import pyspark

    launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    master = f"spark://127.0.0.1:{port}"
    words = [
        ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        *(
            ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1",
             "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), master]
            for number in (1, 2)
        ),
    ]  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    try:
        for each in words:
            log = (folder / f"log-{len(started)}").open("wb")
            # A session of its own: a worker is lost with all that it started.
            started.append(
                subprocess.Popen([launcher, *each], stdout=log, stderr=log, env=env, start_new_session=True)
            )
            time.sleep(3)
        yield master, started
    finally:
        for process in started:
            kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_job(folder: Path, *, master: str, slow: Path | None = None) -> subprocess.Popen[bytes]:
    folder.mkdir()
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    if slow is not None:
        env["POPULACE_TEST_FOLDER"] = str(slow)
    settings = ["spark.ui.enabled=false", "spark.executor.memory=512m", "spark.ui.showConsoleProgress=false"]
    if slow is not None:
        settings.append(f"spark.executorEnv.POPULACE_TEST_FOLDER={slow}")
    confs = [word for setting in settings for word in ("--conf", setting)]
    words = [submit, "--master", master, *confs, folder / "job.py", folder / "ledger.db", folder / "found"]
    return subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=(folder / "log").open("wb"))


def test_a_lost_worker_changes_nothing_but_time(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    if shutil.which("java") is None:
        pytest.skip("there is no Java on this machine")
    alone = run_job(tmp_path / "alone", master="local[2]")
    assert alone.wait(600) == 0, (tmp_path / "alone" / "log").read_text()[-2000:]
    touched = tmp_path / "touched"
    touched.mkdir()
    with start_cluster(tmp_path) as (master, processes):
        job = run_job(tmp_path / "cluster", master=master, slow=touched)
        # On a busy machine workers take minutes to start.
        while not list(touched.glob("second-*")) and job.poll() is None:
            time.sleep(0.2)
        assert job.poll() is None, (tmp_path / "cluster" / "log").read_text()[-2000:]
        kill_group(processes[2])
        assert job.wait(600) == 0, (tmp_path / "cluster" / "log").read_text()[-2000:]
    # What the lost worker had begun was done again.
    assert len(list(touched.iterdir())) > 12
    first, second = ((tmp_path / name / "found").read_text() for name in ("alone", "cluster"))
    assert first == second
    for name in ("alone", "cluster"):
        (record,) = pp.Ledger.open(tmp_path / name / "ledger.db").runs("d")
        assert record.finished
    alone_run, cluster_run = (
        pp.Ledger.open(tmp_path / name / "ledger.db").runs("d")[0] for name in ("alone", "cluster")
    )
    assert alone_run.spends == cluster_run.spends
