"""populace demo: a complete release from an invented population."""

from __future__ import annotations


def demo() -> None:
    """Make a release from an invented population."""
