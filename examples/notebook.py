"""Run the cells of notebook.ipynb and write it anew with what they show: `python examples/notebook.py`."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).with_suffix(".ipynb")


def load() -> dict[str, Any]:
    """Return the notebook."""
    found: dict[str, Any] = json.loads(NOTEBOOK.read_text("utf-8"))
    return found


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells, run one after the other in a folder of their own."""
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["XDG_STATE_HOME"] = folder
        cells = [c for c in notebook["cells"] if c["cell_type"] == "code"]
        for number, cell in enumerate(cells, start=1):
            cell["execution_count"] = number
            cell["outputs"] = run_cell("".join(cell["source"]), names, number=number)
    return notebook


def run_cell(source: str, names: dict[str, Any], *, number: int) -> list[dict[str, Any]]:
    """Run one cell; return what it prints, and its last expression as text and as HTML."""
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(last, "cell", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append(
            {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}
        )
    return outputs


if __name__ == "__main__":
    text = json.dumps(execute(load()), indent=1, ensure_ascii=False)
    NOTEBOOK.write_text(text + "\n", encoding="utf-8")
    print(NOTEBOOK)
