"""Tables that their owner declares public: read as private ones are, but without protection."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from populace.errors import DataError
from populace.private.read import check_header, open_source, read_codes
from populace.public import Public
from populace.schema.schema import Schema
from populace.schema.unit import Unit


def read_public(data: Any, *, schema: Schema) -> Public:
    """Return a public table in the codes of a schema; all its rows count, whatever unit the private rows have.

    A file is named by its name and the SHA-256 of its bytes, a frame by the SHA-256 of its codes.
    """
    if isinstance(data, str):
        data = Path(data)
    # Nobody behind a public row is protected, so nobody's rows are counted.
    plain = replace(schema, unit=Unit(), totals=())
    source = open_source(data)
    check_header(source, plain)
    codes = read_codes(source, plain)
    if not len(next(iter(codes.values()))):
        raise DataError("the public table has no rows.", hint="give one that has some, or leave --public out")
    if isinstance(data, os.PathLike):
        path = Path(data)
        name = "".join(letter for letter in path.name if letter.isprintable())
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    else:
        name, whole = "table", hashlib.sha256(schema.digest.encode())
        for column in codes.values():
            whole.update(column.tobytes())
        digest = whole.hexdigest()
    return Public(name=name, digest=digest, domain=schema.domain, codes=codes)
