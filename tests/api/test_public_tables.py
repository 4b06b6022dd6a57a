"""Public tables: read, named, borrowed from as far as paid answers agree, and refused where they have no use."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import combinations

import narwhals
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from populace.api import measure as measure_api
from populace.api import synthesize as synthesize_api
from populace.core.errors import DataError, PopulaceError, UsageError
from populace.core.marginals import Domain, Marginal
from populace.core.progress import silent
from populace.inference.fit.fit_model import fit_model
from populace.inference.fit.public_prior import shrink_counts_to_public
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement, Measurements
from populace.measurements.public_marginals import PublicMarginals, PublicTable
from populace.methods.adaptive.adaptive import measure_adaptive
from populace.methods.workload import Workload
from populace.privacy.ledger.ledger import Ledger
from populace.private.public_table import read_public
from populace.release.verify.verify import verify
from populace.schema.schema import Schema
from tests.helpers.priced_oracle import PricedOracle

pytestmark = pytest.mark.sampled(6)

SIZES = {"a": 6, "b": 6, "c": 6, "d": 6}
SCHEMA = Schema.parse(
    '[table]\ndataset = "tiny"\nunit = "person"\nid = "who"\nrows_per_unit = 2\n\n'
    + "".join(f'[columns.{name}]\nkind = "integer"\nmin = 0\nmax = 5\n\n' for name in SIZES)
)


def people(rows, *, seed, tied=True):
    """Every column follows the first in most rows, or none does."""
    rng = np.random.default_rng(seed)
    first = np.minimum(rng.geometric(0.35, rows) - 1, 5)
    codes = {"a": first.astype(np.uint8)}
    for shift, name in enumerate("bcd", start=1):
        own = rng.integers(0, 6, rows)
        follows = (rng.random(rows) < 0.8) & tied
        codes[name] = np.where(follows, (first * 2 + shift) % 6, own).astype(np.uint8)
    return codes


def table(codes, name="p"):
    return PublicTable(name=name, digest="0" * 64, domain=Domain(SIZES), codes=codes)


def frame(codes):
    count = len(codes["a"])
    return pa.table(
        {"who": pa.array(range(count))} | {name: pa.array(c.astype(np.int64)) for name, c in codes.items()}
    )


def fitted(rows, public, *, epsilon, seed):
    """The mean distance of all pairs of the model from the rows, and the pairs that were borrowed."""
    oracle = PricedOracle(rows, sizes=SIZES, epsilon=epsilon, seed=seed, public=public)
    answers = measure_adaptive(oracle, workload=Workload.pairs(oracle.domain), progress=silent)
    items = [answer for answer in answers if isinstance(answer, Measurement)]
    lent = next((answer for answer in answers if isinstance(answer, PublicMarginals)), None)
    model = fit_model(items, space=ModelSpace(domain=oracle.domain), public=lent)
    count = len(rows["a"])
    far = [
        np.abs(model.marginal(pair) / model.total - oracle.count(Marginal(pair)) / count).sum()
        for pair in combinations(SIZES, 2)
    ]
    return float(np.mean(far)) / 2, sorted(c for c in (lent.tables if lent else ()) if len(c) == 2)


@pytest.mark.slow
def test_a_public_table_that_is_right_replaces_measurements_and_a_wrong_one_does_not_hurt():
    rows = people(1500, seed=1)
    errors = {
        name: np.mean([fitted(rows, public, epsilon="1", seed=seed)[0] for seed in range(4)])
        for name, public in {
            "none": None,
            "right": table(people(3000, seed=2)),
            "wrong": table(
                {name: (5 - codes).astype(np.uint8) for name, codes in people(3000, seed=2).items()}
            ),
        }.items()
    }
    assert errors["right"] < 0.6 * errors["none"]
    assert errors["wrong"] < 1.15 * errors["none"]


def test_the_look_decides_which_pairs_are_borrowed():
    rows = people(4000, seed=1)
    good, bad = people(4000, seed=2), people(4000, seed=2)
    bad["d"] = (5 - bad["d"]).astype(np.uint8)
    _, all_pairs = fitted(rows, table(good), epsilon="4", seed=0)
    _, some = fitted(rows, table(bad), epsilon="4", seed=0)
    assert all_pairs == sorted(combinations(SIZES, 2))
    assert some == sorted(combinations("abc", 2))


def test_a_column_is_drawn_towards_the_public_one_only_as_far_as_they_agree():
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.full(60, 0.5))
    truth = rng.multinomial(2000, shares)
    noisy = truth + rng.normal(0, 30, 60)
    near, left = shrink_counts_to_public(
        noisy, variance=900.0, public=rng.multinomial(2000, shares), total=2000.0
    )
    assert np.abs(near - truth).sum() < 0.5 * np.abs(noisy - truth).sum()
    assert (left < 900).all()
    far, _ = shrink_counts_to_public(
        noisy, variance=900.0, public=rng.multinomial(2000, shares[::-1]), total=2000.0
    )
    assert np.abs(far - truth).sum() < 1.1 * np.abs(noisy - truth).sum()


def test_runs_name_the_public_table_everywhere_and_keep_what_they_took(tmp_path):
    file = tmp_path / "last year.csv"
    pyarrow.csv.write_csv(frame(people(400, seed=5)).drop_columns(["who"]), file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    release = synthesize_api.synthesize(
        frame(people(500, seed=6)),
        schema=SCHEMA,
        epsilon=2,
        delta="1e-6",
        public=file,
        ledger=tmp_path / "l.db",
    )
    release.save(tmp_path / "out", report=False)
    statement = json.loads((tmp_path / "out" / "statement.json").read_text())
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert statement["public"] == {"name": "last year.csv", "digest": digest}
    (line,) = (line for line in statement["not_covered"] if "last year.csv" in line)
    pairs = [clique for clique in release.measurements.public.tables if len(clique) == 2]
    assert "Taken from it: counts of all" in line
    every = len(pairs) == len(list(combinations(SCHEMA.domain, 2)))
    assert f"all {len(pairs)} pairs" in line if every else all(" × ".join(pair) in line for pair in pairs[:5])
    assert not any("Of the private table only" in warning for warning in statement["warnings"])
    assert digest in (tmp_path / "out" / "statement.md").read_text()
    assert manifest["parents"]["measurements"]["public"] == digest
    assert "--public" in manifest["command"]
    assert str(tmp_path) not in (tmp_path / "out" / "manifest.json").read_text()
    assert verify(tmp_path / "out").passed
    saved = Measurements.load(tmp_path / "out")
    assert saved.digest == release.measurements.digest
    assert saved.public is not None
    (a, *_), (b, *_) = saved.public.tables.values(), release.measurements.public.tables.values()
    assert np.array_equal(a, b)
    with pytest.raises(PopulaceError):
        replace(saved, record=replace(saved.record, public=None))


@pytest.mark.parametrize("method", ["independent", "mst", "aim", "histogram"])
def test_methods_without_a_use_for_it_refuse_before_anything_is_spent(method, tmp_path):
    with pytest.raises(UsageError, match="no use for a public table"):
        measure_api.measure(
            frame(people(9, seed=1)),
            schema=SCHEMA,
            epsilon=1,
            delta="1e-6",
            method=method,
            public=frame(people(9, seed=2)),
            ledger=tmp_path / "l.db",
        )
    assert not (tmp_path / "l.db").exists()


def test_a_public_table_that_cannot_be_read_is_refused_before_anything_is_spent(tmp_path):
    rows = frame(people(9, seed=1))
    common = {"schema": SCHEMA, "epsilon": 1, "delta": "1e-6", "ledger": tmp_path / "l.db"}
    for public, message in ((rows.drop_columns(["b"]), "no column"), (rows[:0], "no rows")):
        with pytest.raises(DataError, match=message):
            measure_api.measure(rows, public=public, **common)
    with pytest.raises(DataError, match="no file"):
        measure_api.measure(rows, public=tmp_path / "gone.csv", **common)
    assert not (tmp_path / "l.db").exists()


def test_public_rows_need_no_id_and_all_of_them_count():
    rows = frame(people(50, seed=1))
    twice = pa.concat_tables([rows, rows, rows])
    found = read_public(twice, schema=SCHEMA)
    assert found.rows == 150
    assert read_public(twice.drop_columns(["who"]), schema=SCHEMA).digest == found.digest


def test_borrowed_tables_survive_their_file_and_forged_ones_are_refused():
    lent = PublicMarginals.of(table(people(30, seed=1)), [("a",), ("b", "d")])
    again = PublicMarginals.from_json(json.loads(json.dumps(lent.to_json())), domain=Domain(SIZES))
    assert list(again.tables) == [("a",), ("b", "d")]
    assert all(np.array_equal(again.tables[c], lent.tables[c]) for c in lent.tables)
    assert again.fits(Domain(SIZES))
    assert not again.fits(Domain({**SIZES, "a": 7}))
    assert not PublicMarginals({("a",): -lent.tables["a",]}).fits(Domain(SIZES))
    told = lent.to_json()
    told[0]["cells"] = "0 1 2 3 4 6"
    with pytest.raises(PopulaceError):
        PublicMarginals.from_json(told, domain=Domain(SIZES))
    told = [{**lent.to_json()[0], "shape": [10**12]}]
    with pytest.raises(PopulaceError, match="shape"):
        PublicMarginals.from_json(told, domain=Domain(SIZES))


ASKED = {"schema": SCHEMA, "epsilon": "0.001", "delta": "1e-9"}


def saved(path, *, seed):
    path.parent.mkdir(exist_ok=True)
    pyarrow.csv.write_csv(frame(people(40, seed=seed)), path)
    return path


@pytest.mark.parametrize("method", ["auto", "dpsyn"])
@pytest.mark.parametrize("way", ["path", "text", "detour", "symbolic link", "hard link"])
def test_the_private_file_is_not_taken_for_a_public_one(way, method, tmp_path):
    data = saved(tmp_path / "x.csv", seed=1)
    public = tmp_path / "other.csv"
    if way == "symbolic link":
        public.symlink_to(data)
    elif way == "hard link":
        public.hardlink_to(data)
    else:
        public = {"path": data, "text": str(data), "detour": tmp_path / "x" / ".." / "x.csv"}[way]
        (tmp_path / "x").mkdir()
    with pytest.raises(UsageError, match="is the private table"):
        measure_api.measure(data, public=public, method=method, ledger=tmp_path / "l.db", **ASKED)
    assert not (tmp_path / "l.db").exists()


@pytest.mark.parametrize("wrap", [False, True])
def test_the_private_frame_is_not_taken_for_a_public_one(wrap, tmp_path):
    rows = frame(people(40, seed=1))
    public = narwhals.from_native(rows) if wrap else rows
    with pytest.raises(UsageError, match="is the private table"):
        synthesize_api.synthesize(rows, public=public, ledger=tmp_path / "l.db", **ASKED)
    assert not (tmp_path / "l.db").exists()


def test_a_file_named_as_a_private_table_is_not_read_as_a_public_one(tmp_path, monkeypatch):
    old, new = saved(tmp_path / "old.csv", seed=1), saved(tmp_path / "new.csv", seed=2)
    asked = {**ASKED, "schema": replace(SCHEMA, dataset=None), "ledger": tmp_path / "l.db"}
    measure_api.measure(new, public=old, **asked)
    before = Ledger.existing(tmp_path / "l.db").verify()
    monkeypatch.setattr(measure_api, "read_public", None)
    # Swapped, and a table of another folder that has the name of this one.
    for data, public in ((old, new), (old, saved(tmp_path / "away" / "old.csv", seed=3))):
        with pytest.raises(UsageError, match=r"names a private table.*\n.*swapped.*copy"):
            measure_api.measure(data, public=public, **asked)
    assert Ledger.existing(tmp_path / "l.db").verify() == before


def test_frames_have_no_name_by_which_they_could_be_refused(tmp_path):
    asked = {**ASKED, "schema": replace(SCHEMA, dataset=None), "ledger": tmp_path / "l.db"}
    Ledger.open(tmp_path / "l.db").open_account("table", epsilon=1, delta="1e-6")
    measure_api.measure(frame(people(40, seed=1)), public=frame(people(40, seed=2)), **asked)


OPEN = """
[table]
dataset = "open"

[columns.pay]
kind = "numeric"
min = 0
max = 1000
bins = "learn"

[columns.job]
kind = "categorical"
values = ["nurse", "baker, or cook"]
"""


@pytest.mark.slow
def test_anybody_can_recompute_the_digest_of_a_frame(tmp_path):
    """It is that of a CSV file, whatever the schema learns meanwhile."""
    pay = [1.5, 20.0, None, 999.0] * 20
    job = pa.array(["nurse", 'a "cook"', "baker, or cook", None] * 20).dictionary_encode()
    public = pa.table({"id": range(80), "job": job, "pay": pay})
    found = measure_api.measure(
        pa.table({"pay": [3.0] * 50, "job": ["nurse"] * 50}),
        schema=Schema.parse(OPEN),
        epsilon=1,
        delta="1e-6",
        public=public,
        ledger=tmp_path / "l.db",
    ).record.public
    text = "\n".join(
        ['"pay","job"', *['"1.5","nurse"', '"20","a ""cook"""', ',"baker, or cook"', '"999",'] * 20, ""]
    )
    assert found.digest == hashlib.sha256(text.encode()).hexdigest()
    (tmp_path / "same.csv").write_text(text)
    assert read_public(tmp_path / "same.csv", schema=Schema.parse(OPEN)).digest == found.digest
