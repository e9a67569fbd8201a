"""Laws of every composition of resources on a device that runs behind the call: over random sequences of allocations,
work, waits and frees on several streams no bytes are reused too early, and every account is right."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kina_conformance import Executor, Handle, Tensor, clause
from kina_conformance.devices import FIRST, back, base, checkout, default, fill, foreign, negated, pushed, wait
from kina_conformance.plugin import session
from kina_conformance.resources import Info, Rows, address

KINDS = (
    "pool(base)",
    "limit(base)",
    "logging(base)",
    "custom",
    "limit(pool(base))",
    "pool(limit(base))",
    "logging(pool(limit(base)))",
    "pool(custom)",
    "limit(logging(pool(custom)))",
    "pool(pool(base))",
)
LIMIT = 400_000  # a few of the largest blocks
SIZES = st.one_of(st.integers(0, 3000), st.sampled_from([4096, 65536, 200_000]))
ALIGNMENTS = st.sampled_from([0, 1, 256, 4096])
STREAMS = 3
EXAMPLES = 20  # of each kind, at most


class Forward:
    """A custom resource of the device: hands on to the device's own memory and notes what is out."""

    def __init__(self, rt: Executor) -> None:
        self.rt, self.base, self.destroyed = rt, base(rt), 0
        self.take, self.give = rt.function("runtime_memory_allocate"), rt.function("runtime_memory_deallocate")
        self.live: dict[int, tuple[int, int]] = {}
        self.keep = [
            rt.ffi.callback(rt.ffi.typeof("KinaAllocateCallback"), self._allocate),
            rt.ffi.callback(rt.ffi.typeof("KinaDeallocateCallback"), self._deallocate),
            rt.ffi.callback(rt.ffi.typeof("KinaDestroyCallback"), self._destroy),
        ]
        allocate, deallocate, destroy = self.keep
        vtable = rt.params(
            "KinaResourceVtable", supports_streams=1, allocate=allocate, deallocate=deallocate, destroy=destroy
        )
        rt.live.append((self, lambda: None))
        self.handle: Handle = (
            rt.call("runtime_resource_custom", device_type=12, device_id=0, vtable=vtable, context=None).succeeds().out
        )

    def _allocate(self, out: Any, context: Any, size: int, alignment: int, stream: Any) -> int:
        status = int(self.take(out, self.base.cdata, size, alignment, stream))
        if status == 0:
            self.live[address(self.rt, out[0])] = (size, alignment)
        return status

    def _deallocate(self, context: Any, data: Any, size: int, alignment: int, stream: Any) -> int:
        assert self.live.pop(address(self.rt, data)) == (size, alignment)
        return int(self.give(self.base.cdata, data, size, alignment, stream))

    def _destroy(self, context: Any) -> None:
        self.destroyed += 1


def made(rt: Executor, kind: str) -> Handle:
    """The resource that a kind names, from the inside out."""
    word, _, inner = kind.partition("(")
    if word == "base":
        return base(rt)
    if word == "custom":
        return Forward(rt).handle
    upstream = made(rt, inner[:-1])
    if word == "logging":
        return Rows(rt).make(upstream)
    if word == "limit":
        limited: Handle = rt.call("runtime_resource_limit", upstream, LIMIT).succeeds().out
        return limited
    params = rt.params("KinaPoolParams", growth="KINA_GROWTH_FIXED", growth_bytes=1 << 16)
    pool: Handle = rt.call("runtime_resource_pool", upstream, params).succeeds().out
    return pool


class Behind(RuleBasedStateMachine):
    """Each block is written by work on a stream; what was written is read back at the end."""

    kind = "base"  # of the resource

    def __init__(self) -> None:
        super().__init__()
        self.rt: Executor = session()
        self.example = self.rt.example()
        self.example.__enter__()
        self.live: list[tuple[Any, int, int, int]] = []  # data, bytes, alignment, its stream
        self.results: list[tuple[Tensor, float]] = []
        self.allocations = self.deallocations = self.failures = 0
        self.stamp = 0
        self.resource = made(self.rt, self.kind)
        with pushed(self.rt, self.resource):
            self.name = default(self.rt)
        self.streams = [checkout(self.rt) for _ in range(STREAMS)]

    @rule(sizes=st.lists(SIZES, min_size=1, max_size=6), alignment=ALIGNMENTS, number=st.integers(0, STREAMS - 1))
    def allocate(self, sizes: list[int], alignment: int, number: int) -> None:
        for size in sizes:
            self.take_one(size, alignment, number)

    def take_one(self, size: int, alignment: int, number: int) -> None:
        rt, slot = self.rt, self.rt.ffi.new("void **")
        call = rt.function("runtime_memory_allocate")
        status = call(slot, self.name.cdata, size, alignment, self.streams[number].cdata)
        if self.kind.startswith("limit("):
            assert (status != 0) == (self.live_bytes() + size > LIMIT), "the bound is exact"
        if status != 0:
            assert rt.lib.status_name(status) == "OUT_OF_MEMORY" and "limit" in self.kind
            self.failures += 1
            return
        assert (slot[0] == rt.ffi.NULL) == (size == 0)
        if size == 0:
            return
        assert address(rt, slot[0]) % max(alignment, 256) == 0
        self.allocations += 1
        self.live.append((slot[0], size, alignment, number))
        self.work(len(self.live) - 1)

    def live_bytes(self) -> int:
        return sum(size for _, size, _, _ in self.live)

    @precondition(lambda self: self.live)
    @rule(choice=st.integers(0, 10_000))
    def work(self, choice: int) -> None:
        """Writes a block on its stream and reads it into memory of the device's own."""
        data, size, _, number = self.live[choice % len(self.live)]
        if size < 4:
            return
        self.stamp += 1
        seen = foreign(self.rt, data, size // 4, self.streams[number])
        fill(self.rt, seen, self.stamp, self.streams[number])
        self.results.append((negated(self.rt, seen, self.streams[number]), -float(self.stamp)))

    @precondition(lambda self: self.live)
    @rule(choice=st.integers(0, 10_000), other=st.integers(0, STREAMS - 1))
    def deallocate(self, choice: int, other: int) -> None:
        """On the block's stream, or on another one that waits for it."""
        data, size, alignment, number = self.live.pop(choice % len(self.live))
        if other != number:
            wait(self.rt, self.streams[other], self.streams[number])
        call = self.rt.call("runtime_memory_deallocate", self.name, data, size, alignment, self.streams[other])
        call.succeeds()
        self.deallocations += 1
        assert call.status() == "INVALID_ARGUMENT", "given back twice"

    @precondition(lambda self: self.live)
    @rule(choice=st.integers(0, 10_000), change=st.sampled_from(["bytes", "alignment", "inner", "stranger", "stream"]))
    def wrong_deallocations_change_nothing(self, choice: int, change: str) -> None:
        data, size, alignment, number = self.live[choice % len(self.live)]
        rt = self.rt
        call = rt.call("runtime_memory_deallocate", self.name, data, size, alignment, self.streams[number])
        main = rt.call("runtime_stream_main", 1, 0).succeeds().out
        changes: dict[str, dict[str, Any]] = {
            "bytes": {"bytes": size + 1},
            "alignment": {"alignment": 8192},
            "inner": {"data": rt.ffi.cast("void *", address(rt, data) + 1)},
            "stranger": {"data": rt.ffi.cast("void *", 256)},
            "stream": {"stream": main},
        }
        assert call.status(**changes[change]) == ("DEVICE_MISMATCH" if change == "stream" else "INVALID_ARGUMENT")

    @rule(power=st.integers(8, 20), below=st.integers(0, 200))
    def sizes_that_overflow_are_refused(self, power: int, below: int) -> None:
        rt, alignment = self.rt, 1 << power
        call = rt.call("runtime_memory_allocate", self.name, 2**64 - 1 - below, alignment, self.streams[0])
        assert call.status() == "INVALID_ARGUMENT"
        assert call.status(bytes=8, alignment=alignment + 1) == "INVALID_ARGUMENT"

    @precondition(lambda self: len(self.results) > 8)
    @rule()
    def read(self) -> None:
        for tensor, value in self.results:
            assert set(back(self.rt, tensor)) == {value}, "bytes were reused before their reader had run"
            self.rt.call("runtime_free", tensor).succeeds()
        self.results.clear()

    @rule()
    def synchronise(self) -> None:
        self.rt.call("runtime_device_synchronize", *FIRST).succeeds()

    @invariant()
    def live_blocks_never_overlap(self) -> None:
        spans = sorted((address(self.rt, data), address(self.rt, data) + size) for data, size, _, _ in self.live)
        assert all(low[1] <= high[0] for low, high in pairwise(spans))

    @invariant()
    def accounts_are_exact(self) -> None:
        info = Info(self.rt, self.name)
        assert (info.live_bytes, info.live_blocks) == (self.live_bytes(), len(self.live))
        counted = (info.allocations, info.deallocations, info.failures)
        assert counted == (self.allocations, self.deallocations, self.failures)

    def teardown(self) -> None:
        self.read()
        while self.live:
            self.deallocate(0, 0)
        self.accounts_are_exact()
        self.example.__exit__(None, None, None)


@pytest.mark.needs("sim")
@clause("KINA-RESOURCE-16", "cc697a09")
@clause("KINA-RESOURCE-17", "2ef29faa")
@clause("KINA-RESOURCE-19", "929f39e7")
@clause("KINA-RESOURCE-21", "8ee3829f")
@clause("KINA-RESOURCE-24", "cacfffc5")
@clause("KINA-RESOURCE-25", "ad00dacf")
@clause("KINA-RESOURCE-26", "6d474f79")
@clause("KINA-RESOURCE-27", "7b885c86")
@clause("KINA-RESOURCE-30", "1f23671e")
@clause("KINA-RESOURCE-70", "1cb0f294")
@pytest.mark.parametrize("kind", KINDS)
def test_the_laws_hold_on_devices_that_run_behind_the_call(rt: Executor, kind: str) -> None:
    class OfKind(Behind):
        pass

    OfKind.kind = kind
    run_state_machine_as_test(OfKind, settings=settings(max_examples=min(settings().max_examples, EXAMPLES)))
