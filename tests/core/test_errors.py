"""The tree drawn in errors.py has everything that the file defines."""

from __future__ import annotations

from populace.core import errors


def test_the_tree_names_every_class() -> None:
    classes = [name for name, held in vars(errors).items() if isinstance(held, type)]
    assert len(classes) > 8
    assert [name for name in classes if name not in (errors.__doc__ or "").replace("─", " ").split()] == []
