"""Pools under many threads, over a long time and at the edges of sizes: what elsewhere lost, leaked or shared bytes."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, Handle, clause
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import Custom, Info, address, allocate, deallocate, host, pool

MIB = 1 << 20
SECONDS = 10.0  # for other threads to come through


def together(count: int, work: Callable[[int], None]) -> None:
    """Runs `work(i)` on so many threads that start at one moment; a failure of one is the caller's."""
    barrier, failures = threading.Barrier(count), deque[BaseException]()

    def run(i: int) -> None:
        barrier.wait(20)
        try:
            work(i)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Raw:
    """Bare calls on one resource, for threads."""

    def __init__(self, rt: Executor, resource: Handle) -> None:
        self.rt, self.resource = rt, resource
        self.allocate, self.deallocate = (
            rt.lib.functions["runtime_memory_allocate"],
            rt.lib.functions["runtime_memory_deallocate"],
        )

    def take(self, size: int) -> Any:
        slot = self.rt.ffi.new("void **")
        assert self.allocate(slot, self.resource.cdata, size, 0, self.rt.ffi.NULL) == 0
        return slot[0]

    def give(self, block: Any, size: int) -> None:
        assert self.deallocate(self.resource.cdata, block, size, 0, self.rt.ffi.NULL) == 0


@memory_case("P01")
@clause("KINA-RESOURCE-16", "cc697a09")
@clause("KINA-STATUS-32", "6b61c460")
def test_threads_on_one_pool_never_hold_the_same_bytes(rt: Executor) -> None:
    resource = pool(rt)
    raw, lock = Raw(rt, resource), threading.Lock()
    shared: list[tuple[Any, int, bytes]] = []

    def work(number: int) -> None:
        choice = random.Random(number)
        for i in range(300):
            if choice.random() < 0.6:
                size = choice.choice([64, 256, 4096, 20_000])
                block, content = raw.take(size), bytes([number * 50 + i % 50]) * size
                rt.ffi.memmove(block, content, size)
                with lock:
                    shared.append((block, size, content))
                continue
            with lock:
                mine = shared.pop(choice.randrange(len(shared))) if shared else None
            if mine is not None:
                assert bytes(rt.ffi.buffer(mine[0], mine[1])) == mine[2], "another thread holds these bytes"
                raw.give(mine[0], mine[1])

    together(4, work)

    spans = sorted((address(rt, block), address(rt, block) + size) for block, size, _ in shared)
    assert all(low[1] <= high[0] for low, high in pairwise(spans))
    for block, size, _ in shared:
        raw.give(block, size)
    assert Info(rt, resource).live_blocks == 0


@memory_case("P42")
@clause("KINA-RESOURCE-37", "dbaabb1c")
@clause("KINA-RESOURCE-46", "2937b7fa")
def test_a_producer_and_a_consumer_thread_do_not_use_up_a_pool(rt: Executor) -> None:
    size, rounds = 64_000, 1500
    resource = pool(rt, maximum_bytes=8 * MIB)
    raw, passed = Raw(rt, resource), deque[Any]()
    room, ready = threading.Semaphore(16), threading.Semaphore(0)

    def step(number: int) -> None:
        if number == 0:
            room.acquire()
            passed.append(raw.take(size))
            ready.release()
        else:
            ready.acquire()
            raw.give(passed.popleft(), size)
            room.release()

    def work(number: int) -> None:
        try:
            for _ in range(rounds):
                step(number)
        except BaseException:  # the other one waits for nothing that does not come
            room.release(rounds)
            ready.release(rounds)
            raise

    together(2, work)

    info = Info(rt, resource)
    assert (info.live_blocks, info.failures) == (0, 0)
    deallocate(rt, resource, allocate(rt, resource, 6 * MIB), 6 * MIB)


@memory_case("P51")
@clause("KINA-STATUS-32", "6b61c460")
def test_a_thread_that_is_upstream_hinders_none_of_39_who_need_nothing_from_there(rt: Executor) -> None:
    custom = Custom(rt)
    resource = pool(rt, custom.make(), growth="KINA_GROWTH_FIXED", growth_bytes=64 * MIB)
    deallocate(rt, resource, allocate(rt, resource, 4096), 4096)
    raw, is_upstream, may_return, done = Raw(rt, resource), threading.Event(), threading.Event(), threading.Event()
    asked = len(custom.asked)

    def linger() -> None:
        is_upstream.set()
        may_return.wait(20)

    def serve_themselves() -> None:
        assert is_upstream.wait(20)
        together(39, serve_oneself)
        done.set()

    def serve_oneself(number: int) -> None:
        for turn in range(30):
            size = (64, 500, 4096, 30_000)[(number + turn) % 4]
            content = bytes([number]) * size
            block = raw.take(size)
            rt.ffi.memmove(block, content, size)
            assert bytes(rt.ffi.buffer(block, size)) == content
            raw.give(block, size)

    custom.during_allocate = linger
    threads = [
        threading.Thread(target=lambda: raw.give(raw.take(128 * MIB), 128 * MIB)),
        threading.Thread(target=serve_themselves),
    ]
    for thread in threads:
        thread.start()
    came_through = done.wait(SECONDS)
    may_return.set()
    for thread in threads:
        thread.join()

    assert came_through, "a free block of the pool waited for another thread's growth"
    assert len(custom.asked) == asked + 1
    assert Info(rt, resource).live_blocks == 0


@memory_case("P31")
@clause("KINA-RESOURCE-19", "929f39e7")
@clause("KINA-RESOURCE-16", "cc697a09")
@given(size=st.integers(1, 5000), power=st.integers(8, 16))
def test_an_aligned_block_lies_inside_what_the_upstream_gave(rt: Executor, size: int, power: int) -> None:
    custom = Custom(rt)
    for resource in (custom.make(), pool(rt, custom.make())):
        blocks = [allocate(rt, resource, size, 1 << power) for _ in range(3)]

        given_ = [(place, place + bytes_) for place, (bytes_, _, _) in custom.blocks.items()]
        for block in blocks:
            first = address(rt, block)
            assert first % (1 << power) == 0
            assert any(low <= first and first + size <= high for low, high in given_)


@memory_case("P43")
@clause("KINA-RESOURCE-16", "cc697a09")
@given(sizes=st.lists(st.integers(1, 5000), min_size=2, max_size=12), data=st.data())
def test_a_block_that_comes_again_has_room_for_what_was_asked(
    rt: Executor, sizes: list[int], data: st.DataObject
) -> None:
    resource = pool(rt)
    held: dict[int, tuple[Any, int]] = {}
    for i, size in enumerate(sizes):
        held[i] = (allocate(rt, resource, size), size)
        rt.ffi.memmove(held[i][0], bytes([i + 1]) * size, size)
        if data.draw(st.booleans()):
            deallocate(rt, resource, *held.pop(data.draw(st.sampled_from(sorted(held)))))

    spans = sorted((address(rt, block), address(rt, block) + size) for block, size in held.values())
    assert all(low[1] <= high[0] for low, high in pairwise(spans))
    for i, (block, size) in held.items():
        assert bytes(rt.ffi.buffer(block, size)) == bytes([i + 1]) * size


@memory_case("P39")
@clause("KINA-RESOURCE-37", "dbaabb1c")
def test_small_blocks_that_stay_do_not_break_up_the_room_of_a_large_one(rt: Executor) -> None:
    large, small = 32 * MIB, 1000
    resource = pool(rt, maximum_bytes=2 * large)

    for _ in range(8):
        deallocate(rt, resource, allocate(rt, resource, large), large)
        for _ in range(30):
            allocate(rt, resource, small)

    assert Info(rt, resource).failures == 0


@memory_case("P40")
@clause("KINA-RESOURCE-42", "f18aecd3")
def test_two_sizes_that_take_turns_share_their_memory(rt: Executor) -> None:
    larger, smaller = 530 << 10, 270 << 10
    resource = pool(rt, maximum_bytes=6 * larger * 7 // 5)  # less than 6 blocks of both
    for size in (larger, smaller) * 6:
        blocks = [allocate(rt, resource, size) for _ in range(6)]
        for block in blocks:
            deallocate(rt, resource, block, size)

    assert Info(rt, resource).failures == 0


@memory_case("P47")
@clause("KINA-STATUS-30", "03ebb98d")
@clause("KINA-STATUS-18", "ea704573")
def test_out_of_memory_takes_no_memory_to_recover_from(rt: Executor) -> None:
    resource = pool(rt, host(rt), growth="KINA_GROWTH_FIXED", growth_bytes=MIB, maximum_bytes=4 * MIB)
    blocks = [allocate(rt, resource, MIB) for _ in range(4)]
    rt.call("runtime_memory_allocate", resource, 1, 0, None).refuses("OUT_OF_MEMORY", control=False)

    for block in blocks:
        deallocate(rt, resource, block, MIB)
    trimmed = rt.call("runtime_resource_trim", resource=resource, keep_bytes=0).succeeds().released_bytes

    assert trimmed == 4 * MIB
    deallocate(rt, resource, allocate(rt, resource, 4 * MIB), 4 * MIB)
