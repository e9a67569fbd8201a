"""What the author of a library does next, said with every verdict that is not a plain yes."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter

from .contract import Contract
from .library import Library
from .runner import Outcome, Run
from .verdict import FAILED, UNCLAIMABLE, UNKNOWN, UNTESTABLE, Verdict

_CALL = re.compile(r"\bruntime_\w+")
_SHOWN = 4


def advice(contract: Contract, library: Library, run: Run, verdict: Verdict) -> list[str]:
    """One line for each step."""
    if verdict.code == UNTESTABLE:
        return _loading(library)
    if verdict.code == FAILED:
        return _failures(contract, run, verdict)
    if verdict.code == UNKNOWN:
        return [
            "what no test came to is listed above; a test that was lost names the call before which its process ended"
        ]
    if verdict.code == UNCLAIMABLE:
        return ["a claim needs a run of tier standard, without --select, --profile and --resource"]
    return []


def _loading(library: Library) -> list[str]:
    if library.missing:
        return [
            "every function has to be there; one that the library does not offer answers UNSUPPORTED",
            "`kina-conformance skeleton > mine.c` writes a source with all of them, to start from or to copy from",
        ]
    if library.refusal.endswith("is not a file"):
        return ["--lib takes the path of a shared object; a name without a slash is searched as the loader does"]
    is_file = os.path.isfile(library.path)
    if not is_file and library.refusal.startswith("no library"):
        return [f"there is no file {library.path} here, and the loader finds none of that name that it can open"]
    opened = os.path.abspath(library.path) if is_file else library.path
    alone = f'to see it alone: python3 -c "import ctypes; ctypes.CDLL({opened!r}).runtime_abi_version()"'
    if not library.refusal.startswith("no library"):
        return [alone]
    return [f"it has to be a shared object for {platform.machine()} (cc -shared -fPIC) that finds what it needs", alone]


def _failures(contract: Contract, run: Run, verdict: Verdict) -> list[str]:
    """Most failures have few causes: the functions at which tests stopped, the most frequent first."""
    at = [
        (call.group(), outcome)
        for outcome in run.outcomes
        if outcome.bad and (call := _CALL.search(outcome.message)) and call.group() in contract.functions
    ]
    stopped = Counter(name for name, _ in at)
    if not stopped:
        name = next(iter(verdict.failed_must), "CLAUSE")
        return [f"`kina-conformance explain {name}` prints the clause, the functions that it binds and its tests"]
    first = _first(stopped)
    chapters = Counter(chapter for name, outcome in at if name == first for chapter in _chapters(outcome))
    own = contract.functions[first].chapter
    judged = f"{own} judges its chapter" if own in chapters else f"{_first(chapters)} judges what failed there"
    shown = ", ".join(f"{name} ({count})" for name, count in stopped.most_common(_SHOWN))
    return [
        f"where most of the failing tests stopped: {shown}",
        f"`kina-conformance explain {first}` shows what is asked of it, --select chapter={judged}",
    ]


def _chapters(outcome: Outcome) -> set[str]:
    """What selects a test by chapter, but its file, which may be of no chapter."""
    return {clause.split("-")[1].lower() for clause in outcome.clauses}


def _first(counted: Counter[str]) -> str:
    return counted.most_common(1)[0][0]
