"""Disclosure checks of a table as a result: all numbers as one JSON document, and a page made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from populace.core.errors import UsageError
from populace.core.pretty_json import pretty_json
from populace.core.untrusted_files import read_object
from populace.evaluation.binomial_interval import clopper_pearson
from populace.evaluation.disclosure.anonymity import Anonymity, measure_anonymity
from populace.evaluation.disclosure.attacks import Attack, run_attacks
from populace.evaluation.disclosure.text_tables import (
    check_names,
    join_tables,
    rank_values,
    read_text_tables,
)
from populace.evaluation.disclosure.union_of_pieces import Criterion, compare_union
from populace.evaluation.input_files import refuse_same_file
from populace.evaluation.internal_marking import INTERNAL
from populace.privacy.ledger.run_record import RunRecord
from populace.release.folder.destination import atomic_folder, check_empty, check_outside_release
from populace.release.manifest import Manifest, digest_file
from populace.release.report.render import load_templates
from populace.release.statement.membership_power import FALSE_POSITIVE_RATE, bound_membership_power
from populace.schema.schema import Schema

DISCLOSURE_FORMAT = "populace disclosure 1"
_ALARM_LEVEL = 0.999
_LIMITS = (
    "k-anonymity, ℓ-diversity and t-closeness describe a table. They say nothing of what somebody with other knowledge "
    "can infer from it, and do not add up over several releases.",
    "An attack that fails shows that this attack failed. Only ε and δ bound what every attack can find.",
    "Distance to the closest record is no measure of privacy and is not reported: it is small for common rows, however "
    "they were made, and large for copies that were moved a little.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a release promises about every membership test: its power at 5 % false positives is at most this."""

    epsilon: str
    delta: str
    unit: str
    record: RunRecord

    @property
    def power(self) -> float:
        """The largest power at 5 % false positives."""
        return bound_membership_power(self.record)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "unit": self.unit,
            "false_positive_rate": FALSE_POSITIVE_RATE,
            "max_power": self.power,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """What a table, or the union of its pieces, discloses; attacks where real and control rows are known.

    `public` says that all of it follows from files of a release.
    """

    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    public: bool
    anonymity: Anonymity
    pieces: Mapping[str, Anonymity]
    criteria: tuple[Criterion, ...]
    attacks: tuple[Attack, ...]
    promise: Promise | None

    @property
    def marking(self) -> str | None:
        """The mark of what must not be published."""
        return None if self.public else INTERNAL

    @property
    def beyond_promise(self) -> list[str]:
        """The membership tests that have more power than ε and δ allow, beyond chance: something went around them.

        The rate of false positives is an estimate too. Both ends are those of intervals at 99.9 %, so a release that
        keeps its promise raises an alarm once in a thousand tests at the most.
        """
        if self.promise is None:
            return []
        record, found = self.promise.record, []
        for attack in self.attacks:
            if attack.name.startswith("membership") and attack.real.trials and attack.control.trials:
                low, _ = clopper_pearson(attack.real.successes, attack.real.trials, level=_ALARM_LEVEL)
                _, rate = clopper_pearson(attack.control.successes, attack.control.trials, level=_ALARM_LEVEL)
                if rate < 1 and low > bound_membership_power(record, false_positives=rate):
                    found.append(attack.name)
        return found

    @property
    def alarms(self) -> list[str]:
        """What must be read before all numbers: tests that find more than the release promises."""
        return [
            f"The {name} has more power than ε and δ allow: the table was not made under this promise alone, or the "
            "control is no control."
            for name in self.beyond_promise
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all numbers as one document."""
        return {
            "format": DISCLOSURE_FORMAT,
            "marking": self.marking,
            "quasi_identifiers": list(self.quasi_identifiers),
            "sensitive": list(self.sensitive),
            "anonymity": self.anonymity.to_json(),
            "pieces": {name: found.to_json() for name, found in self.pieces.items()},
            "union": [each.to_json() for each in self.criteria],
            "attacks": [attack.to_json() for attack in self.attacks],
            "promise": None if self.promise is None else self.promise.to_json(),
            "beyond_promise": self.beyond_promise,
            "limits": list(_LIMITS),
        }

    def render(self) -> str:
        """Return the page."""
        return (
            load_templates().get_template("disclosure.html").render(found=self.to_json(), alarms=self.alarms)
        )

    def save(self, folder: str | Path) -> None:
        """Write `disclosure.json` and `disclosure.html` into a new folder."""
        check_outside_release(Path(folder))
        check_empty(Path(folder))
        with atomic_folder(Path(folder)) as place:
            (place / "disclosure.json").write_text(pretty_json(self.to_json()) + "\n", encoding="utf-8")
            (place / "disclosure.html").write_text(self.render(), encoding="utf-8")


def measure_disclosure(
    tables: Mapping[str, Any],
    *,
    schema: Schema,
    quasi_identifiers: Sequence[str],
    sensitive: Sequence[str] = (),
    real: Any = None,
    control: Any = None,
    release: Path | None = None,
) -> Disclosure:
    """Return what tables disclose: one, or the pieces of one, by name.

    Attacks need the `real` rows that a table was made from and `control` rows of the same population that it was not
    made from. With a `release` folder they stand beside what its ε and δ promise.
    """
    check_names([*quasi_identifiers, *sensitive], schema=schema, what="columns")
    if not quasi_identifiers:
        raise UsageError(
            "no quasi-identifier is named.", hint="name columns that others may know: age,sex,area"
        )
    if (real is None) != (control is None):
        raise UsageError(
            "attacks need real rows and control rows.",
            hint="give both: control rows come from the same population and were not used for the release",
        )
    refuse_same_file(
        real,
        control,
        what="the real rows and the control",
        hint="control rows come from the same population and were not used for the release",
    )
    others = {} if real is None else {"the real table": real, "the control": control}
    names = [*quasi_identifiers, *sensitive]
    read = read_text_tables({**tables, **others}, columns=names)
    pieces = read[: len(tables)]
    whole = join_tables(pieces) if len(pieces) > 1 else pieces[0]
    places = {name: rank_values(whole.texts[name], name=name, schema=schema) for name in sensitive}
    compared: tuple[list[Anonymity], list[Criterion]] = ([], [])
    if len(pieces) > 1:
        each, found, criteria = compare_union(pieces, quasi=quasi_identifiers, sensitive=places)
        compared = each, criteria
    else:
        found = measure_anonymity(whole, quasi=quasi_identifiers, sensitive=places)
    attacks = (
        ()
        if real is None
        else run_attacks(whole, real=read[-2], control=read[-1], quasi=quasi_identifiers, sensitive=sensitive)
    )
    return Disclosure(
        quasi_identifiers=tuple(quasi_identifiers),
        sensitive=tuple(sensitive),
        public=real is None and release is not None and _are_released(tables.values(), release),
        anonymity=found,
        pieces=dict(zip(tables, compared[0], strict=False)),
        criteria=tuple(compared[1]),
        attacks=tuple(attacks),
        promise=None if release is None else read_promise(release),
    )


def read_promise(release: Path) -> Promise:
    """Return what a release folder promises about every membership test."""
    Manifest.load(release)
    statement, record_json = read_object(release / "statement.json", inner="record")
    record = RunRecord.from_json(record_json)
    return Promise(
        epsilon=str(statement["epsilon_exact"]),
        delta=str(statement["delta_exact"]),
        unit=record.unit.word,
        record=record,
    )


def _are_released(tables: Any, release: Path) -> bool:
    """Say whether all tables are files of a release, by their digests; one of rehearsal noise protects nobody."""
    manifest = Manifest.load(release)
    if manifest.stamp is not None:
        return False
    held = set(manifest.files.values())
    return all(isinstance(each, str | Path) and digest_file(Path(each)) in held for each in tables)
