"""Rules on the suite: every clause is cited with its present hash, every function called, every row produced."""

from __future__ import annotations

from collections.abc import Iterator

from .header_rules import tag_line, tagged
from .sources import CHAPTERS, HEADER, Finding, Sources


def check_marks(sources: Sources) -> Iterator[Finding]:
    for test in sources.tests:
        if not test.clauses:
            yield Finding(
                test.file, test.line, f'{test.name} cites no clause; add @clause("KINA-…", "") and run the stamp'
            )
        for clause, text_hash in test.clauses:
            known = sources.clauses.get(clause)
            if known is None:
                yield Finding(test.file, test.line, f"{test.name} cites {clause}, which is not in spec/")
            elif text_hash != known.hash:
                yield Finding(test.file, test.line, f"{test.name}: the hash of {clause} is {text_hash or 'missing'}, its sentence at "
                              f"{known.file}:{known.line} has {known.hash}; read it, mend the test, stamp it")  # fmt: skip


def check_clauses_are_cited(sources: Sources) -> Iterator[Finding]:
    cited = {clause for test in sources.tests for clause, _ in test.clauses}
    for clause in sources.clauses.values():
        if clause.id not in cited and clause.id not in sources.untested:
            yield Finding(clause.file, clause.line, f"no test cites {clause.id}; write one in conformance/suite, or give a reason in "
                          "spec/tables/untested.toml")  # fmt: skip


def check_files(sources: Sources) -> Iterator[Finding]:
    for chapter in CHAPTERS:
        path = f"conformance/suite/test_{chapter}.py"
        if not sources.text(path):
            yield Finding(path, 1, f"chapter {chapter} has no tests; write them")


def check_rows_are_claimed(sources: Sources) -> Iterator[Finding]:
    """A test that names a function and a status claims their row; the executor proves at run time what it saw."""
    claimed = {
        (function, word)
        for test in sources.tests
        for function in test.words
        if function in sources.prototypes
        for word in test.words
    }
    called = {function for function, _ in claimed}
    waiting = {str(row["feature"]) for row in sources.untested.values() if "feature" in row}
    for name, prototype, tags in tagged(sources):
        if name not in called and tags.feature not in waiting:
            yield Finding(HEADER, prototype.line, f"no test of conformance/suite calls {name}; write one")
    for name, prototype, tags in tagged(sources):
        for status, row in tags.errors.items():
            if row.injected or (name, status) in claimed or _is_absent(sources, row.clauses) or tags.feature in waiting:
                continue
            yield Finding(HEADER, tag_line(prototype, "errors"), f"no test produces {status} from {name}; write one in "
                          f"conformance/suite/test_{prototype.chapter}.py")  # fmt: skip


def _is_absent(sources: Sources, clauses: tuple[str, ...]) -> bool:
    """Whether a row's every cause waits for a feature that no tested build has."""
    return bool(clauses) and all("feature" in sources.untested.get(clause, {}) for clause in clauses)


RULES = (
    check_files,
    check_marks,
    check_clauses_are_cited,
    check_rows_are_claimed,
)
