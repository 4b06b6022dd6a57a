"""Secret pieces where neighbours add or remove one unit: whoever comes or goes moves nobody else.

Tables of a few units, of which one comes, at any place in the file and with one or several rows; in memory, as files,
and through the command line. Who is in which piece is read from what the pieces hold.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from populace.cli.main import main
from populace.core.marginals import Marginal
from populace.privacy.noise.entropy import RehearsalEntropy
from populace.privacy.noise.split_key import Split, SplitKey
from populace.private import secret_split as pieces
from populace.private.secret_split import split_table, write_split_files
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours
from tests.helpers.planted_faults import seeded

pytestmark = pytest.mark.sampled(2)

MOST = 80
SCHEMA = """
[table]
dataset = "people"
unit = "person"
{unit}

[columns.who]
kind = "integer"
min = 0
max = 79

[columns.age]
kind = "integer"
min = 0
max = 9
"""
NOBODY = Schema.parse(SCHEMA.format(unit=""))
PERSONS = Schema.parse(SCHEMA.format(unit='id = "id"\nrows_per_unit = 2'))
Rows = list[tuple[str, int, int]]
# A person's own number, ways to write it, and where each of the others is.
Places = dict[int, int]


def draw_split(rng: np.random.Generator) -> tuple[Split, SplitKey]:
    parts = rng.integers(1, 6, int(rng.integers(2, 6)))
    shares = tuple(Fraction(int(part), int(parts.sum())) for part in parts)
    key = SplitKey.draw(RehearsalEntropy(int(rng.integers(10**9))))
    return Split(shares=shares, neighbours=Neighbours.ADD_REMOVE), key


def draw_neighbours(rng: np.random.Generator, *, alone: bool = False) -> tuple[Rows, Rows, int]:
    """Return rows, those without one unit, and the number of that unit; rows of units lie anywhere.

    Where rows are units `alone`, one of them goes, and others with its number stay.
    """
    units = rng.permutation(MOST)[: int(rng.integers(1, 30))].tolist()
    rows = [
        (str(unit), unit, int(rng.integers(10))) for unit in units for _ in range(int(rng.integers(1, 4)))
    ]
    rows = [rows[place] for place in rng.permutation(len(rows))]
    place = int(rng.integers(len(rows)))
    gone = rows[place][1]
    if alone:
        return rows, [*rows[:place], *rows[place + 1 :]], gone
    return rows, [row for row in rows if row[1] != gone], gone


def frame(rows: Rows) -> pa.Table:
    ids, who, ages = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "id": pa.array(ids, pa.string()),
            "who": pa.array(who, pa.int64()),
            "age": pa.array(ages, pa.int64()),
        }
    )


def places_in(tables: list[np.ndarray]) -> Places:
    """Return the piece of everybody, from how many rows of each each piece has."""
    found = {}
    for piece, counts in enumerate(tables):
        for who in np.flatnonzero(counts).tolist():
            assert who not in found, "somebody is in two pieces"
            found[who] = piece
    return found


def in_memory(schema: Schema) -> Callable[..., tuple[Places, list[object]]]:
    def placed(rows: Rows, *, split: Split, key: SplitKey, folder: Path):
        tables = split_table(frame(rows), schema=schema, split=split, key=key)
        who = places_in([each.engine().counts([Marginal(("who",))])[0] for each in tables])
        return who, [each.engine().counts([Marginal(("who", "age"))])[0].tolist() for each in tables]

    return placed


def as_files(suffix: str) -> Callable[..., tuple[Places, list[object]]]:
    def placed(rows: Rows, *, split: Split, key: SplitKey, folder: Path):
        data = folder / f"data{suffix}"
        write(rows, data)
        paths = [folder / f"{piece}{suffix}" for piece in range(len(split.shares))]
        write_split_files(data, schema=PERSONS, split=split, key=key, paths=paths)
        return held(paths)

    return placed


def write(rows: Rows, data: Path) -> None:
    if data.suffix == ".parquet":
        pyarrow.parquet.write_table(frame(rows), data)
        return
    with data.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "who", "age"), *rows])


def held(paths: list[Path]) -> tuple[Places, list[object]]:
    """Read pieces, and remove their files."""
    tables, contents = [], []
    for path in paths:
        if path.suffix == ".parquet":
            told = [tuple(map(str, row.values())) for row in pyarrow.parquet.read_table(path).to_pylist()]
        else:
            with path.open(newline="") as file:
                told = [tuple(row.values()) for row in csv.DictReader(file)]
        contents.append(told)
        tables.append(np.bincount([int(row[0]) for row in told], minlength=MOST))
        path.unlink()
    return places_in(tables), contents


WAYS = {
    "by id": in_memory(PERSONS),
    "csv": as_files(".csv"),
    "parquet": as_files(".parquet"),
}


def check_neighbours(placed, *, trials: int, folder: Path, alone: bool = False) -> None:
    """Remove, or add, one unit in many tables: one piece lacks it, and everything else is as it was."""
    rng = np.random.default_rng(19)
    moved = 0
    for _ in range(trials):
        split, key = draw_split(rng)
        rows, fewer, gone = draw_neighbours(rng, alone=alone)
        (one, whole), (other, part) = (
            placed(each, split=split, key=key, folder=folder) for each in (rows, fewer)
        )
        different = [place for place, (a, b) in enumerate(zip(whole, part, strict=True)) if a != b]
        moved += len(different) > 1 or any(one[who] != there for who, there in other.items() if who != gone)
    assert moved == 0, f"somebody else moved in {moved} of {trials} trials"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("way", "trials"), [("by id", 20), ("csv", 30), ("parquet", 15)])
def test_nobody_else_moves_when_a_unit_comes_or_goes(way, trials, tmp_path):
    check_neighbours(WAYS[way], trials=trials, folder=tmp_path)


def rows_alone(rows: Rows, *, split: Split, key: SplitKey, folder: Path) -> tuple[Places, list[object]]:
    """Rows of one number may be in two pieces: they are two persons where no id tells."""
    tables = split_table(frame(rows), schema=NOBODY, split=split, key=key)
    return {}, [each.engine().counts([Marginal(("who", "age"))])[0].tolist() for each in tables]


def test_of_units_that_their_rows_tell_apart_one_piece_alone_changes(tmp_path):
    check_neighbours(rows_alone, trials=30, folder=tmp_path, alone=True)


COARSE = Schema.parse("""
[columns.pay]
kind = "numeric"
min = 0
max = 100
width = 100
""")


def numbers_alone(rows: Rows, *, split: Split, key: SplitKey, folder: Path) -> tuple[Places, list[object]]:
    """All rows have one code, and numbers of their own: it is these that tell persons apart."""
    data = pa.table({"pay": [float(who) for _, who, _ in rows]})
    tables = split_table(data, schema=COARSE, split=split, key=key)
    return {}, [sorted(each.survey_rows().numbers["pay"].tolist()) for each in tables]


def test_rows_of_one_code_are_told_apart_by_their_numbers(tmp_path):
    check_neighbours(numbers_alone, trials=20, folder=tmp_path, alone=True)
    blind = "SurveyRows(codes=rows.codes, numbers={})"
    fault = seeded(pieces._label_by_content, "columns = [", f"rows = {blind}\n    columns = [")
    with fault, pytest.raises(AssertionError):
        check_neighbours(numbers_alone, trials=20, folder=tmp_path, alone=True)


def test_nobody_else_moves_in_many_tables():
    """Labels alone: 300 tables, another label anywhere."""
    rng = np.random.default_rng(20)
    for _ in range(300):
        split, key = draw_split(rng)
        labels = [str(number).encode() for number in rng.permutation(200)[: int(rng.integers(0, 60))]]
        place = int(rng.integers(0, len(labels) + 1))
        more = [*labels[:place], b"newcomer", *labels[place:]]
        before = dict(zip(labels, split.pieces(labels, key=key).tolist(), strict=True))
        after = dict(zip(more, split.pieces(more, key=key).tolist(), strict=True))
        after.pop(b"newcomer")
        assert after == before


def test_the_ids_of_a_unit_are_compared_as_they_are_read():
    """Blanks and types make no second person of one: rows of “ 7”, “7” and 7 go together, and two of them stay."""
    rng = np.random.default_rng(21)
    for _ in range(20):
        split, key = draw_split(rng)
        rows = [(" 7", 7, 1), ("7", 7, 2), ("7 ", 7, 3), *((str(n), n, 0) for n in range(20, 40))]
        tables = split_table(frame(rows), schema=PERSONS, split=split, key=key)
        counts = [int(each.engine().counts([Marginal(("who",))])[0][7]) for each in tables]
        assert sorted(counts)[-1] == sum(counts) == 2


def test_the_command_moves_nobody_else(tmp_path):
    """With the key that was kept, `split` on the same people and one more leaves all where they were."""
    (tmp_path / "schema.toml").write_text(PERSONS.to_toml())
    rng = np.random.default_rng(22)
    rows, fewer, gone = draw_neighbours(rng)
    found = []
    for name, each in (("one", rows), ("other", fewer)):
        write(each, tmp_path / f"{name}.csv")
        words = ["--schema", str(tmp_path / "schema.toml"), "--shares", "1/3,1/3,1/3"]
        words += ["--key", str(tmp_path / "key"), "--out", str(tmp_path / f"{name}-pieces")]
        assert main(["split", str(tmp_path / f"{name}.csv"), *words]) == 0
        found.append(held([tmp_path / f"{name}-pieces" / f"piece-{n}.csv" for n in (1, 2, 3)]))
    (one, whole), (other, part) = found
    assert {who: piece for who, piece in one.items() if who != gone} == other
    assert sum(a != b for a, b in zip(whole, part, strict=True)) == 1


# --------------------------------------------------------------------------------------------- the tests can fail


def cut_by_number():
    """Pieces cut at sizes that follow the number of persons, whatever neighbours are."""

    def pieces(split, labels, *, key):
        places = key.places(labels)
        order = sorted(range(len(places)), key=places.__getitem__)
        ends = [round(len(labels) * sum(split.shares[: n + 1])) for n in range(len(split.shares))]
        found = np.zeros(len(labels), dtype=np.int64)
        found[order] = np.searchsorted(ends, np.arange(len(labels)), side="right")
        return found

    return patch.object(Split, "pieces", pieces)


def dealt_out():
    """Pieces by position, one person after the other."""
    return patch.object(
        Split, "pieces", lambda split, labels, *, key: np.arange(len(labels)) % len(split.shares)
    )


def ranked():
    """Labels are the ranks of persons among all."""
    genuine = Split.pieces
    return patch.object(
        Split,
        "pieces",
        lambda split, labels, *, key: genuine(
            split, [str(sorted(labels).index(each)).encode() for each in labels], key=key
        ),
    )


def in_blocks():
    """Persons go to pieces by where their hash lies among an equal number of drawers."""

    def pieces(split, labels, *, key):
        return np.array(
            [place % (len(labels) + 1) % len(split.shares) for place in key.places(labels)], dtype=np.int64
        )

    return patch.object(Split, "pieces", pieces)


def rows_cut_across_units():
    """So many rows are kept of the whole file, not of each unit."""

    def first(ids, *, rows):
        total = sum(len(each) for each in ids)
        return np.arange(total) < rows * total / 3

    return patch.object(pieces, "select_first_rows", first)


@pytest.mark.parametrize("fault", [cut_by_number, dealt_out, ranked, in_blocks, rows_cut_across_units])
def test_faults_that_move_others_are_seen(fault, tmp_path):
    with fault(), pytest.raises(AssertionError):
        check_neighbours(WAYS["csv"], trials=15, folder=tmp_path)


@pytest.mark.parametrize("fault", [cut_by_number, dealt_out, ranked])
def test_faults_that_move_rows_without_an_id_are_seen(fault, tmp_path):
    with fault(), pytest.raises(AssertionError):
        check_neighbours(rows_alone, trials=15, folder=tmp_path, alone=True)
