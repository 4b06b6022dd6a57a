"""The scripts that draw charts: put together by the installed vl-convert, then kept among the user's caches.

Putting them together takes longer than most of a small run. They are public and the same for everybody; kept ones
are used if they are whole and nobody else could have written them. Where nothing can be kept they are made every time.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from populace.core.errors import ResourceError
from populace.release.folder.hidden_folder import hidden_folder

if TYPE_CHECKING:
    from markupsafe import Markup

# Pixels of a chart on wide pages and on phones.
PAGE_WIDTHS = {"wide": 760, "phone": 340}
BUNDLE_CODE = "window.vegaEmbed = vegaEmbed;"


@lru_cache(maxsize=1)
def load_scripts() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that a page may hold."""
    import vl_convert

    version: str = vl_convert.__version__  # type: ignore[attr-defined]
    place = _cache_file(version)
    found = None if place is None else _read_cached(place, version=version)
    if found is None:
        with convert_errors("the scripts of the report could not be put together."):
            found = str(vl_convert.javascript_bundle(BUNDLE_CODE))
        if place is not None:
            _write_cache(found, place, version=version)
    return found.replace("</script", "<\\/script").replace("<!--", "<\\!--")


@contextmanager
def convert_errors(message: str) -> Iterator[None]:
    """Turn whatever goes wrong in the library that draws charts into an error of ours; a panic is no Exception."""
    try:
        yield
    except BaseException as failure:
        if not isinstance(failure, Exception) and type(failure).__name__ != "PanicException":
            raise
        raise ResourceError(
            message, hint="free some memory and disk space, or install vl-convert-python again"
        ) from None


def draw_for_page(chart: Callable[[int], dict[str, Any]]) -> Markup:
    """Return a chart as SVG, drawn for wide pages and again for phones; `chart` takes the pixels there are."""
    import vl_convert
    from markupsafe import Markup

    found = Markup("")
    for name, width in PAGE_WIDTHS.items():
        spec = chart(width)
        fixed = spec | {"width": width - 10 if spec.get("width") == "container" else spec["width"]}
        with convert_errors("the charts of the page could not be drawn."):
            drawn: str = vl_convert.vegalite_to_svg(fixed)
        found += Markup('<div class="{}">{}</div>').format(name, Markup(drawn))
    return found


def _cache_file(version: str) -> Path | None:
    """Return where scripts are kept: $XDG_CACHE_HOME/populace; None for a user without a home."""
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG rules say that a relative path is to be ignored.
    if not home.is_absolute():
        try:
            home = Path.home() / ".cache"
        except RuntimeError:
            return None
    return home / "populace" / f"vega-{version}.js" if home.is_absolute() else None


def _read_cached(place: Path, *, version: str) -> str | None:
    """Return kept scripts, or None unless they are ours and as they were written: their first line is their digest."""
    try:
        if not _is_ours(place.stat()) or not place.is_file():
            return None
        digest, _, found = place.read_bytes().partition(b"\n")
    except OSError:
        return None
    return found.decode() if digest == _digest(found, version=version) else None


def _write_cache(scripts: str, place: Path, *, version: str) -> None:
    """Keep scripts if that is possible. Other runs see them whole or not at all."""
    content = scripts.encode()
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(place.parent.stat()):
            return
        with hidden_folder(place.parent, name=place.name) as folder:
            whole = folder / place.name
            whole.write_bytes(_digest(content, version=version) + b"\n" + content)
            whole.chmod(0o600)
            whole.replace(place)
    except OSError:
        return


def _is_ours(about: os.stat_result) -> bool:
    """Say whether nobody else may write to a file or folder."""
    return not hasattr(os, "geteuid") or (about.st_uid == os.geteuid() and not about.st_mode & 0o022)


def _digest(scripts: bytes, *, version: str) -> bytes:
    return hashlib.sha256(f"{version} {BUNDLE_CODE} ".encode() + scripts).hexdigest().encode()
