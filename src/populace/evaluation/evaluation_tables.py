"""The sentences and tables of an evaluation's page, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from populace.core.number_format import format_number, format_percent
from populace.evaluation.evaluation_result import Evaluation, GroupResult

# The worst are shown at once, the rest on request; of very many only so many are listed.
ROWS_SHOWN, MAX_ROWS = 12, 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """One table of the page: a title, what its columns are, and its rows as texts, the worst first."""

    name: str
    title: str
    about: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    small: frozenset[int] = frozenset()
    total: int = 0

    @property
    def shown(self) -> int:
        """How many rows are shown before more are asked for."""
        return ROWS_SHOWN


def summarize(evaluation: Evaluation) -> list[str]:
    """Return what to know first: the worst of everything, and what the scores cannot see."""
    found = {score.name: score for score in evaluation.scores}
    lines = []
    if "equivalent_sample_size" in found:
        size = found["equivalent_sample_size"]
        low, high = size.interval or (size.value, size.value)
        lines.append(
            f"In pairs of columns the synthetic rows are as far from the real ones as a random sample of "
            f"{format_number(size.value)} rows ({format_number(low)} to {format_number(high)}) of "
            f"{format_number(evaluation.rows[0])} would be."
        )
    if evaluation.columns:
        worst = evaluation.columns[0]
        lines.append(
            f"Worst column: {worst.name}, {format_percent(worst.distance)} of the rows have another value."
        )
    if evaluation.pairs:
        pair = evaluation.pairs[0]
        lines.append(f"Worst pair: {' × '.join(pair.columns)}, {format_percent(pair.distance)}.")
    groups = [each for each in evaluation.areas or evaluation.groups if not each.small]
    if groups:
        group = groups[0]
        lines.append(
            f"Worst {'area' if evaluation.areas else 'subgroup'} of 30 real rows or more: {group.column} = "
            f"{group.value}, "
            f"{format_percent(group.distance)}; chance alone would give about {format_percent(group.by_chance)}."
        )
    gone = [each for each in evaluation.groups if not each.synthetic_rows]
    if gone:
        small = sum(each.small for each in gone)
        whole = "1 group of real rows has" if len(gone) == 1 else f"{len(gone)} groups of real rows have"
        lines.append(f"{whole} no synthetic row at all; fewer than 30 real rows: {small} of {len(gone)}.")
    broken = [each for each in evaluation.rules if each.synthetic]
    if evaluation.rules:
        lines.append(
            f"{len(broken)} of {len(evaluation.rules)} rules are broken by synthetic rows."
            if broken
            else f"None of {len(evaluation.rules)} rules is broken by a synthetic row."
        )
    lost = [each for each in evaluation.columns if each.outside[1]]
    if lost:
        cells = sum(each.outside[1] for each in lost)
        lines.append(
            f"{format_number(cells)} synthetic cells lie outside the domain of {len(lost)} columns, and count as the "
            "schema says: see columns."
        )
    lines.append(
        "Marginals of two and three columns cannot see dependence among more columns, such as a parity. Conjunctions "
        "and propensity see further, at a fixed choice of conditions."
    )
    return lines


def list_tables(evaluation: Evaluation) -> list[ReportTable]:
    """Return the tables of the page that have rows."""
    found = [
        ReportTable(
            name="columns",
            title="Columns",
            about="Total variation: the share of rows that would have to change their value. Cells outside a domain "
            "get the code that the schema declares for them.",
            header=("column", "total variation", "codes", "outside, real", "outside, synthetic"),
            rows=tuple(
                (each.name, format_percent(each.distance), str(each.codes), *map(format_number, each.outside))
                for each in evaluation.columns
            ),
        ),
        ReportTable(
            name="pairs",
            title="Pairs",
            about="Total variation of the table of two columns, and Cramér's V in both files.",
            header=("pair", "total variation", "V, real", "V, synthetic"),
            rows=tuple(
                (
                    " × ".join(each.columns),
                    format_percent(each.distance),
                    *(f"{v:.2f}" for v in each.association or ()),
                    *(("–", "–") if each.association is None else ()),
                )
                for each in evaluation.pairs
            ),
        ),
        ReportTable(
            name="triples",
            title="Triples",
            about="Total variation of the table of three columns, the worst of those that were compared.",
            header=("triple", "total variation"),
            rows=tuple(
                (" × ".join(names), format_percent(distance)) for names, distance in evaluation.triples
            ),
        ),
        _list_groups(
            "areas",
            "Areas",
            "Mean total variation of all pairs of other columns among the rows of an area.",
            evaluation.areas,
        ),
        _list_groups(
            "subgroups",
            "Subgroups",
            "Mean total variation of all other columns among the rows with one value. “By chance” is what a random "
            "sample of the real group, as large as the synthetic one, would have.",
            evaluation.groups,
        ),
        ReportTable(
            name="numbers",
            title="Numbers",
            about="Mean difference of percentiles 1 to 99 in inter-quartile distances, and of the shares beyond the "
            "real 1st and 99th percentile.",
            header=("column", "quantiles", "tails"),
            rows=tuple((n.column, f"{n.quantiles:.3g}", format_percent(n.tails)) for n in evaluation.numbers),
        ),
        ReportTable(
            name="predictions",
            title="Predictions",
            about="Area under the ROC curve on held-out real rows: has a row the most frequent value of a column?",
            header=("target", "trained on real", "trained on synthetic", "loss"),
            rows=tuple(
                (p.column, f"{p.real:.3f}", f"{p.synthetic:.3f}", f"{p.real - p.synthetic:.3f}")
                for p in evaluation.predictions
            ),
        ),
        ReportTable(
            name="coefficients",
            title="Regression coefficients",
            about="Coefficients of linear regressions on all other columns ± standard error, in standard deviations of "
            "the real outcome, and the overlap of their 95 % intervals.",
            header=("outcome", "feature", "real", "synthetic", "overlap"),
            rows=tuple(
                (
                    c.outcome,
                    c.feature,
                    f"{c.real:.3f} ± {c.real_error:.3f}",
                    f"{c.synthetic:.3f} ± {c.synthetic_error:.3f}",
                    f"{c.overlap:.2f}",
                )
                for c in evaluation.coefficients
            ),
        ),
        ReportTable(
            name="findings",
            title="Claims",
            about="What the real and the synthetic rows say of each claim. It survives if both lead to the same "
            "conclusion. The number is the estimate, or by how much the left side lies on the side that is claimed.",
            header=("claim", "survives", "real", "synthetic"),
            rows=tuple(
                (
                    each.claim,
                    {True: "yes", False: "no", None: "cannot be decided"}[each.survives],
                    *("–" if number is None else f"{number:.4g}" for number in (each.real, each.synthetic)),
                )
                for each in evaluation.findings
            ),
        ),
        ReportTable(
            name="rules",
            title="Rules",
            about="Rows that break a rule of the schema. Rows are compared as they are, not as a rule would have them.",
            header=("rule", "real rows", "synthetic rows"),
            rows=tuple((r.rule, format_number(r.real), format_number(r.synthetic)) for r in evaluation.rules),
        ),
    ]
    return [_limit(table) for table in found if table.rows]


def _list_groups(name: str, title: str, about: str, found: Sequence[GroupResult]) -> ReportTable:
    return ReportTable(
        name=name,
        title=title,
        about=about + " Small groups have fewer than 30 real rows.",
        header=("group", "total variation", "by chance", "real rows", "synthetic rows", "size"),
        rows=tuple(
            (
                f"{each.column} = {each.value}",
                format_percent(each.distance),
                format_percent(each.by_chance),
                format_number(each.rows),
                format_number(each.synthetic_rows),
                "small" if each.small else "",
            )
            for each in found
        ),
        small=frozenset(place for place, each in enumerate(found) if each.small),
    )


def _limit(table: ReportTable) -> ReportTable:
    return replace(table, rows=table.rows[:MAX_ROWS], total=len(table.rows))
