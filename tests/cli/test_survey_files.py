"""`populace weights` and `populace split`: what they write, and what they refuse."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.cli.main import main
from populace.core.errors import UsageError
from populace.release import table_files as frame
from populace.release.folder import leftovers
from populace.release.folder.hidden_folder import HIDDEN_NAME
from populace.release.folder.leftovers import Fate
from populace.release.survey_file import make_survey_file
from populace.survey.calibration.replicate_weights import (
    FITTED_DRAWING_VARIANCE,
    ReplicateWeights,
    make_replicate_weights,
)

SCHEMA = """
[table]
dataset = "town"
unit = "person"
rows_per_unit = 2
id = "who"

[columns.age]
kind = "integer"
min = 0
max = 3

[columns.sex]
kind = "categorical"
values = ["f", "m"]
"""
TOTALS = '[[totals]]\nby = ["sex"]\ncounts = { f = 7000, m = 5000 }\n'


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rows for each of 300 persons, their schema, and a release of them."""
    folder = tmp_path_factory.mktemp("town")
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "who": np.repeat([f"p{n}" for n in range(300)], 2),
            "age": rng.integers(0, 4, 600),
            "sex": rng.choice(["f", "m"], 600),
        }
    )
    pyarrow.csv.write_csv(table, folder / "people.csv")
    (folder / "schema.toml").write_text(SCHEMA)
    (folder / "totals.toml").write_text(TOTALS)
    made = pp.synthesize(
        table, schema=pp.Schema.parse(SCHEMA), epsilon=8, delta="1e-6", method="mst", ledger=folder / "l.db"
    )
    made.save(folder / "release", report=False)
    return folder


def weighted(town: Path, out: Path, *more: str) -> int:
    return main(
        ["weights", str(town / "release"), "--totals", str(town / "totals.toml"), "--out", str(out), *more]
    )


def test_weights_and_replicates_meet_the_totals(
    town: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "survey.parquet"
    assert weighted(town, out, "--replicates", "12", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    scale = told.pop("scale")
    assert told == {"file": str(out), "people": 12000.0, "replicates": 12}
    assert scale >= 16 / 11
    table = pq.read_table(out)
    assert table.column_names == ["age", "sex", "weight", *(f"rep{n:02}" for n in range(1, 13))]
    women = np.array(table["sex"].to_pylist()) == "f"
    for name in table.column_names[2:]:
        weights = table[name].to_numpy()
        assert (weights >= 0).all()
        assert (weights[women].sum(), weights.sum()) == pytest.approx((7000, 12000))
    shares = [table[name].to_numpy()[table["age"].to_numpy() > 1].sum() for name in table.column_names[3:]]
    assert 50 < np.sqrt(scale * len(shares)) * np.std(shares) < 2000
    assert weighted(town, tmp_path / "again.parquet", "--replicates", "12") == 0
    assert pq.read_table(tmp_path / "again.parquet").equals(table)


def test_weights_that_are_being_written_are_no_leftover(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[bool, Fate]] = []
    write = frame.write_table

    def watched(table: pa.Table, path: Path) -> None:
        write(table, path)
        monkeypatch.setattr(leftovers, "MIN_AGE_SECONDS", -3600.0)
        (found,) = leftovers.find_leftovers(tmp_path)
        leftovers.remove_leftover(found.path)
        seen.append((HIDDEN_NAME.fullmatch(found.path.name) is not None, found.fate))

    monkeypatch.setattr(frame, "write_table", watched)
    assert weighted(town, tmp_path / "survey.csv", "--replicates", "2") == 0
    assert seen == [(True, Fate.IN_USE)]
    assert [path.name for path in tmp_path.iterdir()] == ["survey.csv"]


def test_weights_that_cannot_be_made_are_refused(
    town: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "survey.csv"
    for more, words in (
        (["--replicates", "1"], "2 to 1000"),
        (["--weight", "sex"], "another name"),
        (["--weight", "rep01"], "taken for a replicate weight"),
        (["--weight", "rep5"], "taken for a replicate weight"),
        (["--out", str(tmp_path / "survey.xls")], "csv, parquet, sav, dta, xpt"),
    ):
        assert weighted(town, out, *more) == 2
        assert words in capsys.readouterr().err
    (tmp_path / "none.toml").write_text("[design]\n")
    assert weighted(town, out, "--totals", str(tmp_path / "none.toml")) == 2
    assert "[[totals]]" in capsys.readouterr().err
    assert not out.exists()
    out.write_text("")
    assert weighted(town, out) == 2


def test_columns_that_look_like_replicates_are_refused(town: Path) -> None:
    release = pp.Release.load(town / "release")
    design = pp.Design.parse(TOTALS, schema=release.measurements.schema)
    named = release.synthetic.rename_columns({"age": "rep500"})
    with pytest.raises(UsageError, match="'rep500' would be taken for a replicate weight"):
        make_survey_file(replace(release, synthetic=named), design=design, replicates=4)
    with pytest.raises(UsageError, match="'rep1' would be taken"):
        make_survey_file(release, design=design, replicates=20, weight="rep1")
    made = make_survey_file(release, design=design, replicates=4, weight="repeated").table
    assert made["repeated"].to_numpy().min() >= 0


@pytest.mark.parametrize(("fitted", "drawing"), [([], 1.0), ([("age",)], FITTED_DRAWING_VARIANCE)])
def test_only_rows_that_were_fitted_are_taken_to_be(
    town: Path, monkeypatch: pytest.MonkeyPatch, fitted: list[tuple[str, ...]], drawing: float
) -> None:
    release = pp.Release.load(town / "release")
    design = pp.Design.parse(TOTALS, schema=release.measurements.schema)
    targets = {clique: np.ones(release.model.grouped_domain.shape(clique)) for clique in fitted}
    given = []

    def weigh(*args: Any, **words: Any) -> ReplicateWeights:
        given.append(words["drawing"])
        return make_replicate_weights(*args, **words)

    monkeypatch.setattr("populace.release.survey_file.make_replicate_weights", weigh)
    make_survey_file(
        replace(release, model=replace(release.model, targets=targets)), design=design, replicates=4
    )
    assert given == [drawing]


def test_rows_start_from_the_weights_of_the_design(tmp_path: Path) -> None:
    schema = pp.Schema.parse(
        """
        [columns.sex]
        kind = "categorical"
        values = ["f", "m"]

        [columns.weight]
        kind = "integer"
        edges = [1, 2, 40, 41]
        """
    )
    table = pa.table({"sex": ["f", "m"] * 200, "weight": [1, 1, 40, 40] * 100})
    release = pp.synthesize(
        table, schema=schema, epsilon=20, delta="1e-6", method="mst", ledger=tmp_path / "l"
    )
    text = '[design]\nweights = "weight"\nmax_weight = 20\n' + TOTALS
    made = make_survey_file(
        release, design=pp.Design.parse(text, schema=schema), replicates=5, weight="raked"
    )
    own, raked = made.table["weight"].to_numpy(), made.table["raked"].to_numpy()
    heavy, light = raked[own == 40].mean(), raked[own == 1].mean()
    assert heavy / light == pytest.approx(20, rel=0.1)
    assert made.beyond == 0
    assert made.effective_rows == pytest.approx(raked.sum() ** 2 / (raked**2).sum())
    nothing = pa.array([None] * release.synthetic.num_rows, pa.int64())
    empty = replace(release, synthetic=release.synthetic.set_column(1, "weight", nothing))
    with pytest.raises(UsageError, match="no weight in 'weight' is above 0"):
        make_survey_file(empty, design=pp.Design.parse(text, schema=schema), replicates=5, weight="raked")


def split(town: Path, out: Path, *, key: Path, shares: str = "1/3,2/3") -> int:
    words = ["--schema", str(town / "schema.toml"), "--shares", shares, "--key", str(key), "--out", str(out)]
    return main(["split", str(town / "people.csv"), *words, "--json"])


def test_pieces_keep_persons_together_and_name_their_accounts(
    town: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert split(town, tmp_path / "pieces", key=tmp_path / "key") == 0
    said = capsys.readouterr()
    assert "and any other split of the same people (another --key, other --shares), add to it" in said.err
    told = json.loads(said.out)["pieces"]
    assert stat.S_IMODE((tmp_path / "pieces").stat().st_mode) == 0o700
    tables = [pyarrow.csv.read_csv(tmp_path / "pieces" / name) for name in told]
    persons = [set(table["who"].to_pylist()) for table in tables]
    assert not persons[0] & persons[1]
    assert len(persons[0] | persons[1]) == 300
    # 300 persons with a third: a deviation of 8.2; six of them are passed once in half a billion.
    assert abs(len(persons[0]) - 100) < 50
    assert sum(table.num_rows for table in tables) == 600
    for name, account in told.items():
        path = tmp_path / "pieces" / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert pp.Schema.load(path.with_suffix(".toml")).dataset == account
    assert len(set(told.values())) == 2
    assert split(town, tmp_path / "again", key=tmp_path / "key") == 0
    assert (tmp_path / "again/piece-1.csv").read_bytes() == (tmp_path / "pieces/piece-1.csv").read_bytes()
    assert split(town, tmp_path / "other", key=tmp_path / "other-key") == 0
    assert (tmp_path / "other/piece-1.csv").read_bytes() != (tmp_path / "pieces/piece-1.csv").read_bytes()


def test_the_order_of_rows_makes_no_difference_to_pieces(town: Path, tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA)
    lines = (town / "people.csv").read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "two.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")
    found = []
    for name in ("one", "two"):
        words = [
            "--schema",
            str(tmp_path / "schema.toml"),
            "--shares",
            "1/2,1/2",
            "--key",
            str(tmp_path / "key"),
        ]
        assert main(["split", str(tmp_path / f"{name}.csv"), *words, "--out", str(tmp_path / name)]) == 0
        found.append(sorted((tmp_path / name / "piece-1.csv").read_text().splitlines()))
    assert found[0] == found[1]
    assert len(found[0]) > 100


def test_a_schema_without_an_id_is_refused_before_rows_are_read(
    town: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA.replace('rows_per_unit = 2\nid = "who"\n', ""))
    monkeypatch.setattr(
        "populace.private.secret_split.open_by_unit", lambda *_, **__: pytest.fail("the data was opened")
    )
    words = ["--schema", str(tmp_path / "schema.toml"), "--shares", "1/2,1/2", "--key", str(tmp_path / "key")]
    assert main(["split", str(town / "people.csv"), *words, "--out", str(tmp_path / "pieces")]) == 2
    said = capsys.readouterr().err
    assert "no id" in said
    assert "hint: name the column" in said
    assert not (tmp_path / "key").exists()
    assert not (tmp_path / "pieces").exists()


def test_nobody_else_opens_the_folder_before_rows_are_in_it(
    town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []

    def write(data: Path, *, paths: tuple[Path, ...], **_: object) -> None:
        modes.append(stat.S_IMODE(paths[0].parent.stat().st_mode))

    monkeypatch.setattr("populace.private.secret_split.write_split_files", write)
    assert split(town, tmp_path / "pieces", key=tmp_path / "key") == 0
    assert modes == [0o700]


@pytest.mark.parametrize("shares", ["1/2,1/3", "half", "1/0,1", "2,-1"])
def test_shares_that_are_none_are_refused(town: Path, tmp_path: Path, shares: str) -> None:
    assert split(town, tmp_path / "pieces", key=tmp_path / "key", shares=shares) == 2
    assert not (tmp_path / "key").exists()
    assert not (tmp_path / "pieces").exists()


def test_rows_that_stand_for_nobody_are_told(
    town: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert weighted(town, tmp_path / "survey.csv") == 0
    said = capsys.readouterr().err
    weights = pyarrow.csv.read_csv(tmp_path / "survey.csv").column("weight").to_pylist()
    nobody = sum(weight == 0 for weight in weights)
    assert ("stand for nobody" in said) == (nobody > 0)
    assert not nobody or f"note: {nobody} of {len(weights)} rows stand for nobody" in said
