"""How long work tells where it stands. Never with anything counted from private rows."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]


def silent(stage: str, done: float) -> None:
    """Show nothing."""
