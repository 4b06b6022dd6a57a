"""Exact totals in the ledger: one relation and one partition for an account, and nothing that was not declared."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from populace.core.errors import LedgerError, OverBudget, SchemaError, UsageError
from populace.privacy.ledger import ledger_file, log_replay
from populace.privacy.ledger.exact_totals import ExactTotals, PublishedTotals
from populace.privacy.ledger.hash_chain import Event, EventKind
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import RunRecord
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours, PrivacyUnit
from tests.helpers.geographies import GEOGRAPHY, OTHER_GEOGRAPHY, make_schema, reserve
from tests.helpers.ledgers import append_raw, forge, half_of, rows
from tests.helpers.privacy_units import make_unit

EXACT = make_schema()
PLAIN = make_schema(invariants=())
REPLACED = make_schema(invariants=(), unit=PrivacyUnit(name="person", neighbours=Neighbours.REPLACE_ONE))


@pytest.fixture
def ledger(tmp_path):
    return Ledger.open(tmp_path / "ledger.db")


def open_account(ledger, neighbours):
    ledger.open_account("counted", epsilon="9", delta="1e-3", neighbours=neighbours)


class TestUnits:
    @pytest.mark.parametrize(
        "given",
        [
            {"neighbours": Neighbours.REPLACE_WITHIN},
            {"neighbours": Neighbours.REPLACE_WITHIN, "within": ""},
            {"neighbours": Neighbours.ADD_REMOVE, "within": "county"},
            {"neighbours": Neighbours.REPLACE_ONE, "within": "all"},
            {"neighbours": Neighbours.ADD_REMOVE, "within": ""},
        ],
        ids=str,
    )
    def test_the_relation_and_the_level_come_together_or_not_at_all(self, given):
        with pytest.raises(SchemaError, match=r"hint: .*\[\[invariants\]\]"):
            PrivacyUnit(**given)

    def test_a_unit_of_several_rows_could_lie_in_several_counties(self):
        with pytest.raises(SchemaError, match="several units of 'county'"):
            PrivacyUnit(rows=2, id="p", neighbours=Neighbours.REPLACE_WITHIN, within="county")

    def test_prices_are_those_of_a_replacement(self):
        unit, replaced = make_unit(Neighbours.REPLACE_WITHIN), make_unit(Neighbours.REPLACE_ONE)
        for each in (unit, replaced):
            assert (each.marginal_l1, each.marginal_l2_squared, each.score_shift) == (2, 2, 2)


class TestDeclarations:
    def test_levels_of_one_name_but_other_units_are_other_totals(self):
        one, other = (ExactTotals.of(make_schema(geography=g)) for g in (GEOGRAPHY, OTHER_GEOGRAPHY))
        assert one.levels == other.levels == ("all", "county")
        # Both have the counties A and B, in this order: which tracts they hold does not say in which county a row is.
        assert one.partition == other.partition
        finer = [
            ExactTotals.of(make_schema(geography=g, invariants=("tract",)))
            for g in (GEOGRAPHY, OTHER_GEOGRAPHY)
        ]
        assert len({each.partition for each in (one, *finer)}) == 3

    def test_the_whole_table_needs_no_geography(self):
        unit = make_unit(Neighbours.REPLACE_WITHIN)
        bare = Schema(columns=Schema.from_sizes({"sex": 2}).columns, unit=unit, invariants=("all",))
        assert ExactTotals.of(bare) == ExactTotals.of(make_schema(invariants=("all",)))
        assert ExactTotals.of(PLAIN) is None

    @pytest.mark.parametrize("invariants", [("county", "all"), ("county", "county"), ("nowhere",)], ids=str)
    def test_levels_come_widest_first_and_exist(self, invariants):
        with pytest.raises(SchemaError):
            ExactTotals.of(make_schema(invariants=invariants))

    def test_the_relation_is_that_of_the_finest_level(self):
        unit = make_unit(Neighbours.REPLACE_WITHIN, within="all", name="person")
        with pytest.raises(SchemaError, match="the relation is within 'all'"):
            ExactTotals.of(make_schema(unit=unit))


class TestOneRelation:
    """Proof: docs/proofs/invariants.md."""

    @pytest.mark.parametrize("first", [PLAIN, REPLACED], ids=["add", "replace"])
    def test_exact_totals_do_not_join_other_promises(self, ledger, first):
        open_account(ledger, first.unit.neighbours)
        reserve(ledger, first)
        with pytest.raises(UsageError, match="this run for replace-within-invariants") as refusal:
            reserve(ledger, EXACT)
        assert "[[invariants]] out of the schema" in refusal.value.hint
        account = Ledger.existing(ledger.path).account("counted")
        assert (len(account.runs), account.left_epsilon) == (1, 8), "nothing was taken"

    @pytest.mark.parametrize("second", [PLAIN, REPLACED], ids=["add", "replace"])
    def test_other_promises_do_not_join_exact_totals(self, ledger, second):
        open_account(ledger, Neighbours.REPLACE_WITHIN)
        reserve(ledger, EXACT)
        with pytest.raises(UsageError, match="is for replace-within-invariants neighbours") as refusal:
            reserve(ledger, second)
        assert "declare the same [[invariants]]" in refusal.value.hint
        assert Ledger.existing(ledger.path).account("counted").left_epsilon == 8

    def test_the_first_run_fixes_the_level_and_its_units(self, ledger):
        open_account(ledger, Neighbours.REPLACE_WITHIN)
        assert ledger.account("counted").within is None
        reserve(ledger, EXACT)
        reserve(ledger, make_schema(invariants=("county",)))
        account = Ledger.existing(ledger.path).account("counted")
        assert (account.within, account.partition) == ("county", ExactTotals.of(EXACT).partition)
        for other in (("all",), ("all", "county", "tract")):
            with pytest.raises(UsageError, match="is for exact totals by 'county'"):
                reserve(ledger, make_schema(invariants=other))
        moved = ExactTotals(("all", "county"), "0" * 64)
        with pytest.raises(UsageError, match="units of 'county' are not those of earlier runs"):
            reserve(ledger, EXACT, exact=moved)
        assert Ledger.existing(ledger.path).account("counted").left_epsilon == 7

    @pytest.mark.parametrize(
        ("schema", "exact"),
        [
            (EXACT, None),
            (EXACT, ExactTotals(("all",), "")),
            (EXACT, ExactTotals((), "")),
            (EXACT, ExactTotals(("county", "all"), "")),
            (EXACT, ExactTotals(("county", "county"), "")),
            (PLAIN, ExactTotals(("all",), "")),
            (PLAIN, ExactTotals((), "")),
        ],
        ids=str,
    )
    def test_a_run_declares_just_the_totals_that_its_neighbours_agree_on(self, ledger, schema, exact):
        with pytest.raises(UsageError, match="hint:"):
            reserve(ledger, schema, exact=exact)
        assert ledger.accounts() == ()


class TestEvents:
    @pytest.fixture
    def run(self, ledger):
        return reserve(ledger, EXACT)

    def test_totals_are_booked_at_no_cost_and_read_again(self, ledger, run):
        run.book_totals("county", what="county")
        record = Ledger.existing(ledger.path).record(run.id)
        assert record == run.record()
        assert record.invariants == (PublishedTotals("county", "county"),)
        assert record.used == 0
        assert record.digest == rows(ledger.path)[-1].hash
        assert rows(ledger.path)[-1].kind == "invariant"
        assert json.loads(rows(ledger.path)[-1].body) == {"level": "county", "what": "county"}

    def test_others_are_refused(self, ledger, run):
        for level in ("tract", "", "County"):
            with pytest.raises(LedgerError, match="it declared all, county"):
                run.book_totals(level, what="x")
        assert run.record().invariants == ()

    @pytest.mark.parametrize("schema", [PLAIN, REPLACED], ids=["add", "replace"])
    def test_without_the_relation_there_are_none(self, ledger, schema):
        other = ledger.reserve(
            "others",
            epsilon=1,
            delta=0,
            unit=schema.unit,
            method="m",
            schema_digest="",
            rehearsal=True,
        )
        for level in ("all", "county"):
            with pytest.raises(LedgerError, match="it declared none"):
                other.book_totals(level, what="x")

    def test_a_run_that_is_finished_or_void_publishes_none(self, ledger, run):
        run.finish()
        with pytest.raises(UsageError, match="is finished"):
            run.book_totals("all", what="x")
        ledger.grant("counted", epsilon=1, delta="1e-6")
        second = reserve(ledger, EXACT)
        ledger.declare_nonprivate("counted", reason="a table was sent by mail")
        with pytest.raises(OverBudget, match="void"):
            second.book_totals("all", what="x")

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ({"level": "tract", "what": "x"}, "breaks the rules"),
            ({"level": "county"}, "cannot be read"),
            ({"level": ["county"], "what": "x"}, "cannot be read"),
            ({"level": "county", "what": 1}, "cannot be read"),
            ({"level": "county", "what": "x", "variance": "0"}, "breaks the rules"),
        ],
        ids=str,
    )
    def test_rows_that_are_no_totals_of_their_run_do_not_verify(self, ledger, run, body, message):
        append_raw(ledger.path, Event(kind=EventKind.INVARIANT, dataset="counted", run=run.id, body=body))
        with pytest.raises(LedgerError, match=message):
            Ledger.existing(ledger.path)

    def test_an_event_of_another_account_or_run_does_not_verify(self, ledger, run):
        for changes in ({"dataset": "others"}, {"run": "nobody"}, {"run": None}):
            told = {"dataset": "counted", "run": run.id, "body": {"level": "all", "what": "x"}} | changes
            copy = ledger.path.with_name(f"{len(str(changes))}.db")
            copy.write_bytes(ledger.path.read_bytes())
            append_raw(copy, Event(kind=EventKind.INVARIANT, **told))
            with pytest.raises(LedgerError, match="breaks the rules"):
                Ledger.existing(copy)

    @pytest.mark.parametrize(
        "change",
        [
            {"neighbours": "add-remove"},
            {"neighbours": "add-remove", "within": None},
            {"neighbours": "add-remove", "within": None, "exact": None},
            {"within": "all"},
            {"within": None},
            {"exact": None},
            {"exact": {"levels": ["county", "all"], "partition": ""}},
            {"exact": {"levels": [], "partition": ""}},
            {"exact": {"levels": "county", "partition": ""}},
            {"exact": {"levels": ["county"], "partition": "", "x": 1}},
            {"rows_per_unit": 2, "id": "p"},
        ],
        ids=str,
    )
    def test_a_reservation_that_was_altered_is_refused_with_all_seals_right(self, ledger, run, change):
        """Rows: 1 open, 2 reserve, 3 totals. An account's own relation is altered alike where that hides it best."""
        run.book_totals("all", what="number of rows")
        forge(ledger.path, row=2, **change)
        if "neighbours" in change:
            forge(ledger.path, row=1, neighbours=change["neighbours"])
        with pytest.raises(LedgerError, match=r"row [23] (breaks the rules|cannot be read)"):
            Ledger.existing(ledger.path)

    def test_a_second_run_with_other_units_is_refused_with_all_seals_right(self, ledger):
        open_account(ledger, Neighbours.REPLACE_WITHIN)
        for _ in range(2):
            reserve(ledger, EXACT)
        forge(ledger.path, row=3, exact=ExactTotals(("all", "county"), "0" * 64).to_json())
        with pytest.raises(LedgerError, match="row 3 breaks the rules"):
            Ledger.existing(ledger.path)


class TestCheckpoints:
    def test_totals_before_a_checkpoint_are_recalled_and_the_relation_is_kept(self, ledger):
        open_account(ledger, Neighbours.REPLACE_WITHIN)
        run = reserve(ledger, EXACT)
        run.book_totals("county", what="county")
        run.charge(half_of(run))
        for _ in range(log_replay.CHECKPOINT_EVERY):
            ledger.grant("counted", epsilon=1, delta=0)
        record = run.record()
        again = Ledger.existing(ledger.path)
        assert again._books.base > 3, "it began at a checkpoint"
        assert again.account("counted").within == "county"
        assert again.record(run.id) == record
        assert [each.level for each in record.invariants] == ["county"]
        with pytest.raises(UsageError, match="by 'county'"):
            reserve(again, make_schema(invariants=("all",)))
        assert Ledger.existing(ledger.path).verify() == 4 + log_replay.CHECKPOINT_EVERY

    def test_accounts_without_exact_totals_are_written_as_before(self, ledger):
        open_account(ledger, Neighbours.ADD_REMOVE)
        run = reserve(ledger, PLAIN)
        told = ledger.account("counted").to_json()
        assert not {"within", "partition"} & set(told)
        assert type(ledger.account("counted")).from_json(told) == ledger.account("counted")
        assert not {"within", "exact", "invariants"} & set(run.record().to_json())


class TestRecords:
    @pytest.fixture
    def record(self, ledger):
        run = reserve(ledger, EXACT)
        run.book_totals("county", what="county")
        run.charge(half_of(run))
        run.finish()
        return run.record()

    def test_they_survive_json(self, record):
        told = json.loads(json.dumps(record.to_json()))
        assert RunRecord.from_json(told) == record
        assert told["invariants"] == [{"level": "county", "what": "county"}]
        assert (told["within"], told["exact"]["levels"]) == ("county", ["all", "county"])
        record.check()

    @pytest.mark.parametrize(
        "change",
        [
            lambda record: replace(record, unit=PrivacyUnit(name="person")),
            lambda record: replace(record, unit=PrivacyUnit(name="person"), exact=None),
            lambda record: replace(record, unit=REPLACED.unit, exact=None),
            lambda record: replace(record, exact=None),
            lambda record: replace(record, exact=ExactTotals(("all",), "")),
            lambda record: replace(record, invariants=(PublishedTotals("tract", "x"),)),
            lambda record: replace(record, unit=replace(record.unit, within="all")),
            lambda record: replace(
                record, spends=(replace(record.spends[0], price=record.spends[0].price / 2),)
            ),
            lambda record: replace(
                record,
                spends=(
                    replace(record.spends[0], spend=replace(record.spends[0].spend, l1=1, l2_squared=1)),
                ),
            ),
        ],
        ids=[
            "relation",
            "relation and totals",
            "replace-one",
            "no totals",
            "wider",
            "finer",
            "other level",
            "half price",
            "one cell",
        ],
    )
    def test_forged_records_are_refused(self, record, change):
        with pytest.raises(LedgerError):
            change(record).check()

    @pytest.mark.parametrize(
        "change",
        [
            {"within": None},
            {"within": 7, "neighbours": "replace-one"},
            {"invariants": None},
            {"invariants": [{"level": "county"}]},
            {"invariants": ["county"]},
            {"exact": "county"},
            {"neighbours": "replace-one"},
        ],
        ids=str,
    )
    def test_records_that_cannot_be_are_refused(self, record, change):
        with pytest.raises(LedgerError, match="not a complete record"):
            RunRecord.from_json(record.to_json() | change)


def test_a_writer_that_dies_leaves_totals_or_none(ledger, monkeypatch):
    """Half a transaction is none: the event is there with its seal, or the ledger is as before."""
    run = reserve(ledger, EXACT)
    before = rows(ledger.path)
    real = ledger_file.append

    def dies(connection, row):
        real(connection, row)
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger_file, "append", dies)
    with pytest.raises(KeyboardInterrupt):
        run.book_totals("county", what="county")
    monkeypatch.undo()
    assert rows(ledger.path) == before
    assert Ledger.existing(ledger.path).record(run.id).invariants == ()
    run.book_totals("county", what="county")
    assert len(rows(ledger.path)) == len(before) + 1


def test_counted_and_uncounted_units_do_not_share_an_account(ledger):
    """One person more changes n by one: a run that releases n as a column would move by more than it paid for."""
    counted = Schema.parse(
        '[table]\nunit = "person"\nfrequency = "n"\n[columns.a]\nkind = "integer"\nmin = 0\nmax = 1'
    )
    plain = Schema.parse('[table]\nunit = "person"\n[columns.a]\nkind = "integer"\nmin = 0\nmax = 1')
    open_account(ledger, Neighbours.ADD_REMOVE)
    reserve(ledger, counted)
    reserve(ledger, counted)
    with pytest.raises(UsageError, match="one person is counted by 'n', in this run one row") as refusal:
        reserve(ledger, plain)
    assert "frequency" in refusal.value.hint
    assert ledger.account("counted").frequency == "n"


def test_the_same_units_counted_in_another_file_are_another_partition(tmp_path):
    """A household without persons is in the totals of linked tables, and not in those of the file of persons."""
    (tmp_path / "units.csv").write_text("region\nA\nB\n")
    codes = 'kind = "categorical"\nvalues = ["f", "m"]\nother = "f"\n'
    table = '[table]\nunit = "household"\n'
    levels = '[geography]\nlevels = ["region"]\nunits = "units.csv"\n[[invariants]]\nby = ["region"]\n'
    single = f'{table}id = "hid"\nrows_per_unit = 1\n{levels}'
    household = f'[tables.household]\nkey = "hid"\n[tables.household.columns.tenure]\n{codes}'
    person = (
        f'[tables.person]\nof = "household"\nkey = "hid"\nmax_rows = 2\n[tables.person.columns.sex]\n{codes}'
    )
    found = set()
    for text in (
        table + levels + household + person,
        f"{single}[columns.sex]\n{codes}",
        f"{single}[columns.tenure]\n{codes}",
    ):
        (tmp_path / "schema.toml").write_text(text)
        exact = ExactTotals.of(Schema.load(tmp_path / "schema.toml"))
        assert exact is not None
        found.add(exact.partition)
    assert len(found) == 3
