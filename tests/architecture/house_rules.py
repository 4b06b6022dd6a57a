"""House rules as small functions over the parsed source tree: each returns what breaks it, as `file: what`.

The tests next to this file apply every rule twice: to the source as it is (nothing may come back), and to a
copy in which a violation was planted (something must come back).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "populace"
BARRIER = "private/barrier.py"

Texts = Mapping[str, str]


def source() -> dict[str, str]:
    """Return the text of every module, by its path inside the package."""
    return {str(path.relative_to(SOURCE)): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}


def planted(texts: Texts, path: str, code: str) -> dict[str, str]:
    """Return a copy of the source in which `code` was added to the end of one module."""
    return {**texts, path: texts.get(path, "") + "\n" + code + "\n"}


@cache
def tree(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(text)))


@cache
def imports(path: str, text: str) -> frozenset[str]:
    """Return every module a file imports, wherever in the file, with the names taken from it."""
    package = ["populace", *Path(path).parts[:-1]]
    found: set[str] = set()
    for node in nodes(text):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@cache
def calls(text: str) -> tuple[tuple[str, ast.Call], ...]:
    """Return every call with the last part of the name that is called."""
    found = []
    for node in nodes(text):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                found.append((node.func.attr, node))
            elif isinstance(node.func, ast.Name):
                found.append((node.func.id, node))
    return tuple(found)


# ------------------------------------------------------------------------------------------ one door


def draws_noise_elsewhere(texts: Texts) -> list[str]:
    """Only the noise source imports the samplers, and only the barrier lets noise meet a number.

    Noise is asked for with `add(…, mechanism=…)`, `reveal(…, mechanism=…)`, `pick(…, rate=…)` and, to follow
    a private bound, `smooth(number, bound, mechanism=…)`; a question has no bound.
    """
    found = []
    for path, text in texts.items():
        samplers = "populace.privacy.noise.samplers", "populace.privacy.smooth.smooth_sampler"
        taken = {name for name in imports(path, text) if name.startswith(samplers)}
        if taken and path not in (
            "privacy/noise/noise_source.py",
            "privacy/noise/samplers.py",
            "privacy/smooth/smooth_sampler.py",
        ):
            found.append(f"{path}: imports the samplers")
        if path == BARRIER:
            continue
        for name, call in calls(text):
            words = {word.arg for word in call.keywords}
            follows = name == "smooth" and len(call.args) + ("bound" in words) > 1
            if (
                (name in ("add", "reveal") and "mechanism" in words)
                or (name == "pick" and "rate" in words)
                or follows
            ):
                found.append(f"{path}:{call.lineno}: lets noise meet a number")
    return found


def asks_engine_elsewhere(texts: Texts) -> list[str]:
    """Only the barrier asks a table for its engine and an engine for a number."""
    return [
        f"{path}:{call.lineno}: calls {name}"
        for path, text in texts.items()
        if path != BARRIER
        for name, call in calls(text)
        if name in ("counts", "prepare", "engine", "survey_rows", "tally")
        and isinstance(call.func, ast.Attribute)
    ]


def makes_engines_elsewhere(texts: Texts) -> list[str]:
    """Only the private side knows an engine by name."""
    return [
        f"{path}: imports an engine"
        for path, text in texts.items()
        if not path.startswith("private/")
        and any(re.match(r"populace\.private\.engines?\b", name) for name in imports(path, text))
    ]


# ------------------------------------------------------------------------------------------ randomness


def float_noise(texts: Texts) -> list[str]:
    """No global generator, no `random` module, no seeded generator on the private side or in privacy/."""
    found = []
    for path, text in texts.items():
        names = imports(path, text)
        if "random" in names:
            found.append(f"{path}: imports random")
        if "scipy.stats" in names:
            found.append(f"{path}: imports scipy.stats")
        for node in nodes(text):
            if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)):
                continue
            if node.value.attr == "random" and isinstance(node.value.value, ast.Name):
                guarded = path.startswith(("private/", "privacy/"))
                if node.attr not in ("Generator", "default_rng", "PCG64", "SeedSequence") or guarded:
                    found.append(f"{path}:{node.lineno}: uses numpy's random.{node.attr}")
    return found


# ------------------------------------------------------------------------------------------ proofs


def spends_without_proof(texts: Texts) -> list[str]:
    """Every function that charges a run names a proof note that exists."""
    found = []
    for path, text in texts.items():
        for node in nodes(text) if "charge" in text else ():
            if not isinstance(node, ast.FunctionDef) or node.name == "charge":
                continue
            charges = any(
                isinstance(inner, ast.Call)
                and isinstance(inner.func, ast.Attribute)
                and inner.func.attr == "charge"
                for inner in ast.walk(node)
            )
            if not charges:
                continue
            proof = re.search(r"Proof:\s+(docs/proofs/[\w-]+\.md)", ast.get_docstring(node) or "")
            if proof is None:
                found.append(f"{path}: {node.name} spends and names no proof")
            elif not (ROOT / proof[1]).is_file():
                found.append(f"{path}: {node.name} names {proof[1]}, which does not exist")
    return found


# ------------------------------------------------------------------------------------------ house style


def long_files(texts: Texts) -> list[str]:
    """No file above 400 lines; the two an auditor reads first, together below 400."""
    lines = {path: text.count("\n") for path, text in texts.items()}
    found = [f"{path}: {count} lines" for path, count in lines.items() if count > 400]
    auditor = lines[BARRIER] + lines["private/private_table.py"]
    return found + ([f"barrier.py and private_table.py: {auditor} lines"] if auditor >= 400 else [])


def asserts(texts: Texts) -> list[str]:
    """`assert` is for tests: `python -O` must change nothing."""
    return [
        f"{path}:{node.lineno}: assert"
        for path, text in texts.items()
        for node in nodes(text)
        if isinstance(node, ast.Assert)
    ]


def pickles(texts: Texts) -> list[str]:
    """Nothing is saved or read as code: no pickle, and no NumPy file that may hold one."""
    found = []
    for path, text in texts.items():
        if imports(path, text) & {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}:
            found.append(f"{path}: imports a pickler")
        for name, call in calls(text):
            allowed = [word.value for word in call.keywords if word.arg == "allow_pickle"]
            if any(not (isinstance(value, ast.Constant) and value.value is False) for value in allowed):
                found.append(f"{path}:{call.lineno}: {name} allows pickle")
    return found


def unfinished(texts: Texts) -> list[str]:
    """No stub, no note to self, no age or version in a name."""
    found = [f"{path}: age in a name" for path in texts if re.search(r"_(v\d+|old|new|tmp)\.py$", path)]
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(r"\b(TODO|FIXME|XXX|HACK)\b|NotImplementedError", line):
                found.append(f"{path}:{number}: unfinished")
    return found


def busy_inits(texts: Texts) -> list[str]:
    """An `__init__.py` holds names only; the package's own may load them when they are first used."""
    found = []
    for path, text in texts.items():
        if Path(path).name != "__init__.py":
            continue
        for node in tree(text).body:
            lazy = path == "__init__.py" and getattr(node, "name", "") in ("__getattr__", "__dir__")
            docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            names = isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign)
            typing_only = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            if not (lazy or docstring or names or typing_only):
                found.append(f"{path}:{node.lineno}: does something")
    return found


def open_keywords(texts: Texts) -> list[str]:
    """No public function takes `**anything`: a misspelt option must not pass in silence."""
    return [
        f"{path}: {node.name} takes **{node.args.kwarg.arg}"
        for path, text in texts.items()
        for node in nodes(text)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and node.args.kwarg
    ]


def private_objects_that_tell(texts: Texts) -> list[str]:
    """Nothing on the private side tells its length; the table and the barrier cannot be copied out."""
    found = []
    for path, text in texts.items():
        if not path.startswith("private/"):
            continue
        for node in nodes(text):
            if isinstance(node, ast.ClassDef):
                defined = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
                if "__len__" in defined:
                    found.append(f"{path}: {node.name} tells its length")
                if node.name in ("PrivateTable", "Barrier") and not {"__repr__", "__reduce__"} <= defined:
                    found.append(f"{path}: {node.name} prints or pickles by default")
    return found


def registry_addresses(texts: Texts) -> list[str]:
    """No file names the address of a package registry: where packages come from is the machine's affair."""
    words = ("py" + "pi.org", "python" + "hosted", "index" + "-url", "index" + "_url")
    return [
        f"{path}: names a registry" for path, text in texts.items() if any(word in text for word in words)
    ]
