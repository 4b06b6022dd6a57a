"""What every page shares: templates, the scripts that draw charts, and JSON that a page may hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from populace.errors import ResourceError

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Return the templates of this package, with filters by their names."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("populace.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters)
    return made


def for_script(value: Any) -> str:
    """Return JSON that no HTML parser takes for markup, whatever the labels hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@lru_cache(maxsize=1)
def script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    import vl_convert

    try:
        found: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    except (ValueError, OSError, MemoryError) as failure:
        raise ResourceError(
            "the scripts of the report could not be put together.",
            hint="free some memory and disk space, or install vl-convert-python again",
        ) from failure
    return found.replace("</script", "<\\/script").replace("<!--", "<\\!--")
