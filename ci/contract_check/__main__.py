"""Runs every rule on a tree and prints what disagrees: file, line, what to do. Exit 0: nothing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import header_rules, selftest, spec_rules, suite_rules
from .sources import Finding, Sources

RULES = (*header_rules.RULES, *spec_rules.RULES, *suite_rules.RULES)


def findings(root: Path) -> list[Finding]:
    sources = Sources(root)
    return [finding for rule in RULES for finding in rule(sources)]


def counts(root: Path) -> str:
    sources = Sources(root)
    rows = sum(len(tags.errors) for tags in sources.tags.values() if tags is not None)
    cited = {clause for test in sources.tests for clause, _ in test.clauses}
    return (
        f"{len(sources.prototypes)} functions, {rows} status rows, {len(sources.clauses)} clauses "
        f"({len(cited)} cited by {len(sources.tests)} tests, {len(sources.untested)} listed as untested)"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="ci/contract", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="the tree to check")
    parser.add_argument("--self-test", action="store_true", help="edit a copy of the tree and see each edit caught")
    options = parser.parse_args()
    if options.self_test:
        return selftest.run(options.root, findings)
    found = findings(options.root)
    for finding in found:
        print(finding)
    print(f"{counts(options.root)}: {f'{len(found)} disagreements' if found else 'all agree'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
