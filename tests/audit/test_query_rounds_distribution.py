"""`nist2018` with a list of queries, whole, on tiny domains: weights and bins change no promise.

Weighted noise, compressed columns and bins of a marginal are checked as test_whole_mechanism.py checks what is chosen.
"""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction
from unittest.mock import patch

import pytest

from populace.api import measure as measure_api
from populace.methods.workload import Workload
from populace.privacy.noise.entropy import SystemEntropy
from populace.privacy.noise.noise_source import ExactNoise
from tests.audit import mechanism_mutants as mutants
from tests.audit.exact_losses import Leak, Waste, check_noise
from tests.audit.replay import RecordingNoise
from tests.audit.transcripts import Case, check, decoy, whole_run

QUERIES = """
[rounds]
share = 0.4
threshold = 2

[columns.a]
weight = 2

[columns.c]
compress = false

[[marginals]]
columns = ["a", "c"]
weight = 3
coarse = { c = ["0", ["1", "2"]] }

[[marginals]]
columns = ["b", "c"]

[[marginals]]
columns = ["a", "b", "c"]
weight = 0.5
coarse = { c = [["0", "1"], "2"] }
"""
PLAIN = Case(method="nist2018", sizes=(2, 2, 3))
CASES = [
    PLAIN,
    Case(method="nist2018", sizes=(2, 2, 3), delta="0"),
    Case(method="nist2018", sizes=(2, 2, 3), relation="replace-one"),
    pytest.param(Case(method="nist2018", sizes=(2, 2, 3), rows=2), marks=pytest.mark.slow),
]
FEW = {"decoys": ((5, 1), (60, 3)), "most": 0, "replays": 2}
HALF, TWICE = Fraction(1, 2), Fraction(2)


@contextmanager
def listed():
    """Let every run ask the queries above."""

    def asked(given):
        return lambda schema: Workload.parse(QUERIES, schema=schema)

    with patch.object(measure_api, "resolve_workload", asked):
        yield


@pytest.mark.parametrize("case", CASES, ids=str)
def test_neighbours_lose_what_is_promised_and_no_more(case):
    with listed():
        found = check(case, **FEW, least=0.98)
    assert {("measure", 1), ("measure", 2), ("measure", 3)} == found.reached


@pytest.mark.parametrize(("factor", "error"), [(HALF, Leak), (TWICE, Waste)])
def test_another_noise_level_is_caught(factor, error):
    with listed(), mutants.noise_passed_on(factor, verbs=["measure"])(), pytest.raises(error):
        check(PLAIN, **FEW, least=0.98)


@pytest.mark.parametrize(("factor", "error"), [(None, None), (HALF, Leak), (TWICE, Waste)])
def test_noise_is_drawn_as_the_ledger_says(factor, error):
    """False alarms: below 1e-8; each of the faults lies further away than that."""
    case = Case(method="nist2018", sizes=(2, 2, 3), epsilon="4")
    table = decoy(case, 60, seed=1)
    with listed(), mutants.noise_drawn(factor)() if factor else listed():
        steps = [
            step
            for _ in range(16)
            for step in whole_run(case, table, RecordingNoise(ExactNoise(SystemEntropy()))).steps
        ]
    if error is None:
        check_noise(steps, verbs=("measure",))
    else:
        with pytest.raises(error, match="measure"):
            check_noise(steps, verbs=("measure",))
