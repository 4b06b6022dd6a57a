"""Lines of a text file, each of them a row that no other line can touch.

A file is cut into lines before anything in it is understood: a line ends at a line feed or a carriage return,
inside quotes too. Whether a line is a row, and what its fields are, then depends on its own bytes alone, so a
quotation mark, a stray byte or an endless field spoils at most the line it is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np

# No line that begins inside a block is longer than a block: only a block's first line can be too long.
BLOCK_BYTES = 2**20
MAX_LINE_BYTES = 2**20

_QUOTE = b'"'
_FEED, _RETURN = b"\n"[0], b"\r"[0]


def line_ends(encoding: str) -> tuple[bytes, bytes]:
    """Return the bytes of a line feed and of a carriage return.

    They count wherever they stand, not only at whole code units: after a stray byte the next line is in step again.

    >>> line_ends("utf-16-le")
    (b'\\n\\x00', b'\\r\\x00')
    """
    return "\n".encode(encoding), "\r".encode(encoding)


def find_end(text: bytes, *, ends: Sequence[bytes]) -> int:
    """Return where the first line end begins, −1 where there is none."""
    return min((at for end in ends if (at := text.find(end)) >= 0), default=-1)


def read_whole_lines(handle: BinaryIO, *, ends: Sequence[bytes], longest: int) -> Iterator[bytes]:
    """Return the rest of a file in blocks of whole lines, without the lines that are longer than `longest`."""
    rest = b""
    # A line end may be cut in two by the end of a block.
    tail = max(map(len, ends))
    while block := handle.read(BLOCK_BYTES):
        seen = rest + block
        first = find_end(seen, ends=ends)
        if first < 0:
            # Of a line that is too long only that is remembered; the filler is part of no line end.
            too_long = len(seen) > longest + tail
            rest = b"\xff" * (longest + 1) + seen[-tail:] if too_long else seen
            continue
        stop = max(at + len(end) for end in ends if (at := seen.rfind(end)) >= 0)
        yield seen[0 if first <= longest else first : stop]
        rest = seen[stop:]
    if len(rest) <= longest:
        yield rest + ends[0]


def convert_to_utf8(block: bytes, *, encoding: str, ends: Sequence[bytes]) -> bytes:
    """Return whole lines in UTF-8; what cannot be decoded is replaced within its line."""
    if encoding == "utf-8":
        return block
    try:
        text = block.decode(encoding)
        # All line ends at whole code units: decoding line by line would give the same.
        if text.count("\n") + text.count("\r") == sum(block.count(end) for end in ends):
            return text.encode()
    except UnicodeDecodeError:
        pass
    lines = re.split(b"|".join(re.escape(end) for end in ends), block)
    return b"".join(line.decode(encoding, "replace").encode() + b"\n" for line in lines)


def select_rows(block: bytes, *, separator: bytes, fields: int) -> bytes:
    """Return those of some whole lines that have so many fields, and blank lines.

    In what is returned every quotation mark opens or closes a field or is written twice inside one.

    >>> select_rows(b'1,2\\n3\\n"a,b",4\\n5"x,6\\n7,"8\\n', separator=b",", fields=2)
    b'1,2\\n"a,b",4\\n"5""x","6"\\n\\n'
    """
    quoted = _QUOTE in block
    if quoted:
        block = _requote_lines(block, separator=separator)
    cells = np.frombuffer(block, np.uint8)
    marks = np.flatnonzero((cells == separator[0]) | (cells == _FEED) | (cells == _RETURN))
    if quoted:
        # Each line has an even number of quotation marks: after an odd number a field is open.
        before = np.searchsorted(np.flatnonzero(cells == _QUOTE[0]), marks)
        marks = marks[before % 2 == 0]
    ends = np.flatnonzero(cells[marks] != separator[0])
    counts = np.diff(ends, prepend=-1)
    lengths = np.diff(marks[ends], prepend=-1)
    kept = (counts == fields) | (lengths == 1)
    return block if kept.all() else cells[np.repeat(kept, lengths)].tobytes()


def split_fields(line: bytes, *, separator: bytes) -> list[bytes] | None:
    """Return the fields of one line, or None where a quoted field is never closed.

    A quotation mark means something only at the start of a field; inside quotes it is written twice.

    >>> split_fields(b'5"x,"a, ""b"" c",', separator=b",")
    [b'5"x', b'a, "b" c', b'']
    """
    found: list[bytes] = []
    at = 0
    while True:
        value = b""
        if line[at : at + 1] == _QUOTE:
            close = line.find(_QUOTE, at + 1)
            while close >= 0 and line[close + 1 : close + 2] == _QUOTE:
                close = line.find(_QUOTE, close + 2)
            if close < 0:
                return None
            value, at = line[at + 1 : close].replace(b'""', _QUOTE), close + 1
        stop = line.find(separator, at)
        if stop < 0:
            return [*found, value + line[at:]]
        found.append(value + line[at:stop])
        at = stop + 1


def _requote_lines(block: bytes, *, separator: bytes) -> bytes:
    """Return lines with those rewritten whose quotation marks are not plainly in place.

    Plainly: counting within a line, every first, third … mark follows a field's start or another mark, every
    second, fourth … mark stands before a field's end or another mark, and the last mark is an even one.
    """
    cells = np.frombuffer(block, np.uint8)
    stops = np.flatnonzero((cells == _FEED) | (cells == _RETURN))
    marks = np.flatnonzero(cells == _QUOTE[0])
    line = np.searchsorted(stops, marks)
    opens = (np.arange(len(marks)) - np.searchsorted(line, line)) % 2 == 0
    # The block ends with a line end, which also stands at −1, before the first mark.
    beside = cells[np.where(opens, marks - 1, marks + 1)]
    plain = np.isin(beside, np.frombuffer(b'"\r\n' + separator, np.uint8))
    last = np.append(line[1:] != line[:-1], True)
    doubtful = np.unique(line[~plain | (last & opens)])
    parts, done = [], 0
    for place in doubtful.tolist():
        start, stop = int(stops[place - 1]) + 1 if place else 0, int(stops[place])
        # All fields in quotes, or a blank line where it cannot be read.
        found = split_fields(block[start:stop], separator=separator) or []
        quoted = separator.join(_QUOTE + field.replace(_QUOTE, b'""') + _QUOTE for field in found)
        parts += [block[done:start], quoted]
        done = stop
    return b"".join([*parts, block[done:]])
