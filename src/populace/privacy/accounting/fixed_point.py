"""How finely numbers are rounded before noise meets them: in whole steps, so that noise can be exact."""

from __future__ import annotations

import re

# A row adds at most this many steps to a sum: of the most that it can add, one step is a 16-millionth.
STEPS = 2**24
# The logarithm of a smooth bound is rounded to so many steps for each t by which it may move between neighbours.
LOG_STEPS = 2**10
# The scores of sets of bins are rounded to at least so many steps for what one row can move them.
SCORE_STEPS = 2**20
# What is released in steps, by its verb and by how the books have it, and in at least how many for one row.
_STEPPED = (
    ("measure", re.compile(r"sum of .*|[0-9]+ sums", re.DOTALL), STEPS),
    ("score", re.compile(r"size of the bound on .*", re.DOTALL), LOG_STEPS),
    ("choose", re.compile(r"1 of [0-9]+ sets of bins"), SCORE_STEPS),
)


def fixed_point_steps(verb: str, what: str) -> int:
    """Return in how many steps the books tell what one row adds: 1 where rows are counted.

    >>> fixed_point_steps("measure", "sum of INCOME by SEX") == STEPS, fixed_point_steps("measure", "INCOME × SEX")
    (True, 1)
    """
    return next((steps for own, pattern, steps in _STEPPED if own == verb and pattern.fullmatch(what)), 1)
