"""The child side of a run: pytest on one batch of tests, each result written as a frame before the next test starts."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from . import plugin
from .executor import Violation
from .suite import suite_path

FRAME = b"\x1ekina "
_libc = ctypes.CDLL(None)


@dataclass
class Batch:
    """What a worker is to run: the tests of one chapter, or those that a dead worker left."""

    chapter: str
    file: str
    tests: list[str]
    deaths: int = 0
    finished: set[str] = field(default_factory=set)
    died_in: tuple[str, int] = ("", 0)  # the function in which its last tests in a row ended, and how many these are

    def died(self, function: str) -> int:
        """One more has; how many in a row."""
        self.died_in = (function, self.died_in[1] + 1 if self.died_in[0] == function else 1)
        return self.died_in[1]

    def remaining(self) -> list[str]:
        return [test for test in self.tests if test not in self.finished]


@dataclass(frozen=True)
class Settings:
    """What holds for the whole run."""

    library: str
    tier: str
    seed: int
    profile: frozenset[str] | None
    resource: str | None = None  # what KINA_RESOURCE says while the tests run


def emit(fd: int, **event: Any) -> None:
    """One frame; a partial last line is no frame."""
    data = FRAME + json.dumps(event).encode() + b"\n"
    while data:
        data = data[os.write(fd, data) :]


def arguments(settings: Settings, journal: Path | None) -> list[str]:
    """Pytest on the suite, deaf to the configuration of whoever runs it."""
    found = ["-c", os.devnull, "--rootdir", str(suite_path()), "-s"]
    # The last one would talk of Python where the library crashed.
    found += [word for name in ("cacheprovider", "terminal", "faulthandler") for word in ("-p", f"no:{name}")]
    found += ["--strict-markers", "--tier", settings.tier, "--kina-seed", str(settings.seed)]
    found += ["--lib", settings.library] if settings.library else []
    return found + (["--journal", str(journal)] if journal else [])


class Collector:
    """Lists the suite's tests with their clauses; needs no library."""

    def __init__(self) -> None:
        self.tests: list[dict[str, Any]] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            needs = [str(mark.args[0]) for mark in item.iter_markers("needs")]
            self.tests.append(
                {
                    "id": item.nodeid,
                    "file": item.path.name,
                    "clauses": [clause for clause, _ in plugin.marks_of(item)],
                    "needs": needs,
                }
            )


class Reporter:
    """Keeps the wanted tests, and sends each outcome with what was learnt during it."""

    def __init__(self, fd: int, wanted: set[str], profile: frozenset[str] | None) -> None:
        self.fd = fd
        self.wanted = wanted
        self.profile = profile
        self.rows: set[tuple[str, str]] = set()
        self.calls = self.failing = self.distinct = 0
        self.failure: dict[str, Any] | None = None
        self.started = 0.0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid in self.wanted]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        executor = plugin.session()
        executor.journal.test(item.nodeid)
        self.failure = None
        self.started = time.monotonic()
        emit(self.fd, event="start", test=item.nodeid)
        printed, children = os.fstat(1).st_size, child_processes()
        result = yield
        self._silent(printed)
        if child_processes() - children and self.failure is None:
            self.failure = {"message": "a process was left behind", "clause": "KINA-STATUS-31"}
        absent = plugin.missing_features(item)
        if absent:
            self._send(item, "absent", message=", ".join(absent))
        else:
            self._send(item, "failed" if self.failure else "passed", **(self.failure or {}))
        return result

    def _silent(self, before: int) -> None:
        """Nothing may have been written to descriptors 1 and 2, which are one file here."""
        _libc.fflush(None)
        size = os.fstat(1).st_size
        if size != before and self.failure is None:
            text = os.pread(1, 200, before).decode(errors="replace")
            self.failure = {
                "message": f"something was written to stdout or stderr: {text!r}",
                "clause": "KINA-STATUS-31",
            }

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> pytest.TestReport:
        """A bare report: pytest's own would spell out source and frames, which costs more than the test."""
        if call.excinfo is not None and self.failure is None:
            self._take(call.excinfo.value)
        outcome = "passed" if call.excinfo is None else "failed"
        return pytest.TestReport(item.nodeid, item.location, {}, outcome, None, call.when)  # type: ignore[arg-type]

    def _take(self, error: BaseException) -> None:
        notes = getattr(error, "__notes__", [])
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        self.failure = {
            "message": _with_call(f"{kind}{str(error) or _source_line(error)}", plugin.session().journal.last_text()),
            "clause": error.clause if isinstance(error, Violation) else None,
            "example": "\n".join(notes),
            "where": _where(error),
        }

    def _send(self, item: pytest.Item, outcome: str, **more: Any) -> None:
        witness = plugin.session().witness
        rows = sorted(witness.rows - self.rows)
        emit(
            self.fd,
            event="result",
            test=item.nodeid,
            outcome=outcome,
            seconds=time.monotonic() - self.started,
            calls=witness.calls - self.calls,
            failing=witness.failing - self.failing,
            distinct=len(witness.distinct) - self.distinct,
            rows=rows,
            **more,
        )
        self.rows |= set(rows)
        self.calls, self.failing, self.distinct = witness.calls, witness.failing, len(witness.distinct)


def child_processes() -> set[str]:
    """The children of this process, as far as the system tells."""
    found: set[str] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread may end while it is asked
            found |= set(file.read_text().split())
    return found


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name.startswith("test_")]


def _where(error: BaseException) -> str:
    frames = _frames(error)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _with_call(message: str, call: str) -> str:
    """A message that names no function says which call came last; pytest's advice on its own options goes."""
    first, *rest = message.splitlines() or [""]
    if call and "runtime_" not in message:
        first += f"; the last call was {call}"
    return "\n".join([first, *(line for line in rest if line.strip() != "Use -v to get more diff")])


def _source_line(error: BaseException) -> str:
    frames = _frames(error)
    return frames[-1].line or "" if frames else ""


def run_batch(batch: Batch, settings: Settings, journal: Path, output: Path, fd: int) -> None:
    """In the forked child: runs what is left of the batch, then says done."""
    os.setpgid(0, 0)
    log = os.open(output, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.pop("KINA_RESOURCE", None)
    if settings.resource is not None:
        os.environ["KINA_RESOURCE"] = settings.resource
    reporter = Reporter(fd, set(batch.remaining()), settings.profile)
    command = [*arguments(settings, journal), str(suite_path() / batch.file)]
    try:
        code = pytest.main(command, plugins=[reporter])
    except BaseException as error:
        emit(fd, event="broken", message="".join(traceback.format_exception(error))[-2000:])
        os._exit(70)
    if code in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED}:
        emit(fd, event="done")
        os._exit(0)
    emit(fd, event="broken", message=f"pytest ended with {code!r}; {output.read_text(errors='replace')[-2000:]}")
    os._exit(70)


def collect() -> tuple[list[dict[str, Any]], str]:
    """All tests of the suite, or the reason why they cannot be listed. Runs in a child: imports leave no trace here."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _collect_into(writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        return [], "the collecting process died"
    answer = json.loads(data)
    return answer["tests"], answer["error"]


def _collect_into(writer: int) -> None:
    collector, problems, error = Collector(), Problems(), ""
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        settings = Settings("", "quick", 0, None)
        command = [*arguments(settings, None), "--collect-only", str(suite_path())]
        try:
            code = pytest.main(command, plugins=[collector, problems])
            if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
                error = "\n".join(problems.texts) or os.pread(1, 20000, 0).decode(errors="replace")
                error = error or f"collection ended with {code!r}"
        except BaseException as caught:
            error = "".join(traceback.format_exception(caught))[-2000:]
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(json.dumps({"tests": collector.tests, "error": error}).encode())
    os._exit(0)


class Problems:
    """What collection complained of."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.texts.append(str(report.longrepr)[-1500:])


if __name__ == "__main__":
    tests, problem = collect()
    sys.exit(problem or f"{len(tests)} tests")
