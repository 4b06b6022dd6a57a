"""What a promise about survey estimates does not cover, in sentences that follow from the design and the queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from populace.schema.hints import quote_in_text
from populace.survey.design.design import Design
from populace.survey.design.design_parts import DesignEffect, MissingHandling
from populace.survey.queries.queries import Queries
from populace.survey.queries.query_plan import QueryPlan


def list_survey_limitations(plan: QueryPlan) -> Iterator[str]:
    """Yield what nobody may read into estimates, one sentence or two at a time."""
    design, unit = plan.design, plan.design.schema.unit
    yield _describe_sampling(design)
    if design.sampling is not None:
        yield (
            f"That each {unit.word} was sampled in secret is declared, and was not used: no price is lower for it, and "
            "the guarantee holds without it."
        )
    if unit.rows > 1 and not design.clustered and design.replicates is None:
        yield (
            f"One {unit.word} may have up to {unit.rows} rows, and sampling errors assume independent rows: where rows "
            f"of one {unit.word} are correlated, sampling errors are too small. Declare a PSU or replicate weights."
        )
    if design.weights is not None:
        most = f"{float(design.weight_bound):g}"
        yield (
            f"Weights (“{design.weights}”) are protected as all other columns are. Those above {most} counted as "
            f"{most}: totals and counts are too small by what was cut off, and weighted means are biased towards rows "
            "of small weight. Rows without a weight above 0 did not count."
        )
    elif design.base is None and not design.totals:
        yield "No weights were used."
    yield from _totals(plan)
    yield _answers(design, plan.queries)
    yield from _effect(plan)
    few = ", and a little less often with few sampling units of very unequal sizes"
    yield (
        "Each interval covers the population value about 95 % of the time, if the design is correct"
        f"{few if design.clustered or design.replicates is not None else ''}. Coverage is that of one interval, not of "
        "all at once. Measurement errors in the answers are not included."
    )


def _describe_sampling(design: Design) -> str:
    parts = (
        (design.strata, f"the strata (“{design.strata}”)"),
        (design.psu, f"the primary sampling units (“{design.psu}”)"),
        (design.fpc, "the finite population corrections"),
        (design.base, "the base weights"),
        (design.rows, "about how many rows there are"),
    )
    listed = [words for given, words in parts if given is not None]
    detail = f": {_and(listed)}" if listed else ""
    return (
        f"The sampling design is treated as public{detail}. Membership in the sample is protected, but not what the "
        "design itself says about who could be sampled. If rows were not sampled as declared, the sampling errors are "
        "wrong; the protection is not."
    )


def _effect(plan: QueryPlan) -> Iterator[str]:
    design, declared = plan.design, plan.design.max_design_effect
    if not design.clustered and design.replicates is None:
        return
    effect = design.design_effect
    median, factor = f"{float(effect.median):g}", f"{float(effect.factor):g}"
    yield (
        f"Where noise hides how sampling units differ, design effects are taken to be around {median}, 95 % of them "
        f"within a factor of {factor}{'' if effect == DesignEffect() else ', as declared'}. Such intervals cover 95 % "
        "on average over design effects as assumed, not for each of them: about 90 % where a design effect is 10 and "
        "noise hides it, more than 95 % where it is below the median."
    )
    asked = () if plan.sums is None else plan.sums.questions
    if declared is not None and any(each.weighted for each in asked):
        yield (
            f"No design effect above {float(declared):g} was taken to be possible, as declared: where noise hides how "
            "sampling units differ and one is larger, intervals are too short."
        )
    elif declared is not None:
        yield f"That no design effect is above {float(declared):g} is declared, and was not used."


def _totals(plan: QueryPlan) -> Iterator[str]:
    design = plan.design
    if not design.totals:
        return
    by = [" × ".join(control.by.clique) for control in design.totals]
    said = [
        f"Totals of the population by {quote_in_text(by)} are treated as public: what they say of anybody is not "
        "protected by anything here."
    ]
    if plan.counts is not None:
        said.append(
            "A count that one set of them decides is told as it stands there, without error. Other counts come from "
            "weights that meet the totals; each has noise of its own, so counts that should add up to a total do so "
            "only within their errors."
        )
    if plan.adjusted:
        what = "Other estimates" if plan.counts is not None else "Estimates"
        said.append(
            f"{what} come from weights that were adjusted by cells to meet the totals, within noise. These count as "
            "fixed in sampling errors, which are too large where totals explain the answers."
        )
    yield " ".join(said)
    named_parts = {"the strata": design.strata, "the base weights": design.base, "the fpc": design.fpc}
    unused = [name for name, given in named_parts.items() if given is not None]
    if plan.counts is not None and unused:
        yield (
            f"Counts did not use {_and(unused)}: their weights and sampling errors are those of rows that were "
            "drawn one by one from the population of the totals."
        )


def _answers(design: Design, queries: Queries) -> str:
    asked = list(dict.fromkeys(name for query in queries for name in query.known))
    filled = [name for name in asked if design.handling(name) is not MissingHandling.IGNORE]
    left = [name for name in asked if name not in filled]
    parts = []
    if left:
        parts.append(
            f"rows without an answer to {quote_in_text(left)} are left out where it is asked for, assuming that "
            "answers are missing completely at random"
        )
    if filled:
        parts.append(f"missing answers to {quote_in_text(filled)} were imputed")
    detail = f": {'; '.join(parts)}" if parts else ""
    return (
        f"Non-response is handled as declared{detail}. Where those who do not answer differ from those who do in other "
        "ways, estimates are off, and no error here tells by how much."
    )


def _and(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
