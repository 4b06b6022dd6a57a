"""The report of a hierarchical release as an HTML file that opens offline."""

from __future__ import annotations

from populace.release.report.charts import Spec
from populace.release.report.hierarchy import bias_charts, hierarchy_charts, level_shares_chart
from populace.release.report.hierarchy.hierarchy_document import HierarchyDocument
from populace.release.report.hierarchy.hierarchy_report import format_margin
from populace.release.report.render import render_page


def render_hierarchy_report(document: HierarchyDocument) -> str:
    """Return the report of a hierarchical release as HTML."""
    return render_page(
        "hierarchy.html",
        document,
        charts=chart_specs(document),
        more={
            "margin": format_margin,
            "smallest": document.levels[-1],
            "above": document.levels[-2],
            "passed": not any(check.found for check in document.checks),
        },
    )


def chart_specs(document: HierarchyDocument) -> dict[str, Spec]:
    """Return every chart of the page, by the name of its place."""
    plural = document.plural
    names = [level.name for level in document.levels]
    found = {
        "precision": hierarchy_charts.precision_chart(document.precision, plural=plural),
        "user": hierarchy_charts.offset_chart(document.sample, plural=plural),
        "bias": bias_charts.bias_chart(document.bias, plural=plural),
        "asymmetry": bias_charts.asymmetry_chart(document.bias),
        "budget": level_shares_chart.shares_chart(document.shares, plural=plural),
    }
    if document.simulated_totals:
        found["simulated"] = bias_charts.asymmetry_chart(document.simulated_bias, of="true")
        found["producer"] = hierarchy_charts.producer_chart(
            document.simulated_totals, level=names[-1], units=document.levels[-1].units, plural=plural
        )
    if document.errors:
        found["errors"] = hierarchy_charts.error_chart(document.errors, levels=names, plural=plural)
    if document.members is not None:
        members = document.members
        found["sizes"] = hierarchy_charts.interval_chart(members.sizes, plural=plural)
        found["members"] = hierarchy_charts.precision_chart(members.precision, plural=members.plural)
    for place, ranked in enumerate(document.ranked, start=1):
        found[f"ranked-{place}"] = hierarchy_charts.interval_chart(ranked, plural=plural)
    return found
