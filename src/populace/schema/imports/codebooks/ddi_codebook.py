"""A DDI-Codebook (2.5, 2.6): names, labels, categories and missing codes of variables.

Frequencies (`catStat`), summaries (`sumStat`), valid ranges (`valrng`) and categories without a label, which archives
compute from rows, are not taken. The file is read by the standard library's reader; a document type, and so every
entity, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn
from xml.parsers import expat

from populace.core.errors import SchemaError
from populace.schema.exact_numbers import parse_number
from populace.schema.imports.codebooks.variable import Codebook, Untranslated, Variable

MAX_DEPTH = 200


@dataclass(slots=True)
class Element:
    """An element of an XML file: its name without the namespace, and the line where it begins."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the element itself, blanks run together."""
        return " ".join("".join(self.pieces).split())

    def all(self, tag: str) -> Iterator[Element]:
        """Yield the children of a name."""
        return (child for child in self.children if child.tag == tag)

    def first(self, tag: str) -> str:
        """Return the text of the first child of a name, or an empty text."""
        return next((child.text for child in self.all(tag)), "")

    def walk(self, tag: str) -> Iterator[Element]:
        """Yield all elements of a name below this one."""
        for child in self.children:
            if child.tag == tag:
                yield child
            else:
                yield from child.walk(tag)


def is_ddi(text: str) -> bool:
    """Say whether a text may be a DDI-Codebook."""
    return text.lstrip().startswith("<") and "codeBook" in text[:20_000]


def parse_xml(text: str) -> Element:
    """Return an XML text as elements with their lines; a document type is refused, and with it every entity.

    >>> parse_xml("<a><b>one</b></a>").first("b")
    'one'
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    root = Element("", {}, 0)
    stack = [root]

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        element = Element(tag.rpartition(" ")[2], attributes, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)
        if len(stack) > MAX_DEPTH:
            raise _refuse("its elements are nested too deeply")

    def refuse(*_: Any) -> NoReturn:
        raise _refuse("it has a document type, which may define entities")

    handlers: dict[str, Callable[..., Any]] = {
        "StartElementHandler": start,
        "EndElementHandler": lambda _: stack.pop(),
        "CharacterDataHandler": lambda data: stack[-1].pieces.append(data),
        **dict.fromkeys(("StartDoctypeDeclHandler", "EntityDeclHandler", "ExternalEntityRefHandler"), refuse),
    }
    for name, handler in handlers.items():
        setattr(parser, name, handler)
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise _refuse(f"it is no XML ({expat.errors.messages[error.code]}, line {error.lineno})") from None
    return root.children[0]


def from_ddi(text: str) -> Codebook:
    """Return the variables of a DDI-Codebook."""
    variables, left = [], []
    # Whatever encoding it declares, the text is decoded already.
    head, mark, rest = text.lstrip().partition("?>")
    for var in parse_xml(rest if mark and head.startswith("<?xml") else text).walk("var"):
        name, label = var.attributes.get("name", ""), var.first("labl")
        if not name:
            continue
        if var.attributes.get("wgt") == "wgt":
            why = "a weight is no answer; `populace estimate` takes it in its design"
            left.append(Untranslated(line=var.line, name=name, what="the weight", why=why))
            continue
        variables.append(_read_variable(var, name=name, label=label))
        unnamed = [category for category in var.all("catgry") if _is_unnamed(category)]
        if unnamed and variables[-1].choices:
            what = "categories without a label"
            why = "archives make them from rows: list them if the questionnaire does"
            left.append(Untranslated(line=unnamed[0].line, name=name, what=what, why=why))
        left += [
            Untranslated(line=each.line, name=name, what=f"universe “{each.text}”", why="it is said in words")
            for each in var.all("universe")
            if each.text and not each.text.lower().startswith("all ")
        ]
    return Codebook(variables=tuple(variables), untranslated=tuple(left))


def _read_variable(var: Element, *, name: str, label: str) -> Variable:
    choices: dict[str, str] = {}
    missing: dict[str, str] = {}
    for category in var.all("catgry"):
        if not _is_unnamed(category):
            code = category.first("catValu")
            (missing if _is_missing(category) else choices)[code] = category.first("labl")
    for invalid in var.all("invalrng"):
        for item in invalid.all("item"):
            code = item.attributes.get("VALUE") or item.attributes.get("value", "")
            missing.setdefault(code, choices.pop(code, ""))
    choices, missing = ({c: t for c, t in each.items() if c} for each in (choices, missing))
    plain = Variable(name=name, line=var.line, label=label, missing=missing)
    text = next((form.attributes.get("type") for form in var.all("varFormat")), "")
    if choices and var.attributes.get("intrvl") != "contin":
        return replace(plain, kind="categorical", choices=choices)
    whole = var.attributes.get("dcml", "0") in ("", "0")
    kind = "integer" if whole else "numeric"
    why = f'the codebook lists no values: kind = "{kind}" with min and max'
    if any(True for _ in var.all("valrng")) or any(True for _ in var.all("sumStat")):
        why += "; the range or summary in the codebook may come from rows and is not taken"
    if choices and all(parse_number(code) is not None for code in choices):
        # Numbers with a meaning beside a range of numbers: not all of its values, and most often missing codes.
        why += "; the codes that it explains are listed as missing: check them"
        plain = replace(plain, missing={**missing, **choices})
    if text == "character":
        why = "text: list its values or remove it"
    return replace(plain, open_because=why)


def _is_missing(category: Element) -> bool:
    return category.attributes.get("missing", "").upper() == "Y"


def _is_unnamed(category: Element) -> bool:
    """Say whether a value has no label: a codebook explains its values, and a tabulation of rows lists them."""
    return not category.first("labl") and not _is_missing(category)


def _refuse(why: str) -> SchemaError:
    return SchemaError(
        f"the DDI-Codebook cannot be read: {why}.", hint="export it as DDI-Codebook 2.5 or 2.6 again"
    )
