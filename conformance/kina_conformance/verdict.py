"""From outcomes to clauses, rows and the exit code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from .bases import NEED_ACCELERATOR
from .contract import Contract
from .library import Library
from .runner import Outcome, Run

SUCCESS, FAILED, UNKNOWN, EXPECTATIONS, UNTESTABLE, UNCLAIMABLE, USAGE, INTERNAL = 0, 1, 2, 3, 4, 5, 64, 70
_PRECEDENCE = [INTERNAL, USAGE, UNTESTABLE, FAILED, UNKNOWN, EXPECTATIONS, UNCLAIMABLE, SUCCESS]
_NEEDS_A_DEVICE = {"DEVICE_MISMATCH", "DEVICE", "KERNEL_LAUNCH", "DEVICE_LOST", "VENDOR_LIBRARY"}

STATES = ("fail", "pass", "absent", "unreached", "untested")


@dataclass
class Weakness:
    """What makes a clean run no claim."""

    reasons: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.reasons)


@dataclass
class Verdict:
    """The judgement: states of clauses, rows of statuses, the exit code and the line that says it."""

    states: dict[str, str]
    failed_must: list[str]
    failed_other: list[str]
    rows_unseen: list[tuple[str, str]]
    rows_waiting: list[tuple[str, str]]
    rows_seen: list[tuple[str, str]]
    code: int
    line: str
    complete: bool  # nothing was left out


def spec_hash(contract: Contract) -> str:
    """One number for the text of all clauses and the header."""
    whole = hashlib.sha256()
    for clause in contract.clauses.values():
        whole.update(f"{clause.id} {clause.level} {clause.hash}\n".encode())
    whole.update(contract.header.text.encode())
    return whole.hexdigest()[:12]


def clause_states(contract: Contract, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """fail wins over pass, pass over absent; without a test a clause is unreached, or untested with a reason."""
    states = {c: "untested" if c in contract.untested else "unreached" for c in contract.clauses}
    for outcome in outcomes:
        cited = outcome.clauses + ([outcome.broken] if outcome.broken and outcome.bad else [])
        for clause in cited:
            if clause not in states:
                continue
            if outcome.bad:
                states[clause] = "fail"
            elif outcome.outcome == "passed" and states[clause] != "fail":
                states[clause] = "pass"
            elif outcome.outcome == "absent" and states[clause] in {"unreached", "untested"}:
                states[clause] = "absent"
    return states


def rows(
    contract: Contract, library: Library, seen: set[tuple[str, str]], states: dict[str, str]
) -> dict[str, list[tuple[str, str]]]:
    """Declared rows as seen, unseen, or waiting for a device, a feature or an injected fault."""
    only_host = not any(count for name, count in library.devices.items() if name != "kDLCPU")
    found: dict[str, list[tuple[str, str]]] = {"seen": [], "unseen": [], "waiting": []}
    for function in contract.functions.values():
        if function.tags is None:
            continue
        absent = function.feature != "core" and function.feature not in library.features
        for row in function.tags.errors.values():
            pair = (function.name, row.status)
            waiting = [clause in contract.waiting or states.get(clause) == "absent" for clause in row.clauses]
            elsewhere = bool(waiting) and all(waiting)
            far = only_host and (row.status in _NEEDS_A_DEVICE or function.name in NEED_ACCELERATOR)
            waits = row.injected or far or absent or elsewhere
            found["seen" if pair in seen else "waiting" if waits else "unseen"].append(pair)
    return found


def judge(contract: Contract, library: Library, run: Run, weak: Weakness, complete: bool) -> Verdict:
    """The verdict of a run that took place. `complete`: nothing was left out, so that gaps count."""
    states = clause_states(contract, run.outcomes)
    sorted_rows = rows(contract, library, run.rows, states)
    failed = [c for c, state in states.items() if state == "fail"]
    must = [c for c in failed if contract.clauses[c].level == "MUST"]
    lost = [o for o in run.outcomes if o.outcome == "lost"]
    unreached = [c for c, s in states.items() if s == "unreached" and contract.clauses[c].level == "MUST"]
    codes = {SUCCESS}
    if run.internal:
        codes.add(INTERNAL)
    if must or any(o.bad and not any(c in contract.clauses for c in o.clauses) for o in run.outcomes):
        codes.add(FAILED)
    if lost or (complete and (unreached or sorted_rows["unseen"])):
        codes.add(UNKNOWN)
    if weak:
        codes.add(UNCLAIMABLE)
    code = next(c for c in _PRECEDENCE if c in codes)
    gaps = _gaps(lost, unreached if complete else [], sorted_rows["unseen"] if complete else [])
    return Verdict(
        states=states,
        failed_must=must,
        failed_other=[c for c in failed if c not in must],
        rows_unseen=sorted_rows["unseen"],
        rows_waiting=sorted_rows["waiting"],
        rows_seen=sorted_rows["seen"],
        code=code,
        line=_line(code, must, gaps, weak, run),
        complete=complete,
    )


def refused(contract: Contract, library: Library) -> Verdict:
    """The verdict on a library that was not run."""
    empty = judge(contract, library, Run(), Weakness(), complete=False)
    return replace(empty, code=UNTESTABLE, line=f"NOT TESTABLE: {library.refusal}")


def _gaps(lost: list[Outcome], unreached: list[str], unseen: list[tuple[str, str]]) -> list[str]:
    counts = {
        "tests lost": len(lost),
        "MUST clauses unreached": len(unreached),
        "declared statuses never seen": len(unseen),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]


def _line(code: int, must: list[str], gaps: list[str], weak: Weakness, run: Run) -> str:
    if code == INTERNAL:
        return f"INTERNAL ERROR of the suite: {run.internal[0].strip().splitlines()[-1]}"
    if code == FAILED:
        shown = ", ".join(must[:6]) + (f" and {len(must) - 6} more" if len(must) > 6 else "")
        return f"NOT CONFORMANT: {len(must)} MUST clauses broken: {shown}"
    if code == UNKNOWN:
        return f"UNKNOWN: {', '.join(gaps)}"
    if code == UNCLAIMABLE:
        return f"CLEAN, BUT NO CLAIM: {'; '.join(weak.reasons)}"
    return "CONFORMANT"


def summary(contract: Contract, verdict: Verdict, run: Run) -> dict[str, Any]:
    """Counts for terminal and report."""
    levels: dict[str, dict[str, int]] = {}
    for clause, state in verdict.states.items():
        level = levels.setdefault(contract.clauses[clause].level, dict.fromkeys(STATES, 0))
        level[state] += 1
    kinds: dict[str, int] = {}
    for outcome in run.outcomes:
        kinds[outcome.outcome] = kinds.get(outcome.outcome, 0) + 1
    return {
        "clauses": levels,
        "tests": kinds,
        "calls": run.calls,
        "distinct_calls": run.distinct_calls,
        "failing_calls": run.failing_calls,
        "status_rows": {
            "seen": len(verdict.rows_seen),
            "unseen": len(verdict.rows_unseen),
            "waiting": len(verdict.rows_waiting),
        },
        "seconds": round(run.seconds, 2),
    }
