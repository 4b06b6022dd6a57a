"""Where the loops in C were not built, a run says so once, and releases rows all the same."""

from __future__ import annotations

import pytest

from populace._native import kernels
from tests.cli.workspace import SCHEMA, Workspace


def synth(workspace: Workspace) -> int:
    """Run a method whose rows are fitted to tables: three columns that depend on each other."""
    workspace.write("schema.toml", SCHEMA + '[columns.height]\nkind = "integer"\nmin = 0\nmax = 9\n')
    rows = (f"{'fm'[i // 7 % 2]},{i % 10},{min(i % 10 + i // 7 % 3, 9)}\n" for i in range(2_000))
    workspace.write("people.csv", "sex,age,height\n" + "".join(rows))
    return workspace.synth(method="adaptive")


def test_a_run_without_the_loops_says_so_once(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_native", None)
    assert synth(workspace) == 0
    said = capsys.readouterr().err
    assert said.count("note: the loops in C are missing") == 1
    assert "\nhint: install a C compiler" in said
    assert (workspace.folder / "release" / "synthetic.csv").is_file()


@pytest.mark.skipif(not kernels.compiled(), reason="the loops in C were not built")
def test_a_run_with_them_does_not(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert synth(workspace) == 0
    assert "note" not in capsys.readouterr().err
