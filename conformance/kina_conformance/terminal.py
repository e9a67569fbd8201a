"""What a person sees: a head, a bar per chapter, each failure at once, counts, and the verdict last."""

from __future__ import annotations

import sys
import textwrap
import time
from typing import Any, TextIO

from .contract import Contract
from .library import Library
from .runner import Outcome, Run
from .verdict import STATES, Verdict

WIDTH = 24
REDRAW_SECONDS = 0.1
SHOWN = 10  # failures of a chapter; the report has all
_COLOURS = {"fail": "31", "pass": "32", "absent": "90", "unreached": "33", "untested": "90"}


class Screen:
    """Prints a run as it goes; on a terminal the bars are redrawn in place."""

    def __init__(self, moving: bool, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.moving = moving
        self.totals: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.hidden = 0
        self.drawn = 0
        self.drawn_at = 0.0

    def head(self, version: str, spec: str, seed: int, library: Library) -> None:
        features = " ".join(library.features) or "none"
        self.line(f"kina-conformance {version}   spec {spec}   seed {seed}")
        self.line(f"library   {library.path}")
        if library.sha256:  # else the loader knows where it found it
            self.line(f"          sha256 {library.sha256[:16]}   build id {library.build_id[:16] or 'none'}")
        self.line(f"          ABI {library.abi_version or '?'}   {library.version or 'no version'}   claims {features}")
        for text in library.device_lines() if not library.refusal else []:
            self.line(f"          {text}")
        self.line("")

    def line(self, text: str) -> None:
        self._erase()
        print(text, file=self.stream, flush=True)
        self._draw()

    def begin(self, totals: dict[str, int]) -> None:
        self.totals = totals
        self.done = dict.fromkeys(totals, 0)
        self.failed = dict.fromkeys(totals, 0)
        self._draw()

    def test(self, outcome: Outcome) -> None:
        """One test has ended."""
        self.done[outcome.chapter] += 1
        if outcome.bad or outcome.outcome == "lost":
            self.failed[outcome.chapter] += 1
            self.hidden += self.failed[outcome.chapter] > SHOWN
        if (outcome.bad or outcome.outcome == "lost") and self.failed[outcome.chapter] <= SHOWN:
            self.line(failure_text(outcome))
        elif self.moving and time.monotonic() - self.drawn_at > REDRAW_SECONDS:
            self._erase()
            self._draw()
        if not self.moving and self.done[outcome.chapter] == self.totals[outcome.chapter]:
            print(self._bar(outcome.chapter), file=self.stream, flush=True)

    def finish(self) -> None:
        """The bars stay as they are."""
        self._erase()
        self._draw()
        self.drawn = 0
        self.totals = {}

    def _bar(self, chapter: str) -> str:
        total, done, failed = self.totals[chapter], self.done[chapter], self.failed[chapter]
        filled = WIDTH * done // total if total else WIDTH
        note = f"   {failed} failed" if failed else ""
        column = max(map(len, self.totals))
        return f"{chapter:<{column}} {'█' * filled}{'░' * (WIDTH - filled)} {done:>4}/{total}{note}"

    def _erase(self) -> None:
        if self.moving and self.drawn:
            self.stream.write(f"\x1b[{self.drawn}F\x1b[J")
            self.drawn = 0

    def _draw(self) -> None:
        if self.moving and self.totals:
            for chapter in self.totals:
                print(self._bar(chapter), file=self.stream)
            self.drawn = len(self.totals)
            self.drawn_at = time.monotonic()
            self.stream.flush()


def failure_text(outcome: Outcome) -> str:
    """A failure as the terminal shows it: what, where, which clauses."""
    clauses = " ".join(dict.fromkeys(outcome.clauses + ([outcome.broken] if outcome.broken else [])))
    first, *rest = outcome.message.strip().splitlines() or [""]
    word = {"failed": "FAIL", "lost": "LOST"}.get(outcome.outcome, outcome.outcome.upper())
    lines = [f"{word}  {clauses}  {outcome.test.split('::', 1)[-1]}", *textwrap.wrap(first, 140)[:4]]
    lines += rest[:4] + outcome.example.strip().splitlines()[:8]
    return "\n      ".join(line for line in lines if line.strip())


def closing(contract: Contract, verdict: Verdict, run: Run, counts: dict[str, Any]) -> list[str]:
    """The counts; what was not reached only where nothing was left out."""
    lines = ["", f"{'clauses':<10}" + "".join(f"{state:>11}" for state in STATES)]
    for level, states in counts["clauses"].items():
        lines.append(f"{level:<10}" + "".join(f"{states[state]:>11}" for state in STATES))
    tests = ", ".join(f"{count} {word}" for word, count in sorted(counts["tests"].items()))
    rows = counts["status_rows"]
    lines += [
        f"tests      {tests or 'none'}",
        f"calls      {counts['calls']:,} made, {counts['distinct_calls']:,} distinct, "
        f"{counts['failing_calls']:,} refused",
        f"statuses   {rows['seen']} declared rows seen, {rows['unseen']} not seen, "
        f"{rows['waiting']} waiting for devices, features or injected faults",
        f"time       {counts['seconds']:.1f} s: "
        + ", ".join(f"{c} {s:.1f}" for c, s in sorted(run.chapter_seconds.items(), key=lambda item: -item[1])[:8]),
    ]
    unreached = [c for c, s in verdict.states.items() if s == "unreached" and contract.clauses[c].level == "MUST"]
    if unreached and verdict.complete:
        lines.append(f"unreached  {_first(unreached)}")
    if verdict.rows_unseen and verdict.complete:
        lines.append(f"not seen   {_first([f'{function} {status}' for function, status in verdict.rows_unseen])}")
    return lines


def _first(names: list[str], count: int = 12) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more
