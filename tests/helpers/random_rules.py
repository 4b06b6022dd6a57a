"""Random rules over small domains, and what they allow, by enumeration."""

from __future__ import annotations

import numpy as np

from populace.core.marginals import Domain, Grouping
from populace.schema.conditions.rules import Rule, Rules


def grouping(rng: np.random.Generator, name: str, size: int, *, most: int = 3) -> Grouping:
    """Draw classes for the codes of a column, every class with at least one code."""
    classes = int(rng.integers(1, min(size, most) + 1))
    labels = [*range(classes), *rng.integers(0, classes, size - classes).tolist()]
    return Grouping(name, tuple(int(label) for label in rng.permutation(labels)))


def random_rules(rng: np.random.Generator, domain: Domain, *, count: int, most: int = 3) -> Rules:
    """Draw rules on random columns; one random row always stays allowed."""
    classes = {name: grouping(rng, name, size) for name, size in domain.items()}
    row = {name: int(rng.integers(size)) for name, size in domain.items()}
    rules = []
    for number in range(count):
        width = int(rng.integers(1, min(most, len(domain)) + 1))
        clique = tuple(str(name) for name in rng.permutation(list(domain))[:width])
        allowed = rng.random([classes[name].size for name in clique]) < 0.6
        allowed[tuple(classes[name].groups[row[name]] for name in clique)] = True
        rules.append(Rule(text=f"rule {number}", clique=clique, allowed=allowed))
    return Rules(classes=classes, rules=tuple(rules))


def allowed_rows(rules: Rules, domain: Domain) -> np.ndarray:
    """Say of every cell of the joint table whether it keeps all rules."""
    codes = dict(zip(domain, np.indices(domain.shape(domain)), strict=True))
    kept = np.ones(domain.shape(domain), dtype=bool)
    for rule in rules.rules:
        kept &= rule.allowed[tuple(rules.classes[name].lookup[codes[name]] for name in rule.clique)]
    return kept


def broken_rows(codes: dict[str, np.ndarray], rules: Rules) -> dict[str, int]:
    """Count the rows that break each rule."""
    return {
        rule.text: int(
            (~rule.allowed[tuple(rules.classes[name].lookup[codes[name]] for name in rule.clique)]).sum()
        )
        for rule in rules.rules
    }
