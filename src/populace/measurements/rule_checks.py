"""How many rows of the private table broke each rule of the schema, by noisy counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

from populace.core.untrusted_files import require_int, require_text
from populace.privacy.accounting.mechanisms import fraction_from_json

# Noise takes counts below 0; they are whole numbers of 64 bits, as all counts are.
_MIN_COUNT = -(2**63)


class RuleOutcome(Enum):
    """What a row of the file does to a rule, before it is held to it.

    A universe is broken in two ways: by a value where the condition fails, and by the code for outside where it holds.
    """

    KEPT = "kept"
    BROKEN = "broken"
    UNASKED = "value outside the universe"
    UNANSWERED = "no value inside the universe"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheck:
    """The noisy counts of one rule: rows by what they do to it, and the variance of the noise in each count."""

    rule: str
    counts: Mapping[RuleOutcome, int]
    variance: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        counts = {outcome.value: count for outcome, count in self.counts.items()}
        return {"rule": self.rule, "counts": counts, "variance": str(self.variance)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RuleCheck:
        """Return what `to_json` wrote; noise that is none is refused."""
        variance = fraction_from_json(data["variance"])
        if variance <= 0:
            raise ValueError("noise that is none")
        counts = {
            RuleOutcome(key): require_int(count, least=_MIN_COUNT) for key, count in data["counts"].items()
        }
        if max(counts.values()) >= -_MIN_COUNT:
            raise ValueError("a count that is too large")
        return cls(rule=require_text(data["rule"]), counts=counts, variance=variance)
