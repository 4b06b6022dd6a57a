"""What a run pays its ledger in time, after 100, 10,000 and 100,000 entries of earlier runs.

    python bench/ledger.py [--entries 100 10000 100000] [--times 61]

Each time a new handle opens the ledger, reserves, charges two questions and finishes, as a small run does. Beside it
stands what reading and checking every entry takes (`populace ledger verify`): opening a ledger would cost this without
its checkpoint. The ledgers lie in memory (/dev/shm where there is one), so that no disk is measured. Claim: after
100,000 entries a run waits at most twice as long for its ledger as after 100.
"""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from error import here

from populace.privacy.accounting.mechanisms import Exponential, Spend
from populace.privacy.accounting.privacy_loss import Currency, price
from populace.privacy.accounting.spend_record import SpendRecord
from populace.privacy.ledger.hash_chain import Event, EventKind
from populace.privacy.ledger.ledger import Ledger, Run
from populace.privacy.ledger.run_record import Adaptivity, RunRecord
from populace.schema.unit import PrivacyUnit

MOST = 2.0
SPENDS = 5
ACCOUNTS = 10
SPEND = Spend(
    verb="choose", what="1 of 91", mechanism=Exponential(Fraction(1, 8)), answers=1, l1=1, l2_squared=1
)


def main() -> None:
    """Time every size and say whether the claim holds."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--entries", type=int, nargs="+", default=[100, 10_000, 100_000])
    ask.add_argument("--times", type=int, default=61)
    told = ask.parse_args()
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        paths = [Path(folder) / f"{entries}.db" for entries in told.entries]
        for path, entries in zip(paths, told.entries, strict=True):
            fill(path, entries=entries)
        # In turn, so that what else the machine does meets all sizes alike.
        rounds = [[timed(path) for path in paths] for _ in range(told.times)]
        took = [median(column) for column in zip(*rounds, strict=True)]
        print(f"{here()}; median of {told.times}")
        print("entries    open, reserve, charge, finish   ratio   verify: all entries")
        for path, entries, seconds in zip(paths, told.entries, took, strict=True):
            begun = time.perf_counter()
            Ledger.existing(path).verify()
            whole = time.perf_counter() - begun
            print(f"{entries:7}    {1000 * seconds:26.1f} ms   {seconds / took[0]:5.2f}   {whole:17.2f} s")
    ratio = took[-1] / took[0]
    print(f"{'' if ratio <= MOST else '* not '}at most {MOST:g} times as long at the end: {ratio:.2f}")


def timed(path: Path) -> float:
    """Return the seconds that one small run waits for its ledger."""
    begun = time.perf_counter()
    run = reserve(Ledger.open(path))
    run.charge(SPEND)
    run.charge(SPEND)
    run.finish()
    return time.perf_counter() - begun


def reserve(ledger: Ledger) -> Run:
    """Reserve a budget of 1 from the first account."""
    return ledger.reserve(
        "dataset 0",
        epsilon=1,
        delta=0,
        unit=PrivacyUnit(),
        method="none",
        schema_digest="0" * 64,
        rehearsal=False,
    )


def fill(path: Path, *, entries: int) -> None:
    """Write a ledger with so many entries, in few transactions: runs of some spends on some accounts, most finished."""
    ledger = Ledger.open(path)
    for number in range(ACCOUNTS):
        ledger.open_account(f"dataset {number}", epsilon=10**6, delta=0)
    waiting = list(history(entries - ACCOUNTS))
    for start in range(0, len(waiting), 1000):
        ledger._write(lambda _, start=start: waiting[start : start + 1000])


def history(entries: int) -> Iterator[Event]:
    """Yield what runs write, one run after the other; every tenth is cut short before it finishes."""
    left = entries
    number = 0
    while left > 0:
        run = RunRecord(
            run=secrets.token_hex(16),
            dataset=f"dataset {number % ACCOUNTS}",
            epsilon=Fraction(1),
            delta=Fraction(0),
            unit=PrivacyUnit(),
            method="none",
            schema_digest="0" * 64,
            rehearsal=False,
            plan=Adaptivity.ADAPTIVE,
            currency=Currency.PURE,
            cap=Fraction(1),
        )
        spend = SpendRecord(spend=SPEND, price=price(SPEND, currency=run.currency)).to_json()
        told = [(EventKind.RESERVE, run.reservation()), *[(EventKind.SPEND, spend)] * SPENDS]
        if number % 10:
            told.append((EventKind.FINISH, {"returned": ["0", "0"]}))
        for kind, body in told[:left]:
            yield Event(kind=kind, dataset=run.dataset, run=run.run, body=body)
        left -= len(told)
        number += 1


if __name__ == "__main__":
    main()
