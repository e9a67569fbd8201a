"""The driver of simulated devices, as `kina_simulated.h` declares it: foreign streams, captures, replays."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

import cffi

from kina.paths import contract_root
from kina.runtime import interface

from .executor import Executor
from .memory import Handle
from .record import Violation

DEVICE = 12  # kDLExtDev


@cache
def _declared() -> Any:
    """cffi with the types of the header."""
    text = (contract_root() / "include" / "kina_simulated.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    ffi = cffi.FFI()
    ffi.cdef(text.replace('extern "C" {', "", 1).rpartition("}")[0])
    return ffi


class Counts(NamedTuple):
    """Calls of the drivers of all simulated devices."""

    event_records: int
    stream_waits: int
    host_waits: int

    def since(self, before: Counts) -> Counts:
        return Counts(*(now - then for now, then in zip(self, before, strict=True)))


class Native:
    """A native stream of a simulated device."""

    def __init__(self, address: int) -> None:
        self.pointer = _declared().cast("KinaSimStream *", address)

    @classmethod
    def of(cls, rt: Executor, stream: Handle) -> Native:
        """What the library gives for a stream of its own."""
        return cls(int(rt.ffi.cast("uintptr_t", rt.call("runtime_stream_native", stream).succeeds().out)))

    @classmethod
    def foreign(cls, rt: Executor, device_id: int = 0) -> Native:
        """A stream that the library did not make."""
        main = rt.call("runtime_stream_main", DEVICE, device_id).succeeds().out
        made = _declared().new("KinaSimStream **")
        like = cls.of(rt, main).pointer
        _require(like.make(like, made), "make")
        return cls(int(_declared().cast("uintptr_t", made[0])))

    def end(self) -> None:
        """What the owner of a foreign stream does when it needs it no more."""
        _require(self.pointer.end(self.pointer), "end")

    def copy(self, to: Any, source: Any, size: int) -> None:
        """Foreign work: bytes at one address of the device become those at another."""
        addresses = (int(interface().cast("uintptr_t", data)) for data in (to, source))
        to, source = (_declared().cast("void *", address) for address in addresses)
        _require(self.pointer.copy(self.pointer, to, source, size), "copy")

    def counts(self) -> Counts:
        """What the drivers of all simulated devices were asked for so far."""
        told = _declared().new("KinaSimCounts *")
        _require(self.pointer.count(self.pointer, told), "count")
        return Counts(told.event_records, told.stream_waits, told.host_waits)

    @property
    def value(self) -> int:
        return int(_declared().cast("uintptr_t", self.pointer))

    def begin_capture(self) -> None:
        _require(self.pointer.begin_capture(self.pointer), "begin_capture")

    def end_capture(self) -> Graph:
        graph = _declared().new("void **")
        _require(self.pointer.end_capture(self.pointer, graph), "end_capture")
        return Graph(self, graph[0])


class Graph:
    """Recorded work, destroyed with this object."""

    def __init__(self, made_by: Native, graph: Any) -> None:
        self.pointer = made_by.pointer
        self.graph = _declared().gc(graph, self.pointer.destroy_graph)

    def replay(self, stream: Native) -> None:
        _require(stream.pointer.replay(stream.pointer, self.graph), "replay")


def _require(answer: int, what: str) -> None:
    if answer != 0:
        raise Violation(f"{what} of the simulated driver answered {answer}")
