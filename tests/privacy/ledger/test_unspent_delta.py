"""A plan fixed in advance that told keys keeps the part of delta that was set aside for them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from populace.core.errors import UsageError
from populace.privacy.accounting.mechanisms import Spend
from populace.privacy.accounting.privacy_loss import gdp_delta
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import Adaptivity
from tests.helpers.ledgers import reserve

DELTA, KEYS = Fraction("1e-9"), Fraction("1e-10")


def test_a_fixed_plan_never_gives_back_what_keys_may_take(tmp_path):
    """What it keeps of delta covers the noise and the keys together, not one of the two."""
    run = reserve(Ledger.open(tmp_path / "ledger.db"), plan=Adaptivity.FIXED, keys=KEYS)
    mechanism = run.left.key_mechanism(Fraction(1, 2), delta=KEYS)
    run.charge(Spend(verb="discover", what="values", mechanism=mechanism, answers=1, l1=1, l2_squared=1))
    noise = gdp_delta(run.record().used, epsilon=Fraction(1))
    assert 0 < noise < KEYS / 2
    for kept in (noise, KEYS / 2, KEYS, KEYS + noise / 2):
        with pytest.raises(UsageError, match="less than it used"):
            run.finish(returned=(Fraction(0), DELTA - kept))
    run.finish(returned=(Fraction(0), DELTA - KEYS - noise))
    assert run.record().guarantee == (1, KEYS + noise)
    run.record().check()
