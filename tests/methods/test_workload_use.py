"""A method that never looks at a workload is known not to."""

from __future__ import annotations

import ast
import inspect

import pytest

from populace.methods.method import WorkloadUse
from populace.methods.registry import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_a_method_is_told_to_heed_a_workload_where_its_code_does(method: str) -> None:
    code = ast.walk(ast.parse(inspect.getsource(METHODS[method].measure)))
    used = METHODS[method].workload is not WorkloadUse.NONE
    assert used is any(isinstance(node, ast.Name) and node.id == "workload" for node in code)
