"""populace split: a private table cut into secret pieces, each with an account of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, say
from populace.core.errors import UsageError
from populace.core.table_address import TableAddress

OWNER_ONLY = 0o700


SHARES = Option(
    "--shares S,S,…",
    "The share of people in each part, such as 1/2,1/2 or 0.2,0.8; they add up to 1.",
    required=True,
)
KEY = Option(
    "--key FILE",
    "The secret that decides who is in which part, drawn the first time. Keep it, and keep it secret, for as long as "
    "the accounts of the parts live.",
    Path,
    required=True,
)


@command(options.DATA, options.SCHEMA, SHARES, KEY, options.OUT, options.JSON)
def split(data: Path | TableAddress, schema: Path, shares: str, key: Path, out: Path, json: bool) -> None:
    """Partition a private table by unit, for parallel composition.

    Units are identified by the id column that the schema names. Nobody is in two parts, so questions to all of them
    cost a person the largest epsilon of one part, not the sum. The folder holds piece-1, piece-2 and so on: private
    rows, and a schema for each that names the account to charge. Nothing of it is for publication.

    Counts and totals of a part are its share of the whole: `base = 1/share` in a design corrects for it. What is
    charged to the parts adds up with the account of the whole table, and with any other split of the same people.

    Examples:
      populace split people.csv --schema schema.toml --shares 1/2,1/2 --key people.key --out pieces
      populace synth pieces/piece-1.csv --schema pieces/piece-1.toml --epsilon 1 --delta 1e-9 --out first
    """
    from populace.api.request import default_dataset
    from populace.privacy.accounting.budget import parse_number
    from populace.privacy.accounting.parallel_composition import list_piece_accounts
    from populace.privacy.noise.entropy import SystemEntropy
    from populace.privacy.noise.split_key import Split, SplitKey
    from populace.private.capacity import check_free_memory
    from populace.private.secret_split import require_id_column, write_split_files
    from populace.release.folder.destination import atomic_folder, check_destination
    from populace.schema.schema import Schema

    check_destination(out)
    described = Schema.load(schema)
    require_id_column(described)
    if described.totals or described.invariants:
        raise UsageError(
            "the schema has exact totals, which are those of all pieces together.",
            hint="leave them out to split the table",
        )
    hint = "give numbers that add up to 1, such as 1/2,1/2 or 0.2,0.8"
    parts = tuple(parse_number(part, name="a share", hint=hint) for part in shares.split(","))
    wanted = Split(shares=parts, neighbours=described.unit.neighbours)
    if not isinstance(data, Path) or data.suffix not in (".csv", ".parquet") or not data.is_file():
        raise UsageError(f"{str(data)!r} is no .csv or .parquet file.", hint="name the private table")
    check_free_memory()
    secret = SplitKey.load_or_draw(key, entropy=SystemEntropy())
    names = list_piece_accounts(
        described.dataset or default_dataset(data), split=wanted, key=secret, schema=described
    )
    files = [f"piece-{number}{data.suffix}" for number in range(1, len(names) + 1)]
    with atomic_folder(out, mode=OWNER_ONLY) as place:
        write_split_files(
            data, schema=described, split=wanted, key=secret, paths=tuple(place / name for name in files)
        )
        for name, account in zip(files, names, strict=True):
            text = replace(described, dataset=account).to_toml()
            (place / name).with_suffix(".toml").write_text(text, encoding="utf-8")
    say(f"note: {out} holds private rows, and {key} says who is where: neither is for publication")
    say(
        "note: what is charged to the accounts of pieces adds up with the account of the whole table and with those of "
        "any other split of the same people (another --key, other --shares)"
    )
    emit_result({"folder": str(out), "pieces": dict(zip(files, names, strict=True))}, json=json)
