"""Files damaged among their rows: found after the charge, so it is an error of the environment and stays paid."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.workspace import CANARY, Workspace


def damaged(workspace: Workspace, *, group: int) -> str:
    """Write a file in which the first page of a row group is no page."""
    path = Path(workspace.path("people.parquet"))
    table = pa.table({"sex": ["f", "m", CANARY] * 3000, "age": list(range(9000))})
    pq.write_table(table, path, compression="zstd", row_group_size=3000)
    place = pq.read_metadata(path).row_group(group).column(1).dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[place : place + 96] = b"\xff" * 96
    path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("group", [0, 2])
def test_a_damaged_page_is_charged_and_is_no_refusal(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], group: int
) -> None:
    damaged(workspace, group=group)
    assert workspace.synth("people.parquet") == 4
    err = capsys.readouterr().err
    assert "What was charged stays charged" in err
    assert CANARY not in err
    assert workspace.entries > 1, "the reservation is on disk"
    assert not Path(workspace.path("release")).exists()


def test_a_cut_file_is_refused_first(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    """The footer is gone: that is seen without a row."""
    path = Path(damaged(workspace, group=0))
    path.write_bytes(path.read_bytes()[:-40])
    assert workspace.synth("people.parquet") == 2
    assert workspace.entries == 1


def test_nested_columns_are_refused_first(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"sex": [["f"], ["m"]], "age": [1, 2]}), workspace.path("nested.parquet"))
    assert workspace.synth("nested.parquet") == 2
    assert "'sex' holds lists" in capsys.readouterr().err
    assert workspace.entries == 1
