"""The contract, read from its sources: tag lines of the header, clauses of the spec, tables."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kina.header import Header, Parameter, Prototype, load
from kina.paths import spec_path

CHAPTERS = (
    *("version", "status", "device", "stream", "resource", "tensor", "storage", "dlpack"),
    *("movement", "elementwise", "reduction", "matmul", "indexing", "structure"),
)
TAGS = ("since", "feature", "null", "owner", "errors", "stream", "alloc", "thread")
OWNERS = ("produce", "consume", "borrow", "keep")

_CLAUSE = re.compile(r"^- \*\*(KINA-[A-Z]+-\d+)\*\* (MUST|SHOULD|MAY): (.+)$")
_TAG = re.compile(rf"^\s*\*\s+({'|'.join(TAGS)}):[ \t]*(.*?)\s*(?:\*/)?\s*$")


@dataclass(frozen=True)
class Clause:
    """One checkable sentence of the spec."""

    id: str
    level: str
    text: str
    file: str
    line: int

    @property
    def chapter(self) -> str:
        return self.id.split("-")[1].lower()

    @property
    def number(self) -> int:
        return int(self.id.rsplit("-", 1)[1])

    @property
    def hash(self) -> str:
        return hash8(self.text)


@dataclass(frozen=True)
class ErrorRow:
    """One (function, status) pair of an `errors` tag."""

    status: str
    clauses: tuple[str, ...]
    injected: bool


@dataclass(frozen=True)
class Tags:
    """The machine-readable half of a function's comment; `raw` keeps each line as written."""

    raw: dict[str, str]
    feature: str
    null: dict[str, str | None]
    owner: dict[str, str]
    errors: dict[str, ErrorRow]
    stream: str
    alloc: frozenset[str]
    thread: str


@dataclass(frozen=True)
class Function:
    """One entry point: prototype and tags; `tags` is None where the comment has none."""

    prototype: Prototype
    tags: Tags | None

    @property
    def name(self) -> str:
        return self.prototype.name

    @property
    def chapter(self) -> str:
        return self.prototype.chapter

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.prototype.parameters

    @property
    def fallible(self) -> bool:
        return self.prototype.result == "KinaStatus"

    @property
    def feature(self) -> str:
        if self.tags is not None:
            return self.tags.feature
        return "dlpack" if self.chapter == "dlpack" else "core"


@dataclass(frozen=True)
class Contract:
    """Everything that the suite knows about the promise.

    `untested` gives reasons; `waiting` the feature that such a clause needs before a test can decide it.
    """

    header: Header
    functions: dict[str, Function]
    clauses: dict[str, Clause]
    untested: dict[str, str]
    waiting: dict[str, str]
    tables: dict[str, dict[str, Any]] = field(repr=False)

    def tier(self, status: str) -> int:
        """The highest tier in which a status occurs."""
        for row in self.tables.get("statuses", {}).get("status", []):
            if row.get("name") == status and row.get("tier") is not None:
                tier = row["tier"]
                return int(max(tier) if isinstance(tier, list) else tier)
        return _TIERS.get(status, 5)

    def retryable(self, status: str) -> bool:
        """Whether the same call can succeed later though nothing in the program changes."""
        rows = self.tables["statuses"]["status"]
        return any(row["name"] == status and row["retryable"] for row in rows)

    def category(self, status: str) -> int:
        word = _CATEGORIES.get(status, "NONE")
        return self.header.constants[f"KINA_CATEGORY_{word}"]


_TIERS = {
    "INVALID_ARGUMENT": 3,
    "INVALID_HANDLE": 2,
    "VERSION": 1,
    "INVALID_SHAPE": 3,
    "DLPACK": 3,
    "INVALID_DTYPE": 3,
    "DEVICE_MISMATCH": 3,
    "OVERLAP": 3,
    "READ_ONLY": 3,
    "BUSY": 3,
    "UNSUPPORTED": 4,
}
_CATEGORIES = {
    **dict.fromkeys(["OUT_OF_MEMORY"], "RESOURCE"),
    **dict.fromkeys(["DEVICE", "KERNEL_LAUNCH", "FAILED_INPUT", "DEVICE_LOST", "VENDOR_LIBRARY"], "DEVICE"),
    **dict.fromkeys(
        [
            "INVALID_SHAPE",
            "DLPACK",
            "INVALID_ARGUMENT",
            "INVALID_HANDLE",
            "INVALID_DTYPE",
            "DEVICE_MISMATCH",
            "OVERLAP",
            "READ_ONLY",
            "INDEX_OUT_OF_RANGE",
            "BUSY",
            "VERSION",
        ],
        "CALLER",
    ),
    "UNSUPPORTED": "UNSUPPORTED",
    "INTERNAL": "INTERNAL",
}


def hash8(text: str) -> str:
    """Eight hex digits that change with a clause's sentence, not with its spacing."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:8]


def read_clauses(folder: Path) -> dict[str, Clause]:
    """All clauses, in the order of the chapters. An id that stands twice is an error of the spec."""
    found: dict[str, Clause] = {}
    for chapter in CHAPTERS:
        path = folder / f"{chapter}.md"
        if not path.exists():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = _CLAUSE.match(line)
            if match is None:
                continue
            clause = Clause(match[1], match[2], match[3], path.name, number)
            if clause.id in found:
                raise ValueError(f"{path}:{number}: {clause.id} stands a second time")
            found[clause.id] = clause
    return found


def parse_tags(comment: str) -> Tags | None:
    """The tag lines of a comment; None when it has no complete set."""
    raw = {m[1]: m[2] for m in map(_TAG.match, comment.splitlines()) if m is not None}
    if set(raw) != set(TAGS):
        return None
    return Tags(
        raw=raw,
        feature=raw["feature"],
        null=dict(_nullable(item) for item in _items(raw["null"], ",")),
        owner=dict(_owned(item) for item in _items(raw["owner"], ",")),
        errors={row.status: row for row in map(_error, _items(raw["errors"], ";"))},
        stream=raw["stream"],
        alloc=frozenset(_items(raw["alloc"], ",")),
        thread=raw["thread"],
    )


def _items(line: str, separator: str) -> list[str]:
    if line.strip() == "none":
        return []
    depth, parts = 0, [""]
    for character in line:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _nullable(item: str) -> tuple[str, str | None]:
    name, _, condition = item.partition(" ")
    return name, condition.strip("() ") or None


def _owned(item: str) -> tuple[str, str]:
    name, _, what = item.partition(" ")
    return name, what.split(" ")[0] if what else ""


def _error(item: str) -> ErrorRow:
    words = item.split()
    return ErrorRow(words[0], tuple(w for w in words[1:] if w != "injected"), "injected" in words[1:])


def _tables(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.toml"))}


@cache
def contract(spec: Path | None = None) -> Contract:
    """The contract of this suite, read once."""
    folder = spec or spec_path()
    header = load()
    tables = _tables(folder / "tables")
    reasons = tables.get("untested", {}).get("clause", [])
    return Contract(
        header=header,
        functions={name: Function(p, parse_tags(p.comment)) for name, p in header.prototypes.items()},
        clauses=read_clauses(folder),
        untested={row["id"]: row["reason"] for row in reasons},
        waiting={row["id"]: row["feature"] for row in reasons if "feature" in row},
        tables=tables,
    )
