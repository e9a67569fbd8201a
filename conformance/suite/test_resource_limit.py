"""The limit: an exact bound on live bytes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import Custom, Info, allocate, deallocate, host, limit


@clause("KINA-RESOURCE-48", "2b0bd95d")
@given(sizes=st.lists(st.integers(1, 600), max_size=20), frees=st.lists(st.booleans(), min_size=20, max_size=20))
def test_a_limit_refuses_what_would_pass_it_and_nothing_else(rt: Executor, sizes: list[int], frees: list[bool]) -> None:
    resource = limit(rt, host(rt), 1000)
    held: list[tuple[Any, int]] = []

    for size, is_freeing in zip(sizes, frees, strict=False):
        if is_freeing and held:
            block, given_bytes = held.pop(0)
            deallocate(rt, resource, block, given_bytes)
        slot = rt.ffi.new("void **")
        answer = rt.function("runtime_memory_allocate")(slot, resource.cdata, size, 0, rt.ffi.NULL)
        fits = sum(given_bytes for _, given_bytes in held) + size <= 1000
        assert rt.lib.status_name(answer) == ("SUCCESS" if fits else "OUT_OF_MEMORY")
        if fits:
            held.append((slot[0], size))

    for block, given_bytes in held:
        deallocate(rt, resource, block, given_bytes)


@clause("KINA-RESOURCE-48", "2b0bd95d")
def test_the_bound_is_reached_and_not_passed(rt: Executor) -> None:
    resource = limit(rt, host(rt), 1000)

    block = allocate(rt, resource, 1000)
    call = rt.call("runtime_memory_allocate", resource, 0, 0, None)
    record = call.refuses("OUT_OF_MEMORY", bytes=1, clause="KINA-STATUS-44")
    call.refuses("OUT_OF_MEMORY", bytes=2**63)

    assert not record.readable or record.requested_bytes == 1
    deallocate(rt, resource, block, 1000)
    deallocate(rt, resource, allocate(rt, resource, 1000), 1000)


@clause("KINA-RESOURCE-33", "45081763")
def test_what_a_limit_refuses_is_no_request_upstream(rt: Executor) -> None:
    source = host(rt)
    resource = limit(rt, source, 1000)
    block = allocate(rt, resource, 600)

    rt.call("runtime_memory_allocate", resource, 401, 0, None).refuses("OUT_OF_MEMORY", control=False)

    assert (Info(rt, resource).failures, Info(rt, resource).upstream_calls) == (1, 1)
    assert (Info(rt, source).failures, Info(rt, source).allocations) == (0, 1)
    deallocate(rt, resource, block, 600)
    assert Info(rt, resource).upstream_calls == 2


@memory_case("P54")
@clause("KINA-RESOURCE-48", "2b0bd95d")
@pytest.mark.parametrize("maximum", [4096, 5000])
def test_the_bound_is_exact_against_racing_threads(rt: Executor, maximum: int) -> None:
    resource = limit(rt, host(rt), maximum)
    library, null = rt.lib.library, rt.ffi.NULL
    barrier, over = threading.Barrier(4), []

    def work() -> None:
        barrier.wait(20)
        slot = rt.ffi.new("void **")
        for _ in range(300):
            if library.runtime_memory_allocate(slot, resource.cdata, 1024, 0, null) == 0:
                if Info(rt, resource).live_bytes > maximum:
                    over.append(True)
                library.runtime_memory_deallocate(resource.cdata, slot[0], 1024, 0, null)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not over and Info(rt, resource).peak_bytes <= maximum
    assert Info(rt, resource).failures == 0, "four blocks always fit"
    assert Info(rt, resource).live_blocks == 0


@memory_case("P54")
@clause("KINA-RESOURCE-48", "2b0bd95d")
def test_racing_threads_never_pass_the_bound(rt: Executor) -> None:
    maximum, threads = 4096, 6
    resource = limit(rt, host(rt), maximum)
    library, null = rt.lib.library, rt.ffi.NULL
    barrier, blocks = threading.Barrier(threads), []

    def work() -> None:
        for _ in range(20):
            slot = rt.ffi.new("void **")
            barrier.wait(20)
            if library.runtime_memory_allocate(slot, resource.cdata, 1024, 0, null) == 0:
                blocks.append(slot[0])
            barrier.wait(20)
            if blocks and library.runtime_memory_deallocate(resource.cdata, slot[0], 1024, 0, null) == 0:
                blocks.remove(slot[0])
            barrier.wait(20)

    running = [threading.Thread(target=work) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()

    info = Info(rt, resource)
    assert not blocks and info.peak_bytes == maximum, "of six requests four fit"
    assert (info.allocations, info.failures) == (20 * 4, 20 * 2)


@clause("KINA-RESOURCE-48", "2b0bd95d")
def test_a_request_that_the_upstream_refuses_leaves_the_room_free(rt: Executor) -> None:
    custom = Custom(rt)
    resource = limit(rt, custom.make(), 1000)
    call = rt.call("runtime_memory_allocate", resource, 1000, 0, None)

    custom.answer = lambda _size, _alignment: ("DEVICE", 0)
    call.refuses("DEVICE", clause="KINA-RESOURCE-63", control=False)
    custom.answer = None

    deallocate(rt, resource, call.succeeds().out, 1000)


@clause("KINA-RESOURCE-49", "ed45cc7d")
def test_a_limit_of_zero_refuses_all_but_zero_bytes(rt: Executor) -> None:
    resource = limit(rt, host(rt), 0)
    call = rt.call("runtime_memory_allocate", resource, 0, 0, None)

    call.refuses("OUT_OF_MEMORY", bytes=1)

    assert call.succeeds().out == rt.ffi.NULL
