"""The pool: spans, growth, maximum, reclaim, thresholds, trim."""

from __future__ import annotations

import os
import signal
import threading
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance.alone import PATIENCE
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import (
    HOST,
    Custom,
    Info,
    Rows,
    address,
    allocate,
    deallocate,
    host,
    limit,
    pool,
    release,
)

MIB = 1 << 20


def trim(rt: Executor, resource: Any, keep_bytes: int = 0) -> int:
    return int(rt.call("runtime_resource_trim", resource=resource, keep_bytes=keep_bytes).succeeds().released_bytes)


@clause("KINA-RESOURCE-37", "dbaabb1c")
def test_a_freed_block_is_served_again_without_upstream(rt: Executor) -> None:
    resource = pool(rt)
    first = allocate(rt, resource, 5000)
    deallocate(rt, resource, first, 5000)
    calls = Info(rt, resource).upstream_calls

    for size in (5000, 1, 4000, 5000):
        deallocate(rt, resource, allocate(rt, resource, size), size)

    assert Info(rt, resource).upstream_calls == calls


@clause("KINA-RESOURCE-36", "6148bfb7")
def test_cache_hits_count_allocations_that_needed_no_upstream(rt: Executor) -> None:
    source = host(rt)
    resource = pool(rt, source)
    blocks = [allocate(rt, resource, 100) for _ in range(5)]

    info = Info(rt, resource)

    assert info.cache_hits == 4 and info.upstream_calls == 1
    assert (info.event_records, info.stream_waits) == (0, 0)
    assert Info(rt, source).cache_hits == 0
    assert len({address(rt, block) for block in blocks}) == 5


@clause("KINA-RESOURCE-30", "1f23671e")
@pytest.mark.parametrize("is_logged", [False, True])
def test_the_peak_over_several_threads_is_off_by_a_mebibyte_for_each(rt: Executor, is_logged: bool) -> None:
    resource = Rows(rt).make(pool(rt)) if is_logged else pool(rt)
    library, null, all_hold = rt.lib.library, rt.ffi.NULL, threading.Barrier(4)
    answers: list[int] = []

    def work() -> None:
        slots = rt.ffi.new("void *[100]")
        answers.extend(library.runtime_memory_allocate(slots + i, resource.cdata, 50_000, 0, null) for i in range(100))
        all_hold.wait(20)
        answers.extend(library.runtime_memory_deallocate(resource.cdata, slot, 50_000, 0, null) for slot in slots)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    info = Info(rt, resource)
    assert set(answers) == {0} and (info.live_bytes, info.live_blocks) == (0, 0)
    assert (info.allocations, info.deallocations) == (400, 400)
    assert abs(info.peak_bytes - 400 * 50_000) <= 4 * MIB


@clause("KINA-RESOURCE-77", "6fd8d9f1")
def test_the_peak_over_several_threads_is_never_above_what_was_reserved(rt: Executor) -> None:
    maximum, size = 4 * MIB, 900_000
    resource = pool(rt, maximum_bytes=maximum)
    library, null = rt.lib.library, rt.ffi.NULL
    in_turn, all_had_one = threading.Lock(), threading.Barrier(10)
    peaks: list[int] = []
    answers: list[int] = []

    def work() -> None:
        slot = rt.ffi.new("void **")
        with in_turn:
            answers.append(library.runtime_memory_allocate(slot, resource.cdata, size, 0, null))
            answers.append(library.runtime_memory_deallocate(resource.cdata, slot[0], size, 0, null))
        if all_had_one.wait(20) == 0:
            peaks.append(Info(rt, resource).peak_bytes)
        all_had_one.wait(20)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(answers) == {0}
    assert size <= peaks[0] <= Info(rt, resource).reserved_bytes <= maximum


@clause("KINA-RESOURCE-38", "f6f6d7ec")
@pytest.mark.parametrize("size", [MIB, 3 * MIB + 17])
def test_the_initial_span_is_taken_when_the_pool_is_made(rt: Executor, size: int) -> None:
    custom = Custom(rt)

    resource = pool(rt, custom.make(), initial_bytes=size)

    assert [asked[0] for asked in custom.asked] == [size]
    assert Info(rt, resource).reserved_bytes == size


@clause("KINA-RESOURCE-38", "f6f6d7ec")
@pytest.mark.parametrize("params", [{"initial_bytes": MIB, "flags": "KINA_POOL_LAZY"}, {}])
def test_a_lazy_pool_takes_its_first_span_at_the_first_allocation(rt: Executor, params: dict[str, Any]) -> None:
    custom = Custom(rt)
    resource = pool(rt, custom.make(), **params)
    assert not custom.asked and Info(rt, resource).reserved_bytes == 0

    allocate(rt, resource, 100)

    assert len(custom.asked) == 1
    assert custom.asked[0][0] == params.get("initial_bytes", custom.asked[0][0])


@clause("KINA-RESOURCE-38", "f6f6d7ec")
@pytest.mark.parametrize("status", ["OUT_OF_MEMORY", "DEVICE", "DEVICE_LOST"])
def test_a_refused_initial_span_fails_the_maker_with_the_upstreams_status(rt: Executor, status: str) -> None:
    good, bad = Custom(rt), Custom(rt)
    bad.answer = lambda _size, _alignment: (status, 0)
    options = rt.params("KinaPoolParams", initial_bytes=MIB)
    source = bad.make()

    rt.call("runtime_resource_pool", good.make(), options).refuses(status, upstream=source)

    release(rt, source)
    assert bad.destroyed == 1, "the failed maker kept its upstream"


@clause("KINA-RESOURCE-39", "2e4bf82b")
@pytest.mark.parametrize("growth", ["KINA_GROWTH_GEOMETRIC", "KINA_GROWTH_FIXED", "KINA_GROWTH_NONE"])
@given(sizes=st.lists(st.integers(1, MIB), min_size=1, max_size=20))
def test_a_pool_never_holds_more_than_its_maximum(rt: Executor, growth: str, sizes: list[int]) -> None:
    custom = Custom(rt)
    resource = pool(rt, custom.make(), growth=growth, growth_bytes=300_000, maximum_bytes=4 * MIB)

    held = []
    for size in sizes:
        block = rt.ffi.new("void **")
        answer = rt.function("runtime_memory_allocate")(block, resource.cdata, size, 0, rt.ffi.NULL)
        assert rt.lib.status_name(answer) in {"SUCCESS", "OUT_OF_MEMORY"}
        if answer == 0:
            held.append((block[0], size))
        assert Info(rt, resource).reserved_bytes <= 4 * MIB
        assert sum(size for size, _, _ in custom.blocks.values()) <= 4 * MIB
    for block, size in held:
        deallocate(rt, resource, block, size)


@clause("KINA-RESOURCE-39", "2e4bf82b")
def test_the_maximum_holds_against_racing_threads(rt: Executor) -> None:
    resource = pool(rt, maximum_bytes=MIB, growth="KINA_GROWTH_FIXED", growth_bytes=65536)
    function, barrier = rt.lib.library.runtime_memory_allocate, threading.Barrier(4)
    blocks: list[Any] = []

    def work() -> None:
        barrier.wait(20)
        for _ in range(8):
            slot = rt.ffi.new("void **")
            if function(slot, resource.cdata, 65536, 0, rt.ffi.NULL) == 0:
                blocks.append(slot[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(blocks) == 16, "32 requests for a sixteenth of the maximum: 16 fit"
    assert Info(rt, resource).reserved_bytes == MIB and Info(rt, resource).failures == 16
    places = sorted(address(rt, block) for block in blocks)
    assert all(high - low >= 65536 for low, high in pairwise(places))
    for block in blocks:
        deallocate(rt, resource, block, 65536)


@memory_case("P45")
@clause("KINA-RESOURCE-39", "2e4bf82b")
def test_initial_bytes_may_reach_the_maximum_and_no_further(rt: Executor) -> None:
    call = rt.call("runtime_resource_pool", host(rt), rt.params("KinaPoolParams", initial_bytes=MIB, maximum_bytes=MIB))

    call.refuses(
        "INVALID_ARGUMENT",
        params=rt.params("KinaPoolParams", initial_bytes=MIB + 1, maximum_bytes=MIB),
        clause="KINA-RESOURCE-39",
        argument="params.initial_bytes",
    )
    resource = call.succeeds().out
    deallocate(rt, resource, allocate(rt, resource, MIB), MIB)


@clause("KINA-RESOURCE-40", "71d1fadf")
def test_a_pool_without_growth_holds_one_span(rt: Executor) -> None:
    custom = Custom(rt)
    resource = pool(rt, custom.make(), growth="KINA_GROWTH_NONE", initial_bytes=MIB)
    call = rt.call("runtime_memory_allocate", resource, MIB, 0, None)

    call.refuses("OUT_OF_MEMORY", bytes=MIB + 1)
    blocks = [allocate(rt, resource, MIB // 2) for _ in range(2)]
    rt.call("runtime_memory_allocate", resource, 1, 0, None).refuses("OUT_OF_MEMORY", control=False)
    for block in blocks:
        deallocate(rt, resource, block, MIB // 2)

    assert trim(rt, resource) == MIB and not custom.blocks
    deallocate(rt, resource, allocate(rt, resource, MIB), MIB)
    assert [size for size, _, _ in custom.asked] == [MIB, MIB]


@clause("KINA-RESOURCE-40", "71d1fadf")
@pytest.mark.parametrize("maximum", [0, 5 * MIB])
def test_without_growth_and_initial_size_the_span_is_a_gibibyte_or_the_maximum(rt: Executor, maximum: int) -> None:
    custom = Custom(rt)
    custom.answer = lambda size, alignment: ("SUCCESS", custom.block(min(size, 5 * MIB), alignment))
    resource = pool(rt, custom.make(), growth="KINA_GROWTH_NONE", maximum_bytes=maximum)

    deallocate(rt, resource, allocate(rt, resource, 100), 100)

    assert [size for size, _, _ in custom.asked] == [maximum or 1 << 30]
    assert Info(rt, resource).reserved_bytes == (maximum or 1 << 30)


@clause("KINA-RESOURCE-41", "d5e5bd74")
@given(step=st.integers(1, 3 * MIB), size=st.integers(1, 3 * MIB))
def test_fixed_growth_takes_the_smallest_multiple_that_holds_the_request(rt: Executor, step: int, size: int) -> None:
    custom = Custom(rt)
    resource = pool(rt, custom.make(), growth="KINA_GROWTH_FIXED", growth_bytes=step)

    deallocate(rt, resource, allocate(rt, resource, size), size)

    ((asked, _, _),) = custom.asked
    assert asked % step == 0 and asked >= size
    assert asked - step < -(-size // 256) * 256


@clause("KINA-RESOURCE-41", "d5e5bd74")
def test_fixed_growth_takes_less_where_less_is_left(rt: Executor) -> None:
    custom = Custom(rt)
    resource = pool(rt, custom.make(), growth="KINA_GROWTH_FIXED", growth_bytes=MIB, maximum_bytes=MIB + MIB // 2)
    first = allocate(rt, resource, MIB)

    second = allocate(rt, resource, MIB // 2)

    assert Info(rt, resource).reserved_bytes == MIB + MIB // 2
    deallocate(rt, resource, first, MIB)
    deallocate(rt, resource, second, MIB // 2)


@memory_case("P48")
@clause("KINA-RESOURCE-42", "f18aecd3")
def test_an_exhausted_pool_gives_free_spans_back_and_asks_once_more(rt: Executor) -> None:
    bounded = limit(rt, host(rt), 4 * MIB)
    resource = pool(rt, bounded, growth="KINA_GROWTH_FIXED", growth_bytes=MIB)
    blocks = [allocate(rt, resource, MIB) for _ in range(4)]
    for block in blocks:
        deallocate(rt, resource, block, MIB)
    assert Info(rt, bounded).live_blocks == 4

    large = allocate(rt, resource, 3 * MIB + 1)

    assert Info(rt, resource).failures == 0
    deallocate(rt, resource, large, 3 * MIB + 1)


@clause("KINA-RESOURCE-42", "f18aecd3")
def test_a_pool_at_its_maximum_reclaims_before_it_refuses(rt: Executor) -> None:
    resource = pool(rt, growth="KINA_GROWTH_FIXED", growth_bytes=MIB, maximum_bytes=4 * MIB)
    blocks = [allocate(rt, resource, MIB) for _ in range(4)]
    rt.call("runtime_memory_allocate", resource, 1, 0, None).refuses("OUT_OF_MEMORY", control=False)
    for block in blocks[1:]:
        deallocate(rt, resource, block, MIB)

    large = allocate(rt, resource, 3 * MIB)

    deallocate(rt, resource, large, 3 * MIB)
    deallocate(rt, resource, blocks[0], MIB)


@memory_case("P50")
@clause("KINA-RESOURCE-42", "f18aecd3")
def test_the_second_attempt_asks_for_just_what_is_needed(rt: Executor) -> None:
    custom = Custom(rt)
    custom.answer = lambda size, alignment: (
        ("SUCCESS", custom.block(size, alignment)) if size <= 100_000 else ("OUT_OF_MEMORY", 0)
    )
    resource = pool(rt, custom.make())

    block = allocate(rt, resource, 99_000)

    assert len(custom.asked) == 2 and 99_000 <= custom.asked[1][0] < 99_000 + 512
    deallocate(rt, resource, block, 99_000)


@clause("KINA-RESOURCE-42", "f18aecd3")
@pytest.mark.parametrize("status", ["DEVICE", "DEVICE_LOST"])
def test_other_failures_of_the_upstream_are_answered_as_they_are(rt: Executor, status: str) -> None:
    custom = Custom(rt)
    resource = pool(rt, custom.make())
    block = allocate(rt, resource, 64 * MIB)
    custom.answer = lambda _size, _alignment: (status, 0)

    rt.call("runtime_memory_allocate", resource, 64 * MIB, 0, None).refuses(status, control=False)

    deallocate(rt, resource, block, 64 * MIB)


@clause("KINA-RESOURCE-43", "491eba37")
def test_the_alignment_of_a_pool_is_a_power_of_two(rt: Executor) -> None:
    call = rt.call("runtime_resource_pool", host(rt), rt.params("KinaPoolParams", alignment=4096))

    for alignment in (3, 257, 4097, 2**64 - 1):
        call.refuses(
            "INVALID_ARGUMENT",
            params=rt.params("KinaPoolParams", alignment=alignment),
            clause="KINA-RESOURCE-43",
            argument="params.alignment",
        )


@clause("KINA-RESOURCE-19", "929f39e7")
@pytest.mark.parametrize("power", [55, 56, 60, 63])
def test_a_pool_whose_alignment_no_address_has_is_exhausted(rt: Executor, power: int) -> None:
    resource = pool(rt, alignment=1 << power)

    rt.call("runtime_memory_allocate", resource, 100, 0, None).refuses("OUT_OF_MEMORY", control=False)


@clause("KINA-RESOURCE-43", "491eba37")
@pytest.mark.parametrize("alignment", [0, 1, 128, 256, 512, 65536])
def test_every_block_has_the_alignment_of_the_pool(rt: Executor, alignment: int) -> None:
    resource = pool(rt, alignment=alignment)

    blocks = [allocate(rt, resource, size) for size in (1, 300, 70_000)]

    assert Info(rt, resource).alignment == max(alignment, 256)
    assert all(address(rt, block) % max(alignment, 256) == 0 for block in blocks)


@memory_case("P64")
@clause("KINA-RESOURCE-44", "7fac7866")
@pytest.mark.parametrize(("threshold", "left"), [(0, 4), (1, 1), (MIB, 1), (2 * MIB + 1, 3), (64 * MIB, 4)])
def test_a_synchronise_gives_back_what_lies_above_the_threshold(rt: Executor, threshold: int, left: int) -> None:
    resource = pool(rt, growth="KINA_GROWTH_FIXED", growth_bytes=MIB, release_threshold_bytes=threshold)
    for block in [allocate(rt, resource, MIB) for _ in range(4)]:
        deallocate(rt, resource, block, MIB)

    rt.call("runtime_device_synchronize", **HOST).succeeds()

    assert Info(rt, resource).reserved_bytes == left * MIB


@clause("KINA-RESOURCE-45", "259b60cd")
def test_unknown_flags_and_growths_are_unsupported(rt: Executor) -> None:
    call = rt.call("runtime_resource_pool", host(rt), rt.params("KinaPoolParams", flags=3))

    wrong: list[dict[str, Any]] = [{"flags": 4}, {"flags": 1 << 24}, {"growth": 3}, {"growth": -1}]
    for fields in wrong:
        call.refuses("UNSUPPORTED", params=rt.params("KinaPoolParams", **fields), clause="KINA-RESOURCE-45")


@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
@clause("KINA-VERSION-13", "b43e0d18")
@clause("KINA-VERSION-14", "7da7fd1f")
def test_params_of_a_pool_keep_the_rules_of_option_structs(rt: Executor) -> None:
    call = rt.call("runtime_resource_pool", host(rt), rt.params("KinaPoolParams", tail=bytes(8), struct_size=64))

    for params in (
        rt.params("KinaPoolParams", struct_size=48),
        rt.params("KinaPoolParams", struct_size=4104),
        rt.params("KinaPoolParams", struct_size=60),
        rt.params("KinaPoolParams", tail=b"\0\0\0\1\0\0\0\0", struct_size=64),
        rt.params("KinaPoolParams", reserved=1),
    ):
        call.refuses("VERSION", params=params)


@clause("KINA-RESOURCE-46", "2937b7fa")
@given(sizes=st.lists(st.integers(1, 100_000), min_size=1, max_size=12), order=st.randoms(use_true_random=False))
def test_free_neighbours_are_served_as_one(rt: Executor, sizes: list[int], order: Any) -> None:
    resource = pool(rt, growth="KINA_GROWTH_NONE", initial_bytes=2 * MIB)
    blocks = [(allocate(rt, resource, size), size) for size in sizes]
    order.shuffle(blocks)
    for block, size in blocks:
        deallocate(rt, resource, block, size)

    whole = allocate(rt, resource, 2 * MIB)

    deallocate(rt, resource, whole, 2 * MIB)


@clause("KINA-RESOURCE-47", "09588531")
@pytest.mark.parametrize(("keep", "released"), [(0, 4), (1, 3), (MIB, 3), (3 * MIB + 1, 0), (64 * MIB, 0)])
def test_trim_gives_back_free_spans_down_to_what_is_kept(rt: Executor, keep: int, released: int) -> None:
    source = host(rt)
    resource = pool(rt, source, growth="KINA_GROWTH_FIXED", growth_bytes=MIB)
    for block in [allocate(rt, resource, MIB) for _ in range(4)]:
        deallocate(rt, resource, block, MIB)

    assert trim(rt, resource, keep) == released * MIB

    assert Info(rt, resource).reserved_bytes == Info(rt, source).live_bytes == (4 - released) * MIB


@clause("KINA-RESOURCE-47", "09588531")
def test_free_bytes_between_live_blocks_count_among_those_that_are_kept(rt: Executor) -> None:
    resource = pool(rt, growth="KINA_GROWTH_FIXED", growth_bytes=MIB)
    small = [allocate(rt, resource, 4096) for _ in range(1000)]
    for block in small[::2]:
        deallocate(rt, resource, block, 4096)
    info = Info(rt, resource)
    deallocate(rt, resource, allocate(rt, resource, 3 * MIB), 3 * MIB)

    assert trim(rt, resource, (info.reserved_bytes - info.live_bytes) // 2) == 3 * MIB

    assert Info(rt, resource).reserved_bytes == info.reserved_bytes
    for block in small[1::2]:
        deallocate(rt, resource, block, 4096)


@clause("KINA-RESOURCE-47", "09588531")
def test_trim_reaches_the_pool_below_and_leaves_spans_in_use(rt: Executor) -> None:
    bottom = pool(rt, growth="KINA_GROWTH_FIXED", growth_bytes=MIB)
    resource = limit(rt, bottom, 64 * MIB)
    kept, gone = allocate(rt, resource, MIB), allocate(rt, resource, MIB)
    deallocate(rt, resource, gone, MIB)

    assert trim(rt, resource) == MIB
    assert trim(rt, resource) == 0

    rt.ffi.memmove(kept, b"\x55" * MIB, MIB)
    deallocate(rt, resource, kept, MIB)
    assert trim(rt, limit(rt, host(rt))) == 0


@clause("KINA-RESOURCE-47", "09588531")
def test_trim_may_leave_its_answer_out(rt: Executor) -> None:
    resource = pool(rt, initial_bytes=MIB)

    rt.call("runtime_resource_trim", released_bytes=None, resource=resource, keep_bytes=0).succeeds()

    assert Info(rt, resource).reserved_bytes == 0


@clause("KINA-STATUS-28", "649fc08b")
def test_trim_refuses_what_is_no_live_resource(rt: Executor) -> None:
    call = rt.call("runtime_resource_trim", resource=pool(rt), keep_bytes=0)

    call.refuses("INVALID_ARGUMENT", resource=None, clause="KINA-STATUS-28", argument="resource")
    call.refuses("INVALID_HANDLE", resource=rt.handle("KinaResource", 99), clause="KINA-STATUS-26")


@clause("KINA-STATUS-36", "e8c468e2")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_while_a_thread_is_upstream_does_not_wait_for_it(rt: Executor) -> None:
    custom = Custom(rt)
    resource = pool(rt, custom.make(), growth="KINA_GROWTH_NONE", initial_bytes=MIB, flags="KINA_POOL_LAZY")
    library, null, slots = rt.lib.library, rt.ffi.NULL, [rt.ffi.new("void **") for _ in range(2)]
    is_upstream, may_return = threading.Event(), threading.Event()

    def linger() -> None:
        is_upstream.set()
        may_return.wait(2 * PATIENCE)

    custom.during_allocate = linger
    thread = threading.Thread(target=library.runtime_memory_allocate, args=(slots[0], resource.cdata, 64, 0, null))
    thread.start()
    assert is_upstream.wait(PATIENCE)

    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        custom.during_allocate = lambda: None
        answer = library.runtime_memory_allocate(slots[1], resource.cdata, 64, 0, null)
        answer |= library.runtime_memory_deallocate(resource.cdata, slots[1][0], 64, 0, null)
        os._exit(answer)
    told = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    may_return.set()
    thread.join()

    assert told == 0
    deallocate(rt, resource, slots[0][0], 64)
