"""Writing a text that a person may have worked on: never over another one."""

from __future__ import annotations

from pathlib import Path

from populace.cli.console import emit
from populace.core.errors import ResourceError, UsageError


def save_text(text: str, out: Path) -> None:
    """Write a text to a file that is not there yet or is empty, or to stdout where the file is `-`."""
    if str(out) == "-":
        emit(text.rstrip("\n"))
        return
    try:
        if out.exists() and (not out.is_file() or out.stat().st_size > 0):
            raise UsageError(
                f"{str(out)!r} exists already, and somebody may have worked on it.",
                hint="remove it, or give --out another name",
            )
        out.write_text(text, encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no folder {str(out.parent)!r}.", hint="make it first") from None
    except ValueError:
        raise UsageError("the path in --out is not a path.", hint="check for stray characters") from None
    except OSError as error:
        raise ResourceError(
            f"{str(out)!r} cannot be written: {error.strerror}.", hint="give --out a file you may write"
        ) from None
