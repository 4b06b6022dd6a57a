"""Rules about the tree as a whole: names, folders, imports and repetition. Each returns what breaks it.

Like those of `house_rules`, every rule is applied to the source as it is and to a copy with a planted violation.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath

from populace.methods.registry import METHODS

from .house_rules import Texts, nodes, tree

# ------------------------------------------------------------------------------------------------- methods by name

REGISTRY = "methods/registry.py"
# The same words for other things: where, and what they mean there.
OTHER_MEANINGS = {
    ("privacy/accounting/mechanisms.py", "stability"): "partition selection, as ledgers spell it",
    ("survey/design/design_reader.py", "adaptive"): "a sampling design",
}


def method_names_elsewhere(texts: Texts) -> list[str]:
    """Only the registry knows methods by their names: nothing else compares one, or lists it."""
    names, found = frozenset(METHODS), []
    for path, text in texts.items():
        if path == REGISTRY or not any(name in text for name in names):
            continue
        for node in nodes(text):
            for child in _compared(node):
                name = child.value if isinstance(child, ast.Constant) else None
                if name in names and (path, name) not in OTHER_MEANINGS:
                    found.append(f"{path}:{child.lineno}: knows the method {name!r} by name")
    return found


def _compared(node: ast.AST) -> Sequence[ast.AST | None]:
    """Return the parts of an expression that are compared, listed or looked up."""
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Tuple() | ast.List() | ast.Set():
            return node.elts
        case ast.Dict():
            return [*node.keys, *node.values]
        case ast.MatchValue():
            return [node.value]
        case ast.Subscript():
            return [node.slice]
    return []


# ---------------------------------------------------------------------------------------------------------- imports


def import_cycles(texts: Texts, *, late: bool = False) -> list[str]:
    """No module needs, to be loaded, one that needs it. Imports for types alone do not count.

    With `late`, imports inside functions count too.
    """
    graph = {
        name: {other for other in imported if other != name}
        for name, imported in import_graph(texts, late=late).items()
    }
    return [" → ".join(group) for group in _strong_components(graph) if len(group) > 1]


def import_graph(texts: Texts, *, late: bool) -> dict[str, set[str]]:
    """Return which modules of the package each module imports, by dotted names."""
    modules = {_dotted(path): path for path in texts}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        graph[name] = {found for found in _imported(path, texts[path], late=late) if found in modules}
    return graph


@cache
def _imported(path: str, text: str, *, late: bool) -> frozenset[str]:
    """Return the modules that a file may import, by dotted names."""
    return frozenset(found for node in _imports(tree(text), late=late) for found in _targets(node, path))


def _dotted(path: str) -> str:
    parts = ["populace", *PurePosixPath(path).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.AST, *, late: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield from _imports(other, late=late)
        elif late or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(node, late=late)


def _targets(node: ast.Import | ast.ImportFrom, path: str) -> Iterator[str]:
    """Yield the modules that an import loads: a name taken from a package may be one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    package = ["populace", *PurePosixPath(path).parts[:-1]]
    base = package[: len(package) - node.level + 1] if node.level else []
    module = ".".join([*base, *([node.module] if node.module else [])])
    yield module
    yield from (f"{module}.{alias.name}" for alias in node.names)


def _strong_components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach one another (Tarjan 1972), each sorted."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            place = stack.index(name)
            found.append(sorted(stack[place:]))
            del stack[place:]

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return found


# ---------------------------------------------------------------------------------------------- folders and names

MAX_MODULES = 15


def crowded_folders(texts: Texts) -> list[str]:
    """No folder has more than so many modules; `cli` has a file for each verb."""
    held = Counter(str(PurePosixPath(path).parent) for path in texts if not path.endswith("__init__.py"))
    return [
        f"{folder}: {count} modules"
        for folder, count in held.items()
        if count > MAX_MODULES and folder != "cli"
    ]


# Files of the same name on purpose: back ends that share an interface.
SHARED_NAMES: frozenset[str] = frozenset()


def repeated_names(texts: Texts) -> list[str]:
    """A name stands for one module; verbs of the command line are called as what they call."""
    places = defaultdict(list)
    for path in texts:
        name = PurePosixPath(path).name
        if not path.startswith("cli/") and name not in {"__init__.py", "__main__.py", *SHARED_NAMES}:
            places[name].append(path)
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


# Words that mean something here alone, and what the field says.
RETIRED = {
    "told": "released, stated or reported",
    "wish": "workload, estimand or request",
    "wishes": "workload, estimand or request",
    "ways": "plan",
    "room": "capacity or size limit",
    "hushed": "redacted",
    "heeds": "uses",
    "earnest": "exact",
    "tape": "transcript",
    "lent": "public",
    "borrowed": "public",
    "law": "distribution or mechanism",
    "laws": "distributions or mechanisms",
    "reach": "half width, margin of error or precision",
    "look": "score, screen or read",
    "looks": "scores, screens or reads",
    "teach": "learn",
    "taught": "learnt",
    "lesson": "discovery",
    "standin": "simulated",
    "sure": "uncertainty",
    "desk": "workspace",
    "clerk": "oracle",
    "clerks": "oracles",
    "ruled": "constrained by rules",
    "becoming": "atomic folder",
}
# Where such a word is the field's own, or a file's: an identifier, and why.
KEPT_WORDS = {"law": "a key of statements, which are read by others"}
# Constants are limits by the words of everybody.
RETIRED_IN_CONSTANTS = {"MOST": "MAX", "LEAST": "MIN", "FEWEST": "MIN"}
KEPT_CONSTANTS = frozenset({"AT_LEAST", "AT_MOST", "LEAST_SQUARES"})


def retired_words(texts: Texts) -> list[str]:
    """No identifier has a retired word in it: between underscores, or where a capital begins."""
    found = []
    for path, text in texts.items():
        for name, line in [(PurePosixPath(path).stem, 0), *_identifiers(text)]:
            held = [RETIRED[word] for word in words_of(name) if word in RETIRED and name not in KEPT_WORDS]
            if name.isupper() and name not in KEPT_CONSTANTS:
                held += [
                    RETIRED_IN_CONSTANTS[word] for word in name.split("_") if word in RETIRED_IN_CONSTANTS
                ]
            found += [f"{path}:{line}: {name} (say {instead})" for instead in held]
    return found


@cache
def words_of(name: str) -> list[str]:
    """Return the words of an identifier."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in apart.lower().split("_") if word]


@cache
def _identifiers(text: str) -> tuple[tuple[str, int], ...]:
    """Return every name that a module gives, and its line."""
    found = []
    for node in nodes(text):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.append((node.name, node.lineno))
            case ast.arg():
                found.append((node.arg, node.lineno))
            case ast.Name(ctx=ast.Store()):
                found.append((node.id, node.lineno))
            case ast.Attribute(ctx=ast.Store()):
                found.append((node.attr, node.lineno))
            case ast.alias(asname=str()):
                found.append((str(node.asname), node.lineno))
    return tuple(found)


_PARTICIPLE = re.compile(
    r"_*([a-z]+ed|borne|built|chosen|drawn|felt|found|given|grown|held|kept|known|laid|lost|made|met|paid|said|sent"
    r"|shown|sold|spent|taken|thrown|told|torn|understood|worn|written)"
)


def bare_participles(texts: Texts) -> list[str]:
    """No function is called by a participle alone: a function does something, and its name says what.

    Properties are things, and may be called as such; so may functions that answer yes or no.
    """
    return [
        f"{path}:{node.lineno}: {node.name}"
        for path, text in texts.items()
        for node in nodes(text)
        if isinstance(node, ast.FunctionDef)
        and _PARTICIPLE.fullmatch(node.name)
        and not any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
        and (node.returns is None or ast.unparse(node.returns) not in ("bool", "Truth"))
    ]


# --------------------------------------------------------------------------------------------------------- repetition

MAX_SHARED_LINES = 9
_THIN = re.compile(r"[\W_]*")


def repeated_lines(texts: Texts) -> list[str]:
    """No two places share ten lines that say something; white space, comments, imports and brackets do not count."""
    windows: dict[tuple[str, ...], list[tuple[str, int, int]]] = defaultdict(list)
    length = MAX_SHARED_LINES + 1
    for path, text in texts.items():
        lines = _telling_lines(text)
        for place in range(len(lines) - length + 1):
            shown = lines[place : place + length]
            windows[tuple(line for _, line in shown)].append((path, place, shown[0][0]))
    found = []
    for (path, place, line), (other, second, again) in _pairs(windows):
        if path != other or second - place >= length:
            found.append(f"{path}:{line} ~ {other}:{again}")
    return found


def _pairs(
    windows: Mapping[tuple[str, ...], list[tuple[str, int, int]]],
) -> list[tuple[tuple[str, int, int], tuple[str, int, int]]]:
    """Return pairs of places that begin to be alike; the same pair one line on is the same repetition."""
    pairs = [(places[0], other) for places in windows.values() for other in places[1:]]
    known = {(a[0], a[1], b[0], b[1]) for a, b in pairs}
    return [(a, b) for a, b in pairs if (a[0], a[1] - 1, b[0], b[1] - 1) not in known]


@cache
def _telling_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of a module that count, without white space, and their numbers."""
    skipped = {
        number
        for node in nodes(text)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    told = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = "".join(line.split())
        if number not in skipped and not bare.startswith("#") and not _THIN.fullmatch(bare):
            told.append((number, bare))
    return told
