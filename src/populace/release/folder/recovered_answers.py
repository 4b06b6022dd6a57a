"""What a run paid for and kept in a folder of its own, because its result could not be written."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path

from populace.core.errors import PopulaceError
from populace.measurements.measurements import Measurements

TOO_LITTLE_MEASURED = (
    "too little was answered to fit a model to; what was stands there with the variance of its noise"
)
# The words with which names end, then a number where the name was taken.
_KEPT = re.compile(r".+-(measured|estimates|answers)(-[0-9]{1,2})?", re.DOTALL)


def describe_paid_answers(path: Path) -> tuple[str, str] | None:
    """Return what a folder keeps that was paid for and how to go on from it; None if it keeps nothing."""
    found = _KEPT.fullmatch(path.name)
    if found is None:
        return None
    named = shlex.quote(str(path))
    if found[1] == "measured" and (path / "measurements.json").is_file():
        with suppress(PopulaceError, OSError):
            if not can_fit(Measurements.load(path)):
                return "measurements", TOO_LITTLE_MEASURED
        return (
            "measurements",
            f"{suggest_commands(path, out=Path(f'{path}-release'))} go on from there, free of cost",
        )
    if found[1] == "estimates" and (path / "estimates.json").is_file():
        return "estimates", f"it is the release without a report; `populace verify {named}` checks it"
    if found[1] == "answers" and (path / "answers.json").is_file():
        return "noisy answers", "each stands in answers.json beside its question and the law of its noise"
    return None


def suggest_commands(
    kept: Path, *, out: Path | None, inference: str = "tree", ledger: Path | None = None
) -> str:
    """Return the commands that make a model of measurements and, where `out` is given, a release of the model.

    The model is named after the measurements: a folder "model" may be there already, from another run.

    >>> suggest_commands(Path("a-measured"), out=Path("a"))
    '`populace fit a-measured --out a-measured-model` and `populace generate a-measured-model --out a`'
    """
    model = shlex.quote(f"{kept}-model")
    way = "" if inference == "tree" else f" --inference {inference}"
    fit = f"`populace fit {shlex.quote(str(kept))}{way} --out {model}`"
    if out is None:
        return fit
    booked = "" if ledger is None else f" --ledger {shlex.quote(str(ledger))}"
    return f"{fit} and `populace generate {model} --out {shlex.quote(str(out))}{booked}`"


def can_fit(measurements: Measurements) -> bool:
    """Say whether a model can be made of measurements: a total alone says nothing of any column."""
    return measurements.released_rows is not None or any(item.marginal.clique for item in measurements.items)
