"""Runs the suite against a library: a process per chapter, a watch on each call, every death one reported result."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .contract import contract
from .library import ended
from .observer import SIZE, Journal
from .worker import FRAME, Batch, Settings, run_batch

TICK_SECONDS = 0.05
LOOK_SECONDS = 1.0  # what one look counts for at most: while a machine stood still nobody could answer
TEST_SECONDS = 300.0
BATCH_TESTS = 400
SHORTEST_SECONDS = 0.5
DEATHS_IN_A_ROW = 50  # in one function: what is left of its batch is not tried any more


@dataclass
class Outcome:
    """What became of one test."""

    test: str
    chapter: str
    clauses: list[str]
    outcome: str  # passed, failed, absent, crash, hang, exit, lost
    message: str = ""
    example: str = ""
    where: str = ""
    broken: str | None = None  # the clause that the harness found broken, beside the test's own
    seconds: float = 0.0

    @property
    def bad(self) -> bool:
        return self.outcome in {"failed", "crash", "hang", "exit"}


@dataclass
class Run:
    """Everything that a run found."""

    outcomes: list[Outcome] = field(default_factory=list)
    rows: set[tuple[str, str]] = field(default_factory=set)
    calls: int = 0
    failing_calls: int = 0
    distinct_calls: int = 0
    internal: list[str] = field(default_factory=list)
    chapter_seconds: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


class Worker:
    """One child process and what the runner knows of it."""

    def __init__(self, batch: Batch, settings: Settings, folder: Path, number: int) -> None:
        self.batch = batch
        self.started = time.monotonic()
        self.current: str | None = None
        self.current_since = self.started
        self.done = False
        self.hung = ""
        self.watched_call: tuple[int, float] | None = None
        self.watched_seconds = 0.0
        self.looked = self.started
        self.pending = b""
        self.output = folder / f"output-{number}"
        journal = folder / f"journal-{number}"
        journal.write_bytes(bytes(SIZE))
        self.journal = Journal(journal)
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reader)
            run_batch(batch, settings, journal, self.output, writer)
        os.close(writer)

    def frames(self) -> list[dict[str, Any]]:
        """The frames that have come since the last look."""
        while True:
            try:
                data = os.read(self.reader, 1 << 20)
            except BlockingIOError:
                break
            if not data:
                break
            self.pending += data
        *lines, self.pending = self.pending.split(b"\n")
        return [json.loads(line[len(FRAME) :]) for line in lines if line.startswith(FRAME)]

    def overdue(self, limit: float) -> str:
        """The call that has been running for longer than the limit, if any."""
        now = time.monotonic()
        calls, index, inside, entered, _, text = self.journal.state()
        # The worker writes while we read: only what stands there at two looks in a row was read whole.
        seen, self.watched_call = self.watched_call, (calls, entered)
        passed, self.looked = min(now - self.looked, LOOK_SECONDS), now
        self.watched_seconds = self.watched_seconds + passed if seen == self.watched_call else 0.0
        if inside and entered and self.watched_seconds > limit:
            return call_name(index, text)
        if self.current is not None and now - self.current_since > TEST_SECONDS:
            return "the test, outside of any call"
        return ""

    def last_call(self) -> tuple[str, bool]:
        _, index, inside, _, _, text = self.journal.state()
        return call_name(index, text), inside


def call_name(index: int, text: str) -> str:
    names = list(contract().header.prototypes)
    name = names[index] if index < len(names) else "an unknown call"
    return text if text.startswith(f"{name}(") else name


class Runner:
    """Keeps `jobs` workers busy until every batch has ended."""

    def __init__(
        self,
        settings: Settings,
        tests: list[dict[str, Any]],
        jobs: int,
        timeout: float,
        progress: Callable[[Outcome], None],
    ) -> None:
        self.settings = settings
        self.jobs = jobs
        self.timeout = timeout
        self.progress = progress
        self.clauses = {test["id"]: test["clauses"] for test in tests}
        self.queue = batches(tests)
        self.run = Run()
        self.per_call: list[float] = []
        self.workers: dict[int, Worker] = {}
        self.selector = selectors.DefaultSelector()
        self.number = 0

    def complete(self) -> Run:
        """Runs everything."""
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kina-") as folder:
            while self.queue or self.workers:
                while self.queue and len(self.workers) < self.jobs:
                    self._start(self.queue.pop(0), Path(folder))
                self.selector.select(TICK_SECONDS)
                for worker in list(self.workers.values()):
                    self._look_at(worker)
        self.run.seconds = time.monotonic() - begin
        return self.run

    def _start(self, batch: Batch, folder: Path) -> None:
        self.number += 1
        worker = Worker(batch, self.settings, folder, self.number)
        self.workers[worker.pid] = worker
        self.selector.register(worker.reader, selectors.EVENT_READ)

    def _look_at(self, worker: Worker) -> None:
        pid, status = os.waitpid(worker.pid, os.WNOHANG)
        for event in worker.frames():
            self._take(worker, event)
        if pid:
            self._end(worker, status)
            return
        if not worker.hung:
            worker.hung = worker.overdue(self.timeout)
            if worker.hung:
                os.kill(worker.pid, signal.SIGKILL)

    def _take(self, worker: Worker, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "start":
            worker.current, worker.current_since = event["test"], time.monotonic()
        elif kind == "done":
            worker.done = True
        elif kind == "broken":
            self.run.internal.append(event["message"])
            worker.done = True
        elif kind == "result":
            self._result(worker, event)

    def _result(self, worker: Worker, event: dict[str, Any]) -> None:
        worker.current = None
        worker.batch.died_in = ("", 0)
        self.run.rows |= {(name, status) for name, status in event["rows"]}
        self.run.calls += event["calls"]
        self.run.failing_calls += event["failing"]
        self.run.distinct_calls += event["distinct"]
        if event["calls"]:
            self.per_call.append(event["seconds"] / event["calls"])
        self._record(
            worker,
            event["test"],
            event["outcome"],
            message=event.get("message", ""),
            example=event.get("example", ""),
            where=event.get("where", ""),
            broken=event.get("clause"),
            seconds=event["seconds"],
        )

    def _record(self, worker: Worker, test: str, outcome: str, **more: Any) -> None:
        found = Outcome(test, worker.batch.chapter, self.clauses.get(test, []), outcome, **more)
        worker.batch.finished.add(test)
        self.run.outcomes.append(found)
        chapter = worker.batch.chapter
        self.run.chapter_seconds[chapter] = self.run.chapter_seconds.get(chapter, 0.0) + found.seconds
        self.progress(found)

    def _end(self, worker: Worker, status: int) -> None:
        """A worker that did not say done was ended by the library: that is one result, and the rest goes on."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)  # what it left behind
        del self.workers[worker.pid]
        self.selector.unregister(worker.reader)
        os.close(worker.reader)
        if worker.done:
            return
        batch = worker.batch
        call, inside = worker.last_call()
        if worker.hung:
            outcome, message = "hang", f"HANG in {worker.hung}: no answer within {self.timeout:.2f} s"
            self._shorten()
        else:
            how = ended(status)
            outcome = "crash" if how.startswith("CRASH") else "exit"
            message = f"{how} in {call}" if inside else f"{how} after {call}"
            message += last_words(worker.output)
        if worker.current is not None:
            since = time.monotonic() - worker.current_since
            self._record(worker, worker.current, outcome, message=message, broken="KINA-STATUS-31", seconds=since)
        else:
            batch.deaths += 1
        function = (worker.hung or call).partition("(")[0]
        in_a_row = batch.died(function)
        why = ""
        if batch.deaths > 3:
            why = f"its process died before it began: {message}"
        elif in_a_row >= DEATHS_IN_A_ROW:
            why = f"not tried: {in_a_row} tests in a row ended in {function}"
        for test in batch.remaining() if why else []:
            self._record(worker, test, "lost", message=why)
        if batch.remaining():
            self.queue.insert(0, batch)

    def _shorten(self) -> None:
        """After the first hang nobody waits long again: 20 times the usual call, and enough for a busy machine."""
        usual = statistics.median(self.per_call) if self.per_call else 0.0
        self.timeout = min(self.timeout, max(SHORTEST_SECONDS, 20 * usual))


def last_words(output: Path) -> str:
    """What was printed before a process ended: a sanitizer's finding if there is one, else the last lines."""
    lines = output.read_text(errors="replace").splitlines() if output.exists() else []
    found = [i for i, line in enumerate(lines) if "ERROR: " in line or "runtime error: " in line]
    shown = lines[found[-1] : found[-1] + 12] if found else lines[-3:]
    return "".join(f"\n{line}" for line in shown)


def batches(tests: list[dict[str, Any]]) -> list[Batch]:
    """A batch per chapter, the largest first so that the last job is a short one; very large ones are cut."""
    found: dict[str, Batch] = {}
    for test in tests:
        chapter = Path(test["file"]).stem.removeprefix("test_")
        found.setdefault(chapter, Batch(chapter, test["file"], [])).tests.append(test["id"])
    cut = [
        Batch(batch.chapter, batch.file, batch.tests[start : start + BATCH_TESTS])
        for batch in found.values()
        for start in range(0, len(batch.tests), BATCH_TESTS)
    ]
    return sorted(cut, key=lambda batch: -len(batch.tests))
