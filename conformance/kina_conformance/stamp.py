"""Writes the hashes of clause texts into the tests that name them."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from .contract import contract
from .suite import suite_path

_MARK = re.compile(r'clause\(\s*"(KINA-[A-Z]+-\d+)"\s*(?:,\s*"([0-9a-f]*)"\s*)?\)')


def stamp(text: str, hashes: dict[str, str], stale: bool) -> tuple[str, list[str]]:
    """The text with missing hashes filled in, and what it did or refused to do."""
    notes: list[str] = []

    def written(match: re.Match[str]) -> str:
        clause_id, old = match[1], match[2] or ""
        new = hashes.get(clause_id)
        if new is None:
            notes.append(f"{clause_id}: not in spec/")
            return match[0]
        if old == new:
            return match[0]
        if old and not stale:
            notes.append(f"{clause_id}: stale ({old}, now {new}); read it again, then use --stale")
            return match[0]
        notes.append(f"{clause_id}: {new} written")
        return f'clause("{clause_id}", "{new}")'

    return _MARK.sub(written, text), notes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kina_conformance.stamp", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="test files; default: the whole suite")
    parser.add_argument("--stale", action="store_true", help="also renew hashes whose clause has changed")
    options = parser.parse_args()
    hashes = {c.id: c.hash for c in contract().clauses.values()}
    refused = 0
    for path in options.files or sorted(suite_path().rglob("test_*.py")):
        before = path.read_text(encoding="utf-8")
        after, notes = stamp(before, hashes, options.stale)
        if after != before:
            path.write_text(after, encoding="utf-8")
        for note in notes:
            print(f"{path.name}: {note}")
            refused += not note.endswith("written")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
