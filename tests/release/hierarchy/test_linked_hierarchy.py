"""A release of linked tables in a geography: both files agree with both tables in every unit of every level."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.cli.main import main
from populace.core.errors import PopulaceError, UsageError
from populace.release.bundle import Release
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.hierarchy.unit_files import check_unit_tables
from populace.release.report.hierarchy.member_section import tell_members
from populace.release.verify.verify import verify
from tests.helpers.linked_files import Tables, place_frames

SCHEMA = """
[table]
dataset = "homes"
unit = "household"
[geography]
levels = ["county", "tract"]
units = ["A|1", "A|2", "B|1"]
[[invariants]]
by = ["county"]
[tables.household]
key = "home"
[tables.household.columns.tenure]
kind = "categorical"
values = ["owned", "rented"]
other = "rented"
[tables.person]
of = "household"
key = "lives_in"
max_rows = 3
size = "number"
householder = "relationship == 'head'"
order = ["age desc"]
[tables.person.columns.relationship]
kind = "categorical"
values = ["head", "spouse", "child"]
other = "child"
[tables.person.columns.age]
kind = "integer"
edges = [0, 15, 30, 60]
other = "0"
[tables.person.columns.work]
kind = "categorical"
values = ["yes", "no"]
other = "no"
universe = "age >= 15"
outside = "N"
[[zeros]]
when = "relationship == 'head' and age < 15"
"""
TRACTS = (("A", "1"), ("A", "2"), ("B", "1"))
LEVELS = {"all": 0, "county": 1, "tract": 2}


def invent_homes(count: int = 120) -> tuple[Tables, dict[str | None, tuple[str, str]]]:
    """Homes of one to four persons, more of them large in county B, and their tracts."""
    rng = np.random.default_rng(0)
    homes, persons, tracts = [], [], {}
    for number in range(count):
        key = f"h{number}"
        tracts[key] = TRACTS[rng.integers(3)]
        homes.append((key, "owned" if rng.random() < 0.6 else "rented"))
        size = int(rng.integers(2, 5)) if tracts[key][0] == "B" else int(rng.integers(1, 3))
        for place in range(size):
            role, age = ("head", 40) if place == 0 else ("spouse", 35) if place == 1 else ("child", 7)
            persons.append((key, role, age, "fm"[rng.integers(2)], "yes" if age >= 15 else "N"))
    return (homes, persons), tracts


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Release, Path]:
    place = tmp_path_factory.mktemp("homes")
    tables, tracts = invent_homes()
    release = pp.synthesize(
        place_frames(tables, tracts=tracts),
        schema=pp.Schema.parse(SCHEMA),
        epsilon=8,
        delta="1e-6",
        ledger=place / "ledger.db",
    )
    release.save(place / "out", format="csv", report=False)
    return release, place / "out"


def read_files(folder: Path) -> tuple[list[dict], list[dict]]:
    text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(["county", "tract"], pa.string()))
    homes, persons = (
        pyarrow.csv.read_csv(folder / f"synthetic-{name}.csv", convert_options=text).to_pylist()
        for name in ("household", "person")
    )
    return homes, persons


def test_both_files_tabulate_to_the_published_tables(released: tuple[Release, Path]) -> None:
    """By hand, from the files alone."""
    homes, persons = read_files(released[1])
    tract_of = {home["home"]: (home["county"], home["tract"]) for home in homes}
    published: dict[str, Counter] = {"household": Counter(), "person": Counter()}
    for row in pq.read_table(released[1] / "tables.parquet").to_pylist():
        own = ("tenure", "number") if row["table"] == "household" else ("relationship", "age", "work")
        assert all(row[name] is not None for name in own)
        key = (row["level"], row["county"], row["tract"], *(row[name] for name in own))
        published[row["table"]][key] += row["published"]
    bins = [(0, "0–14"), (15, "15–29"), (30, "30–60")]
    counted: dict[str, Counter] = {"household": Counter(), "person": Counter()}
    for level, depth in LEVELS.items():
        for home in homes:
            ids = (*tract_of[home["home"]][:depth], None, None)[:2]
            counted["household"][level, *ids, home["tenure"], str(home["number"])] += 1
        for person in persons:
            ids = (*tract_of[person["lives_in"]][:depth], None, None)[:2]
            age = [text for least, text in bins if int(person["age"]) >= least][-1]
            cell = (person["relationship"], age, person["work"])
            counted["person"][level, *ids, *cell] += 1
    for table, counts in counted.items():
        assert {key: n for key, n in published[table].items() if n} == dict(counts)
    sizes = Counter(person["lives_in"] for person in persons)
    assert all(sizes[home["home"]] == home["number"] for home in homes)
    heads = Counter(person["lives_in"] for person in persons if person["relationship"] == "head")
    assert heads == Counter(home["home"] for home in homes)


def test_exact_totals_hold_and_children_add_up(released: tuple[Release, Path]) -> None:
    _, tracts = invent_homes()
    release = released[0]
    spine = release.hierarchy.geography.spine
    counties = Counter(county for county, _ in tracts.values())
    assert release.hierarchy.published[1].sum(axis=(1, 2)).tolist() == [counties["A"], counties["B"]]
    for each in release.hierarchies:
        for level in (1, 2):
            above = spine.sum_children(each.published[level], level=level)
            assert np.array_equal(above, each.published[level - 1])


def test_noisy_counts_are_of_wide_rows_and_name_their_table(released: tuple[Release, Path]) -> None:
    release, folder = released
    noisy = pq.read_table(folder / "noisy_measurements.parquet").to_pylist()
    assert {row["table"] for row in noisy} == {"household", "person", "household × person"}
    assert {row["level"] for row in noisy if row["table"] == "household × person"} == {"all"}
    detailed = [
        row for row in noisy if row["query"] == "relationship.2 × age.2 × work.2" and row["tract"] == "2"
    ]
    # With nobody there, every column has one code more than its own, but that of its universe.
    assert len(detailed) == 4 * 4 * 3
    assert sum(item.counts.size for item in release.measurements.items if item.variance) + 2 == len(noisy)


def test_the_release_verifies_and_another_place_of_a_person_does_not(released: tuple[Release, Path]) -> None:
    release, folder = released
    assert verify(folder).passed
    codes = {name: np.array(column) for name, column in release.codes.items()}
    units = ReleasedHierarchy.of(release.measurements, release.model)
    same = ReleasedHierarchy.of_members(release.measurements, codes)
    assert "follow from" in check_unit_tables((units, same), folder)
    moved = np.flatnonzero(codes["geocode"] != codes["geocode"][0])[0]
    codes["geocode"][0] = codes["geocode"][moved]
    other = ReleasedHierarchy.of_members(release.measurements, codes)
    with pytest.raises(PopulaceError, match="does not hold what follows"):
        check_unit_tables((units, other), folder)


def test_areas_of_both_tables(
    released: tuple[Release, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release, folder = released
    units = {"tract": ["2"]}
    homes, persons = (
        release.area(units, table=name).table.to_pylist()[0] for name in ("household", "person")
    )
    shown = release.hierarchies
    assert homes["published"] == shown[0].smallest[1].sum()
    assert persons["published"] == shown[1].smallest[1].sum()
    sizes = release.area(units, by=["number"]).table
    assert (
        sum(
            int(n) * c
            for n, c in zip(*(sizes[name].to_pylist() for name in ("number", "published")), strict=True)
        )
        == (persons["published"])
    )
    assert release.area(units, by="age").by == ("age",)
    with pytest.raises(UsageError, match="no table 'pets'"):
        release.area(units, table="pets")
    with pytest.raises(UsageError, match="no column 'age'"):
        release.area(units, by="age", table="household")
    (tmp_path / "units.csv").write_text("tract\n2\n")
    asked = ["area", str(folder), "--units", str(tmp_path / "units.csv"), "--table", "person"]
    assert main(asked) == 0
    assert str(persons["published"]) in capsys.readouterr().out


def test_the_statement_tells_of_both_tables(released: tuple[Release, Path]) -> None:
    statement = released[0].statement
    whole, _, tract = statement["levels"]
    assert "age (person, 3 places)" in tract["queries"]
    assert "pairs (household × person)" in whole["queries"]
    assert "total" in tract["queries"]
    assert "total" not in whole["queries"]
    assert len([line for line in statement["spends"] if line["verb"] == "measure"]) == (
        sum(len(line["queries"]) for line in statement["levels"])
    )


def test_the_report_shows_persons_per_household_and_sees_disagreement(released: tuple[Release, Path]) -> None:
    release = released[0]
    units, members = release.hierarchies
    shown = tell_members(release.measurements, release.model, (units, members))
    assert shown is not None
    assert [each.unit for each in shown.sizes.shown] == ["1", "2", "3 or more"]
    by_size = units.published[0][0].sum(axis=0)
    assert [each.published for each in shown.sizes.shown] == by_size[1:].tolist()
    assert shown.people == by_size @ np.arange(4)
    assert not any(check.found for check in shown.checks)
    assert {row.level for row in shown.precision} == set(LEVELS)
    page = release.report()
    assert "People in households" in page
    assert "people that are not those of the households" in page
    # One person elsewhere: the totals of two tracts and of two counties are wrong.
    wrong = members.smallest.copy()
    giver, taker = 1, 2
    cell = tuple(np.argwhere(wrong[giver] > 0)[0])
    wrong[(giver, *cell)] -= 1
    wrong[(taker, *cell)] += 1
    moved = tell_members(release.measurements, release.model, (units, replace(members, smallest=wrong)))
    assert moved is not None
    assert moved.checks[-1].found == 4
