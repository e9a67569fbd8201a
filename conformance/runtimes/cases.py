"""Judges the faults of kina_conformance/memory_cases.py: which test looks for each, and that a runtime with just that
fault fails it. One process imports everything once; each row is judged in a fork of it.

    python conformance/runtimes/cases.py FOLDER LIBRARY [ROW …]
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import hypothesis
import pytest

from kina_conformance.contract import contract
from kina_conformance.memory_cases import OUTSIDE, PARTLY, ROWS
from kina_conformance.suite import suite_path
from runtimes import memory

SECONDS = 120  # for one row; one that takes longer counts as hanging
WANTED = 0.8  # of the rows that a runtime can have


class Chosen:
    """Keeps the tests of some rows, and notes how each of them ended."""

    def __init__(self, rows: set[str]) -> None:
        self.rows = rows
        self.kept: list[str] = []
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self.rows & {r for m in item.iter_markers("memory_case") for r in m.args}]
        self.kept = sorted({item.name.partition("[")[0] for item in items})
        no_shrinking = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
        quick = hypothesis.settings.get_profile("kina-quick")
        hypothesis.settings.register_profile("kina-cases", quick, phases=no_shrinking)
        hypothesis.settings.load_profile("kina-cases")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid.partition("::")[2])
            print(f"{self.failed[-1]}: {report.longreprtext.strip().splitlines()[-1]}", flush=True)


@dataclass
class Judged:
    """How the tests of some rows ended with one library."""

    code: int  # of pytest; negative: the signal that ended the process
    tests: list[str]
    output: str

    @property
    def has_failed(self) -> bool:
        return self.code < 0 or self.code == pytest.ExitCode.TESTS_FAILED

    @property
    def how(self) -> str:
        if self.code < 0:
            return "hung" if self.code == -signal.SIGALRM else f"died of {signal.Signals(-self.code).name}"
        return "failed" if self.code == pytest.ExitCode.TESTS_FAILED else f"pytest ended with {self.code}"


def files_of(rows: set[str]) -> list[str]:
    pattern = re.compile(rf"@memory_case\([^)]*\b(?:{'|'.join(rows)})\b")
    return sorted(str(p) for p in suite_path().glob("test_*.py") if pattern.search(p.read_text(encoding="utf-8")))


def judge(library: Path, rows: set[str], files: list[str]) -> Judged:
    """Runs the tests of these rows on a library, in this process."""
    chosen = Chosen(rows)
    arguments = [
        "-q",
        "-x" if len(rows) == 1 else "--maxfail=50",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        "--tb=short",
    ]
    code = pytest.main([*arguments, f"--lib={library}", *files], plugins=[chosen])
    return Judged(int(code), chosen.kept, "")


def forked(work: Callable[[], Judged], log: Path) -> Callable[[], Judged]:
    """Starts `work` in a child; calling what comes back waits for it."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.close(told)
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(descriptor, 1), os.dup2(descriptor, 2)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            judged = work()
            sys.stdout.flush()
            os.write(tell, "\n".join(judged.tests).encode())
            code = judged.code
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    os.close(tell)

    def wait() -> Judged:
        with os.fdopen(told) as pipe:
            tests = pipe.read().split()
        status = os.waitpid(child, 0)[1]
        return Judged(os.waitstatus_to_exitcode(status), tests, log.read_text(encoding="utf-8", errors="replace"))

    return wait


def in_turn(starts: list[Callable[[], Callable[[], Judged]]], width: int) -> Iterator[Judged]:
    """The answers in order, so many children at a time."""
    running: list[Callable[[], Judged]] = []
    for start in starts:
        if len(running) == width:
            yield running.pop(0)()
        running.append(start())
    for wait in running:
        yield wait()


def names_of(row: str) -> list[str]:
    """The tests that are marked with a row, from the text of the suite."""
    found: list[str] = []
    for path in files_of({row}):
        for block in Path(path).read_text(encoding="utf-8").split("\n\n\n"):
            if re.search(rf'case\([^)]*"{row}"', block):
                found += re.findall(r"^(?:def|class) (\w+)", block, re.M)[:1]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the broken runtimes and the logs")
    parser.add_argument("library", type=Path)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="default: all")
    options = parser.parse_args()
    rows = options.rows or sorted(ROWS)
    if unknown := [row for row in rows if row not in ROWS]:
        parser.error(f"no row {', '.join(unknown)}; there are {min(ROWS)} to {max(ROWS)}")
    os.environ.setdefault("KINA_SIM_DEVICES", "2")
    os.environ.setdefault("KINA_SIM_SEED", "7")
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    contract(), importlib.import_module("kina_conformance.plugin")  # once, for all children
    folder: Path = options.folder
    tested = [row for row in rows if row not in OUTSIDE and names_of(row)]
    broken = [row for row in tested if row in memory.faults()]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        libraries = memory.build(folder, options.library, [memory.CONTROL, *broken])

    def start(row: str, among: set[str]) -> Callable[[], Callable[[], Judged]]:
        files = files_of(among)
        return lambda: forked(lambda: judge(libraries[row], among, files), folder / f"{row}.log")

    control, *answers = in_turn(
        [start(memory.CONTROL, set(tested)), *(start(row, {row}) for row in broken)], os.cpu_count() or 1
    )
    judged = dict(zip(broken, answers, strict=True))
    return told(rows, tested, control, judged)


def told(rows: list[str], tested: list[str], control: Judged, judged: dict[str, Judged]) -> int:
    passed = failed = 0
    for row in rows:
        source, text = ROWS[row]
        print(f"{row}  {text} ({source})")
        if row in OUTSIDE:
            print(f"       no test: {OUTSIDE[row]}")
            continue
        if row not in tested or row not in judged:
            print("       FAIL: no test looks for it" if row not in tested else "       FAIL: no broken runtime has it")
            failed += 1
            continue
        answer = judged[row]
        found = answer.has_failed
        passed, failed = passed + found, failed + (not found)
        print(f"       {', '.join(names_of(row))}")
        print(f"       {'fails on' if found else 'FAIL: passes on'}: {memory.faults()[row].text} ({answer.how})")
        if row in PARTLY:
            print(f"       in part: {PARTLY[row]}")
        if not found:
            print("".join(f"        | {line}\n" for line in answer.output.splitlines()[-8:]), end="")
    if control.code != 0:
        failed += 1
        print(f"FAIL: without a fault the tests do not pass ({control.how})")
        print("".join(f"        | {line}\n" for line in control.output.splitlines()[-30:]), end="")
    applicable = len(rows) - sum(row in OUTSIDE for row in rows)
    print(f"{passed} of {applicable} rows that a runtime can have: a test, and a broken runtime that fails it")
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 and passed >= WANTED * applicable else 1


if __name__ == "__main__":
    sys.exit(main())
