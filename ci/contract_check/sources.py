"""What the rules compare, read once from a tree: header, clauses, tables, version script, freeze.c, suite, messages."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kina.header import Header, Prototype, parse
from kina_conformance.contract import CHAPTERS, Clause, Tags, hash8, parse_tags

CLAUSE_ID = re.compile(r"KINA-[A-Z]+-\d+")
CLAUSE_RANGE = re.compile(r"KINA-([A-Z]+)-(\d+) (?:to|…|-) (?:KINA-\1-)?(\d+)")
CLAUSE_LINE = re.compile(r"^- \*\*(KINA-([A-Z]+)-(\d+))\*\* (MUST|SHOULD|MAY): (.+)$")
HEADER = "include/kina_runtime.h"
MAP = "include/kina_runtime.map"
FREEZE = "ci/freeze.c"
MESSAGES = "impl/core/messages.def"
ERRORS = "impl/core/error.cpp"


@dataclass(frozen=True)
class Finding:
    """One disagreement: where it shows, and what to do about it."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Field:
    """One field of a public struct; `offset` is what the header's comment says."""

    name: str
    type: str
    offset: int
    line: int

    @property
    def is_reference(self) -> bool:
        """A pointer, a handle or a callback: something that an owner and a NULL rule must speak of."""
        return self.type.endswith("*") or self.type in HANDLES or self.type.endswith("Callback")


@dataclass(frozen=True)
class Struct:
    """One public struct; `size` is what the header's comment says."""

    name: str
    size: int
    fields: tuple[Field, ...]
    line: int


@dataclass
class Test:
    """One test of the suite: the clauses that it cites, the strings that it and what it uses mention."""

    name: str
    file: str
    line: int
    clauses: list[tuple[str, str]] = field(default_factory=list)
    words: set[str] = field(default_factory=set)


HANDLES = ("KinaStream", "KinaScope", "KinaResource", "KinaWeak", "KinaPeer")
_STRUCT = re.compile(r"typedef struct (Kina\w+) \{ /\* (\d+);[^\n]*\n(.*?)\n\} \1;", re.S)
_FIELD = re.compile(r"\s*((?:const )?\w+\s*\**)\s*(\w+)(\[\d+\])?;\s*/\*\s*(\d+)(?!\d)")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class Sources:
    """The tree under `root`, read lazily; a missing file reads as empty and the rules then say what lacks."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def text(self, path: str) -> str:
        file = self.root / path
        return file.read_text(encoding="utf-8") if file.is_file() else ""

    @cached_property
    def header_text(self) -> str:
        return self.text(HEADER)

    @cached_property
    def header(self) -> Header:
        return parse(self.header_text)

    @cached_property
    def prototypes(self) -> dict[str, Prototype]:
        return self.header.prototypes

    @cached_property
    def tags(self) -> dict[str, Tags | None]:
        return {name: parse_tags(prototype.comment) for name, prototype in self.prototypes.items()}

    @cached_property
    def structs(self) -> dict[str, Struct]:
        found = {}
        for match in _STRUCT.finditer(self.header_text):
            start = line_of(self.header_text, match.start(3))
            fields = [
                Field(f[2], " ".join(f[1].replace("*", " *").split()), int(f[4]), start + number)
                for number, text in enumerate(match[3].split("\n"))
                if (f := _FIELD.match(text))
            ]
            found[match[1]] = Struct(match[1], int(match[2]), tuple(fields), line_of(self.header_text, match.start()))
        return found

    @cached_property
    def chapter_files(self) -> list[str]:
        return [f"spec/{chapter}.md" for chapter in CHAPTERS]

    @cached_property
    def clauses(self) -> dict[str, Clause]:
        found: dict[str, Clause] = {}
        for path in self.chapter_files:
            for number, text in enumerate(self.text(path).splitlines(), 1):
                match = CLAUSE_LINE.match(text)
                if match is not None:
                    found.setdefault(match[1], Clause(match[1], match[4], match[5], path, number))
        return found

    def table(self, name: str) -> dict[str, Any]:
        return tomllib.loads(self.text(f"spec/tables/{name}.toml"))

    def table_line(self, name: str, needle: str) -> int:
        text = self.text(f"spec/tables/{name}.toml")
        return line_of(text, max(0, text.find(needle)))

    @cached_property
    def untested(self) -> dict[str, dict[str, Any]]:
        return {row.get("id", ""): row for row in self.table("untested").get("clause", [])}

    @cached_property
    def tests(self) -> list[Test]:
        folder = self.root / "conformance" / "suite"
        return [test for path in sorted(folder.rglob("test_*.py")) for test in _tests_of(path, self.root)]


def _tests_of(path: Path, root: Path) -> list[Test]:
    """The test functions of a file, methods of classes included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    globals_ = {name: node for node in tree.body for name in _bound_names(node)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            test = Test(node.name, str(path.relative_to(root)), node.lineno)
            test.clauses = [c for decorator in node.decorator_list if (c := _clause_of(decorator))]
            test.words = _words(node, globals_, set())
            found.append(test)
        elif isinstance(node, ast.ClassDef | ast.Assign) and (marks := _class_clauses(node)):
            found.append(Test(getattr(node, "name", "machine"), str(path.relative_to(root)), node.lineno, marks,
                              _words(node, globals_, set())))  # fmt: skip
    return found


def _bound_names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _clause_of(node: ast.expr) -> tuple[str, str] | None:
    """`clause("KINA-X-1", "hash")`, as a decorator or anywhere in an expression."""
    if not (isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "clause"):
        return None
    values = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return (values[0], values[1] if len(values) > 1 else "") if values else None


def _class_clauses(node: ast.ClassDef | ast.Assign) -> list[tuple[str, str]]:
    """Clauses of a state machine: `@clause(…)` on the class, or `TestX = clause(…)(Machine.TestCase)`."""
    if isinstance(node, ast.ClassDef):
        return [c for decorator in node.decorator_list if (c := _clause_of(decorator))]
    return [c for inner in ast.walk(node.value) if isinstance(inner, ast.expr) and (c := _clause_of(inner))]


def _words(node: ast.AST, globals_: dict[str, ast.stmt], seen: set[str]) -> set[str]:
    """The strings in a piece of code and in the module-level names that it uses, however deep."""
    words: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            words.update(re.findall(r"\w+", inner.value))
        elif isinstance(inner, ast.Attribute):
            words.add(inner.attr)
        elif isinstance(inner, ast.Name) and inner.id in globals_ and inner.id not in seen:
            seen.add(inner.id)
            words |= _words(globals_[inner.id], globals_, seen)
    return words


def cited(text: str) -> list[str]:
    """All clause ids in a text, ranges written out."""
    found = []
    for match in CLAUSE_RANGE.finditer(text):
        found += [f"KINA-{match[1]}-{n}" for n in range(int(match[2]), int(match[3]) + 1)]
    return found + CLAUSE_ID.findall(CLAUSE_RANGE.sub("", text))


__all__ = [
    "CHAPTERS",
    "CLAUSE_LINE",
    "ERRORS",
    "FREEZE",
    "HANDLES",
    "HEADER",
    "MAP",
    "MESSAGES",
    "Field",
    "Finding",
    "Prototype",
    "Sources",
    "Struct",
    "Tags",
    "cited",
    "hash8",
    "line_of",
]
