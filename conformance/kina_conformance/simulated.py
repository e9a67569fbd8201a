"""The driver of simulated devices, as `kina_simulated.h` declares it: foreign streams, captures, replays."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import cffi

from kina.paths import contract_root

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

    @property
    def value(self) -> int:
        return int(_declared().cast("uintptr_t", self.pointer))

    def counts(self) -> Any:
        """What the drivers of all simulated devices were asked for so far."""
        counts = _declared().new("KinaSimCounts *")
        _require(self.pointer.count(self.pointer, counts), "count")
        return counts

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
