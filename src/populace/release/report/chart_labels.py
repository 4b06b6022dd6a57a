"""Labels cut to the room that a chart has for them: in the middle, and never to identical stubs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def cut_middle(text: str, letters: int) -> str:
    """Return a text of at most so many letters: its beginning and its end where it is longer.

    >>> cut_middle("not in the labour force", 15), cut_middle("employed", 15)
    ('not in …r force', 'employed')
    """
    if len(text) <= letters:
        return text
    head = letters // 2
    return f"{text[:head]}…{text[len(text) - (letters - head - 1) :]}"


def shorten_labels(labels: Sequence[str], letters: int) -> list[str]:
    """Return labels of about so many letters; those that would look alike keep more of theirs.

    >>> shorten_labels(["income from work, 2019", "income from rent, 2019"], 14)
    ['income …k, 2019', 'income …t, 2019']
    """
    found = [cut_middle(label, letters) for label in labels]
    longest = max(map(len, labels), default=0)
    while letters < longest:
        letters += 1
        alike = Counter(dict(zip(labels, found, strict=True)).values())
        if max(alike.values()) == 1:
            break
        found = [
            cut_middle(label, letters) if alike[cut] > 1 else cut
            for label, cut in zip(labels, found, strict=True)
        ]
    return found
