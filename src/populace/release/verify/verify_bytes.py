"""Verification of files byte by byte: written again from what was read of them, they are the same.

Readers pass over what they do not ask for: metadata of Parquet files, comments of archives, blank lines, spaces. A file
that is written anew from its parsed contents leaves all of that behind. Equal bytes therefore show that nothing else is
in a file, without a list of the places where something could be.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from populace.core.errors import ResourceError
from populace.core.untrusted_files import (
    altered_error,
    check_plain_parquet,
    open_regular,
    read_text,
    refuse_parse_errors,
)
from populace.release.manifest import (
    MANIFEST_FILE,
    STAT_SUFFIXES,
    STAT_WRITER,
    Manifest,
    digest_file,
    dump_json,
    list_versions,
)
from populace.release.statement.statement import RELEASE_FORMAT
from populace.release.verify.checks import Inconclusive

REPORT_FILE = "report.html"


def check_rewritten(
    folder: Path, manifest: Manifest, *, texts: Mapping[str, str], write: Callable[[Path], None] | None
) -> str:
    """Compare every file but the report with what is written again: `texts`, and whatever `write` puts in a folder.

    Texts of the current format have one spelling. Other bytes of older formats, or of a library whose version or
    build may be another, show nothing: they are unknown, unless something that is never written is found.
    """
    found = {name: hashlib.sha256(text.encode("utf-8")).hexdigest() for name, text in texts.items()}
    if write is not None:
        found |= _rewrite(write, folder=folder)
    differing = [name for name in sorted(found) if found[name] != manifest.files[name]]
    if read_text(folder / MANIFEST_FILE) != dump_json(manifest.to_json()):
        differing.append(MANIFEST_FILE)
    if not differing:
        return "written again, every file has the same bytes"
    if manifest.number != RELEASE_FORMAT:
        raise Inconclusive(
            f"words not compared: {differing[0]} is of format {manifest.number}, and today's words are others"
        )
    for name in differing:
        if _has_one_spelling(name, manifest):
            raise altered_error(f"{name} is not written as populace writes what it holds")
    raise Inconclusive(
        f"not written again: here {differing[0]} gets other bytes, as other builds of a library may write"
    )


def check_report(folder: Path, manifest: Manifest, *, build: Callable[[], str], others: str) -> str:
    """Build the report again from the folder, and compare it.

    `others` says in words which conditions are not those of the release: with these, another report shows nothing.
    """
    page, again = read_text(folder / REPORT_FILE), build()
    if page == again:
        return "built again from the folder, it is the same"
    if manifest.number != RELEASE_FORMAT:
        reason = f"it is of format {manifest.number}"
    elif others:
        reason = f"it was made with {others}"
    elif _differs_in_script_only(page, again):
        reason = "it holds the scripts of another version of vl-convert"
    else:
        raise altered_error("report.html is not the report of this folder")
    raise Inconclusive(f"report not rebuilt: {reason}, and here another report is made")


def _rewrite(write: Callable[[Path], None], *, folder: Path) -> dict[str, str]:
    """Return the digests of what is written again, after a look at what only archives and Parquet files can hold."""
    try:
        with tempfile.TemporaryDirectory(prefix="populace-verify-") as made:
            write(Path(made))
            for path in Path(made).iterdir():
                if path.suffix == ".parquet":
                    check_plain_parquet(folder / path.name)
                elif path.suffix == ".npz" and _archive_overhead(path) != _archive_overhead(
                    folder / path.name
                ):
                    raise altered_error(f"{path.name} holds more than its arrays")
            return {path.name: digest_file(path) for path in Path(made).iterdir()}
    except OSError as failure:
        raise ResourceError(
            f"the files could not be written again: {failure.strerror or 'the disk refuses'}.",
            hint="make room among temporary files, or let TMPDIR name a folder with room",
        ) from failure


def _archive_overhead(path: Path) -> int:
    """Return how many bytes of an archive belong to no member: headers, and whatever is between or behind them."""
    with open_regular(path) as file, refuse_parse_errors(path.name), zipfile.ZipFile(file) as held:
        size = file.seek(0, 2)
        return size - sum(member.compress_size for member in held.infolist())


def _has_one_spelling(name: str, manifest: Manifest) -> bool:
    """Say whether populace alone decides about the bytes of a file, or a library of the version that is here."""
    if name.startswith("synthetic") and name.endswith(STAT_SUFFIXES):
        return manifest.versions.get(STAT_WRITER) == list_versions(Path(name).suffix)[STAT_WRITER]
    if name.startswith("synthetic"):
        return name.endswith(".csv") and manifest.versions["pyarrow"] == list_versions()["pyarrow"]
    return not name.endswith((".parquet", ".npz"))


def _differs_in_script_only(page: str, again: str) -> bool:
    from populace.release.report.vega_scripts import load_scripts

    before, _, after = again.partition(load_scripts())
    return len(page) > len(before) + len(after) and page.startswith(before) and page.endswith(after)
