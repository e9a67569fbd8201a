"""Raw blocks and the counters of resources."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import (
    HOST,
    KINDS,
    Custom,
    Info,
    Made,
    Rows,
    address,
    allocate,
    deallocate,
    host,
    in_thread,
    limit,
    pool,
    pop,
    push,
)

# ---- raw blocks ----------------------------------------------------------------------------------------------------


@clause("KINA-RESOURCE-16", "cc697a09")
@pytest.mark.parametrize("kind", KINDS)
def test_a_block_holds_its_bytes_and_overlaps_no_other(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    sizes = [1, 255, 256, 257, 4096, 70000, 1, 3 << 20]
    blocks = [(allocate(rt, made.handle, size), size) for size in sizes]

    for fill, (block, size) in enumerate(blocks):
        rt.ffi.memmove(block, bytes([fill + 1]) * size, size)

    for fill, (block, size) in enumerate(blocks):
        assert bytes(rt.ffi.buffer(block, size)) == bytes([fill + 1]) * size
    spans = sorted((address(rt, block), address(rt, block) + size) for block, size in blocks)
    assert all(low[1] <= high[0] for low, high in pairwise(spans))


@memory_case("P38")
@clause("KINA-RESOURCE-17", "2ef29faa")
@pytest.mark.parametrize("kind", KINDS)
def test_zero_bytes_are_null_and_count_nowhere(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    before = Info(rt, made.handle).counters

    block = allocate(rt, made.handle, 0)
    deallocate(rt, made.handle, rt.ffi.NULL, 0)
    deallocate(rt, made.handle, rt.ffi.NULL, 0, 4096)

    assert block == rt.ffi.NULL
    assert Info(rt, made.handle).counters == before
    if made.custom is not None:
        assert not made.custom.asked and not made.custom.returned


@clause("KINA-RESOURCE-18", "fed7fa8b")
def test_an_alignment_that_is_no_power_of_two_is_refused(rt: Executor) -> None:
    resource = host(rt)
    block = allocate(rt, resource, 100)
    call = rt.call("runtime_memory_allocate", resource, 100, 0, None)

    for alignment in (3, 255, 257, 384, 2**64 - 1):
        call.refuses("INVALID_ARGUMENT", alignment=alignment, clause="KINA-RESOURCE-18", argument="alignment")
    rt.call("runtime_memory_deallocate", resource, lambda: allocate(rt, resource, 100), 100, 0, None).refuses(
        "INVALID_ARGUMENT", alignment=384, clause="KINA-RESOURCE-18", argument="alignment"
    )

    deallocate(rt, resource, block, 100)


@memory_case("P29")
@clause("KINA-RESOURCE-18", "fed7fa8b")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("asked", "given"), [(0, 1), (1, 256), (256, 0), (64, 128)])
def test_small_alignments_count_as_the_resources_own(rt: Executor, kind: str, asked: int, given: int) -> None:
    made = Made(rt, kind)

    block = allocate(rt, made.handle, 32, asked)

    assert Info(rt, made.handle).alignment == 256 and address(rt, block) % 256 == 0
    deallocate(rt, made.handle, block, 32, given)


@memory_case("P30")
@clause("KINA-RESOURCE-19", "929f39e7")
@clause("KINA-RESOURCE-20", "a73e8406")
@pytest.mark.parametrize("kind", ["host", "pool", "limit", "logging", "limit(pool(host))"])
@given(power=st.integers(0, 20), size=st.integers(1, 5000))
def test_every_alignment_up_to_a_mebibyte_is_honoured(rt: Executor, kind: str, power: int, size: int) -> None:
    made = Made(rt, kind)

    blocks = [allocate(rt, made.handle, size, 1 << power) for _ in range(3)]

    assert all(address(rt, block) % (1 << power) == 0 for block in blocks)


@clause("KINA-RESOURCE-19", "929f39e7")
@pytest.mark.parametrize("kind", ["host", "pool", "limit"])
def test_an_alignment_beyond_reach_is_out_of_memory(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)

    rt.call("runtime_memory_allocate", made.handle, 100, 0, None).refuses("OUT_OF_MEMORY", alignment=1 << 62)


@memory_case("P33", "P37")
@clause("KINA-RESOURCE-21", "8ee3829f")
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_overflow_are_refused_before_the_resource_is_asked(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    call = rt.call("runtime_memory_allocate", made.handle, 100, 0, None)
    asked = len(made.custom.asked) if made.custom else 0

    for size in (2**64 - 1, 2**64 - 255):
        call.refuses("INVALID_ARGUMENT", bytes=size, clause="KINA-RESOURCE-21", argument="bytes")
    assert not made.custom or all(size < 2**40 for size, _, _ in made.custom.asked[asked:])


@memory_case("P35")
@clause("KINA-STATUS-44", "01bc6644")
@pytest.mark.parametrize("kind", ["host", "pool", "limit", "logging"])
@pytest.mark.parametrize("size", [2**64 - 256, 2**63, 2**62 + 1])
def test_more_bytes_than_there_are_is_out_of_memory(rt: Executor, kind: str, size: int) -> None:
    made = Made(rt, kind)
    before = Info(rt, made.handle).failures

    record = rt.call("runtime_memory_allocate", made.handle, 100, 0, None).refuses("OUT_OF_MEMORY", bytes=size)

    assert not record.readable or record.requested_bytes == size
    assert Info(rt, made.handle).failures == before + 1


@clause("KINA-RESOURCE-22", "b93470fd")
def test_streams_of_blocks_are_live_and_of_the_device(rt: Executor) -> None:
    resource = host(rt)
    main = rt.call("runtime_stream_main", **HOST).succeeds().out
    gone = rt.call("runtime_stream_checkout", **HOST).succeeds().out
    rt.call("runtime_stream_checkin", gone).succeeds()
    allocating = rt.call("runtime_memory_allocate", resource, 100, 0, main)
    returning = rt.call("runtime_memory_deallocate", resource, lambda: allocate(rt, resource, 100), 100, 0, main)

    allocating.refuses("INVALID_HANDLE", stream=gone, clause="KINA-STATUS-26", argument="stream")
    returning.refuses("INVALID_HANDLE", stream=gone, clause="KINA-STATUS-26", argument="stream")


@clause("KINA-RESOURCE-22", "b93470fd")
def test_a_null_stream_is_the_current_one(rt: Executor) -> None:
    custom = Custom(rt)
    resource = custom.make()
    stream = rt.call("runtime_stream_checkout", **HOST).succeeds().out
    scope = rt.call("runtime_stream_push", stream).succeeds().out

    deallocate(rt, resource, allocate(rt, resource, 8), 8)
    pop(rt, scope)
    deallocate(rt, resource, allocate(rt, resource, 8), 8)

    main = rt.call("runtime_stream_main", **HOST).succeeds().out
    assert [stream for _, _, stream in custom.asked] == [stream.value, main.value]
    assert [stream for *_, stream in custom.returned] == [stream.value, main.value]


@clause("KINA-RESOURCE-23", "aed45d73")
@clause("KINA-RESOURCE-24", "cacfffc5")
@pytest.mark.parametrize("kind", KINDS)
def test_host_blocks_are_usable_at_once_from_any_thread(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    stream = rt.call("runtime_stream_checkout", **HOST).succeeds().out
    block = rt.call("runtime_memory_allocate", made.handle, 4096, 0, stream).succeeds().out

    in_thread(lambda: rt.ffi.memmove(block, b"\x11" * 4096, 4096))

    assert bytes(rt.ffi.buffer(block, 4096)) == b"\x11" * 4096


@clause("KINA-STATUS-23", "54af5684")
def test_raw_block_functions_refuse_null(rt: Executor) -> None:
    resource = host(rt)
    allocating = rt.call("runtime_memory_allocate", resource, 100, 0, None)
    returning = rt.call("runtime_memory_deallocate", resource, lambda: allocate(rt, resource, 100), 100, 0, None)

    allocating.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out")
    allocating.refuses("INVALID_ARGUMENT", resource=None, clause="KINA-STATUS-28", argument="resource")
    allocating.refuses("INVALID_HANDLE", resource=rt.handle("KinaResource", 4711), clause="KINA-STATUS-26")
    returning.refuses("INVALID_ARGUMENT", resource=None, clause="KINA-STATUS-28", argument="resource")
    returning.refuses("INVALID_ARGUMENT", data=None, clause="KINA-STATUS-23", argument="data")
    returning.refuses("INVALID_HANDLE", resource=rt.handle("KinaResource", 4711), clause="KINA-STATUS-26")


@memory_case("P58")
@clause("KINA-RESOURCE-25", "ad00dacf")
@clause("KINA-RESOURCE-27", "7b885c86")
@pytest.mark.parametrize("size", [256, 5000])
def test_no_address_inside_another_pools_block_is_a_block(rt: Executor, size: int) -> None:
    mine, other = pool(rt), pool(rt)
    blocks = [(resource, allocate(rt, resource, size)) for _ in range(20) for resource in (mine, other)]
    before = [Info(rt, resource).counters for resource in (mine, other)]
    give = rt.lib.library.runtime_memory_deallocate

    for asked in (mine, other):
        for resource, block in blocks[-6:]:
            for offset in range(resource is asked, 256):
                inside = rt.ffi.cast("void *", address(rt, block) + offset)
                answer = give(asked.cdata, inside, size, 0, rt.ffi.NULL)
                assert rt.lib.status_name(answer) == "INVALID_ARGUMENT", offset

    assert [Info(rt, resource).counters for resource in (mine, other)] == before
    for resource, block in blocks:
        deallocate(rt, resource, block, size)


@clause("KINA-RESOURCE-25", "ad00dacf")
def test_what_a_pool_gave_back_and_another_one_took_is_no_block_of_it(rt: Executor) -> None:
    mine, other, size = pool(rt), pool(rt), 5000
    for block in [allocate(rt, mine, size) for _ in range(40)]:
        deallocate(rt, mine, block, size)
    rt.call("runtime_resource_trim", resource=mine, keep_bytes=0).succeeds()
    assert Info(rt, mine).reserved_bytes == 0
    blocks = in_thread(lambda: [allocate(rt, other, size) for _ in range(40)])
    give = rt.lib.library.runtime_memory_deallocate

    for block in blocks:
        for offset in range(256):
            inside = rt.ffi.cast("void *", address(rt, block) + offset)
            assert rt.lib.status_name(give(mine.cdata, inside, size, 0, rt.ffi.NULL)) == "INVALID_ARGUMENT", offset

    assert Info(rt, other).live_blocks == 40
    for block in blocks:
        deallocate(rt, other, block, size)


@clause("KINA-RESOURCE-25", "ad00dacf")
@clause("KINA-RESOURCE-27", "7b885c86")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_live_block_of_the_resource_cannot_be_deallocated(rt: Executor, kind: str) -> None:
    made, other = Made(rt, kind), host(rt)
    block, theirs = allocate(rt, made.handle, 1000), allocate(rt, other, 1000)
    gone = allocate(rt, made.handle, 1000)
    deallocate(rt, made.handle, gone, 1000)
    mine = address(rt, block)
    foreign = rt.ffi.new("char[1000]")
    before = Info(rt, made.handle).counters
    call = rt.call("runtime_memory_deallocate", made.handle, block, 1000, 0, None)

    for data in (mine + 1, mine + 256, mine - 256, theirs, gone, rt.ffi.cast("void *", foreign), 64):
        given = rt.ffi.cast("void *", data) if isinstance(data, int) else data
        record = call.refuses("INVALID_ARGUMENT", data=given, clause="KINA-RESOURCE-25", argument="data", control=False)
        assert record.status == "INVALID_ARGUMENT"

    assert Info(rt, made.handle).counters == before
    call.succeeds()
    deallocate(rt, other, theirs, 1000)


@clause("KINA-RESOURCE-25", "ad00dacf")
@pytest.mark.parametrize("adaptor", ["pool", "limit", "logging"])
def test_blocks_of_an_upstream_or_adaptor_are_not_the_resources_own(rt: Executor, adaptor: str) -> None:
    source, rows = host(rt), Rows(rt)
    makers: dict[str, Any] = {"pool": pool, "limit": limit, "logging": lambda rt, upstream: rows.make(upstream)}
    resource = makers[adaptor](rt, source)
    block, below = allocate(rt, resource, 512), allocate(rt, source, 512)
    counters = Info(rt, resource).counters, Info(rt, source).counters

    for name, data in ((source, block), (resource, below)):
        rt.call("runtime_memory_deallocate", name, data, 512, 0, None).refuses(
            "INVALID_ARGUMENT", clause="KINA-RESOURCE-25", control=False
        )

    assert (Info(rt, resource).counters, Info(rt, source).counters) == counters
    deallocate(rt, resource, block, 512)
    deallocate(rt, source, below, 512)


@clause("KINA-RESOURCE-25", "ad00dacf")
@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_a_tensor_is_no_raw_block(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    scope = push(rt, made.handle)
    tensor = rt.tensor("f32", (8,), owned=True)

    rt.call("runtime_memory_deallocate", made.handle, tensor.struct.dl.data, 32, 0, None).refuses(
        "INVALID_ARGUMENT", clause="KINA-RESOURCE-25", control=False
    )

    assert tensor.numpy().shape == (8,)
    rt.call("runtime_free", tensor).succeeds()
    pop(rt, scope)


@clause("KINA-RESOURCE-26", "6d474f79")
@clause("KINA-RESOURCE-27", "7b885c86")
@pytest.mark.parametrize("kind", KINDS)
def test_other_bytes_or_alignment_than_allocated_are_refused(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    block = allocate(rt, made.handle, 1000, 512)
    before = Info(rt, made.handle).counters
    call = rt.call("runtime_memory_deallocate", made.handle, block, 1000, 512, None)

    for size in (0, 1, 999, 1001, 1024, 2**64 - 1):
        call.refuses("INVALID_ARGUMENT", bytes=size, clause="KINA-RESOURCE-26", control=False)
    for alignment in (0, 256, 1024):
        call.refuses("INVALID_ARGUMENT", alignment=alignment, clause="KINA-RESOURCE-26", control=False)

    assert Info(rt, made.handle).counters == before
    call.succeeds()


@clause("KINA-RESOURCE-26", "6d474f79")
@clause("KINA-RESOURCE-27", "7b885c86")
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_are_right_but_for_one_high_bit_are_refused(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    blocks = [allocate(rt, made.handle, 1000) for _ in range(20)]  # so many of one size that they share a record
    before = Info(rt, made.handle).counters

    for bit in range(32, 64):
        call = rt.call("runtime_memory_deallocate", made.handle, blocks[-1], 1000 | 1 << bit, 0, None)
        call.refuses("INVALID_ARGUMENT", clause="KINA-RESOURCE-26", control=False)

    assert Info(rt, made.handle).counters == before
    for block in blocks:
        deallocate(rt, made.handle, block, 1000)


@clause("KINA-RESOURCE-28", "419502cd")
@pytest.mark.parametrize("kind", KINDS)
def test_of_racing_deallocations_exactly_one_succeeds(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    deallocating = rt.lib.library.runtime_memory_deallocate
    for _ in range(20):
        block = allocate(rt, made.handle, 700)
        barrier = threading.Barrier(4)
        answers: list[int] = []

        def work(block: Any = block, barrier: threading.Barrier = barrier, answers: list[int] = answers) -> None:
            barrier.wait(20)
            answers.append(deallocating(made.handle.cdata, block, 700, 0, rt.ffi.NULL))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rt.forget([block])
        assert sorted(answers) == [0] + [rt.lib.status("INVALID_ARGUMENT")] * 3
    assert Info(rt, made.handle).live_blocks == 0


# ---- counters ------------------------------------------------------------------------------------------------------


@memory_case("P44")
@clause("KINA-RESOURCE-30", "1f23671e")
@clause("KINA-RESOURCE-31", "4e67ba81")
@pytest.mark.parametrize("kind", KINDS)
def test_counters_are_exact(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    one, two = allocate(rt, made.handle, 1000), allocate(rt, made.handle, 24)
    deallocate(rt, made.handle, one, 1000)
    three = allocate(rt, made.handle, 5)
    rt.call("runtime_memory_allocate", made.handle, 1, 0, None).status(bytes=2**62)

    info = Info(rt, made.handle)

    assert (info.live_bytes, info.live_blocks, info.peak_bytes) == (29, 2, 1024)
    assert (info.allocations, info.deallocations, info.failures) == (3, 1, 1)
    assert (info.leaked_bytes, info.leaked_blocks, info.event_records, info.stream_waits) == (0, 0, 0, 0)
    deallocate(rt, made.handle, two, 24)
    deallocate(rt, made.handle, three, 5)
    assert Info(rt, made.handle).live_blocks == 0


@clause("KINA-RESOURCE-32", "bceb7fc8")
@clause("KINA-RESOURCE-33", "45081763")
@pytest.mark.parametrize("adaptor", ["limit", "logging"])
def test_blocks_that_pass_through_count_upstream_too(rt: Executor, adaptor: str) -> None:
    source, rows = host(rt), Rows(rt)
    resource = limit(rt, source) if adaptor == "limit" else rows.make(source)

    kept, gone = allocate(rt, resource, 300), allocate(rt, resource, 50)
    deallocate(rt, resource, gone, 50)

    mine, below = Info(rt, resource), Info(rt, source)
    assert (below.live_bytes, below.live_blocks, below.allocations, below.deallocations) == (300, 1, 2, 1)
    assert mine.upstream_calls == 3 and mine.reserved_bytes == below.reserved_bytes == 300
    deallocate(rt, resource, kept, 300)


@clause("KINA-RESOURCE-33", "45081763")
def test_what_a_pool_holds_is_live_upstream(rt: Executor) -> None:
    source = host(rt)
    resource = pool(rt, source, initial_bytes=1 << 20)

    assert (Info(rt, source).live_bytes, Info(rt, source).live_blocks) == (1 << 20, 1)
    assert Info(rt, resource).upstream_calls == 1 and Info(rt, resource).reserved_bytes == 1 << 20
    deallocate(rt, resource, allocate(rt, resource, 100), 100)
    assert Info(rt, source).live_bytes == 1 << 20


@clause("KINA-RESOURCE-34", "0b2ddff0")
@clause("KINA-RESOURCE-35", "4adadc2c")
@pytest.mark.parametrize("kind", KINDS)
def test_info_describes_the_resource(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    info = Info(rt, made.handle)

    known = kind if "(" in kind or kind in {"host", "custom"} else f"{kind}(host)"
    assert info.name == known
    assert (info.device_type, info.device_id) == (1, 0)
    assert info.maximum_bytes == (1 << 40 if kind.startswith("limit") else 0)
    assert info.supports_streams == int("pool" in kind)
    while info.upstream:
        known = known.partition("(")[2].removesuffix(")")
        info = Info(rt, info.upstream)
        assert info.name == known
    assert info.name in {"host", "custom"}


@clause("KINA-RESOURCE-34", "0b2ddff0")
def test_info_refuses_null_and_dead_handles(rt: Executor) -> None:
    resource = host(rt)
    call = rt.call("runtime_resource_info", resource)

    call.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out")
    call.refuses("INVALID_ARGUMENT", resource=None, clause="KINA-STATUS-28", argument="resource")
    call.refuses("INVALID_HANDLE", resource=rt.handle("KinaResource", 5), clause="KINA-STATUS-26")


@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
@clause("KINA-VERSION-15", "f66b297f")
def test_info_keeps_the_rules_of_output_structs(rt: Executor) -> None:
    resource = host(rt)
    asking = rt.function("runtime_resource_info")
    size = rt.ffi.sizeof("KinaResourceInfo")

    for wrong in (0, 8, size - 8, size + 4, 4104):
        info = rt.ffi.new("KinaResourceInfo *", {"struct_size": wrong, "live_bytes": 0xAA})
        assert rt.lib.status_name(asking(info, resource.cdata)) == "VERSION"
        assert (info.struct_size, info.live_bytes) == (wrong, 0xAA)
    longer = rt.ffi.new("char[]", b"\xff" * (size + 16))
    info = rt.ffi.cast("KinaResourceInfo *", longer)
    info.struct_size = size + 16

    assert asking(info, resource.cdata) == 0
    assert info.struct_size == size + 16 and bytes(rt.ffi.buffer(longer, size + 16))[size:] == bytes(16)
