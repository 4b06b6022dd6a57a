"""A plan fixed in advance that told keys keeps the part of delta that was set aside for them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ledgers import reserve

from populace.errors import UsageError
from populace.privacy.ledger import Ledger
from populace.privacy.loss import gdp_delta
from populace.privacy.mechanisms import Spend
from populace.privacy.record import Plan

DELTA, KEYS = Fraction("1e-9"), Fraction("1e-10")


def test_a_fixed_plan_never_gives_back_what_keys_may_take(tmp_path):
    """What it keeps of delta covers the noise and the keys together, not one of the two."""
    run = reserve(Ledger.open(tmp_path / "ledger.db"), plan=Plan.FIXED, keys=KEYS)
    law = run.left.key_law(Fraction(1, 2), delta=KEYS)
    run.charge(Spend(verb="discover", what="values", law=law, answers=1, l1=1, l2_squared=1))
    noise = gdp_delta(run.record().used, epsilon=Fraction(1))
    assert 0 < noise < KEYS / 2
    for kept in (noise, KEYS / 2, KEYS, KEYS + noise / 2):
        with pytest.raises(UsageError, match="less than it used"):
            run.finish(returned=(Fraction(0), DELTA - kept))
    run.finish(returned=(Fraction(0), DELTA - KEYS - noise))
    assert run.record().guarantee == (1, KEYS + noise)
    run.record().check()
