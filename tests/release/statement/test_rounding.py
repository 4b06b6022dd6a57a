"""Numbers of a promise that are written shorter than they are: never below what they stand for."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from populace.cli.main import main
from populace.privacy.ledger.ledger import Ledger
from populace.privacy.ledger.run_record import format_short_up
from populace.release.statement.statement import round_to_float
from tests.helpers import releases

AMOUNTS = st.builds(Fraction, st.integers(1, 10**6), st.integers(1, 10**12))


@given(AMOUNTS)
def test_a_number_for_json_is_never_below_the_exact_one_and_never_far_above(value: Fraction) -> None:
    written = Fraction(json.dumps(round_to_float(value)))
    assert value <= written <= value * (1 + Fraction(1, 2**51))


@given(AMOUNTS)
def test_six_digits_are_never_below_the_exact_number_and_never_far_above(value: Fraction) -> None:
    assert value <= Fraction(format_short_up(value)) <= value * (1 + Fraction(1, 10**5))


@pytest.mark.parametrize("text", ["0.1", "0.3", "1", "2.5", "1e-9", "1e-300"])
def test_short_decimals_stay_as_they_are(text: str) -> None:
    assert Fraction(json.dumps(round_to_float(Fraction(text)))) == Fraction(text)
    assert format_short_up(Fraction(text)) == text


@pytest.mark.parametrize(("epsilon", "delta"), [("2/3", "1e-9"), ("1.00000001", "1/3000000007")])
def test_statements_measurements_and_ledgers_promise_no_less_than_was_spent(tmp_path, capsys, epsilon, delta):
    table, schema = releases.small_sample(("sex",), households=20)
    measured = releases.measure(table, schema, ledger=tmp_path / "l.db", epsilon=epsilon, delta=delta)
    shown = dict(part.split(" = ") for part in repr(measured).split("with ")[1].split(", ")[:2])
    assert Fraction(shown["ε"]) >= Fraction(epsilon)
    assert Fraction(shown["δ"]) >= Fraction(delta)
    statement = json.loads(json.dumps(releases.make(measured, rows=10).statement), parse_float=Fraction)
    assert statement["epsilon"] >= Fraction(epsilon) == Fraction(statement["epsilon_exact"])
    assert statement["delta"] >= Fraction(delta) == Fraction(statement["delta_exact"])
    (account,) = Ledger.existing(tmp_path / "l.db").accounts()
    assert main(["ledger", "show", "--json", "--ledger", str(tmp_path / "l.db")]) == 0
    (told,) = json.loads(capsys.readouterr().out)["accounts"]
    for part in (told, told["runs"][0]):
        assert Fraction(part["epsilon"]) == account.epsilon == Fraction(epsilon)
        assert Fraction(part["delta"]) == account.delta
