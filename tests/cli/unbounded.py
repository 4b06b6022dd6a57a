"""Public inputs that ask for unbounded work: numbers beyond all bounds, deep nesting, huge lists, by place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .desk import SCHEMA

# Numbers as text: exponents, digits, fractions and signs that exact arithmetic would expand.
NUMBERS = {
    "huge exponent": "1e99999999",
    "huge integer": "1" + "0" * 5000,
    "tiny": "1e-99999999",
    "1e30": "1e30",
    "1e-30": "1e-30",
    "1e400": "1e400",
    "2**64": str(2**64),
    "1e18": "1000000000000000000",
    "long fraction": "1/" + "3" * 5000,
    "nan": "nan",
    "inf": "-inf",
    "hexadecimal": "0x" + "f" * 5000,
    "underscores": "1_" * 3000 + "1",
}
# The same as TOML writes them; what is no number in TOML stands in quotes.
TOML_NUMBERS = {
    name: text
    if name not in ("long fraction", "inf", "nan")
    else {"inf": "-inf", "nan": "nan"}.get(name, f'"{text}"')
    for name, text in NUMBERS.items()
}
DEEP = 50_000
QUICK = ("--method", "independent", "--no-report")

INTEGER = '[columns.x]\nkind = "integer"\n'
NUMERIC = '[columns.x]\nkind = "numeric"\n'
DATE = '[columns.x]\nkind = "date"\n'

SCHEMA_PLACES = {
    "rows_per_unit": SCHEMA.replace("unit =", 'rows_per_unit = {}\nid = "who"\nunit ='),
    "max_rows": SCHEMA.replace("unit =", "max_rows = {}\nunit ="),
    "partition_least": SCHEMA.replace("unit =", 'partition = ["sex"]\npartition_least = {}\nunit ='),
    "partition_step": SCHEMA.replace("unit =", 'partition = ["sex"]\npartition_step = {}\nunit ='),
    "integer min": SCHEMA + INTEGER + "min = {}\nmax = 9\n",
    "integer max": SCHEMA + INTEGER + "min = 0\nmax = {}\n",
    "integer width": SCHEMA + INTEGER + "min = 0\nmax = 1000000\nwidth = {}\n",
    "integer top": SCHEMA + INTEGER + "min = 0\ntop = {}\n",
    "integer split": SCHEMA + INTEGER + "min = 0\nmax = 999\nsplit = {}\n",
    "integer edges": SCHEMA + INTEGER + "edges = [0, 5, {}]\n",
    "integer learnt": SCHEMA + INTEGER + 'min = 0\nmax = {}\nbins = "learn"\n',
    "decimals": SCHEMA + NUMERIC + "min = 0\nmax = 9\nwidth = 1\ndecimals = {}\n",
    "numeric min": SCHEMA + NUMERIC + "min = {}\nmax = 9\nwidth = 1\n",
    "numeric max": SCHEMA + NUMERIC + "min = 0\nmax = {}\nwidth = 1\n",
    "numeric width": SCHEMA + NUMERIC + "min = 0\nmax = 9\nwidth = {}\n",
    "numeric edges": SCHEMA + NUMERIC + "edges = [0, 5, {}]\n",
    "numeric bottom": SCHEMA + NUMERIC + "min = -5\nbottom = {}\nmax = 9\nwidth = 1\n",
    "numeric learnt": SCHEMA + NUMERIC + 'min = 0\nmax = {}\nbins = "learn"\n',
    "date width": SCHEMA + DATE + 'min = "1900-01-01"\nmax = "2020-01-01"\nwidth = {}\n',
    "date min": SCHEMA + DATE + 'min = {}\nmax = "2020-01-01"\n',
    "values": SCHEMA.replace('["f", "m"]', '["f", {}]'),
    "total": SCHEMA + '[[totals]]\nby = ["sex"]\ncounts = {{ f = {}, m = 1 }}\n',
    "zero": SCHEMA + '[[zeros]]\nwhen = "age == {}"\n',
    "zero of a sum": SCHEMA + '[[zeros]]\nwhen = "age in [{}, 2]"\n',
}
WORKLOAD_PLACES = {
    "weight": '[[marginals]]\ncolumns = ["sex", "age"]\nweight = {}\n',
    "share": '[[marginals]]\ncolumns = ["sex", "age"]\n[rounds]\nshare = {}\n',
    "column weight": '[[marginals]]\ncolumns = ["sex", "age"]\n[columns.sex]\nweight = {}\n',
    "coarse": '[[marginals]]\ncolumns = ["sex", "age"]\ncoarse = {{ age = ["0..{}"] }}\n',
}
DESIGN_PLACES = {
    "base": "[design]\nbase = {}\n",
    "most_weight": '[design]\nweights = "weight"\nmost_weight = {}\n',
    "share": '[design]\nweights = "weight"\nshare = {}\n',
    "sampled share": "[design]\nsampled = {}\n",
    "totals": '[[totals]]\nby = ["sex"]\ncounts = {{ f = {}, m = 10 }}\n',
    "psus": '[design]\nweights = "weight"\nstrata = "stratum"\npsu = "psu"\n[design.psus]\na = {}\nb = 2\n',
    "most_effect": '[design]\nweights = "weight"\nmost_effect = {}\n',
}
QUERY = '[[query]]\nname = "q"\n'
QUERY_PLACES = {
    "quantile": QUERY + 'statistic = "quantile"\ncolumn = "income"\np = [{}]\n',
    "that": QUERY + 'statistic = "proportion"\nthat = "age >= {}"\n',
    "where": QUERY + 'statistic = "count"\nwhere = "age >= {}"\n',
    "weight": QUERY + 'statistic = "mean"\ncolumn = "income"\nweight = {}\n',
    "range": QUERY + 'statistic = "mean"\ncolumn = "income"\nrange = [0, {}]\n',
    "share": QUERY + 'statistic = "mean"\ncolumn = "income"\nshare = {}\n',
}
OPTIONS = {
    "epsilon": ("synth", "--epsilon"),
    "delta": ("synth", "--delta"),
    "rows": ("synth", "--rows"),
    "seed": ("synth", "--seed"),
    "implicates": ("synth", "--implicates"),
    "population": ("plan", "--population"),
    "target error": ("plan", "--target-error"),
    "plan epsilon": ("plan", "--epsilon"),
    "account epsilon": ("ledger", "--epsilon"),
    "account delta": ("ledger", "--delta"),
    "expect": ("estimate", "--expect"),
    "shares": ("split", "--shares"),
}

# Texts that nest or repeat without end; {} is the text of the file or of the option.
DEEP_TOML = {
    "dotted key": ".".join(["a"] * DEEP) + " = 1\n",
    "dotted header": "[" + ".".join(["a"] * DEEP) + "]\n",
    "dotted column": "[columns." + ".".join(["a"] * DEEP) + "]\n",
    "nested lists": "a = " + "[" * DEEP + "]" * DEEP + "\n",
    "nested tables": "a = " + "{a = " * DEEP + "1" + "}" * DEEP + "\n",
    "many dotted": "".join(f"a.{'b.' * 200}c{n} = 1\n" for n in range(200)),
    "long integer": "a = " + "9" * 100_000 + "\n",
    "long date": "a = 99999-99-99\n",
}
DEEP_JSON = {
    "nested lists": "[" * DEEP + "]" * DEEP,
    "nested tables": '{"a":' * DEEP + "1" + "}" * DEEP,
    "long integer": '{"sex": ' + "9" * 100_000 + ', "age": 10}',
    "huge size": '{"sex": 1000000000000000000000000000000, "age": 10}',
    "huge exponent": '{"sex": 1e99999999, "age": 10}',
    "float": '{"sex": 1e30, "age": 10}',
    "negative": '{"sex": -5, "age": 10}',
}
EXPRESSIONS = {
    "parentheses": "(" * DEEP + "age > 1" + ")" * DEEP,
    "open parentheses": "(" * DEEP,
    "nots": "not " * DEEP + "age > 1",
    "ands": " and ".join(["age > 1"] * DEEP),
    "ors": " or ".join(["age > 1"] * DEEP),
    "mixed": " and (age > 1 or ".join(["sex == 'f'"] * 5000) + ")" * 4999,
    "literal": "age > " + "9" * 100_000,
    "exponent": "age > 1e99999999",
    "minuses": "age > " + "-" * DEEP + "1",
    "list": "age in [" + ", ".join(["1"] * DEEP) + "]",
    "quotes": "sex == '" + "f" * 1_000_000 + "'",
    "sums": "age + " * DEEP + "1 > 2",
}


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def cases(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of a case and the words of its command; files are written as they are needed."""
    schema, data = str(folder / "schema.toml"), str(folder / "people.csv")
    spend = ["--epsilon", "1", "--delta", "1e-6", "--ledger", str(folder / "ledger.db")]
    out = ["--out", str(folder / "release")]
    synth = ["synth", data, *spend, *out, *QUICK]
    survey = ["estimate", data, "--schema", str(folder / "survey.toml"), *spend, *out]
    for place, form in SCHEMA_PLACES.items():
        for name, text in TOML_NUMBERS.items():
            yield (
                f"schema {place}: {name}",
                [*synth, "--schema", write(folder, "bad.toml", form.format(text))],
            )
    for place, form in WORKLOAD_PLACES.items():
        for name, text in TOML_NUMBERS.items():
            path = write(folder, "workload.toml", form.format(text))
            yield (
                f"workload {place}: {name}",
                [*synth, "--method", "nist2018", "--schema", schema, "--workload", path],
            )
    for place, form in DESIGN_PLACES.items():
        for name, text in TOML_NUMBERS.items():
            path = write(folder, "bad-design.toml", form.format(text))
            yield (
                f"design {place}: {name}",
                [*survey, "--design", path, "--queries", str(folder / "queries.toml")],
            )
    for place, form in QUERY_PLACES.items():
        for name, text in TOML_NUMBERS.items():
            path = write(folder, "bad-queries.toml", form.format(text))
            yield (
                f"queries {place}: {name}",
                [*survey, "--design", str(folder / "design.toml"), "--queries", path],
            )
    for place, (verb, option) in OPTIONS.items():
        for name, text in NUMBERS.items():
            yield f"option {place}: {name}", _with(folder, verb, option, text)
    for name, text in NUMBERS.items():
        path = write(folder, "shares.csv", f"column,value,share\nsex,f,{text}\n")
        yield f"shares file: {name}", [*_plan(folder), "--shares", path]
    for name, text in DEEP_TOML.items():
        path = write(folder, "deep.toml", text)
        yield f"deep schema: {name}", ["schema", "check", path]
        yield f"deep workload: {name}", [*synth, "--method", "aim", "--schema", schema, "--workload", path]
        yield f"deep design: {name}", [*survey, "--design", path, "--queries", str(folder / "queries.toml")]
        yield f"deep queries: {name}", [*survey, "--design", str(folder / "design.toml"), "--queries", path]
    for name, text in DEEP_JSON.items():
        path = write(folder, "deep.json", text)
        yield f"deep sizes: {name}", [*synth, "--schema", path]
        yield f"deep import: {name}", ["schema", "import", path, "--out", "-"]
        mapped = (
            SCHEMA
            + '[columns.y]\nkind = "categorical"\nvalues = ["1"]\nfunction_of = "sex"\nmap = "deep.json"\n'
        )
        yield f"deep map: {name}", ["schema", "check", write(folder, "mapped.toml", mapped)]
    for name, text in EXPRESSIONS.items():
        yield f"expression where: {name}", [*synth, "--schema", schema, "--where", text]
        ruled = SCHEMA + f'[[zeros]]\nwhen = "{text}"\n'
        yield f"expression zeros: {name}", ["schema", "check", write(folder, "ruled.toml", ruled)]
        asked = QUERY + f'statistic = "count"\nwhere = "{text}"\n'
        path = write(folder, "where.toml", asked)
        yield (
            f"expression query: {name}",
            [*survey, "--design", str(folder / "design.toml"), "--queries", path],
        )


def _plan(folder: Path) -> list[str]:
    return [
        *("plan", "--schema", str(folder / "schema.toml"), "--population", "1000", "--method", "independent"),
        *("--epsilon", "1", "--delta", "1e-6"),
    ]


def _with(folder: Path, verb: str, option: str, text: str) -> list[str]:
    schema, data, ledger = (str(folder / name) for name in ("schema.toml", "people.csv", "ledger.db"))
    spend = ["--epsilon", "1", "--delta", "1e-6"]
    release, survey = str(folder / "release"), str(folder / "survey.toml")
    design, queries = str(folder / "design.toml"), str(folder / "queries.toml")
    words = {
        "synth": ["synth", data, "--schema", schema, *spend, "--ledger", ledger, "--out", release, *QUICK],
        "plan": _plan(folder),
        "ledger": ["ledger", "init", "--dataset", "new", *spend, "--ledger", ledger],
        "split": ["split", str(folder / "split.csv"), "--schema", str(folder / "split.toml"), "--key"],
        "estimate": ["estimate", data, "--schema", survey, "--design", design, "--queries", queries, *spend],
    }[verb]
    if verb == "split":
        words += [str(folder / "key"), "--out", str(folder / "pieces")]
    return [*words, f"{option}={text},1" if verb == "split" else f"{option}={text}"]
