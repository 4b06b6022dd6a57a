"""Public inputs that ask for unbounded work: numbers beyond all bounds, deep nesting, huge lists, by place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.cli.workspace import SCHEMA
from tests.helpers import small_survey

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
    "max_weight": '[design]\nweights = "weight"\nmax_weight = {}\n',
    "share": '[design]\nweights = "weight"\nshare = {}\n',
    "sampled share": "[design]\nsampled = {}\n",
    "totals": '[[totals]]\nby = ["sex"]\ncounts = {{ f = {}, m = 10 }}\n',
    "psus": '[design]\nweights = "weight"\nstrata = "stratum"\npsu = "psu"\n[design.psus]\na = {}\nb = 2\n',
    "max_design_effect": '[design]\nweights = "weight"\nmax_design_effect = {}\n',
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


@dataclass(frozen=True)
class Case:
    """A command that asks for unbounded work: its name, its words, and the files that it names, by their texts."""

    name: str
    words: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


SPEND = ("--epsilon", "1", "--delta", "1e-6")
BOOKED = (*SPEND, "--ledger", "ledger.db", "--out", "release")
SYNTH = ("synth", "people.csv", *BOOKED, "--method", "independent", "--no-report")
SURVEY = ("estimate", "people.csv", "--schema", "survey.toml", *BOOKED)
PLAN = ("plan", "--schema", "schema.toml", "--population", "1000", "--method", "independent", *SPEND)
VERBS = {
    "synth": (*SYNTH, "--schema", "schema.toml"),
    "plan": PLAN,
    "ledger": ("ledger", "init", "--dataset", "new", *SPEND, "--ledger", "ledger.db"),
    "split": ("split", "split.csv", "--schema", "split.toml", "--key", "key", "--out", "pieces"),
    "estimate": (*SURVEY[:4], "--design", "design.toml", "--queries", "queries.toml", *SPEND),
}
# How a file is given, by its kind.
GIVEN = {
    "schema": (*SYNTH, "--schema", "bad.toml"),
    "workload": (*SYNTH[:-3], "--method", "nist2018", "--schema", "schema.toml", "--workload", "bad.toml"),
    "design": (*SURVEY, "--queries", "queries.toml", "--design", "bad.toml"),
    "queries": (*SURVEY, "--design", "design.toml", "--queries", "bad.toml"),
    "overlay": ("schema", "import", "domain.json", "--overlay", "bad.toml", "--out", "-"),
}
PLACES = {
    "schema": SCHEMA_PLACES,
    "workload": WORKLOAD_PLACES,
    "design": DESIGN_PLACES,
    "queries": QUERY_PLACES,
}
MAPPED = SCHEMA + '[columns.y]\nkind = "categorical"\nvalues = ["1"]\nfunction_of = "sex"\nmap = "bad.json"\n'
FILES = {
    "schema.toml": SCHEMA,
    "people.csv": "sex,age\n" + "f,3\nm,4\n" * 50,
    "survey.toml": small_survey.SCHEMA,
    "design.toml": small_survey.DESIGN,
    "queries.toml": small_survey.QUERIES,
    "split.toml": SCHEMA.replace("unit =", 'rows_per_unit = 2\nid = "who"\nunit ='),
    "split.csv": "who,sex,age\n" + "".join(f"{number},f,3\n" for number in range(20)),
    "domain.json": '{"sex": 2, "age": 10}',
}


def cases() -> Iterator[Case]:
    """Yield every case: each number in each place, deep and long texts, and schemas that are too large."""
    for kind, places in PLACES.items():
        for place, form in places.items():
            for name, text in TOML_NUMBERS.items():
                yield Case(f"{kind} {place}: {name}", GIVEN[kind], {"bad.toml": form.format(text)})
    for place, (verb, option) in OPTIONS.items():
        for name, text in NUMBERS.items():
            given = f"{text},1" if verb == "split" else text
            yield Case(f"option {place}: {name}", (*VERBS[verb], f"{option}={given}"))
    for name, text in NUMBERS.items():
        shares = {"shares.csv": f"column,value,share\nsex,f,{text}\n"}
        yield Case(f"shares file: {name}", (*PLAN, "--shares", "shares.csv"), shares)
    for name, text in DEEP_TOML.items():
        for kind, words in GIVEN.items():
            yield Case(f"deep {kind}: {name}", words, {"bad.toml": text})
    for name, text in DEEP_JSON.items():
        deep = {"bad.json": text, "bad.toml": MAPPED}
        yield Case(f"deep sizes: {name}", (*SYNTH, "--schema", "bad.json"), deep)
        yield Case(f"deep import: {name}", ("schema", "import", "bad.json", "--out", "-"), deep)
        yield Case(f"deep map: {name}", ("schema", "check", "bad.toml"), deep)
    for name, text in EXPRESSIONS.items():
        yield Case(f"expression where: {name}", (*VERBS["synth"], "--where", text))
        yield Case(
            f"expression zeros: {name}",
            GIVEN["schema"],
            {"bad.toml": f'{SCHEMA}[[zeros]]\nwhen = "{text}"\n'},
        )
        asked = f'{QUERY}statistic = "count"\nwhere = "{text}"\n'
        yield Case(f"expression query: {name}", GIVEN["queries"], {"bad.toml": asked})
    large = {"bad.json": '{"a": 10000000, "b": 3}'}
    yield Case("plan of ten million codes", ("plan", "--schema", "bad.json", *PLAN[3:]), large)
    wide = {"bad.json": json.dumps({f"q{number}": 4 for number in range(2000)})}
    yield Case("plan of a wide table", ("plan", "--schema", "bad.json", *PLAN[3:]), wide)
    yield Case("auto for a wide table", (*SYNTH[:-3], "--schema", "bad.json"), wide)
    pieces = ",".join(["1/5000"] * 5000)
    yield Case("five thousand pieces", (*VERBS["split"], "--shares", pieces))
