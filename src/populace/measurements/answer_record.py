"""One question of a run and its noisy answer, as plain JSON: what is kept of answers that are no tables of counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """One question as plain JSON, with its mechanism and answer: whole steps, or a number of a public lattice."""

    verb: str
    question: Mapping[str, Any]
    mechanism: Any
    answer: Any

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "verb": self.verb,
            "question": dict(self.question),
            "law": self.mechanism,
            "answer": self.answer,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> AnswerRecord:
        """Return what `to_json` wrote."""
        return cls(
            verb=str(document["verb"]),
            question=document["question"],
            mechanism=document["law"],
            answer=document["answer"],
        )
