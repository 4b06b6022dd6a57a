"""What SPSS, Stata and SAS files declare of themselves, without a row and without their number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from populace.core.errors import DataError
from populace.schema.imports.embedded.file_metadata import read_file_metadata
from populace.schema.imports.embedded.stat_formats import Moment, StatFormat, find_moment_unit

FRAME = pd.DataFrame({"x": [1.0, -9.0, 4711.0], "s": ["a", "N", "canary"]})


def test_labels_missing_codes_and_ranges_of_spss(tmp_path: Path) -> None:
    path = tmp_path / "file"
    pyreadstat.write_sav(
        FRAME,
        str(path),
        column_labels=["How\nmany?", None],
        file_label="A survey",
        variable_value_labels={"x": {1: "one", 2.5: "more", -9: "refused"}, "s": {"a": "A", "N": "none"}},
        missing_ranges={"x": [{"lo": -float("inf"), "hi": -8}, 99], "s": ["N"]},
        variable_measure={"x": "ordinal"},
        variable_format={"x": "F5.0"},
    )
    found = read_file_metadata(path)
    assert (found.format, found.label, found.names) == (StatFormat.SAV, "A survey", ("x", "s"))
    x, s = found.columns
    assert (x.label, x.is_text, x.is_whole, x.measure) == ("How many?", False, True, "ordinal")
    assert x.value_labels == {"1": "one", "2.5": "more", "-9": "refused"}
    # Of an open range the labelled codes are known.
    assert sorted(x.missing) == ["-9", "99"]
    assert x.open_ranges == ("the lowest number to -8",)
    assert (s.is_text, s.missing, s.value_labels) == (True, ("N",), {"a": "A", "N": "none"})


def test_only_labelled_kinds_of_missing_cells_are_declared(tmp_path: Path) -> None:
    """Which of them occur stands in the rows alone."""
    path = tmp_path / "file"
    frame = pd.DataFrame({"x": pd.Series([1.0, "a", "b"], dtype=object)})
    pyreadstat.write_dta(
        frame,
        str(path),
        missing_user_values={"x": ["a", "b", "c"]},
        variable_value_labels={"x": {1: "one", "a": "refused", "c": "lost"}},
    )
    (x,) = read_file_metadata(path).columns
    assert x.missing == (".a", ".c")
    assert x.value_labels == {"1": "one", ".a": "refused", ".c": "lost"}


@pytest.mark.parametrize("rows", [0, 1, 5000])
def test_the_number_of_rows_is_not_kept(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "file"
    told = []
    for count in (rows, rows + 1):
        pyreadstat.write_dta(pd.DataFrame({"x": np.zeros(count)}), str(path))
        told.append(read_file_metadata(path))
    assert told[0] == told[1]


def test_a_short_range_is_a_list_of_codes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    pyreadstat.write_sav(FRAME, str(path), missing_ranges={"x": [{"lo": 97, "hi": 99}]})
    assert read_file_metadata(path).columns[0].missing == ("97", "98", "99")


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.sav"
    path.write_text("x,s\n1,canary\n")
    with pytest.raises(DataError, match="no file of SPSS, Stata or SAS") as caught:
        read_file_metadata(path)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("package", "declared", "kind"),
    [
        ("spss", "F8.2", None),
        ("spss", "A20", None),
        ("spss", "WKDAY3", None),
        ("spss", "ADATE10", Moment.DATE),
        ("spss", "DTIME12", None),
        ("stata", "%9.0g", None),
        ("stata", "%-td", Moment.DATE),
        ("stata", "%d", Moment.DATE),
        ("stata", "%ty", None),
        ("stata", "%tw", None),
        ("sas", "BEST12", None),
        ("sas", "$CHAR8", None),
        ("sas", "YYMMDDN8", Moment.DATE),
        ("sas", "B8601DT", Moment.DATETIME),
        ("sas", "DOLLAR12", None),
        ("sas", None, None),
    ],
)
def test_formats_of_moments(package: str, declared: str | None, kind: Moment | None) -> None:
    found = find_moment_unit(declared, package=package)
    assert (found and found.kind) == kind
