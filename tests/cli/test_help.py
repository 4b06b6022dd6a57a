"""Help teaches, starts fast, and says the same as the reference."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from populace.cli.main import main

ROOT = Path(__file__).parents[2]
VERBS = ["demo", "plan", "synth", "measure", "fit", "generate", "ledger", "verify", "clean", "schema"]
LEAVES = [
    *(["demo"], ["plan"], ["synth"], ["measure"], ["fit"], ["generate"], ["verify"], ["clean"]),
    *(["ledger", "init"], ["ledger", "show"], ["ledger", "grant"], ["ledger", "verify"]),
    *(["schema", "check"], ["schema", "show"]),
]


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == bare
    for verb in VERBS:
        assert f"\n  {verb} " in bare
    assert "Exit codes:\n  0 done" in bare


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_explains_every_option(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    options = [line for line in text.splitlines() if line.startswith("  --")]
    assert options
    if len(words) == 1:
        assert f"\n  populace {words[0]}" in text, "no example"


def test_help_loads_no_library_of_numbers() -> None:
    heavy = ["numpy", "pyarrow", "scipy", "flint", "pydantic", "rich", "jinja2", "narwhals"]
    code = (
        "import sys; from populace.cli.main import main\n"
        "for words in ([], ['--help'], ['synth', '--help'], ['plan', '--help'], ['demo', '--help']): main(words)\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "populace", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.count(".") == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.count(".") == 2


def test_reference_says_what_the_commands_say() -> None:
    """docs/reference/cli.md is generated; `make docs` brings it up to date."""
    script = runpy.run_path(str(ROOT / "docs" / "reference" / "cli.py"))
    assert (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8") == script["reference"]()
