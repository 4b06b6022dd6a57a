"""The scripts of reports are kept between runs, and used only as they were made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import vl_convert

from populace.core.errors import ResourceError
from populace.release.report import vega_scripts as scripts

MADE = "draw('<!-- </script> é\r\n');\n"
SAFE = "draw('<\\!-- <\\/script> é\r\n');\n"


@pytest.fixture
def made(monkeypatch, tmp_path) -> list[str]:
    """Return a list that grows when scripts are put together."""
    calls: list[str] = []

    def bundle(wanted: str) -> str:
        calls.append(wanted)
        return MADE

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return calls


def fresh() -> str:
    """Return the scripts as a new process would."""
    return scripts.load_scripts.__wrapped__()


def kept(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "caches" / "populace").iterdir()
    return found


def test_they_are_put_together_once(made, tmp_path):
    assert [fresh(), fresh()] == [SAFE, SAFE]
    assert len(made) == 1
    assert kept(tmp_path).name == f"vega-{vl_convert.__version__}.js"
    assert kept(tmp_path).stat().st_mode & 0o077 == 0
    assert kept(tmp_path).parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "fault", ["cut", "other", "empty", "no text", "writable", "not ours", "other wish", "a folder"]
)
def test_kept_ones_that_may_be_others_are_not_used(fault, made, tmp_path, monkeypatch):
    fresh()
    path = kept(tmp_path)
    content = path.read_bytes()
    if fault in ("cut", "other", "empty", "no text"):
        changed = {
            "cut": content[:-1],
            "other": content.replace(b"draw", b"dxaw"),
            "empty": b"",
            "no text": b"\xff",
        }
        path.write_bytes(changed[fault])
    elif fault == "a folder":
        path.unlink()
        path.mkdir(mode=0o700)
    elif fault == "writable":
        path.chmod(0o620)
    elif fault == "not ours":
        ours = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    else:
        monkeypatch.setattr(scripts, "BUNDLE_CODE", "window.other = vegaEmbed;")
    assert fresh() == SAFE
    assert len(made) == 2


@pytest.mark.parametrize(
    "fault", ["a file in the way", "no home", "relative", "relative home", "open to all"]
)
def test_where_nothing_can_be_kept_they_are_made_again(fault, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if fault == "a file in the way":
        (tmp_path / "caches").write_text("")
    elif fault == "open to all":
        (tmp_path / "caches" / "populace").mkdir(parents=True)
        (tmp_path / "caches" / "populace").chmod(0o777)
    elif fault == "relative home":
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", lambda: Path("caches"))
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "" if fault == "no home" else "caches")

        def homeless() -> Path:
            raise RuntimeError("no home")

        monkeypatch.setattr(Path, "home", homeless)
    assert [fresh(), fresh()] == [SAFE, SAFE]
    assert len(made) == 2
    assert not list(tmp_path.rglob("vega*"))


def test_scripts_that_cannot_be_made_are_told(made, monkeypatch):
    def fail(_: str) -> str:
        raise ValueError

    monkeypatch.setattr(vl_convert, "javascript_bundle", fail)
    with pytest.raises(ResourceError, match="could not be put together"):
        fresh()
