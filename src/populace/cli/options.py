"""The options that several verbs share, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# `readable=False`: whether a file can be read is found out, and told, where it is read.
Data = Annotated[
    Path, typer.Argument(metavar="DATA", readable=False, help="The private table: a CSV or Parquet file.")
]
SchemaFile = Annotated[
    Path,
    typer.Option(
        "--schema", metavar="FILE", readable=False, help="A schema.toml, or a domain.json (column → size)."
    ),
]
Epsilon = Annotated[
    str, typer.Option("--epsilon", metavar="E", help="The privacy loss to allow, such as 1, 0.5 or 1/3.")
]
Delta = Annotated[
    str,
    typer.Option(
        "--delta", metavar="D", help="The failure probability to allow, such as 1e-9; 0 for pure privacy."
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        help="How to synthesize: adaptive (columns, and the pairs and triples that are worth their noise), aim "
        "(marginals chosen round by round), gem (marginals that a generator network answers worst), "
        "mwem (marginals that multiplicative weights answer worst), "
        "pmw (marginals asked one by one), privbayes (a network: each column with its parents), copula (columns and "
        "the correlations of all pairs), mst (columns and a tree of pairs), nist2018 (columns, then marginals that the "
        "workload lists), independent (columns), "
        "dpsyn (a public table, and what epsilon is worth measuring beside it), "
        "field-groups (groups of columns that the schema declares), histogram or histogram-exponential (all columns "
        "in one table), stability (rows that are frequent), or auto, which is adaptive.",
    ),
]
Workload = Annotated[
    str | None,
    typer.Option(
        "--workload",
        metavar="pairs|triples|FILE",
        help="Which marginals should be accurate: all pairs of columns, pairs and small triples, or those that "
        "a TOML file lists with weights. It moves accuracy to where you need it and costs nothing more; only adaptive, "
        "aim, gem, mwem, nist2018 and pmw heed it.",
        show_default="triples",
    ),
]
Public = Annotated[
    Path | None,
    typer.Option(
        "--public",
        metavar="FILE",
        readable=False,
        help="A table of the same schema that everybody may know, such as last year's release. It is used without "
        "protection; never give a part of the private table.",
    ),
]
Inference = Annotated[
    str,
    typer.Option(
        "--inference",
        metavar="tree|gum",
        help="How rows come from what was measured: tree (the tables that tell most, joined in a model that rows are "
        "drawn from and then fitted to all tables), or gum (the gradual update method: rows of single columns, moved "
        "until they fit all tables). It costs nothing.",
    ),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        readable=False,
        help="The ledger that is charged.",
        show_default="~/.local/state/populace/ledger.db (or under $XDG_STATE_HOME)",
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="The account of the ledger that pays.",
        show_default="the schema's dataset, or the name of the data file",
    ),
]
KnownPrivate = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        readable=False,
        help="The ledger whose accounts are private tables, which are refused as public ones. Nothing is charged.",
        show_default="~/.local/state/populace/ledger.db (or under $XDG_STATE_HOME)",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        metavar="N",
        help="Synthetic rows to make.",
        show_default="the noisy number of rows, of those that meet --where",
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="EXPR",
        help="Release only rows that meet a condition, such as \"AGE >= 65 and SEX == 'f'\", in the language of "
        "universes. It is applied to the model, not to the data: every row drawn meets it, and it costs nothing.",
    ),
]
Implicates = Annotated[
    int,
    typer.Option(
        "--implicates",
        metavar="M",
        help="Draw so many tables from the one model, 1 to 100: synthetic.csv, synthetic-2.csv and so on. They cost "
        "nothing more, and differ by the drawing of rows alone, not by the noise.",
    ),
]
NoReport = Annotated[
    bool,
    typer.Option(
        "--no-report",
        help="Leave report.html out, which takes a second or two. Everything else in the folder stays the same.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        max=2**64 - 1,
        help="Repeats the drawing of rows from the model. It never reaches the noise.",
        show_default="a fresh one, recorded in the manifest",
    ),
]
TableFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="csv|parquet",
        help="The file format of the synthetic table.",
        show_default="as the input; csv from a model",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Write the result to stdout as JSON, and an error to stderr as JSON.")
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", metavar="DIR", readable=False, help="The folder to write; it must be empty or not exist yet."
    ),
]
SchemaOut = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE",
        readable=False,
        help="The schema.toml to write; it must not exist yet. - writes to stdout.",
    ),
]
