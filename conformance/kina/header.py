"""Reads `kina_runtime.h`: declarations for cffi, constants, prototypes. No compiler is needed."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .paths import header_path

DLPACK = """
typedef int32_t DLDeviceType;
typedef struct { uint32_t major; uint32_t minor; } DLPackVersion;
typedef struct { DLDeviceType device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } DLDataType;
typedef struct DLTensor {
    void *data; DLDevice device; int32_t ndim; DLDataType dtype;
    int64_t *shape; int64_t *strides; uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
    DLTensor dl_tensor; void *manager_ctx; void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
    DLPackVersion version; void *manager_ctx; void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags; DLTensor dl_tensor;
} DLManagedTensorVersioned;
"""

DEVICES = {"kDLCPU": 1, "kDLCUDA": 2, "kDLCUDAHost": 3, "kDLExtDev": 12, "kDLCUDAManaged": 13}

_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
}
_LIMITS = {"INT32_MIN": -(2**31), "INT32_MAX": 2**31 - 1, "INT64_MIN": -(2**63), "INT64_MAX": 2**63 - 1}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a prototype; `position` counts from 1, as in the error record."""

    name: str
    type: str
    position: int

    @property
    def is_pointer(self) -> bool:
        return self.type.endswith("*")


@dataclass(frozen=True)
class Prototype:
    """One entry point as the header declares it."""

    name: str
    chapter: str
    result: str
    parameters: tuple[Parameter, ...]
    comment: str
    line: int

    def parameter(self, name: str) -> Parameter:
        return next(p for p in self.parameters if p.name == name)


@dataclass(frozen=True)
class Header:
    """What the suite takes from the header's text."""

    cdef: str
    constants: dict[str, int]
    prototypes: dict[str, Prototype]
    text: str


def without_comments(text: str) -> str:
    """Comments become blanks; lines keep their numbers."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group(0))

    return re.sub(r"/\*.*?\*/|//[^\n]*", blank, text, flags=re.S)


def _without_directives(text: str) -> str:
    """Drops directives and what only C++ sees; the header's other conditions guard errors alone."""
    kept: list[str] = []
    hidden: list[bool] = []
    for line in re.sub(r"\\\n", " ", text).split("\n"):
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if directive is None:
            kept.append("" if any(hidden) else line)
            continue
        word, rest = directive.groups()
        if word in {"if", "ifdef", "ifndef"}:
            cplusplus = "__cplusplus" in rest and word != "ifndef" and "!" not in rest
            hidden.append(cplusplus)
        elif word in {"else", "elif"}:
            hidden[-1] = not hidden[-1]
        elif word == "endif":
            hidden.pop()
        kept.append("")
    return "\n".join(kept)


def _declarations(text: str) -> list[str]:
    """Top-level declarations, each ended by a semicolon at brace depth 0."""
    found: list[str] = []
    depth = start = 0
    for i, character in enumerate(text):
        if character in "{(":
            depth += 1
        elif character in "})":
            depth -= 1
        elif character == ";" and depth == 0:
            found.append(" ".join(text[start:i].split()))
            start = i + 1
    return found


def evaluate(expression: str, names: dict[str, int]) -> int:
    """The value of an integer constant expression of the header."""
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", expression)
    text = re.sub(r"\(\s*u?int\d+_t\s*\)", "", text)

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Expression):
            return value(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -value(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(expression)

    return value(ast.parse(text.strip(), mode="eval"))


def _constants(plain: str, declarations: list[str]) -> dict[str, int]:
    names: dict[str, int] = dict(_LIMITS)
    for declaration in declarations:
        body = re.match(r"(?:typedef )?enum \w*\s*\{(.*)\}", declaration)
        if body is None:
            continue
        following = 0
        for item in filter(None, (part.strip() for part in body.group(1).split(","))):
            name, _, expression = item.partition("=")
            following = evaluate(expression, names) if expression else following
            names[name.strip()] = following
            following += 1
    for name, expression in re.findall(r"^[ \t]*#[ \t]*define[ \t]+(KINA_\w+)[ \t]+([^\n]+)$", plain, re.M):
        try:
            names[name] = evaluate(expression, names)
        except (ValueError, KeyError, SyntaxError):
            continue
    return {name: value for name, value in names.items() if name not in _LIMITS}


def _prototypes(text: str, plain: str) -> dict[str, Prototype]:
    found: dict[str, Prototype] = {}
    chapters = [(m.start(), m.group(1)) for m in re.finditer(r"/\* ==== (\w+) ====", text)]
    for match in re.finditer(r"^KINA_API\s+([^;(]+?)(runtime_\w+)\s*\(([^;]*)\)\s*;", plain, re.M | re.S):
        result, name, arguments = match.groups()
        chapter = next((word for start, word in reversed(chapters) if start < match.start()), "")
        before = text[: match.start()].rstrip()
        comment = before[before.rfind("/*") :] if before.endswith("*/") else ""
        parameters = [] if arguments.strip() in {"void", ""} else arguments.split(",")
        found[name] = Prototype(
            name=name,
            chapter=chapter,
            result=_spelled(result),
            parameters=tuple(_parameter(p, i) for i, p in enumerate(parameters, 1)),
            comment="" if "====" in comment else comment,
            line=text.count("\n", 0, match.start()) + 1,
        )
    return found


def _parameter(text: str, position: int) -> Parameter:
    match = re.fullmatch(r"\s*(.*?)(\w+)\s*", text, re.S)
    if match is None:
        raise ValueError(f"parameter not understood: {text!r}")
    return Parameter(match.group(2), _spelled(match.group(1)), position)


def _spelled(type_text: str) -> str:
    """One spelling for a type: single blanks, stars at the end without blanks between them."""
    words = " ".join(type_text.replace("struct ", " ").replace("*", " * ").split())
    while "* *" in words:
        words = words.replace("* *", "**")
    return words


def _cdef(declarations: list[str]) -> str:
    """The declarations that a binding needs; enums are int32_t and live in `constants`."""
    lines: list[str] = []
    for declaration in declarations:
        text = re.sub(r"^\s*KINA_API\s+", "", declaration)
        if text == declaration and not text.startswith("typedef "):
            continue
        if "[" in text and "{" not in text and "(" in text and not re.search(r"\(\s*\*", text):
            continue  # an assertion spelled as an array type
        lines.append(text + ";")
    return "\n".join(lines)


def parse(text: str) -> Header:
    """Takes the header apart."""
    plain = without_comments(text)
    code = re.sub(r'extern\s+"C"\s*\{', " ", _without_directives(plain))
    declarations = [d for d in _declarations(code) if d]
    return Header(
        cdef=DLPACK + _cdef(declarations),
        constants={**_constants(plain, declarations), **DEVICES},
        prototypes=_prototypes(text, plain),
        text=text,
    )


@cache
def load(path: Path | None = None) -> Header:
    """The header of this contract, parsed once."""
    return parse((path or header_path()).read_text(encoding="utf-8"))
