"""What a file is, by its first bytes, and whether its first line can be a header.

A file that is no table of texts has private values where a header should be. No message quotes a byte of it.
"""

from __future__ import annotations

import re
import unicodedata
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from populace.core.errors import DataError
from populace.schema.exact_numbers import parse_number
from populace.schema.imports.embedded.stat_formats import detect_stat_format

PARQUET = b"PAR1"
ARROW = b"ARROW1"
ARROW_STREAM = b"\xff\xff\xff\xff"
GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format that is not read as a text: what to call it, what to do instead, and how its files are known."""

    name: str
    hint: str
    suffixes: str = ""
    starts: tuple[bytes, ...] = ()


_EXPORT = "export it to CSV or Parquet first"
_UNPACK = "unpack it first"
_AGAIN = "export it again"


def _pandas(reader: str) -> str:
    return f"{_EXPORT}; with pandas: pandas.{reader}(…).to_parquet(…)"


_ORC = FileFormat("an ORC file", _pandas("read_orc"), "orc", (b"ORC",))
_JSON = FileFormat(
    "JSON", "write one object on each line and name the file .jsonl, or write CSV", "json geojson"
)
_XML = FileFormat("XML or HTML", _pandas("read_xml"), "xml html htm")
_PYTHON = FileFormat("a file of Python objects or arrays", _EXPORT, "pkl pickle npy npz", (b"\x93NUMPY",))
_ARCHIVES = (b"PK\x03\x04", b"PK\x05\x06", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07")
_SHEETS = (b"\xd0\xcf\x11\xe0", b"\x09\x08")
_FORMATS = (
    *(_ORC, _JSON, _XML, _PYTHON),
    # Read where they are what their names say.
    FileFormat("a Stata file", _AGAIN, "dta"),
    FileFormat("an SPSS portable file", _AGAIN, "por"),
    FileFormat("an SPSS file", _AGAIN, "sav zsav"),
    FileFormat("a SAS file", _AGAIN, "sas7bdat sas7bcat sd7"),
    FileFormat("compressed by gzip", _UNPACK, "gz tgz", (GZIP,)),
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
        "an Arrow file of the first Feather format",
        _pandas("read_feather"),
        "arrow feather ipc arrows",
        (b"FEA1",),
    ),
    FileFormat("an encrypted Parquet file", "decrypt it first", "", (b"PARE",)),
    FileFormat("an Avro file", _EXPORT, "avro", (b"Obj\x01",)),
    FileFormat("a SAS transport file", _AGAIN, "xpt xport v5x v8x"),
    FileFormat(
        "a SAS file of CPORT, which no other program reads", _EXPORT, "stc cpt cport", (b"**COMPRESSED**",)
    ),
    FileFormat(
        "an R file", f"{_EXPORT}; in R: write.csv(…)", "rds rda rdata", (b"RDX", b"RDA", b"X\n\x00\x00\x00")
    ),
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


def is_workbook(path: Path, start: bytes) -> bool:
    """Say whether a file is an Excel workbook: an archive with the part that every workbook has."""
    if not start.startswith(b"PK\x03\x04"):
        return False
    try:
        with zipfile.ZipFile(path) as held:
            return "xl/workbook.xml" in held.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def refuse_other_texts(path: Path, header: str, *, packed: bool = False) -> None:
    """Refuse a text whose first line is no header, for what it begins with, for its name or for its characters.

    The name of a packed file has a suffix more.
    """
    bare = header.lstrip()
    _refuse(path, _JSON if bare.startswith("{") or _JSON_ARRAY.match(bare) else None)
    _refuse(path, _XML if bare.startswith("<") else None)
    # What follows these letters in an ORC file may be a line end.
    _refuse(path, _ORC if header == "ORC" else None)
    named = _BY_SUFFIX.get((path.with_suffix("") if packed else path).suffix.lower())
    if named is not None:
        raise DataError(
            f"{str(path)!r} is named as {named.name} is, and is none.",
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
    if _PICKLE.match(start):
        return _PYTHON
    # Read where they are not packed.
    inside = detect_stat_format(start)
    return None if inside is None else FileFormat(inside.words, _UNPACK)
