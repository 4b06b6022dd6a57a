"""What a file is, by its first bytes, and whether its first line can be a header.

A file that is no table of texts has private values where a header should be. No message quotes a byte of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from populace.core.errors import DataError
from populace.schema.exact_numbers import parse_number

# As much of a file's start as signatures need: that of SPSS's portable files is the longest.
SIGNATURE_BYTES = 80
PARQUET = b"PAR1"
ARROW = b"ARROW1"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format that is not read: what to call it, how to turn it into one that is, and how its files are known."""

    name: str
    hint: str
    suffixes: str = ""
    starts: tuple[bytes, ...] = ()


_EXPORT = "export it to CSV or Parquet first"
_UNPACK = "unpack it first"


def _pandas(reader: str) -> str:
    return f"{_EXPORT}; with pandas: pandas.{reader}(…).to_parquet(…)"


_ORC = FileFormat("an ORC file", _pandas("read_orc"), "orc", (b"ORC",))
_STATA = FileFormat("a Stata file", _pandas("read_stata"), "dta", (b"<stata_dta>",))
_PORTABLE = FileFormat("an SPSS portable file", _EXPORT, "por")
_JSON = FileFormat("JSON", _pandas("read_json"), "json jsonl ndjson geojson")
_XML = FileFormat("XML or HTML", _pandas("read_xml"), "xml html htm")
_PYTHON = FileFormat("a file of Python objects or arrays", _EXPORT, "pkl pickle npy npz", (b"\x93NUMPY",))
_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
_SHEETS = (b"\xd0\xcf\x11\xe0", b"\x09\x08")
_FORMATS = (
    *(_ORC, _STATA, _PORTABLE, _JSON, _XML, _PYTHON),
    FileFormat("compressed by gzip", _UNPACK, "gz tgz", (b"\x1f\x8b",)),
    FileFormat("compressed by compress", _UNPACK, "", (b"\x1f\x9d",)),
    FileFormat("compressed by bzip2", _UNPACK, "bz2", (b"BZh",)),
    FileFormat("compressed by xz", _UNPACK, "xz", (b"\xfd7zXZ",)),
    FileFormat("compressed by zstd", _UNPACK, "zst", (b"\x28\xb5\x2f\xfd",)),
    FileFormat("compressed by lz4", _UNPACK, "", (b"\x04\x22\x4d\x18",)),
    FileFormat("compressed by snappy", _UNPACK, "", (b"\xff\x06\x00\x00sNaPpY",)),
    FileFormat(
        "a ZIP archive or a spreadsheet",
        f"unpack it, or {_EXPORT}",
        "zip xlsx xlsm xlsb ods 7z rar",
        _ARCHIVES,
    ),
    FileFormat("an old spreadsheet", _EXPORT, "xls", _SHEETS),
    FileFormat(
        "an Arrow file",
        _pandas("read_feather"),
        "arrow feather ipc arrows",
        (ARROW, b"FEA1", b"\xff\xff\xff\xff"),
    ),
    FileFormat("an encrypted Parquet file", "decrypt it first", "", (b"PARE",)),
    FileFormat("an Avro file", _EXPORT, "avro", (b"Obj\x01",)),
    FileFormat("an SPSS file", _pandas("read_spss"), "sav zsav", (b"$FL2", b"$FL3")),
    FileFormat(
        "a SAS transport file",
        _pandas("read_sas"),
        "xpt xport v5x v8x stc",
        (b"HEADER RECORD*", b"**COMPRESSED**"),
    ),
    FileFormat(
        "a SAS file", _pandas("read_sas"), "sas7bdat sas7bcat sd7", (bytes(12) + b"\xc2\xea\x81\x60",)
    ),
    FileFormat("an R file", f"{_EXPORT}; in R: write.csv(…)", "rds rda rdata", (b"RDX", b"RDA")),
    FileFormat("a SQLite database", _EXPORT, "sqlite sqlite3 db", (b"SQLite format 3",)),
    FileFormat("an Access database", _EXPORT, "mdb accdb", (b"\x00\x01\x00\x00Standard",)),
    FileFormat("a PDF", _EXPORT, "pdf", (b"%PDF",)),
    FileFormat("an HDF5 file", _EXPORT, "h5 hdf hdf5", (b"\x89HDF",)),
    FileFormat("a MATLAB file", _EXPORT, "mat", (b"MATLAB 5.0",)),
    FileFormat("an image", "give a table", "", (b"\x89PNG", b"\xff\xd8\xff", b"GIF8")),
    FileFormat("YAML", _EXPORT, "yaml yml"),
)
_BY_START = {start: each for each in _FORMATS for start in each.starts}
_BY_SUFFIX = {f".{suffix}": each for each in _FORMATS for suffix in each.suffixes.split()}
# Only where more than these letters says so: a header may begin with them.
_LETTERS = {
    b"BZh": rb"BZh[1-9]1AY&SY",
    b"ORC": rb"ORC[\x00-\x08\x0b\x0c\x0e-\x1f]",
    b"RDX": rb"RDX[1-5]\n",
    b"RDA": rb"RDA[1-5]\n",
}
# Stata's older files: the release, the order of bytes, a one and a nought.
_OLD_STATA = re.compile(rb"[\x66-\x77][\x01\x02]\x01\x00")
_PICKLE = re.compile(rb"\x80[\x02-\x05][\x95c}\]\(\x8c]")
# Commands of a dump of a database, and a name beside its value.
_COMMAND = re.compile(r"(?i)(insert\s+into|create\s+table|copy\s+\S+\s*\(|--|/\*)")
_PAIR = re.compile(r"[\w .-]+\s*[:=]\s*\S.*")
_JSON_ARRAY = re.compile(r'\[\s*(?:[\[{"\]0-9-]|true\b|false\b|null\b|$)')


def refuse_other_formats(path: Path, start: bytes) -> None:
    """Refuse a file whose first bytes say that it is no text. Nothing beyond its first line is looked at."""
    if not start:
        raise DataError(
            f"{str(path)!r} is empty.", hint="a table needs at least a header line with the column names"
        )
    _refuse(path, _detect_format(start))


def refuse_other_texts(path: Path, header: str) -> None:
    """Refuse a text whose first line is no header, for what it begins with, for its name or for its characters."""
    bare = header.lstrip()
    _refuse(path, _JSON if bare.startswith("{") or _JSON_ARRAY.match(bare) else None)
    _refuse(path, _XML if bare.startswith("<") else None)
    # What follows these letters in an ORC file may be a line end.
    _refuse(path, _ORC if header == "ORC" else None)
    named = _BY_SUFFIX.get(path.suffix.lower())
    if named is not None:
        raise DataError(
            f"{str(path)!r} is named as {named.name} is, which is not read.",
            hint=f"if it is CSV, name it .csv; if not, {named.hint}",
        )
    if any(unicodedata.category(each) == "Cc" and each != "\t" for each in header):
        raise DataError(
            f"the first line of {str(path)!r} holds control characters: it is not a header.",
            hint="give a CSV file with a line of column names, or a Parquet file",
        )


def can_be_header(names: Sequence[str]) -> bool:
    """Say whether some texts may be names of columns: fewer than half of them look like values.

    >>> can_be_header(["age", "sex", "2019"]), can_be_header(["44", "2001-05-01", "Ulm"])
    (True, False)
    """
    if any(_is_broken(name) for name in names):
        return False
    return 2 * sum(map(is_like_value, names)) < len(names)


def is_like_value(name: str) -> bool:
    """Say whether a text is rather a value than a name: a number, a date, a code of digits, an address, a pair of both.

    >>> [is_like_value(each) for each in ("44", "2001-05-01", "0012 3 M 1983", "a@b.org", "Q12", "2019 income")]
    [True, True, True, True, False, False]
    >>> is_like_value("name: Alice"), is_like_value("sex=f"), is_like_value("income (EUR)")
    (True, True, False)
    """
    bare = name.strip()
    if parse_number(bare) is not None or re.fullmatch(r"\S+@\S+\.\S+", bare) or _PAIR.fullmatch(bare):
        return True
    letters = [each for each in bare if each.isalnum()]
    digits = sum(each.isdigit() for each in letters)
    return bool(letters) and bare.lstrip("+-.('\"")[:1].isdigit() and 2 * digits >= len(letters)


def _is_broken(name: str) -> bool:
    """Say whether a text is part of something else, such as a command or columns of fixed width, or of no text at all.

    >>> [_is_broken(each) for each in ("INSERT INTO people VALUES (1", "Alice    f  1983", "'Alice'", "age group")]
    [True, True, True, False]
    """
    bare = name.strip()
    if bare.startswith(("{", "<", "HEADER RECORD")) or _JSON_ARRAY.match(bare) or "\ufffd" in name:
        return True
    return bool(_COMMAND.match(bare) or re.search(r"\S\s{2,}\S", bare) or re.fullmatch(r"'.*'", bare))


def _refuse(path: Path, found: FileFormat | None) -> None:
    if found is not None:
        raise DataError(f"{str(path)!r} is {found.name}.", hint=found.hint)


def _detect_format(start: bytes) -> FileFormat | None:
    for magic, found in _BY_START.items():
        if start.startswith(magic) and (magic not in _LETTERS or re.match(_LETTERS[magic], start)):
            return found
    if _OLD_STATA.match(start):
        return _STATA
    if _PICKLE.match(start):
        return _PYTHON
    # It says so in several alphabets, the second of which is ASCII.
    return _PORTABLE if b"SPSS PORT FILE" in re.split(rb"[\r\n]", start[:SIGNATURE_BYTES])[0] else None
