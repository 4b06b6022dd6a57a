"""What a file is, told by its first bytes, and whether its first line can be a header.

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
    """A format that is not read: what to call it, and how to turn it into one that is."""

    name: str
    hint: str


_EXPORT = "export it to CSV or Parquet first"


def _pandas(reader: str) -> str:
    return f"{_EXPORT}; with pandas: {reader}(…).to_parquet(…)"


_UNPACK = "unpack it first"
_GZIP = FileFormat("compressed by gzip", _UNPACK)
_BZIP2 = FileFormat("compressed by bzip2", _UNPACK)
_XZ = FileFormat("compressed by xz", _UNPACK)
_ZSTD = FileFormat("compressed by zstd", _UNPACK)
_ZIP = FileFormat("a ZIP archive or a spreadsheet", f"unpack it, or {_EXPORT}")
_SHEET = FileFormat("an old spreadsheet", _EXPORT)
_ARROW = FileFormat("an Arrow file", _pandas("pandas.read_feather"))
_ORC = FileFormat("an ORC file", _pandas("pandas.read_orc"))
_AVRO = FileFormat("an Avro file", _EXPORT)
_STATA = FileFormat("a Stata file", _pandas("pandas.read_stata"))
_SAS = FileFormat("a SAS file", _pandas("pandas.read_sas"))
_TRANSPORT = FileFormat("a SAS transport file", _pandas("pandas.read_sas"))
_SPSS = FileFormat("an SPSS file", _pandas("pandas.read_spss"))
_PORTABLE = FileFormat("an SPSS portable file", _EXPORT)
_R = FileFormat("an R file", f"{_EXPORT}; in R: write.csv(…)")
_JSON = FileFormat("JSON", _pandas("pandas.read_json"))
_XML = FileFormat("XML or HTML", _pandas("pandas.read_xml"))
_SQLITE = FileFormat("a SQLite database", _EXPORT)
_ACCESS = FileFormat("an Access database", _EXPORT)
_PDF = FileFormat("a PDF", _EXPORT)
_PYTHON = FileFormat("a file of Python objects or arrays", _EXPORT)
_HDF = FileFormat("an HDF5 file", _EXPORT)
_MATLAB = FileFormat("a MATLAB file", _EXPORT)
_IMAGE = FileFormat("an image", "give a table")
_ENCRYPTED = FileFormat("an encrypted Parquet file", "decrypt it first")
_YAML = FileFormat("YAML", _EXPORT)

_STARTS = {
    b"PK\x03\x04": _ZIP,
    b"PK\x05\x06": _ZIP,
    b"7z\xbc\xaf\x27\x1c": _ZIP,
    b"Rar!\x1a\x07": _ZIP,
    b"\x1f\x8b": _GZIP,
    b"\x1f\x9d": FileFormat("compressed by compress", _UNPACK),
    b"BZh": _BZIP2,
    b"\xfd7zXZ": _XZ,
    b"\x28\xb5\x2f\xfd": _ZSTD,
    b"\x04\x22\x4d\x18": FileFormat("compressed by lz4", _UNPACK),
    b"\xff\x06\x00\x00sNaPpY": FileFormat("compressed by snappy", _UNPACK),
    ARROW: _ARROW,
    b"FEA1": _ARROW,
    b"\xff\xff\xff\xff": _ARROW,
    b"PARE": _ENCRYPTED,
    b"Obj\x01": _AVRO,
    b"$FL2": _SPSS,
    b"$FL3": _SPSS,
    b"HEADER RECORD*": _TRANSPORT,
    b"**COMPRESSED**": _TRANSPORT,
    bytes(12) + b"\xc2\xea\x81\x60": _SAS,
    b"<stata_dta>": _STATA,
    b"ORC": _ORC,
    b"RDX": _R,
    b"RDA": _R,
    b"SQLite format 3": _SQLITE,
    b"\x00\x01\x00\x00Standard": _ACCESS,
    b"%PDF": _PDF,
    b"\xd0\xcf\x11\xe0": _SHEET,
    b"\x09\x08": _SHEET,
    b"\x89HDF": _HDF,
    b"MATLAB 5.0": _MATLAB,
    b"\x93NUMPY": _PYTHON,
    b"\x89PNG": _IMAGE,
    b"\xff\xd8\xff": _IMAGE,
    b"GIF8": _IMAGE,
}
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

_SUFFIXES = {
    _JSON: "json jsonl ndjson geojson",
    _XML: "xml html htm",
    _YAML: "yaml yml",
    _STATA: "dta",
    _SAS: "sas7bdat sas7bcat sd7",
    _TRANSPORT: "xpt xport v5x v8x stc",
    _SPSS: "sav zsav",
    _PORTABLE: "por",
    _R: "rds rda rdata",
    _ZIP: "zip xlsx xlsm xlsb ods 7z rar",
    _SHEET: "xls",
    _ARROW: "arrow feather ipc arrows",
    _ORC: "orc",
    _AVRO: "avro",
    _SQLITE: "sqlite sqlite3 db",
    _ACCESS: "mdb accdb",
    _PDF: "pdf",
    _PYTHON: "pkl pickle npy npz",
    _HDF: "h5 hdf hdf5",
    _MATLAB: "mat",
    _GZIP: "gz tgz",
    _BZIP2: "bz2",
    _XZ: "xz",
    _ZSTD: "zst",
}
_NAMED = {f".{suffix}": each for each, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}


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
    named = _NAMED.get(path.suffix.lower())
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
    for magic, found in _STARTS.items():
        if start.startswith(magic) and (magic not in _LETTERS or re.match(_LETTERS[magic], start)):
            return found
    if _OLD_STATA.match(start):
        return _STATA
    if _PICKLE.match(start):
        return _PYTHON
    # It says so in several alphabets, the second of which is ASCII.
    return _PORTABLE if b"SPSS PORT FILE" in re.split(rb"[\r\n]", start[:SIGNATURE_BYTES])[0] else None
