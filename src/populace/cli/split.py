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


RECIPIENTS = Option(
    "--recipients N,N;N",
    "Who sees which parts, by their numbers: parts that one group sees together, groups apart by semicolons, such as "
    "1;2,3. Only for groups that never share what they are told; parts in no group are taken to be published.",
    shown="all parts are published",
)
BOOKED_IN = replace(options.LEDGER, help="The ledger that the accounts of the parts will be in.")


@command(options.DATA, options.SCHEMA, SHARES, KEY, options.OUT, RECIPIENTS, BOOKED_IN, options.JSON)
def split(
    data: Path | TableAddress,
    schema: Path,
    shares: str,
    key: Path,
    out: Path,
    recipients: str | None,
    ledger: Path | None,
    json: bool,
) -> None:
    """Partition a private table by unit, for parallel composition.

    Units are identified by the id column that the schema names. Nobody is in two parts, so questions to all of them
    cost a person the largest epsilon of one part, not the sum: that is what the ledger charges to the account of the
    whole table, whose budget all parts share. The folder holds piece-1, piece-2 and so on: private rows, and a schema
    for each that names the account to charge. Nothing of it is for publication.

    Counts and totals of a part are its share of the whole: `base = 1/share` in a design corrects for it. What is
    charged to the parts adds up with other runs on the whole table, and with any other split of the same people.
    Recipients of some parts who never talk to those of others are told less: `populace ledger show` says how much.

    Examples:
      populace split people.csv --schema schema.toml --shares 1/2,1/2 --key people.key --out pieces
      populace synth pieces/piece-1.csv --schema pieces/piece-1.toml --epsilon 1 --delta 1e-9 --out first
      populace split people.csv --schema schema.toml --shares 0.1,0.9 --key k --recipients "1;2" --out pieces
    """
    from populace.api.request import default_dataset
    from populace.privacy.accounting.budget import parse_number
    from populace.privacy.accounting.parallel_composition import list_piece_accounts, tag_split
    from populace.privacy.ledger.ledger import Ledger, default_ledger_path
    from populace.privacy.ledger.split_record import SplitRecord
    from populace.privacy.noise.entropy import SystemEntropy
    from populace.privacy.noise.split_key import Split, SplitKey
    from populace.private.capacity import check_free_memory
    from populace.private.secret_split import require_id_column, write_split_files
    from populace.release.folder.destination import atomic_folder, check_destination
    from populace.schema.schema import Schema
    from populace.schema.unit import Neighbours

    check_destination(out)
    described = Schema.load(schema)
    id_column = require_id_column(described)
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
    parent = described.dataset or default_dataset(data)
    names = list_piece_accounts(parent, split=wanted, key=secret, schema=described)
    public = wanted.neighbours is Neighbours.REPLACE_ONE
    booked = SplitRecord(
        parent=parent,
        tag=tag_split(wanted, key=secret, schema=described),
        id=id_column,
        split=wanted,
        pieces=names,
        persons=0 if public else None,
        recipients=parse_recipients(recipients),
    )
    files = [f"piece-{number}{data.suffix}" for number in range(1, len(names) + 1)]
    with atomic_folder(out, mode=OWNER_ONLY) as place:
        persons = write_split_files(
            data, schema=described, split=wanted, key=secret, paths=tuple(place / name for name in files)
        )
        for name, account in zip(files, names, strict=True):
            text = replace(described, dataset=account).to_toml()
            (place / name).with_suffix(".toml").write_text(text, encoding="utf-8")
        # Before anybody can ask a piece anything.
        books = Ledger.open(ledger or default_ledger_path())
        books.book_split(replace(booked, persons=persons) if public else booked)
    say(f"note: {out} holds private rows, and {key} says who is where: neither is for publication")
    say(
        f"note: the account of {parent!r} pays the most that one piece takes; other runs on the whole table, and any "
        "other split of the same people (another --key, other --shares), add to it"
    )
    emit_result({"folder": str(out), "pieces": dict(zip(files, names, strict=True))}, json=json)


def parse_recipients(text: str | None) -> tuple[tuple[int, ...], ...]:
    """Return groups of the numbers of pieces.

    >>> parse_recipients("1;2,3")
    ((1,), (2, 3))
    """
    if text is None:
        return ()
    try:
        return tuple(tuple(int(number) for number in group.split(",")) for group in text.split(";"))
    except ValueError:
        raise UsageError(
            f"{text!r} does not say who sees which pieces.",
            hint="give numbers of pieces, groups apart by semicolons: 1;2,3",
        ) from None
