"""A command as a value: its options, its help, and how its arguments are parsed, with argparse."""

from __future__ import annotations

import argparse
import inspect
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any, NoReturn

from populace.core.errors import UsageError

MAX_WIDTH = 100
MAX_LEFT = 20
HELP_FLAGS = ("-h", "--help")


@dataclass(frozen=True, slots=True)
class Option:
    """An argument or option of a command, spelled as users type it: `DATA`, `--rows N`, or the flag `--json`.

    `shown` is the default in words, where the value itself would say little. `name` is the parameter of the function
    that receives the value, where it is not the option's own name.

    >>> Option("--rows N", "Synthetic rows.", int).parameter
    'rows'
    """

    usage: str
    help: str
    parse: Callable[[str], Any] = str
    required: bool = False
    default: Any = None
    shown: str = ""
    repeated: bool = False
    name: str = ""

    @property
    def flag(self) -> str:
        """How it is named on the command line; nothing for an argument."""
        return self.usage.split()[0] if self.usage.startswith("--") else ""

    @property
    def metavar(self) -> str:
        """What stands for its value; nothing for a switch."""
        return self.usage.removeprefix(self.flag).strip()

    @property
    def parameter(self) -> str:
        """The parameter that receives the value."""
        return self.name or (self.flag or self.metavar).strip("-[]").lower().replace("-", "_")

    @property
    def text(self) -> str:
        """The help, with the default."""
        shown = self.shown or (str(self.default) if self.metavar and self.default is not None else "")
        return f"{self.help} [default: {shown}]" if shown else self.help

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let a parser take it."""
        if not self.metavar:
            parser.add_argument(self.flag, dest=self.parameter, action="store_true")
            return
        value: dict[str, Any] = {"metavar": self.metavar, "type": self._parse, "default": self.default}
        if self.flag:
            value |= {"action": "append" if self.repeated else "store", "required": self.required}
            parser.add_argument(self.flag, dest=self.parameter, **value)
        else:
            count = "+" if self.repeated else None if self.required else "?"
            parser.add_argument(self.parameter, nargs=count, **value)

    def _parse(self, text: str) -> Any:
        try:
            return self.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not {error}") from None


@dataclass(frozen=True, slots=True)
class Bundle:
    """Options that make one value together: the function receives it as its parameter of this name."""

    name: str
    options: tuple[Option, ...]
    build: Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Command:
    """A verb: the function that runs, whose docstring is the help, and its options in the order of the help."""

    name: str
    run: Callable[..., None]
    takes: tuple[Option | Bundle, ...]

    @property
    def options(self) -> tuple[Option, ...]:
        """All options, those of bundles included."""
        parts = (each.options if isinstance(each, Bundle) else (each,) for each in self.takes)
        return tuple(chain.from_iterable(parts))

    @property
    def doc(self) -> str:
        """What the verb says of itself."""
        return inspect.cleandoc(self.run.__doc__ or "")

    def usage(self, path: str) -> str:
        """Return how the verb is typed."""
        needed = [each.usage for each in self.options if each.required or not each.flag]
        return " ".join([path, *needed, "[OPTIONS]"])

    def __call__(self, arguments: Sequence[str], *, path: str) -> str | None:
        """Parse the rest of a command line and run the verb; return its help instead where that is asked for."""
        if any(each in HELP_FLAGS for each in arguments):
            return self.help(path)
        parser = _Parser(prog=path, add_help=False, allow_abbrev=False)
        for option in self.options:
            option.add_to(parser)
        values = vars(parser.parse_args(list(arguments)))
        for bundle in self.takes:
            if isinstance(bundle, Bundle):
                parts = {each.parameter: values.pop(each.parameter) for each in bundle.options}
                values[bundle.name] = bundle.build(parts)
        self.run(**values)
        return None

    def help(self, path: str) -> str:
        """Return the page of help."""
        needed = [each for each in self.options if each.required or not each.flag]
        further = [each for each in self.options if each not in needed]
        titles = {"Arguments": needed, "Options": further}
        rows = [(title, [(each.usage, each.text) for each in found]) for title, found in titles.items()]
        rows[-1][1].append(("-h, --help", "Show this page."))
        return render_help(self.usage(path), self.doc, rows)


@dataclass(frozen=True, slots=True)
class Group:
    """A verb of several verbs."""

    name: str
    doc: str
    commands: tuple[Command, ...]

    def __call__(self, arguments: Sequence[str], *, path: str) -> str | None:
        """Run one of the verbs; return the help where that is asked for."""
        known = {each.name: each for each in self.commands}
        first, *rest = arguments or [""]
        if first in known:
            return known[first](rest, path=f"{path} {first}")
        if first in HELP_FLAGS:
            return self.help(path)
        raise refuse_word(first, known, path=path) if first else VerbMissing(self.help(path))

    def help(self, path: str) -> str:
        """Return the page of help."""
        rows = [(each.name, summarize(each.doc)) for each in self.commands]
        return render_help(f"{path} COMMAND …", inspect.cleandoc(self.doc), [("Commands", rows)])


class VerbMissing(UsageError):
    """A command line ended before it named a verb; its message is the help."""

    def __init__(self, text: str) -> None:
        super().__init__(text, hint="")


class _Parser(argparse.ArgumentParser):
    """Raises what is wrong with a command line instead of leaving the process."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            known = [flag for action in self._actions for flag in action.option_strings]
            raise refuse_word(unknown[0], known, path=self.prog)
        return found

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}.", hint=point_to_help(self.prog))


def command(*takes: Option | Bundle) -> Callable[[Callable[..., None]], Command]:
    """Make a command of a function; its name is that of the verb."""

    def make(run: Callable[..., None]) -> Command:
        return Command(run.__name__.rstrip("_"), run, takes)

    return make


def point_to_help(path: str) -> str:
    """Return where the help of a command is."""
    return f"`{path} --help` shows how it is used"


def refuse_word(word: str, known: Iterable[str], *, path: str) -> UsageError:
    """Return what is wrong with a word that a command does not know."""
    near = get_close_matches(word, list(known), n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return UsageError(f"`{path}` does not take {word!r}.", hint=meant + point_to_help(path))


def summarize(doc: str) -> str:
    """Return the first sentence of a help text, without its full stop."""
    return doc.partition("\n\n")[0].replace("\n", " ").removesuffix(".")


def render_help(usage: str, doc: str, tables: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    """Return a page: the usage, paragraphs, and tables of words with what they mean. Nothing is cut."""
    width = min(MAX_WIDTH, shutil.get_terminal_size().columns)
    tables = [(title, rows) for title, rows in tables if rows]
    left = 2 + max((len(word) for _, rows in tables for word, _ in rows if len(word) <= MAX_LEFT), default=0)
    lines = textwrap.wrap(f"Usage: {usage}", width, subsequent_indent=" " * 9, break_on_hyphens=False)
    for paragraph in doc.split("\n\n"):
        # A title with a list of indented lines stays as it is.
        shown = paragraph.splitlines()
        if not is_listing(paragraph):
            shown = textwrap.wrap(" ".join(shown), width, break_on_hyphens=False)
        lines += ["", *shown]
    for title, rows in tables:
        lines += ["", f"{title}:"]
        for word, text in rows:
            lines += _row(word, text, left=left, width=width)
    return "\n".join(lines)


def is_listing(paragraph: str) -> bool:
    """Say whether a paragraph is a title with indented lines, such as examples."""
    return any(line.startswith("  ") for line in paragraph.splitlines())


def _row(word: str, text: str, *, left: int, width: int) -> Iterator[str]:
    wrapped = textwrap.wrap(text, max(width - left - 2, 30), break_on_hyphens=False)
    if len(word) > left - 2:
        yield f"  {word}"
    else:
        first, *wrapped = wrapped
        yield f"  {word:{left}}{first}"
    for line in wrapped:
        yield f"{'':{left + 2}}{line}"
