"""Quiet leaks: rows counted past the barrier, shared noise, rules that hold within a batch only, words and logs.

Each test here fails on one small change that no other test had noticed. Seeds are fixed; the bounds on variances lie
more than five standard errors from the right law.
"""

import random
import sqlite3
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from populace.core.errors import LedgerError, OverBudget, UsageError
from populace.core.marginals import Candidates, Marginal
from populace.privacy.accounting.mechanisms import DiscreteGaussian, DiscreteLaplace, Exponential, Spend
from populace.privacy.ledger.hash_chain import GENESIS, Event, EventKind, open_row, seal_event
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise import entropy
from populace.privacy.noise.entropy import RehearsalEntropy, SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.private.barrier import Barrier
from populace.private.private_table import PrivateTable
from populace.release.manifest import Manifest, list_versions
from populace.schema.schema import Schema

SCHEMA = Schema.parse(
    '[table]\nunit = "person"\nid = "who"\nrows_per_unit = 3\nneighbours = "replace-one"\n'
    '[columns.a]\nkind = "integer"\nmin = 0\nmax = 39\n[columns.b]\nkind = "integer"\nmin = 0\nmax = 49\n'
)


def barrier(path, *, rehearsal=True, noise=None, epsilon="100", delta="1e-3"):
    table = pa.table({"who": ["x", "x", "y"], "a": [1, 2, 3], "b": [4, 5, 6]})
    run = Ledger.open(path / "ledger.db").reserve(
        "d",
        epsilon=epsilon,
        delta=delta,
        unit=SCHEMA.unit,
        method="m",
        schema_digest=SCHEMA.digest,
        rehearsal=rehearsal,
    )
    source = noise or ExactNoise(RehearsalEntropy(1))
    return Barrier(PrivateTable.of(table, schema=SCHEMA), run=run, noise=source), run


def candidates():
    return Candidates(
        (Marginal(("a",)), Marginal(("b",))),
        (np.zeros(SCHEMA.domain["a"], np.int64), np.zeros(SCHEMA.domain["b"], np.int64)),
        (0, 0),
    )


@pytest.mark.parametrize("mechanism", [DiscreteGaussian(Fraction(25)), DiscreteLaplace(Fraction(7))])
@pytest.mark.parametrize("shape", [(300, 60), (60, 300), (20, 30, 30)])
def test_noise_is_independent_in_every_direction(mechanism, shape):
    noise = ExactNoise(RehearsalEntropy(5)).add(np.zeros(shape, np.int64), mechanism=mechanism).astype(float)
    for axis, length in enumerate(shape):
        means = noise.mean(axis=axis).ravel()
        assert 0.6 < means.var() * length / float(mechanism.variance) < 1.5


def test_two_marginals_of_one_question_have_different_noise(tmp_path):
    asked, _ = barrier(tmp_path)
    pair = Marginal(("a", "b"))
    mechanism = DiscreteGaussian(Fraction(2500))
    one, two = asked.measure([pair, pair], noise=mechanism)
    assert one.variance == two.variance == mechanism.variance
    gap = (one.counts - two.counts).astype(float)
    assert 0.8 < gap.var() / (2 * 2500) < 1.2


def test_every_verb_declares_what_a_unit_moves(tmp_path):
    asked, run = barrier(tmp_path)
    unit = SCHEMA.unit
    asked.measure([Marginal(("a",)), Marginal(("b",))], noise=DiscreteGaussian(Fraction(10**4)))
    asked.score(candidates(), noise=DiscreteGaussian(Fraction(10**5)))
    asked.choose(candidates(), among=[0, 1], mechanism=Exponential(Fraction(1, 10)))
    booked = {r.spend.verb: r.spend for r in run.record().spends}
    assert (booked["measure"].answers, booked["measure"].l1, booked["measure"].l2_squared) == (
        2,
        unit.marginal_l1,
        unit.marginal_l2_squared,
    )
    assert (booked["score"].answers, booked["score"].l1, booked["score"].l2_squared) == (
        2,
        unit.score_shift,
        unit.score_shift**2,
    )
    assert (booked["choose"].answers, booked["choose"].l1, booked["choose"].l2_squared) == (
        1,
        unit.score_shift,
        unit.score_shift**2,
    )
    run.record().check()


def test_the_filter_knows_no_tolerance(tmp_path):
    _, run = barrier(tmp_path, epsilon="1", delta="0")

    def spend(price):
        return Spend(
            verb="measure", what="q", mechanism=DiscreteLaplace(6 / price), answers=1, l1=6, l2_squared=18
        )

    with pytest.raises(OverBudget):
        run.charge(spend(1 + Fraction(1, 10**30)))
    run.charge(spend(Fraction(1)))
    assert run.record().used == 1
    with pytest.raises(OverBudget):
        run.charge(spend(Fraction(1, 10**30)))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "finish"},
        {"dataset": "other"},
        {"run": "other"},
        {"run": None},
        {"body": '{"a":2}'},
        {"hash": "f" * 64},
    ],
)
def test_the_hash_covers_every_field(change):
    row = seal_event(
        Event(kind=EventKind.SPEND, dataset="d", run="r", body={"a": 1}), seq=1, previous=GENESIS
    )
    open_row(row, seq=1, previous=GENESIS)
    with pytest.raises(LedgerError, match="altered"):
        open_row(replace(row, **change), seq=1, previous=GENESIS)


def test_the_hash_covers_place_and_predecessor():
    row = seal_event(
        Event(kind=EventKind.SPEND, dataset="d", run="r", body={"a": 1}), seq=1, previous=GENESIS
    )
    with pytest.raises(LedgerError, match="altered"):
        open_row(replace(row, seq=2), seq=2, previous=GENESIS)
    with pytest.raises(LedgerError, match="altered"):
        open_row(replace(row, previous="a" * 64), seq=1, previous="a" * 64)


@pytest.mark.parametrize("price", ["0", "-1"])
def test_a_spend_without_a_price_is_refused(tmp_path, price):
    _, run = barrier(tmp_path)
    run.charge(
        Spend(
            verb="measure",
            what="q",
            mechanism=DiscreteGaussian(Fraction(10**4)),
            answers=1,
            l1=6,
            l2_squared=18,
        )
    )
    books = Ledger.existing(tmp_path / "ledger.db")._current().copy()
    body = run.record().spends[0].to_json() | {"price": price}
    event = Event(kind=EventKind.SPEND, dataset="d", run=run.id, body=body)
    with pytest.raises(LedgerError, match="costs nothing"):
        books.write(event, row=seal_event(event, seq=books.seq + 1, previous=books.hash))


@pytest.mark.parametrize("rehearsal", [True, False])
def test_a_barrier_refuses_noise_that_is_not_what_was_booked(tmp_path, rehearsal):
    source = SystemEntropy() if rehearsal else RehearsalEntropy(1)
    with pytest.raises(UsageError, match="rehearsal"):
        barrier(tmp_path, rehearsal=rehearsal, noise=ExactNoise(source))


def test_keys_come_from_the_operating_system_and_nowhere_else(monkeypatch):
    drawn = []
    monkeypatch.setattr(entropy.os, "urandom", lambda n: drawn.append(n) or bytes(range(n)))
    one = SystemEntropy().words(4)
    assert drawn == [32]
    assert np.array_equal(one, SystemEntropy().words(4))  # the key alone decides
    monkeypatch.undo()
    state = random.getstate()
    first = SystemEntropy().words(4)
    random.setstate(state)
    assert not np.array_equal(first, SystemEntropy().words(4))


def test_a_key_ends_before_its_block_counter():
    assert entropy._BYTES_PER_KEY <= 64 * 2**32


def test_versions_name_packages_and_nothing_else():
    assert set(list_versions()) == {"python", "populace", "numpy", "pyarrow"}


def test_a_manifest_has_these_fields_and_no_others():
    told = Manifest(
        stamp=None,
        dataset="d",
        command="c",
        sampling_seed=1,
        rows_asked=None,
        selection=None,
        implicates=1,
        drawing=1,
        arithmetic="a",
        versions={},
        parents={},
        files={},
    )
    assert set(told.to_json()) == {
        "format",
        "stamp",
        "dataset",
        "command",
        "sampling_seed",
        "rows_asked",
        "where",
        "share",
        "implicates",
        "drawing",
        "arithmetic",
        "versions",
        "parents",
        "files",
    }


def test_broken_pages_are_refused(tmp_path):
    path = tmp_path / "ledger.db"
    barrier(tmp_path)
    with sqlite3.connect(path) as c:
        c.execute("pragma wal_checkpoint(truncate)")
        page = c.execute("select rootpage from sqlite_master where type='index'").fetchone()[0]
        size = c.execute("pragma page_size").fetchone()[0]
    c.close()
    whole = bytearray(path.read_bytes())
    end = page * size
    whole[end - 20] ^= 1  # inside a key of the index on hash
    path.write_bytes(whole)
    with pytest.raises(LedgerError, match="pages"):
        Ledger.existing(path).verify()


@pytest.mark.parametrize("mechanism", [DiscreteGaussian(Fraction(2500)), DiscreteLaplace(Fraction(40))])
@pytest.mark.parametrize("scores", [pytest.param(2, marks=pytest.mark.slow), 8, 400])
def test_scores_carry_the_noise_that_was_charged(tmp_path, mechanism, scores):
    asked, _ = barrier(tmp_path, epsilon="100000")
    zero = np.zeros(SCHEMA.domain["a"], np.int64)
    found = Candidates((Marginal(("a",)),) * scores, (zero,) * scores, (0,) * scores)
    noise = np.concatenate([asked.score(found, noise=mechanism) - 3 for _ in range(800 // scores)]).reshape(
        -1, 2
    )
    assert 0.8 < noise.var() / float(mechanism.variance) < 1.25
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.25


def test_making_a_table_reads_no_row(monkeypatch):
    from populace.private import private_table
    from populace.private.engines import open_engine

    for module, reader in (
        (open_engine, "read_counted_codes"),
        (private_table, "read_rows"),
        (private_table, "read_tallies"),
    ):
        monkeypatch.setattr(module, reader, lambda *_: pytest.fail("rows were read"))
    PrivateTable.of(pa.table({"who": ["x"], "a": [1], "b": [4]}), schema=SCHEMA)


SMALL = '[columns.a]\nkind = "integer"\nmin = 0\nmax = 3\n[columns.b]\nkind = "integer"\nmin = 0\nmax = 3\n'
IDS = '[table]\nunit = "person"\nid = "who"\nrows_per_unit = 2\n' + SMALL


def frame(rows):
    return pa.table({"a": [1] * rows, "b": [2] * rows})


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_synthetic_rows_follow_the_noisy_count_for_frames_too(tmp_path, library):
    from populace.api.synthesize import synthesize
    from tests.audit.replay import RecordingNoise, ReplayingNoise

    schema = Schema.parse(SMALL)
    native = {
        "pyarrow": lambda t: t,
        "pandas": lambda t: t.to_pandas(),
        "polars": lambda t: pytest.importorskip("polars").from_arrow(t),
    }[library]
    recorder = RecordingNoise(ExactNoise(RehearsalEntropy(3)))
    ask = {"schema": schema, "epsilon": "0.1", "delta": "1e-6", "seed": 1}
    one = synthesize(native(frame(200)), **ask, noise=recorder, ledger=tmp_path / "1.db")
    two = synthesize(
        native(frame(201)), **ask, noise=ReplayingNoise(recorder.transcript.entries), ledger=tmp_path / "2.db"
    )
    assert one.synthetic.equals(two.synthetic)
    assert one.synthetic.num_rows == max(0, round(one.model.total))


def codes_of(path_or_frame, schema):
    from populace.private.read.rows_to_codes import open_source, read_codes

    return read_codes(open_source(path_or_frame), schema)


def test_a_unit_keeps_its_first_rows_across_batches(tmp_path):
    import pyarrow.parquet as pq

    from populace.private.read.sources import BATCH_ROWS

    schema, n = Schema.parse(IDS), BATCH_ROWS
    who = ["x"] + [f"u{i}" for i in range(n - 1)] + ["x", "x"]
    table = pa.table({"who": who, "a": [1] * (n + 2), "b": [2] * (n + 2)})
    assert len(codes_of(table, schema)["a"]) == n + 1
    pq.write_table(table, tmp_path / "t.parquet")
    assert len(codes_of(tmp_path / "t.parquet", schema)["a"]) == n + 1


@pytest.mark.parametrize("blank", [None, "", "  "])
@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_rows_without_an_id_are_left_out(tmp_path, blank, kind):
    import pyarrow.parquet as pq

    table = pa.table({"who": pa.array([blank, "x", blank, blank], pa.string()), "a": [1] * 4, "b": [2] * 4})
    if kind == "parquet":
        pq.write_table(table, tmp_path / "t.parquet")
    assert len(codes_of(table if kind == "frame" else tmp_path / "t.parquet", Schema.parse(IDS))["a"]) == 1


def test_numbers_as_ids_may_be_missing():
    table = pa.table({"who": pa.array([None, 7, None, None], pa.int64()), "a": [1] * 4, "b": [2] * 4})
    assert len(codes_of(table, Schema.parse(IDS))["a"]) == 1


def test_a_run_says_nothing_and_refuses_nothing_by_its_rows(tmp_path, capfd, caplog, recwarn):
    from populace.api.synthesize import synthesize

    schema = Schema.parse("[table]\nmax_rows = 10\n" + SMALL)
    caplog.set_level(0)
    said = set()
    for rows in (0, 1, 10, 11):
        ledger = tmp_path / f"{rows}.db"
        synthesize(frame(rows), schema=schema, epsilon="1", delta="1e-6", ledger=ledger, rows=5)
        out = capfd.readouterr()
        said.add((out.out, out.err.replace(str(ledger), "LEDGER")))
    # What is asked, by the schema alone, and the account that is charged: nothing else.
    asked = "to be measured: 2 columns, and of 1 pair what is worth its noise (method adaptive)\n"
    assert said == {("", f"{asked}charging new account 'table': epsilon 1, delta 1e-6 (new ledger LEDGER)\n")}
    assert not [r for r in caplog.records if r.name.split(".")[0] == "populace"]
    assert not recwarn.list


def test_an_account_without_a_name_has_the_stem_of_the_file():
    from populace.api.request import default_dataset

    assert default_dataset("/secret/folder/people.csv") == "people"


def test_empty_and_missing_ids_together_are_left_out():
    table = pa.table({"who": pa.array([None, "", "x", None, None], pa.string()), "a": [1] * 5, "b": [2] * 5})
    assert len(codes_of(table, Schema.parse(IDS))["a"]) == 1


@pytest.mark.parametrize("zero", [0, "0", 0.0, Fraction(0)])
def test_delta_zero_means_zero_all_the_way(tmp_path, zero):
    from populace.api.measure import measure
    from populace.privacy.accounting.privacy_loss import Currency

    record = measure(
        frame(3), schema=Schema.parse(SMALL), epsilon="1", delta=zero, ledger=tmp_path / "l.db"
    ).record
    assert record.delta == 0
    assert record.currency is Currency.PURE


def test_what_a_table_prints_does_not_change_when_it_is_read(tmp_path):
    schema = Schema.parse(SMALL)
    tables = [PrivateTable.of(frame(rows), schema=schema) for rows in (0, 7, 8)]
    before = {repr(table) for table in tables}
    for table in tables:
        table.engine()
    assert {repr(table) for table in tables} == before
    assert len(before) == 1
