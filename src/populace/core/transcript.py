"""The transcript of a run: what was answered, in the order of the questions, and the same answers given once more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

Entry = TypeVar("Entry")


class Transcript(Generic[Entry]):
    """Entries in the order in which they were recorded.

    >>> answers: Transcript[int] = Transcript()
    >>> answers.record(7, 9)
    >>> answers.entries
    (7, 9)
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def record(self, *entries: Entry) -> None:
        """Append entries."""
        self._entries += entries

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries so far."""
        return tuple(self._entries)


class Playback(Generic[Entry]):
    """The entries of a transcript one by one, as long as the questions are those that were recorded.

    `refuse` makes the error for a question more, a question less, or another question.

    >>> again = Playback([7, 9], refuse=lambda what: ValueError(f"asked {what}"))
    >>> again.next(lambda entry: entry == 7)
    7
    >>> again.finish()
    Traceback (most recent call last):
    ValueError: asked fewer questions
    """

    __slots__ = ("_entries", "_refuse")

    def __init__(self, entries: Iterable[Entry], *, refuse: Callable[[str], Exception]) -> None:
        self._entries: Iterator[Entry] = iter(entries)
        self._refuse = refuse

    def next(self, matches: Callable[[Entry], bool]) -> Entry:
        """Return the next entry, if it was recorded for the question that is asked now."""
        for entry in self._entries:
            if not matches(entry):
                raise self._refuse("another question")
            return entry
        raise self._refuse("more questions")

    def finish(self) -> None:
        """Refuse a transcript that holds more than was asked."""
        for _ in self._entries:
            raise self._refuse("fewer questions")
