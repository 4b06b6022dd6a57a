"""Which claims hold in the real rows and which in the synthetic ones: for internal use alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from populace.evaluation.internal_marking import INTERNAL
from populace.private.read.rows_to_codes import check_header, open_source, read_rows
from populace.schema.schema import Schema
from populace.survey.claims.claim_rows import ClaimRows, decide_claim, evaluate_combination
from populace.survey.claims.claim_syntax import Combination, Inequality
from populace.survey.claims.claims import Claim, Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim with what the real and the synthetic rows say: whether it holds, and the number that decides.

    The number is the estimate of a claim about one, or how far the left side of a comparison lies on the side that it
    claims. `survives` says that both tables lead to the same conclusion; None where one of them leads to none.
    """

    name: str
    claim: str
    real: float | None
    synthetic: float | None
    holds_in_real: bool | None
    holds_in_synthetic: bool | None

    @property
    def survives(self) -> bool | None:
        """Whether the synthetic rows lead to the same conclusion."""
        if self.holds_in_real is None or self.holds_in_synthetic is None:
            return None
        return self.holds_in_real == self.holds_in_synthetic

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "name": self.name,
            "claim": self.claim,
            "real": self.real,
            "synthetic": self.synthetic,
            "holds_in_real": self.holds_in_real,
            "holds_in_synthetic": self.holds_in_synthetic,
            "survives": self.survives,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All claims with what both tables say of them."""

    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return them as plain JSON, marked as what must not be published."""
        return {"marking": INTERNAL, "findings": [each.to_json() for each in self.findings]}


def compare_findings(
    real: Any, synthetic: Any, *, schema: Schema | Path | str, claims: Claims | Path | str
) -> Findings:
    """Return for every claim what the real rows say and what the synthetic ones do. The result is INTERNAL.

    Tables are paths or frames, whichever tool made them; counts and totals of the synthetic rows are scaled to the
    number of real ones. Of an estimate with a tolerance, the synthetic rows are right if theirs, or the value that the
    file names, is within it.

    >>> import pyarrow as pa
    >>> import populace as pp
    >>> schema = pp.Schema.from_sizes({"smokes": 2})
    >>> claims = pp.Claims.parse('[[claims]]\\nclaim = "share(smokes == 1) < 0.5"\\n', schema=schema)
    >>> real, synthetic = pa.table({"smokes": [0, 0, 1]}), pa.table({"smokes": [0, 1, 1]})
    >>> found = pp.compare_findings(real, synthetic, schema=schema, claims=claims)
    >>> [finding.survives for finding in found.findings]
    [False]
    """
    schema = schema if isinstance(schema, Schema) else Schema.load(schema)
    claims = claims if isinstance(claims, Claims) else Claims.load(claims, schema=schema)
    first, second = _read_rows(real, schema=schema), _read_rows(synthetic, schema=schema)
    second = replace(second, people=first.size / second.size if second.size else 1.0)
    return Findings(findings=tuple(_compare(claim, real=first, synthetic=second) for claim in claims))


def _read_rows(data: Any, *, schema: Schema) -> ClaimRows:
    """Read a table without protection, as claims see its rows."""
    source = open_source(data)
    check_header(source, schema)
    rows = read_rows(source, schema)
    return ClaimRows(schema=schema, codes=rows.codes, numbers=rows.numbers)


def _compare(claim: Claim, *, real: ClaimRows, synthetic: ClaimRows) -> Finding:
    first, second = (_evaluate(claim, rows) for rows in (real, synthetic))
    if isinstance(claim.says, Combination):
        # The real rows always agree with themselves.
        holds = True if first is not None else None
        near = decide_claim(claim, real, estimate=second)
    else:
        holds, near = decide_claim(claim, real), decide_claim(claim, synthetic)
    return Finding(
        name=claim.name,
        claim=claim.words,
        real=first,
        synthetic=second,
        holds_in_real=holds,
        holds_in_synthetic=near,
    )


def _evaluate(claim: Claim, rows: ClaimRows) -> float | None:
    if isinstance(claim.says, Inequality):
        found = evaluate_combination(claim.says.excess, rows)
    elif isinstance(claim.says, Combination):
        found = evaluate_combination(claim.says, rows)
    else:
        return None
    return None if math.isnan(found) else found
