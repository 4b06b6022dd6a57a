"""What a secret split into pieces is worth: one account for each piece, and what all of them cost a person together."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from fractions import Fraction

from populace.core.errors import UsageError
from populace.privacy.accounting.amplification import SamplingDesign, amplify_epsilon, combine_shares
from populace.privacy.noise.split_key import Split, SplitKey
from populace.schema.schema import Schema
from populace.schema.unit import Neighbours


class SplitBasis(Enum):
    """What decides who is in which piece."""

    SECRET = "a secret draw"
    VALUES = "values of the rows"


def list_piece_accounts(
    dataset: str, *, split: Split, key: SplitKey, schema: Schema, cut: SplitBasis = SplitBasis.SECRET
) -> tuple[str, ...]:
    """Return the name of the ledger account of each piece; another key, or another split, has others.

    So has another way to tell persons apart: another id column, or, where the content of a row is what tells a person,
    another schema. What is charged to them adds up all the same with the accounts of the whole and of other splits.
    Pieces that depend on the data have none: questions to them are charged to the whole.

    >>> from populace.privacy.noise.entropy import RehearsalEntropy
    >>> split = Split(shares=(Fraction(1, 2), Fraction(1, 2)), neighbours=Neighbours.REPLACE_ONE)
    >>> schema = Schema.from_sizes({"sex": 2})
    >>> list_piece_accounts("survey", split=split, key=SplitKey.draw(RehearsalEntropy(1)), schema=schema)[1][-13:]
    'piece 2 of 2)'
    """
    if cut is SplitBasis.VALUES:
        raise UsageError(
            "pieces that values of rows decide have no accounts of their own: who is replaced is in two of them.",
            hint="split by a secret draw, or charge the pieces to one account, at twice the price",
        )
    count, tag = len(split.shares), tag_split(split, key=key, schema=schema)
    return tuple(f"{dataset} (split {tag}, piece {piece + 1} of {count})" for piece in range(count))


def tag_split(split: Split, *, key: SplitKey, schema: Schema) -> str:
    """Return the name of a split, which says nothing of its key."""
    return key.tag(split, labels=_describe_labels(schema))


def _describe_labels(schema: Schema) -> str:
    """Return what decides about the labels of persons (private/secret_split.py)."""
    if schema.unit.id is not None:
        return f"id {schema.unit.id!r}"
    return f"content of {list(schema.columns)!r} as coded by {schema.digest}"


def overall_epsilon(
    epsilons: Sequence[Fraction], *, neighbours: Neighbours, cut: SplitBasis = SplitBasis.SECRET
) -> Fraction:
    """Return what questions to all pieces cost a person, each piece having its own ε.

    A person is in one piece of a secret split, whatever the rows hold: the greatest ε. Where values of rows decide, a
    person who is replaced leaves one piece and enters another: the two greatest together. Such pieces have no accounts
    of their own. Proof: docs/proofs/partition.md

    >>> overall_epsilon([Fraction(1), Fraction(3), Fraction(2)], neighbours=Neighbours.REPLACE_ONE)
    Fraction(3, 1)
    >>> overall_epsilon([Fraction(1), Fraction(3), Fraction(2)], neighbours=Neighbours.REPLACE_ONE,
    ... cut=SplitBasis.VALUES)
    Fraction(5, 1)
    """
    if not epsilons or min(epsilons) < 0:
        raise UsageError("a price is below 0, or there is none.", hint="give the epsilon of each piece")
    ranked = sorted(epsilons, reverse=True)
    if cut is SplitBasis.VALUES and neighbours is not Neighbours.ADD_REMOVE:
        return sum(ranked[:2], Fraction(0))
    return ranked[0]


def amplified_piece_epsilon(
    epsilon: Fraction, *, split: Split, pieces: Sequence[int], persons: int | None = None
) -> Fraction:
    """Return what answers at this ε on some pieces cost whoever sees them alone, the split being secret.

    Pieces that come together count as one: their shares add up. Where the number of persons is public, shares are those
    of whole persons. Proof: docs/proofs/partition.md

    >>> split = Split(shares=(Fraction(1, 10),) * 10, neighbours=Neighbours.REPLACE_ONE)
    >>> [round(float(amplified_piece_epsilon(Fraction(1), split=split, pieces=p, persons=500)), 3) for p in
    ... ([0], [0, 1, 2])]
    [0.159, 0.416]
    """
    share = seen_share(split, pieces, persons=persons)
    poisson = split.neighbours is Neighbours.ADD_REMOVE
    design = SamplingDesign.POISSON if poisson else SamplingDesign.SIMPLE
    return amplify_epsilon(epsilon, share=share, design=design) if share else Fraction(0)


def seen_share(split: Split, pieces: Sequence[int], *, persons: int | None = None) -> Fraction:
    """Return the probability that a given person is in one of some pieces, 0 where all of these are empty."""
    if not pieces or len(set(pieces)) < len(pieces) or not set(pieces) <= set(range(len(split.shares))):
        raise UsageError("the pieces are not some of the split's.", hint="name each piece once, from 0 on")
    if split.neighbours is Neighbours.ADD_REMOVE:
        shares = [split.shares[piece] for piece in pieces]
    elif persons is None:
        raise UsageError(
            "the share of a piece is given by its persons.",
            hint="give the number of persons, which is public here",
        )
    else:
        sizes = split.sizes(persons)
        shares = [Fraction(sizes[piece], persons) for piece in pieces if sizes[piece]]
    return combine_shares(shares) if shares else Fraction(0)
