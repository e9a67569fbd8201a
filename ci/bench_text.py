"""Checks docs/benchmarks.md against the published results: the rows that it calls above their bars are those that are, and
each number of that section stands in the table of the machine that it speaks of.

Usage: bench_text.py [TEXT]
"""

import json
import re
import sys
from pathlib import Path

SECTION = "## What is above its bar, and why"
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def numbers(text: str) -> set[str]:
    return set(NUMBER.findall(text))


def problems(section: str) -> list[str]:
    """What does not hold. Each machine's part begins with "On" and the link to its table."""
    found = []
    told = re.split(r"^On \[[^]]*\]\(benchmarks/([\w-]+)\.md\)", section, flags=re.M)
    parts = dict(zip(told[1::2], told[2::2], strict=True))
    for kind in sorted(path.stem for path in RESULTS.glob("*.json")):
        if kind not in parts:
            found.append(f"no part begins with a link to benchmarks/{kind}.md")
            continue
        figures = json.loads((RESULTS / f"{kind}.json").read_text())["figures"]
        missed = {figure["id"] for figure in figures if not figure["is_met"]}
        named = {
            row for first in re.findall(r"^\| ([^|]*) \|", parts[kind], re.M) for row in re.findall(r"T\d+", first)
        }
        found += [f"{kind}: {row} is above its bar, and the text does not say why" for row in sorted(missed - named)]
        found += [f"{kind}: {row} meets its bar, and the text says otherwise" for row in sorted(named - missed)]
        prose = re.sub(r"\[decision \d+\]\([^)]*\)", "", parts[kind])
        wrong = numbers(prose) - numbers((RESULTS / f"{kind}.md").read_text())
        found += [f"{kind}: the table has no {number}" for number in sorted(wrong)]
    return found


def main() -> int:
    text = Path(sys.argv[1] if len(sys.argv) > 1 else RESULTS.parent / "benchmarks.md").read_text()
    wrong = problems(text.partition(SECTION)[2])
    for problem in wrong:
        print(f"docs/benchmarks.md: {problem}")
    return 1 if wrong else 0


sys.exit(main())
