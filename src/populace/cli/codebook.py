"""populace codebook: the codebook of a release in formats of others."""

from __future__ import annotations

from pathlib import Path

from populace.cli import options
from populace.cli.command import Option, command
from populace.cli.console import emit_result, save_text

RELEASE = Option("DIR", "A release folder.", Path, required=True, name="release")
FORMAT = Option(
    "--format ddi|croissant",
    "DDI-Codebook 2.5 (XML) or Croissant 1.0 (JSON-LD).",
    options.choice("ddi", "croissant"),
    required=True,
    name="form",
)
OUT = Option(
    "--out FILE", "The file to write; it must not exist yet. - is stdout.", Path, default=Path("-"), shown="-"
)


@command(RELEASE, FORMAT, OUT, options.JSON)
def codebook(release: Path, form: str, out: Path, json: bool) -> None:
    """Write the codebook of a release for archives and catalogues, at no cost.

    It says what codebook.json says: columns with labels, values, missing codes and universes. Nothing is computed from
    rows.

    Examples:
      populace codebook release --format ddi --out release.xml
      populace codebook release --format croissant --out croissant.json
    """
    from populace.release.exports.croissant_export import export_croissant
    from populace.release.exports.ddi_export import export_ddi
    from populace.release.exports.released_codebook import ReleasedCodebook

    found = ReleasedCodebook.load(release)
    text = export_ddi(found) if form == "ddi" else export_croissant(found)
    save_text(text, out)
    if str(out) != "-":
        emit_result({"codebook": str(out), "format": form}, json=json)
