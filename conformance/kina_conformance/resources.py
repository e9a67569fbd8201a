"""What the tests of the chapter resource share: counters, resources made of Python callbacks, rows, child processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from .executor import Executor
from .memory import Buffer, Handle

HOST = {"device_type": 1, "device_id": 0}
COUNTERS = (
    "live_bytes",
    "peak_bytes",
    "live_blocks",
    "reserved_bytes",
    "leaked_bytes",
    "leaked_blocks",
    "allocations",
    "deallocations",
    "failures",
    "upstream_calls",
)
Value = TypeVar("Value")


class Info:
    """The answer of `runtime_resource_info`, read at once."""

    def __init__(self, rt: Executor, resource: Handle) -> None:
        info = rt.call("runtime_resource_info", resource).succeeds().out
        self.numbers = {
            name: int(getattr(info, name)) for name, field in rt.ffi.typeof("KinaResourceInfo").fields
            if field.type.kind == "primitive"
        }  # fmt: skip
        self.name = rt.string(info.name)
        self.upstream = Handle(rt, "KinaResource", info.upstream)

    def __getattr__(self, name: str) -> int:
        try:
            return int(self.__dict__["numbers"][name])
        except KeyError:
            raise AttributeError(name) from None

    @property
    def counters(self) -> dict[str, int]:
        return {name: self.numbers[name] for name in COUNTERS}


def host(rt: Executor) -> Handle:
    """A new host resource, released with the test."""
    made: Handle = rt.call("runtime_resource_host").succeeds().out
    return made


def pool(rt: Executor, upstream: Handle | None = None, **params: Any) -> Handle:
    source = host(rt) if upstream is None else upstream
    made: Handle = rt.call("runtime_resource_pool", source, rt.params("KinaPoolParams", **params)).succeeds().out
    return made


def limit(rt: Executor, upstream: Handle | None = None, maximum_bytes: int = 1 << 20) -> Handle:
    source = host(rt) if upstream is None else upstream
    made: Handle = rt.call("runtime_resource_limit", source, maximum_bytes).succeeds().out
    return made


def release(rt: Executor, resource: Handle) -> None:
    rt.call("runtime_resource_release", resource).succeeds()


def release_after_thread(rt: Executor, resource: Handle, seconds: float = 20.0) -> None:
    """Releases what an ended thread had pushed: Python's join may return before the thread's last moments."""
    call = rt.call("runtime_resource_release", resource)
    end = time.monotonic() + seconds
    while call.status() == "BUSY":
        assert time.monotonic() < end, "the pushes of an ended thread never ended"
        time.sleep(0.001)
    rt.forget([resource])


def allocate(rt: Executor, resource: Handle, size: int, alignment: int = 0) -> Any:
    """A raw block, given back with the test."""
    return rt.call("runtime_memory_allocate", resource, size, alignment, None).succeeds().out


def deallocate(rt: Executor, resource: Handle, block: Any, size: int, alignment: int = 0) -> None:
    rt.call("runtime_memory_deallocate", resource, block, size, alignment, None).succeeds()


def address(rt: Executor, block: Any) -> int:
    return int(rt.ffi.cast("uintptr_t", block))


def current(rt: Executor) -> Handle:
    found: Handle = rt.call("runtime_resource_current", **HOST).succeeds().out
    return found


def push(rt: Executor, resource: Handle) -> Handle:
    scope: Handle = rt.call("runtime_resource_push", resource).succeeds().out
    return scope


def pop(rt: Executor, scope: Handle) -> None:
    rt.call("runtime_scope_pop", scope).succeeds()


def borrowed(rt: Executor, resource: Handle) -> Handle:
    """The borrowed handle of a resource, seen by pushing it."""
    scope = rt.call("runtime_resource_push", resource).succeeds().out
    found = current(rt)
    rt.call("runtime_scope_pop", scope).succeeds()
    return found


def in_thread(work: Callable[[], Value]) -> Value:
    """The answer of `work` on a thread of its own, which has ended when this returns; its failure is the caller's."""
    answers: list[Value] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return answers[0]


class Custom:
    """A resource whose callbacks are Python: guarded blocks, everything that was asked, answers to order."""

    def __init__(self, rt: Executor, name: str | None = None, supports_streams: int = 0) -> None:
        self.rt = rt
        self.blocks: dict[int, tuple[int, int, Buffer]] = {}
        self.asked: list[tuple[int, int, int]] = []  # bytes, alignment, stream of each allocation
        self.returned: list[tuple[int, int, int, int]] = []  # address, bytes, alignment, stream
        self.destroyed = 0
        self.wrong: list[str] = []
        self.answer: Callable[[int, int], tuple[str, int]] | None = None  # (bytes, alignment) → status, address
        self.return_status = "SUCCESS"
        self.during_allocate: Callable[[], None] = lambda: None
        callback = rt.ffi.callback
        failing = rt.lib.status("INTERNAL")
        self.keep = [
            callback(rt.ffi.typeof("KinaAllocateCallback"), self._allocate, error=failing),
            callback(rt.ffi.typeof("KinaDeallocateCallback"), self._deallocate, error=failing),
            callback(rt.ffi.typeof("KinaDestroyCallback"), self._destroy),
        ]
        self.vtable = rt.params(
            "KinaResourceVtable",
            name=name,
            supports_streams=supports_streams,
            allocate=self.keep[0],
            deallocate=self.keep[1],
            destroy=self.keep[2],
        )

    def make(self, device: tuple[int, int] = (1, 0)) -> Handle:
        self.rt.live.append((self, lambda: None))  # the callbacks live until the resource has been released
        call = self.rt.call("runtime_resource_custom", *device, vtable=self.vtable, context=0x5EED)
        made: Handle = call.succeeds().out
        return made

    def _number(self, pointer: Any) -> int:
        return int(self.rt.ffi.cast("uintptr_t", pointer))

    def _allocate(self, out: Any, context: Any, size: int, alignment: int, stream: Any) -> int:
        if self._number(context) != 0x5EED:
            self.wrong.append("allocate got another context")
        self.asked.append((size, alignment, self._number(stream)))
        self.during_allocate()
        if self.answer is not None:
            status, place = self.answer(size, alignment)
            out[0] = self.rt.ffi.cast("void *", place)
            return self.rt.lib.status(status)
        if size > 1 << 30:
            return self.rt.lib.status("OUT_OF_MEMORY")
        out[0] = self.rt.ffi.cast("void *", self.block(size, alignment))
        return 0

    def block(self, size: int, alignment: int) -> int:
        """The address of a new guarded block."""
        buffer = Buffer(size, alignment=alignment)
        self.blocks[buffer.address] = (size, alignment, buffer)
        return buffer.address

    def _deallocate(self, context: Any, data: Any, size: int, alignment: int, stream: Any) -> int:
        if self._number(context) != 0x5EED:
            self.wrong.append("deallocate got another context")
        place = self._number(data)
        self.returned.append((place, size, alignment, self._number(stream)))
        known = self.blocks.pop(place, None)
        if known is not None and known[:2] != (size, alignment):
            self.wrong.append(f"a block of {known[:2]} came back as {(size, alignment)}")
        if known is not None and known[2].broken_guard() is not None:
            self.wrong.append(f"bytes {known[2].broken_guard()} a block were written")
        return self.rt.lib.status(self.return_status)

    def _destroy(self, context: Any) -> None:
        if self._number(context) != 0x5EED:
            self.wrong.append("destroy got another context")
        self.destroyed += 1


class Rows:
    """The rows that a logging resource delivers to a callback."""

    def __init__(self, rt: Executor) -> None:
        self.rt = rt
        self.rows: list[dict[str, Any]] = []
        self.threads: set[int] = set()
        self.before_row: Callable[[], None] = lambda: None
        self.callback = rt.ffi.callback(rt.ffi.typeof("KinaLogRowCallback"), self._row)

    def _row(self, context: Any, row: Any) -> None:
        ffi = self.rt.ffi
        self.before_row()
        self.threads.add(threading.get_ident())
        number = {name: int(getattr(row, name)) for name, field in ffi.typeof("KinaLogRow").fields
                  if field.type.kind == "primitive"}  # fmt: skip
        for name in ("data", "stream", "resource"):
            number[name] = int(ffi.cast("uintptr_t", getattr(row, name)))
        frames = [int(row.frames[i]) for i in range(row.frame_count)]
        text = self.rt.string(row.resource_name)
        self.rows.append({**number, "resource_name": text, "frames": frames, "context": ffi.cast("uintptr_t", context)})

    def make(self, upstream: Handle, **params: Any) -> Handle:
        self.rt.live.append((self, lambda: None))  # the callback lives until the resource has been released
        options = self.rt.params("KinaLoggingParams", callback=self.callback, context=0xC0FFEE, **params)
        made: Handle = self.rt.call("runtime_resource_logging", upstream, options).succeeds().out
        return made

    def wait(self, count: int, seconds: float = 20.0) -> None:
        """Until so many rows are there."""
        end = time.monotonic() + seconds
        while len(self.rows) < count and time.monotonic() < end:
            time.sleep(0.001)
        assert len(self.rows) >= count, f"{len(self.rows)} of {count} rows came within {seconds} s"


def child(rt: Executor, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process of its own, with `rt` (an Executor on the library under test) at hand."""
    package = str(Path(__file__).resolve().parents[1])
    head = (
        f"import sys; sys.path.insert(0, {package!r})\n"
        "from kina_conformance.executor import Executor\n"
        "from kina_conformance.resources import *\n"
        f"rt = Executor({os.path.abspath(rt.lib.path)!r})\n"
    )
    kept = {name: value for name, value in os.environ.items() if name != "KINA_RESOURCE"}
    return subprocess.run(
        [sys.executable, "-c", head + code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


KINDS = (
    "host",
    "pool",
    "limit",
    "logging",
    "custom",
    "limit(pool(host))",
    "pool(custom)",
    "logging(limit(pool(pool(host))))",
)


class Made:
    """A resource of a kind of `KINDS`, and what keeps its callbacks alive."""

    def __init__(self, rt: Executor, kind: str) -> None:
        self.custom: Custom | None = None
        self.rows: Rows | None = None
        word, _, inner = kind.partition("(")
        upstream = self._inner(rt, inner[:-1]) if inner else None
        self.handle = self._make(rt, word, upstream)

    def _inner(self, rt: Executor, kind: str) -> Handle:
        inner = Made(rt, kind)
        self.custom, self.rows = inner.custom, inner.rows
        return inner.handle

    def _make(self, rt: Executor, word: str, upstream: Handle | None) -> Handle:
        if word == "custom":
            self.custom = Custom(rt)
            return self.custom.make()
        if word == "logging":
            self.rows = Rows(rt)
            return self.rows.make(upstream or host(rt))
        if word == "limit":
            return limit(rt, upstream, 1 << 40)
        return pool(rt, upstream) if word == "pool" else host(rt)
