"""The privacy statement as one page for a data-protection officer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from populace.core.marginals import Marginal
from populace.core.number_format import format_number, format_percent
from populace.core.spine import ROOT
from populace.measurements.exact_counts import describe_totals
from populace.methods.registry import METHODS
from populace.release.row_selection import RowCountOrigin
from populace.release.statement.cost import summarize_spends
from populace.release.statement.limitations import plural_of
from populace.release.statement.statement import Statement, describe_guarantee, describe_parts
from populace.survey.claims.claims import CHECK_METHOD

MAX_NAMES = 20
MAX_RULES = 40
_ORIGINS = {
    "codebook": "codebook",
    "declared": "declared by the curator",
    "learnt": "learnt from the rows, with a part of the budget",
}


def render_markdown(statement: Statement, *, measured: Sequence[Marginal], version: str) -> str:
    """Return `statement.md`: the guarantee in words, what it cost, and its limitations.

    `measured` names what the ledger's bookings were for, `version` the populace that made the release.
    """
    estimated = statement["total"]["origin"] == RowCountOrigin.NONE.value
    answer = "sum, in multiples of the largest contribution of one row" if estimated else "count"
    # The guarantee is for all that was booked, or for what a plan fixed in advance kept of it.
    kept = statement.get("accounting")
    accounting = f". {kept}" if kept else "; the guarantee above is for all of it."
    lines = [
        *([f"> **{statement['stamp']}**", ""] if statement["stamp"] else []),
        f"# Privacy statement: {_escape(statement['dataset'])}",
        "",
        "## Privacy guarantee",
        "",
        _escape(describe_guarantee(statement)),
        "",
        _escape(statement["reading"]),
        "",
        *(line for warning in statement["warnings"] for line in (f"**{_escape(warning)}**", "")),
        "| | |",
        "|---|---|",
        *(f"| {name} | {fact} |" for name, fact in _facts(statement)),
        "",
        *(
            line
            for part in (
                statement.get("together"),
                statement.get("linked"),
                statement.get("where"),
                statement.get("implicates"),
            )
            if part
            for line in (_escape(part["text"]), "")
        ),
        _accuracy(statement),
        "",
        "## Privacy budget",
        "",
        f"The whole budget was booked in the ledger before a row was read. Its questions used "
        f"{format_percent(statement['used']['share'])} of it{accounting} "
        f"Noise is the 95 % margin of error of one {answer}; the noise distribution is in parentheses.",
        "",
        "| question | noise | share of the budget |",
        "|---|---|---:|",
        *(
            f"| {_escape(stage.label)} | {_escape(stage.noise)} ({_escape(stage.mechanism)}) | "
            f"{format_percent(stage.share)} |"
            for stage in summarize_spends(statement, measured=measured)
        ),
        "",
        *_earlier_releases(statement),
        "## Limitations",
        "",
        *(f"- {_escape(line)}" for line in statement["not_covered"]),
        "",
        "## Domains",
        "",
        "The domain of a column is public. Its origin:",
        "",
        "| origin | values outside the domain | columns |",
        "|---|---|---|",
        *_domains(statement),
        "",
        *_rules(
            statement["rules"],
            held="They were enforced:" if estimated else "They hold in every synthetic row;",
            checked=f" {statement['rule_check']['text']}" if "rule_check" in statement else "",
        ),
        f"Schema `{statement['schema_digest']}`  ",
        f"Ledger entry `{statement['ledger_entry']}`  ",
        f"Made by populace {_escape(version)}",
    ]
    return "\n".join(lines) + "\n"


def _earlier_releases(statement: Statement) -> list[str]:
    """Return the section about earlier releases, or nothing where there are none."""
    if "superseded" not in statement:
        return []
    return [
        "## Earlier releases",
        "",
        "Tables of these releases of the account stand beside those of this run, at no further cost. Where both have a "
        "number, that of this folder supersedes the earlier one; rows and estimates that were made of earlier tables "
        "are superseded as well. statement.json lists every table.",
        "",
        "| release (SHA-256 of its manifest) | ε | δ | method | superseded |",
        "|---|---:|---:|---|---|",
        *(
            f"| `{line['release']}` | {line['epsilon']} | {line['delta']} | {_escape(line['method'])} | "
            f"{_escape(line['measured'])} |"
            for line in statement["superseded"]
        ),
        "",
    ]


def _accuracy(statement: Statement) -> str:
    """Return where the accuracy of what is released stands."""
    if statement["method"] == CHECK_METHOD:
        return "Precision of the answers: see the noise margin of each claim in checks.json."
    if statement["total"]["origin"] == RowCountOrigin.NONE.value:
        return (
            "Precision of the estimates: see the intervals in estimates.csv, and report.html, if it is there."
        )
    if "levels" in statement:
        return "Accuracy of the tables: see the margins of error in tables.parquet, and report.html, if it is there."
    return "Accuracy of the rows: see report.html, if it is there, and the intervals in measurements.parquet."


def _facts(statement: Statement) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table about the guarantee, escaped."""
    epsilon, delta = describe_parts(statement)
    yield "privacy loss ε", epsilon
    yield "failure probability δ", delta + _parts(statement)
    yield "protected unit", _escape(_unit(statement))
    yield "neighbouring tables", _escape(_neighbours(statement))
    if statement.get("invariants"):
        yield "published exactly", _escape(", ".join(map(describe_totals, statement["invariants"])))
    yield "account in the ledger", _escape(statement["dataset"])
    yield "method", _escape(statement["method"])
    if "workload" in statement:
        yield "workload", _escape(_workload(statement["workload"], method=statement["method"]))
    if "public" in statement:
        known = statement["public"]
        yield "public table", f"{_escape(known['name'])} (SHA-256 `{_escape(known['digest'])}`)"
    if statement["total"]["origin"] != RowCountOrigin.NONE.value:
        column = statement["total"].get("column")
        counted = f"{plural_of(statement['unit'])}, counted by “{column}”" if column else "synthetic rows"
        yield _escape(counted), _escape(_rows(statement))
    if "where" in statement:
        yield "only rows where", _escape(statement["where"]["condition"])
    if "implicates" in statement:
        yield "implicates", f"{statement['implicates']['tables']} tables of so many rows each"


def _neighbours(statement: Statement) -> str:
    """Return which two tables are neighbours."""
    unit = f"one {statement['unit']}"
    if "within" not in statement:
        change = {"add-remove": "more or less", "replace-one": "replaced by another"}[statement["neighbours"]]
        return f"{unit} {change}"
    within = statement["within"]
    if within == ROOT:
        return f"as many {plural_of(statement['unit'])}; {unit} replaced by another"
    return f"as many {plural_of(statement['unit'])} in every {within}; {unit} replaced by another within a {within}"


def _domains(statement: Statement) -> Iterator[str]:
    """Yield a row for every origin and rule, with the columns that share them."""
    alike: dict[tuple[str, str], list[str]] = {}
    for line in statement["domains"]:
        table = f" ({line['table']})" if "table" in line else ""
        label = f" ({line['label']})" if "label" in line else ""
        alike.setdefault((line["origin"], line["outside"]), []).append(line["column"] + label + table)
    for (origin, outside), names in alike.items():
        shown = ", ".join(_escape(name) for name in names[:MAX_NAMES])
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        yield f"| {_ORIGINS[origin]} | {_escape(outside)} | {shown}{more} |"


def _rules(rules: Sequence[str], *, held: str, checked: str) -> list[str]:
    """Return the section about rules, or nothing where there are none."""
    if not rules:
        return []
    more = len(rules) - MAX_RULES
    return [
        "## Rules",
        "",
        f"These rules are public as well. {held} real rows that violated one were recoded.{checked}",
        "",
        *(f"- {_escape(rule)}" for rule in rules[:MAX_RULES]),
        *([f"- and {more} more, in codebook.json"] if more > 0 else []),
        "",
    ]


def _workload(wanted: str, *, method: str) -> str:
    """Return what should be accurate, as the curator said."""
    words = {"pairs": "all pairs of columns", "triples": "all pairs and small triples of columns"}
    described = words.get(wanted, f"marginals that the curator named ({wanted})")
    known = METHODS.get(method)
    if known is None or not known.follows(wanted):
        described += f"; {method} measures the same for every workload"
    return described


def _parts(statement: Statement) -> str:
    """Return what δ is made of where a part of it was set aside."""
    parts = statement.get("delta_parts")
    if not parts:
        return ""
    words = [
        (parts["keys"], f"for values or rows of one {_escape(statement['unit'])} alone"),
        (parts["noise"], "for noise"),
        (parts["unused"], "set aside and not used"),
    ]
    described = [(part, what) for part, what in words if part != "0"]
    if len(described) == 1:
        return f", all of it {described[0][1]}"
    return ", of which " + ", and ".join(f"{part} {what}" for part, what in described)


def _unit(statement: Statement) -> str:
    name, rows = statement["unit"], statement["rows_per_unit"]
    if "linked" in statement:
        linked = statement["linked"]
        return f"{name}, with at most {linked['max_rows']} rows of “{linked['members']}”"
    if rows == 1:
        return name if name == "row" or "column" in statement["total"] else f"{name}, at most 1 row"
    return f"{name}, at most {rows} rows"


def _rows(statement: Statement) -> str:
    total = statement["total"]
    exact = "within" in statement and "where" not in statement
    real = f"the real number is {'not ' if exact else ''}protected"
    words = {
        "noisy": f"a noisy count; {real}",
        "noisy, and cut to what memory holds": f"as many as memory held; {real}",
        "chosen by the curator": f"chosen by the curator; {real}",
        "declared public": "declared public, not protected",
        "published exactly": "the exact total, which is published and not protected",
    }
    return f"{format_number(total['rows'])} ({words[total['origin']]})"


def _escape(text: str) -> str:
    """Return a text that stays in its place: no markup, no table bars, one line."""
    return " ".join("".join("\\" + c if c in "\\`*_[]<>|#" else c for c in text).split())
