"""The stages of a run's budget: what was asked, with which noise, and for which share.

The prices and the noise are the ledger's. It books "12 marginals"; which they were stands in the measurements.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice

from populace.core.marginals import Clique, Marginal
from populace.core.spine import ROOT
from populace.measurements.measurements import describe_count
from populace.privacy.accounting.fixed_point import STEPS
from populace.privacy.accounting.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialCount,
    Mechanism,
    PartitionSelection,
    mechanism_from_json,
)
from populace.release.statement.limitations import LevelLine, plural_of
from populace.release.statement.statement import SpendLine, Statement

MAX_STAGES = 12
BOUND_QUESTION = "size of the bound"
# What the counts of --check-rules are shown as: they are no counts of the release, and their tables not among those.
_RULE_CHECK = "rows that break rules"
# The mechanisms whose noise is added to counts.
CountMechanism = DiscreteGaussian | DiscreteLaplace | ExponentialCount | PartitionSelection


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStage:
    """Spends of one kind, one after the other, together: what, how far off, by which mechanism, for what share."""

    label: str
    noise: str
    mechanism: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Spends of one kind, with their mechanisms and the cliques that their answers are about."""

    verb: str
    mechanisms: tuple[Mechanism, ...]
    lines: tuple[SpendLine, ...]
    cliques: tuple[Clique, ...]
    step: int = 1
    """What one row moves an answer by: 1 where rows are counted, many steps where numbers are added up."""

    @property
    def answers(self) -> int:
        return sum(line["answers"] for line in self.lines)

    @property
    def kind(self) -> tuple[str, str, frozenset[int]]:
        """What spends have in common that are shown together: verb, mechanism and how many columns tables have."""
        return self.verb, type(self.mechanisms[0]).__name__, frozenset(map(len, self.cliques))

    def joins(self, other: _Group) -> bool:
        """Say whether the next spend goes on with this one: tables of the same kind, none of them again."""
        if self.step != other.step:
            return False
        if self.verb != "measure" or not self.cliques or not other.cliques:
            return self.verb == other.verb and (self.mechanisms[0] == other.mechanisms[0] or self.step > 1)
        return self.kind == other.kind and not set(self.cliques) & set(other.cliques)

    def with_(self, other: _Group) -> _Group:
        return replace(
            self,
            mechanisms=self.mechanisms + other.mechanisms,
            lines=self.lines + other.lines,
            cliques=self.cliques + other.cliques,
        )


def summarize_spends(statement: Statement, *, measured: Sequence[Marginal]) -> tuple[BudgetStage, ...]:
    """Return what was paid for, step by step.

    `measured` are the marginals in the order in which they were answered, which is the order of the bookings.
    """
    if "levels" in statement:
        return tuple(_summarize_levels(statement, statement["levels"]))
    groups = _merge_groups(_group_spends(statement, measured))
    return tuple(
        _make_stage(group, label=_describe_question(group, before=groups[:place], later=groups[place + 1 :]))
        for place, group in enumerate(groups)
    )


def find_rule_check(statement: Statement) -> int | None:
    """Return the place of the spend that counted rows that break rules: the first that measures, where there is one."""
    if "rule_check" not in statement:
        return None
    return next((place for place, line in enumerate(statement["spends"]) if line["verb"] == "measure"), None)


def summarize_rule_check(statement: Statement) -> tuple[BudgetStage, ...]:
    """Return the stage of the count of rows that break rules, or none where they were not counted."""
    groups = [group for group in _group_spends(statement, ()) if group.verb == _RULE_CHECK]
    return tuple(_make_stage(group, label=_describe_question(group, before=(), later=())) for group in groups)


def _make_stage(group: _Group, *, label: str) -> BudgetStage:
    return BudgetStage(
        label=label,
        noise=_describe_noise(group),
        mechanism=_describe_mechanism(group),
        share=sum(line["share"] for line in group.lines),
    )


def _summarize_levels(statement: Statement, levels: Sequence[LevelLine]) -> Iterator[BudgetStage]:
    """Yield a stage for every level of a geography that was measured; queries were booked in their order."""
    yield from summarize_rule_check(statement)
    groups = (group for group in _group_spends(statement, ()) if group.verb != _RULE_CHECK)
    for line in levels:
        asked = list(islice(groups, len(line["queries"])))
        if not asked:
            continue
        group = reduce(_Group.with_, asked)
        where = "the whole table" if line["level"] == ROOT else f"every {line['level']} (of {line['units']})"
        noise = _describe_noise(group).replace(" rows", f" {plural_of(statement['unit'])}")
        yield BudgetStage(
            label=f"measure {where}: {', '.join(line['queries'])}",
            noise=noise,
            mechanism=_describe_mechanism(group),
            share=sum(each["share"] for each in group.lines),
        )


def margin_of_error(mechanism: CountMechanism) -> int:
    """Return the 95 % margin of error of noise, in whole rows.

    >>> from fractions import Fraction
    >>> margin_of_error(DiscreteGaussian(Fraction(100))), margin_of_error(DiscreteLaplace(Fraction(10)))
    (20, 30)
    """
    if isinstance(mechanism, PartitionSelection):
        return margin_of_error(mechanism.noise)
    if isinstance(mechanism, DiscreteGaussian):
        return math.ceil(1.96 * math.sqrt(mechanism.variance))
    return math.ceil(math.log(20) * mechanism.scale)


def _group_spends(statement: Statement, measured: Sequence[Marginal]) -> Iterator[_Group]:
    mechanisms = [mechanism_from_json(text["law"]) for text in statement["record"]["spends"]]
    waiting = [marginal.clique for marginal in measured]
    check = find_rule_check(statement)
    for place, (line, mechanism) in enumerate(zip(statement["spends"], mechanisms, strict=True)):
        verb = _RULE_CHECK if place == check else line["verb"]
        # The tables by which bins were learnt stand among the measurements; keys are not counted again.
        kept = verb == "measure" or (verb == "discover" and not isinstance(mechanism, PartitionSelection))
        answers = line["answers"] if kept else 0
        cliques = tuple(waiting[:answers]) if verb == "measure" else ()
        summed = verb == "measure" and statement["record"]["spends"][place]["l1"] >= STEPS
        step = STEPS if summed else 1
        yield _Group(verb=verb, mechanisms=(mechanism,), lines=(line,), cliques=cliques, step=step)
        waiting = waiting[answers:]


def _merge_groups(groups: Iterable[_Group]) -> tuple[_Group, ...]:
    """Join neighbours of one kind; where rounds repeat so often that nobody would read them, all of one kind."""
    found: list[_Group] = []
    for group in groups:
        if found and found[-1].joins(group):
            found[-1] = found[-1].with_(group)
        else:
            found.append(group)
    if len(found) <= MAX_STAGES:
        return tuple(found)
    alike: dict[tuple[str, str, frozenset[int]], _Group] = {}
    for group in found:
        alike[group.kind] = alike[group.kind].with_(group) if group.kind in alike else group
    return tuple(alike.values())


def _describe_question(group: _Group, *, before: Sequence[_Group], later: Sequence[_Group]) -> str:
    if group.verb == _RULE_CHECK:
        return f"measure {_RULE_CHECK}"
    if group.verb == "choose":
        return _describe_choice(group, later=later)
    if group.step > 1:
        return f"measure {group.answers} sums over rows" if group.answers > 1 else group.lines[0]["what"]
    if group.verb == "measure":
        return f"measure {_describe_tables(group, seen={c for each in before for c in each.cliques})}"
    if group.verb == "discover":
        return f"learn {', '.join(dict.fromkeys(line['what'] for line in group.lines))}"
    if group.verb == "smooth" or group.lines[0]["what"].startswith(BOUND_QUESTION):
        more = f" and {len(group.lines) - 1} more" if len(group.lines) > 1 else ""
        return f"answer {group.lines[0]['what']}{more}"
    if group.verb == "score":
        return f"score {group.answers} marginals against the current model"
    return f"{group.verb} {group.lines[0]['what']}" + (", …" if len(group.lines) > 1 else "")


def _describe_tables(group: _Group, *, seen: set[Clique]) -> str:
    """Return what was measured; a repeat says so."""
    if len(group.cliques) < group.answers:
        return f"{group.answers} tables" if group.answers > 1 else group.lines[0]["what"]
    distinct = Counter(group.cliques)
    sizes = Counter(map(len, distinct))
    before = Counter(len(clique) for clique in distinct if clique in seen)
    twice = Counter(len(clique) for clique, times in distinct.items() if times > 1)
    text = [
        describe_count(number, columns=size) + _describe_repeats(before[size], twice[size], of=number)
        for size, number in sizes.items()
    ]
    return ", and ".join(text) if any("," in each for each in text) else " and ".join(text)


def _describe_repeats(before: int, twice: int, *, of: int) -> str:
    """Return how many of some tables were measured before, or more than once here."""
    if before == of:
        return " again"
    if twice == of:
        return " more than once"
    parts = [f", {before} of them again"] if before else []
    parts += [f", {twice} of them more than once"] if twice else []
    return "".join(parts)


def _describe_choice(group: _Group, *, later: Sequence[_Group]) -> str:
    """Return how often something was chosen, and how much was: what is measured before the next choices."""
    times = "once" if len(group.lines) == 1 else f"{len(group.lines)} times"
    or_none = any("or none" in line["what"] for line in group.lines)
    chosen = []
    for following in later:
        if following.verb == "choose":
            break
        chosen += [len(clique) for clique in following.cliques if len(clique) > 1]
    one = "pair" if set(chosen) <= {2} else "combination of columns"
    many = "pairs" if one == "pair" else "combinations of columns"
    text = f"choose {times} one {one}" + (" or none" if or_none else "")
    if not any(following.cliques for following in later):
        return text
    if not chosen:
        return f"{text}; none was chosen"
    return f"{text}; {len(chosen)} {one if len(chosen) == 1 else many} {'was' if len(chosen) == 1 else 'were'} chosen"


def _describe_mechanism(group: _Group) -> str:
    """Return the mechanism as the ledger has it; of several, the least and the most noise."""
    mechanisms = {
        mechanism: margin_of_error(mechanism)
        for mechanism in group.mechanisms
        if isinstance(mechanism, DiscreteGaussian | DiscreteLaplace)
    }
    if len(mechanisms) < 2:
        return group.lines[0]["law"]
    least, most = min(mechanisms, key=mechanisms.__getitem__), max(mechanisms, key=mechanisms.__getitem__)
    last = most.variance if isinstance(most, DiscreteGaussian) else most.scale
    return f"{least} to {float(last):.6g}"


def _describe_noise(group: _Group) -> str:
    """Return how far answers are off: counts in rows, sums in multiples of the most that one row can add to them."""
    if group.verb == "smooth":
        return "scaled to a private smooth bound"
    if group.step == 1 and group.lines[0]["what"].startswith(BOUND_QUESTION):
        return "logarithm of the bound, with noise"
    counted = [mechanism for mechanism in group.mechanisms if isinstance(mechanism, CountMechanism)]
    if len(counted) < len(group.mechanisms):
        return "exponential mechanism"
    margins = [margin_of_error(mechanism) for mechanism in counted]
    least, most = min(margins), max(margins)
    if group.step > 1:
        ends = dict.fromkeys(f"{end / group.step:.3g}" for end in (least, most))
        return f"± {' to '.join(ends)} times the largest contribution of one row"
    thresholds = [each.threshold for each in counted if isinstance(each, PartitionSelection)]
    above = f"; released above {thresholds[-1]} rows" if thresholds else ""
    if least < most:
        return f"± {least} to {most} rows{above}"
    return f"± {most} {'row' if most == 1 else 'rows'}{above}"
