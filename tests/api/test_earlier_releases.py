"""Tables of earlier releases of one account: used at no cost, and refused unless they are the ledger's."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.api.publish import publish_measurements
from populace.api.request import RunRequest
from populace.api.stage_folders import load_measurements
from populace.core.errors import PopulaceError, ReleaseError, UsageError
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.noise_source import ExactNoise
from populace.release.manifest import MANIFEST_FILE, digest_file
from populace.release.verify.verify_measurements import check_earlier

SIZES = {"a": 2, "b": 3}


def people(rows=600):
    first = np.arange(rows) % 2
    return pa.table({"a": first, "b": (first + np.arange(rows) // 300) % 3})


def options(schema=None, **changes):
    given = {"schema": schema or pp.Schema.from_sizes(SIZES), "epsilon": 1, "delta": "1e-6"}
    return {**given, "dataset": "people", "ledger": "ledger.db", **changes}


@pytest.fixture(autouse=True)
def account(tmp_path, monkeypatch):
    """An account with room for several runs, and one release of it."""
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open("ledger.db")
    ledger.open_account("people", epsilon=9, delta="1e-4")
    pp.synthesize(people(), **options()).save("first", report=False)
    return ledger


def refused(words, account, **changes):
    """Ask for a release with an earlier one, and see it refused before anything is taken from the account."""
    before = account.head()
    given = {"earlier": ["first"], **changes}
    with pytest.raises(PopulaceError, match=words) as failure:
        pp.synthesize(given.pop("data", people()), **options(**given))
    assert failure.value.hint
    assert account.head() == before


def test_tables_are_pooled_at_no_cost_and_the_folder_verifies(account):
    release = pp.synthesize(people(), **options(earlier=["first"]))
    release.save("second")
    assert account.account("people").taken_epsilon == 2
    own, earlier = release.measurements.runs
    first = pp.Measurements.load("first")
    assert [item.counts.tolist() for item in earlier.items] == [item.counts.tolist() for item in first.items]
    assert (earlier.record, own.record.run) == (first.record, release.measurements.record.run)
    checked = pp.verify("second", ledger="ledger.db")
    assert checked.verified
    assert "ε = 2, δ = 2e-6 follow from all records, of which this run ε = 1, δ = 1e-6" in str(checked)
    shown = Path("second/report.html").read_text(encoding="utf-8")
    assert "<dd>ε = 2, of which this run 1</dd>" in shown
    assert "<dd>δ = 2e-6, of which this run 1e-6</dd>" in shown
    loaded = pp.Release.load("second")
    assert loaded.measurements.digest == release.measurements.digest
    assert loaded.statement == release.statement


def test_pooling_lowers_the_variance_of_every_interval(account):
    release = pp.synthesize(people(), **options(earlier=["first"]))
    own, first = (pp.intervals(each).of("a").error for each in release.measurements.runs)
    both = release.intervals.of("a").error
    assert (both < 0.9 * own).all()
    assert (both < 0.9 * first).all()


def test_a_table_of_two_runs_has_one_estimate_in_the_folder(account):
    release = pp.synthesize(people(), **options(earlier=["first"]))
    release.save("second", report=False)
    cells = pq.read_table("second/measurements.parquet").to_pandas()
    numbers = cells.groupby(["marginal", "cell"])[["estimate", "low", "high"]].nunique()
    assert (numbers == 1).all(axis=None)
    assert len(cells) > len(numbers)


def test_the_statement_is_for_all_that_the_folder_holds(account):
    release = pp.synthesize(people(), **options(earlier=["first"]))
    release.save("second", report=False)
    stated = release.statement
    assert (stated["epsilon"], stated["together"]["epsilon"], stated["together"]["delta"]) == (1, "2", "2e-6")
    assert stated["found"] > pp.Release.load("first").statement["found"]
    # Amounts that follow from earlier releases are covered by the account's budget alone.
    assert any("the guarantee is the budget of the account" in line for line in stated["not_covered"])
    (old,) = stated["superseded"]
    assert old["release"] == digest_file(_manifest("first"))
    assert {"a", "b"} <= set(old["tables"])
    page = Path("second/statement.md").read_text(encoding="utf-8")
    assert "(ε = 2, δ = 2e-6)" in page
    assert "| privacy loss ε | 2, of which this run 1 |" in page
    assert "| failure probability δ | 2e-6, of which this run 1e-6 |" in page
    assert "ε = 2, δ = 2e-6 for one row" in repr(release)
    assert "2, of which this run 1" in release._repr_html_()
    assert old["release"] in page
    manifest = json.loads(_manifest("second").read_text(encoding="utf-8"))
    assert manifest["parents"]["measurements"]["earlier 1"] == old["release"]
    assert "--with RELEASE" in manifest["command"]


def _manifest(folder):
    return Path(folder) / MANIFEST_FILE


def test_a_release_brings_those_that_it_was_made_with(account):
    pp.synthesize(people(), **options(earlier=["first"])).save("second", report=False)
    third = pp.synthesize(people(), **options(earlier="second"))
    third.save("third", report=False)
    assert len(third.measurements.runs) == 3
    assert pp.verify("third", ledger="ledger.db").verified
    refused("would count twice", account, earlier=["first", "second"])


def test_measurements_and_fit_take_earlier_releases(account):
    publish_measurements(RunRequest.of(people(), **options()), Path("measured"))
    pp.synthesize(people(), **options(earlier=["measured"])).save("second", report=False)
    measured = load_measurements(Path("measured"))
    pooled = pp.pool_releases(measured, earlier=["first"], ledger="ledger.db")
    pp.generate(pp.fit(pooled), ledger="ledger.db").save("third", report=False)
    assert pp.verify("third", ledger="ledger.db").verified
    with pytest.raises(UsageError, match="would count twice"):
        pp.pool_releases(measured, earlier=["second"], ledger="ledger.db")
    # A folder of measurements that is booked is no release: one that is not booked is still told apart.
    assert not pp.verify("third", ledger="ledger.db").unknown


def test_measurements_whose_record_is_not_the_ledgers_are_not_pooled(account):
    measured = pp.measure(people(), **options())
    for changes in ({"epsilon": measured.record.epsilon / 2}, {"spends": measured.record.spends[1:]}):
        forged = replace(measured, record=replace(measured.record, **changes))
        with pytest.raises(ReleaseError, match="another record of the run"):
            pp.pool_releases(forged, earlier=["first"], ledger="ledger.db")


def test_a_run_given_twice_is_refused(account):
    refused("would count twice", account, earlier=["first", "first"])


def test_another_ledger_is_refused(account):
    Ledger.open("other.db").open_account("people", epsilon=9, delta="1e-4")
    refused("another ledger", account, ledger="other.db")
    refused("no ledger", account, ledger="none.db")


def test_another_account_is_refused(account):
    account.open_account("others", epsilon=9, delta="1e-4")
    refused("by the account 'people', this run by 'others'", account, dataset="others")


def test_another_schema_is_refused(account):
    refused("another schema", account, schema=pp.Schema.from_sizes({"a": 2, "b": 4}))


@pytest.mark.parametrize(
    "table",
    ['neighbours = "replace-one"', 'unit = "person"', 'id = "who"\nrows_per_unit = 2'],
    ids=["relation", "unit", "rows per unit"],
)
def test_another_relation_or_unit_is_refused(account, table):
    text = pp.Schema.from_sizes(SIZES).to_toml()
    columns = text[text.index("[columns") :]
    refused("first protects row units", account, schema=pp.Schema.parse(f"[table]\n{table}\n{columns}"))


def test_a_rehearsal_is_refused(account):
    noise = ExactNoise(RehearsalEntropy(1))
    pp.synthesize(people(), noise=noise, **options()).save("rehearsed", report=False)
    refused("is a rehearsal", account, earlier=["rehearsed"])


def test_tampered_counts_are_refused(account):
    shutil.copytree("first", "forged")
    cells = pq.read_table("forged/measurements.parquet")
    counts = pa.array(cells["count"].to_numpy() + 1)
    at = cells.column_names.index("count")
    pq.write_table(cells.set_column(at, "count", counts), "forged/measurements.parquet", compression="zstd")
    refused("do not belong together", account, earlier=["forged"])
    # Sealed again by whoever altered them, they are still not the ledger's.
    manifest = json.loads(_manifest("forged").read_text(encoding="utf-8"))
    manifest["files"]["measurements.parquet"] = digest_file(
        _manifest("forged").parent / "measurements.parquet"
    )
    _manifest("forged").write_text(json.dumps(manifest, ensure_ascii=False), encoding="utf-8")
    refused("none of the folders", account, earlier=["forged"])
    _manifest("forged").unlink()
    refused("none of the folders", account, earlier=["forged"])


def test_a_forged_earlier_record_fails_verification(account):
    release = pp.synthesize(people(), **options(earlier=["first"]))
    (run,) = release.measurements.earlier
    check_earlier(release.measurements)
    for changes, words in (
        ({"rehearsal": True}, "rehearsal"),
        ({"dataset": "others"}, "another account"),
        ({"spends": run.record.spends[:1]}, "not booked"),
        ({"finished": False}, "not closed"),
        ({"run": release.measurements.record.run}, "twice"),
    ):
        forged = replace(run, record=replace(run.record, **changes))
        with pytest.raises(ReleaseError, match=words):
            check_earlier(replace(release.measurements, earlier=(forged,)))


def test_a_booked_folder_with_a_forged_earlier_record_fails(account):
    """Its files are the ledger's, and its earlier record, of which the sum in the statement is made, is not."""
    release = pp.synthesize(people(), **options(earlier=["first"]))
    (run,) = release.measurements.earlier
    forged = replace(run, record=replace(run.record, method="mst"))
    pooled = replace(release.measurements, earlier=(forged,))
    pp.generate(pp.fit(pooled), ledger="ledger.db").save("forged", report=False)
    checks = pp.verify("forged", ledger="ledger.db")
    assert not checks.verified
    assert "another record of the run" in str(checks)


def test_methods_of_their_own_tables_and_whole_rows_are_refused(account):
    refused("has a model of its own tables", account, method="histogram")
    schema = replace(pp.Schema.from_sizes(SIZES), max_rows=1000)
    ranged = options(schema=schema, method="histogram-exponential")
    pp.synthesize(people(), **ranged).save("range", report=False)
    refused("held within a range", account, schema=schema, earlier=["range"])
    pp.synthesize(people(), **options(method="stability")).save("rows", report=False)
    refused("whole rows", account, earlier=["rows"])


def test_a_folder_without_measurements_is_refused(account, tmp_path):
    refused("there is no folder", account, earlier=["nowhere"])
    (tmp_path / "empty").mkdir()
    refused("holds no measurements", account, earlier=["empty"])


def test_learnt_domains_are_those_of_the_earlier_release(account):
    schema = pp.Schema.parse('[columns.a]\nkind = "categorical"\nvalues = "learn"\nother = "?"\n')
    table = pa.table({"a": ["x", "y"] * 300})
    asked = options(schema=schema, dataset="learnt")
    account.open_account("learnt", epsilon=9, delta="1e-4")
    first = pp.synthesize(table, **asked)
    first.save("learnt-first", report=False)
    second = pp.synthesize(table, **asked, earlier=["learnt-first"])
    second.save("learnt-second", report=False)
    assert second.measurements.schema.digest == first.measurements.schema.digest
    assert not [each for each in second.measurements.record.spends if each.spend.verb == "discover"]
    assert pp.verify("learnt-second", ledger="ledger.db").verified
    apart = pp.measure(table, **asked)
    if apart.schema.digest == first.measurements.schema.digest:
        assert pp.pool_releases(apart, earlier=["learnt-first"]).earlier
