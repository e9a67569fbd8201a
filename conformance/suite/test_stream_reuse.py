"""Who may reuse which bytes when: blocks and tensors of devices that run behind the call, across streams."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from kina_conformance import Executor, Handle, Tensor, clause
from kina_conformance.devices import (
    FIRST,
    SECOND,
    back,
    base,
    busy,
    checkin,
    checkout,
    default,
    device_count,
    fill,
    foreign,
    main,
    negated,
    pool,
    pushed,
    there,
    wait,
)
from kina_conformance.memory_cases import memory_case
from kina_conformance.producer import Producer
from kina_conformance.resources import KINDS, Info, Made, Rows, address, in_thread
from kina_conformance.tensors import free

pytestmark = pytest.mark.needs("sim")

MIB = 1 << 20
COUNT = 2000
BYTES = 4 * COUNT
ROUNDS = 10  # the devices choose an order of their own: one that shows a missing wait may take a few
READ = "KINA_ACCESS_READ"


def take(rt: Executor, resource: Handle, stream: Handle, size: int = BYTES) -> Any:
    return rt.call("runtime_memory_allocate", resource, size, 0, stream).succeeds().out


def give(rt: Executor, resource: Handle, block: Any, stream: Handle, size: int = BYTES) -> None:
    rt.call("runtime_memory_deallocate", resource, block, size, 0, stream).succeeds()


def narrow(rt: Executor, blocks: int = 1) -> Handle:
    """A pool with room for so many blocks of `BYTES`: who gets the next one gets bytes that somebody had."""
    return pool(rt, initial_bytes=blocks * (BYTES + 255) // 256 * 256, growth="KINA_GROWTH_NONE")


def under(rt: Executor, adaptor: str, upstream: Handle) -> Handle:
    if adaptor == "logging":
        return Rows(rt).make(upstream)
    made: Handle = rt.call("runtime_resource_limit", upstream, MIB).succeeds().out if adaptor else upstream
    return made


def used(rt: Executor, block: Any, stream: Handle, value: float) -> Tensor:
    """Work on a block as code outside the library enqueues it; the result is read from memory of its own."""
    seen = foreign(rt, block, COUNT, stream)
    busy(rt, seen, stream, value)
    return negated(rt, seen, stream)


def are(rt: Executor, tensor: Tensor, value: float) -> None:
    assert set(back(rt, tensor)) == {value}


# ---- blocks ----------------------------------------------------------------------------------------------------------


@memory_case("P02")
@clause("KINA-STREAM-35", "d893505d")
@clause("KINA-RESOURCE-37", "dbaabb1c")
def test_blocks_of_streams_that_have_ended_stay_usable(rt: Executor) -> None:
    resource = narrow(rt)
    results = []

    for i in range(3 * ROUNDS):
        stream = checkout(rt)
        block = take(rt, resource, stream)
        results.append(used(rt, block, stream, i))
        give(rt, resource, block, stream)
        checkin(rt, stream)

    last = main(rt)
    give(rt, resource, take(rt, resource, last), last)
    assert Info(rt, resource).upstream_calls <= 1, "a pool grew though every block had come back"
    for i, result in enumerate(results):
        are(rt, result, -i)


@clause("KINA-STREAM-35", "d893505d")
@pytest.mark.parametrize("count", [1000, 100_000])
@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_the_host_is_reused_only_after_devices_that_read_it(rt: Executor, kind: str, count: int) -> None:
    made = Made(rt, kind)
    results = []

    with pushed(rt, made.handle):
        for i in range(2 * ROUNDS):
            source = rt.tensor("f32", count, [i] * count, owned=True)
            with pushed(rt, main(rt)):
                copied = rt.call("runtime_copy", source, *FIRST)
                results.append(copied.succeeds().out)
            rt.call("runtime_free", tensor=source).succeeds()

    for i, result in enumerate(results):
        are(rt, result, i)


@memory_case("P03")
@clause("KINA-RESOURCE-72", "d5c7113e")
def test_streams_that_take_turns_do_not_take_each_others_blocks(rt: Executor) -> None:
    resource, streams = pool(rt), [checkout(rt) for _ in range(4)]
    places: dict[int, set[int]] = {stream.value: set() for stream in streams}

    for i in range(ROUNDS):
        held = [(stream, take(rt, resource, stream)) for stream in streams[i % 4 :] + streams[: i % 4]]
        for stream, block in held:
            used(rt, block, stream, i)
            places[stream.value].add(address(rt, block))
        for stream, block in reversed(held):
            give(rt, resource, block, stream)

    assert len(set.union(*places.values())) == sum(map(len, places.values())), "a stream took what another gave back"


@memory_case("P05")
@clause("KINA-RESOURCE-23", "aed45d73")
@clause("KINA-RESOURCE-24", "cacfffc5")
def test_a_block_may_be_used_on_its_stream_at_once(rt: Executor) -> None:
    resource = narrow(rt)
    for _ in range(ROUNDS):
        first, second = checkout(rt), checkout(rt)
        block = take(rt, resource, first)
        before = used(rt, block, first, 5)
        give(rt, resource, block, first)

        again = take(rt, resource, second)
        after = used(rt, again, second, 7)

        are(rt, before, -5)
        are(rt, after, -7)
        give(rt, resource, again, second)


@clause("KINA-RESOURCE-24", "cacfffc5")
def test_a_stream_that_passes_a_block_on_unused_still_waits_for_the_work_before_it(rt: Executor) -> None:
    resource = narrow(rt)
    for _ in range(ROUNDS):
        first, second, third = checkout(rt), checkout(rt), checkout(rt)
        block = take(rt, resource, first)
        before = used(rt, block, first, 5)
        give(rt, resource, block, first)
        give(rt, resource, take(rt, resource, second), second)

        again = take(rt, resource, third)
        after = used(rt, again, third, 7)

        are(rt, before, -5)
        are(rt, after, -7)
        give(rt, resource, again, third)


@clause("KINA-RESOURCE-24", "cacfffc5")
@pytest.mark.parametrize("adaptor", ["", "limit", "logging"])
def test_a_block_given_up_on_another_stream_still_waits_for_the_work_before_it(rt: Executor, adaptor: str) -> None:
    resource = under(rt, adaptor, narrow(rt))
    for _ in range(ROUNDS):
        first, second, third = checkout(rt), checkout(rt), checkout(rt)
        block = take(rt, resource, first)
        before = used(rt, block, first, 5)
        give(rt, resource, block, first)
        give(rt, resource, take(rt, resource, first), second)

        again = take(rt, resource, third)
        after = used(rt, again, third, 7)

        are(rt, before, -5)
        are(rt, after, -7)
        give(rt, resource, again, third)


@memory_case("P06")
@clause("KINA-RESOURCE-8", "d405a8f2")
@clause("KINA-RESOURCE-25", "ad00dacf")
def test_a_block_finds_its_owner_from_any_thread_and_stream(rt: Executor) -> None:
    resource = narrow(rt, 4)
    streams = [checkout(rt) for _ in range(3)]
    for i in range(ROUNDS):
        first, second, third = streams[i % 3 :] + streams[: i % 3]
        blocks = [in_thread(partial(take, rt, resource, first)) for _ in range(3)]
        in_thread(partial(give, rt, resource, blocks.pop(), second))
        blocks.append(in_thread(partial(take, rt, resource, third)))
        for block in blocks:
            give(rt, resource, block, first)

    info = Info(rt, resource)
    assert (info.live_blocks, info.live_bytes, info.failures) == (0, 0, 0)


@memory_case("P07")
@clause("KINA-RESOURCE-24", "cacfffc5")
def test_memory_of_the_device_goes_back_after_the_work_of_its_stream(rt: Executor) -> None:
    resource = base(rt)
    for _ in range(ROUNDS):
        stream = checkout(rt)
        block = take(rt, resource, stream)
        result = used(rt, block, stream, 3)
        give(rt, resource, block, stream)

        again = take(rt, resource, main(rt))
        other = used(rt, again, main(rt), 4)

        are(rt, result, -3)
        are(rt, other, -4)
        give(rt, resource, again, main(rt))


@memory_case("P10")
@clause("KINA-RESOURCE-24", "cacfffc5")
@clause("KINA-RESOURCE-46", "2937b7fa")
def test_both_halves_of_a_free_block_follow_the_work_on_it(rt: Executor) -> None:
    resource, half = narrow(rt, 2), BYTES
    for _ in range(ROUNDS):
        first, second, third = checkout(rt), checkout(rt), checkout(rt)
        whole = take(rt, resource, first, 2 * half)
        seen = foreign(rt, whole, 2 * COUNT, first)
        busy(rt, seen, first, 2)
        result = negated(rt, seen, first)
        give(rt, resource, whole, first, 2 * half)

        halves = [(take(rt, resource, stream, half), stream) for stream in (second, third)]
        others = [used(rt, block, stream, 6) for block, stream in halves]

        are(rt, result, -2)
        for other in others:
            are(rt, other, -6)
        for block, stream in halves:
            give(rt, resource, block, stream, half)


@memory_case("P41")
@clause("KINA-RESOURCE-42", "f18aecd3")
def test_a_full_pool_waits_for_free_blocks_that_streams_still_use(rt: Executor) -> None:
    resource = narrow(rt, 4)
    for _ in range(ROUNDS):
        streams = [checkout(rt) for _ in range(4)]
        blocks = [take(rt, resource, stream) for stream in streams]
        results = [used(rt, block, stream, 1) for block, stream in zip(blocks, streams, strict=True)]
        for block, stream in zip(blocks, streams, strict=True):
            give(rt, resource, block, stream)

        last = checkout(rt)
        whole = take(rt, resource, last, 4 * BYTES)
        fill(rt, foreign(rt, whole, 4 * COUNT, last), 9, last)

        for result in results:
            are(rt, result, -1)
        give(rt, resource, whole, last, 4 * BYTES)
    assert Info(rt, resource).failures == 0


# ---- tensors ---------------------------------------------------------------------------------------------------------


def placed(rt: Executor, resource: Handle, stream: Handle, value: float) -> Tensor:
    """A tensor on memory of this resource, made and written by `stream`."""
    with pushed(rt, resource):
        return there(rt, [value] * COUNT, stream)


@memory_case("P08")
@clause("KINA-TENSOR-63", "6999dce4")
@clause("KINA-STREAM-35", "d893505d")
def test_bytes_wait_for_foreign_work_that_was_declared(rt: Executor) -> None:
    resource = narrow(rt)
    for i in range(ROUNDS):
        mine, theirs = checkout(rt), checkout(rt)
        x = placed(rt, resource, mine, i)
        wait(rt, theirs, mine)
        result = negated(rt, foreign(rt, x.struct.dl.data, COUNT, theirs), theirs)
        rt.call("runtime_tensor_record_use", x, stream=theirs, access=READ).succeeds()
        free(rt, x)

        y = placed(rt, resource, mine, 100)

        are(rt, result, -i)
        are(rt, y, 100)
        free(rt, y)


@memory_case("P49")
@clause("KINA-TENSOR-63", "6999dce4")
@clause("KINA-RESOURCE-42", "f18aecd3")
def test_a_full_pool_waits_for_declared_work_of_others(rt: Executor) -> None:
    resource = narrow(rt, 3)
    for _ in range(ROUNDS):
        mine = checkout(rt)
        for _ in range(3):
            theirs = checkout(rt)
            x = placed(rt, resource, mine, 1)
            wait(rt, theirs, mine)
            busy(rt, foreign(rt, x.struct.dl.data, COUNT, theirs), theirs, 2)
            rt.call("runtime_tensor_record_use", x, stream=theirs, access="KINA_ACCESS_WRITE").succeeds()
            free(rt, x)

        whole = take(rt, resource, mine, 3 * BYTES)
        fill(rt, foreign(rt, whole, 3 * COUNT, mine), 5, mine)

        give(rt, resource, whole, mine, 3 * BYTES)
    assert Info(rt, resource).failures == 0


@memory_case("P11")
@clause("KINA-STREAM-35", "d893505d")
def test_a_view_dropped_before_its_queued_reader_ran_keeps_its_bytes(rt: Executor) -> None:
    resource = narrow(rt)
    for i in range(ROUNDS):
        mine, theirs = checkout(rt), checkout(rt)
        x = placed(rt, resource, mine, i)
        part = rt.call("runtime_gpu_slice", x, axis=0, start=5, stop=COUNT).succeeds().out
        free(rt, x)
        result = negated(rt, part, theirs)
        free(rt, part)

        y = placed(rt, resource, mine, 100)

        are(rt, result, -i)
        free(rt, y)


@memory_case("P12")
@clause("KINA-STREAM-35", "d893505d")
@clause("KINA-STREAM-34", "c0cfc664")
def test_the_owner_reuses_bytes_only_after_another_streams_reader(rt: Executor) -> None:
    resource = narrow(rt)
    for i in range(ROUNDS):
        mine, theirs = checkout(rt), checkout(rt)
        x = placed(rt, resource, mine, i)
        for _ in range(4):
            result = negated(rt, x, theirs)
        free(rt, x)

        y = placed(rt, resource, mine, 100)

        are(rt, result, -i)
        are(rt, y, 100)
        free(rt, y)


def note_idle(rt: Executor, stream: Handle, answers: list[int]) -> None:
    answers.append(rt.call("runtime_stream_query", stream).succeeds().out)


@memory_case("P15")
@pytest.mark.needs("dlpack")
@clause("KINA-DLPACK-51", "51ad06fa")
def test_an_imports_owner_is_let_go_after_the_pending_copy(rt: Executor) -> None:
    resource, stream = base(rt), checkout(rt)
    for _ in range(ROUNDS):
        block = take(rt, resource, stream)
        busy(rt, foreign(rt, block, COUNT, stream), stream, 8)
        rt.call("runtime_stream_synchronize", stream).succeeds()
        producer = Producer(rt, shape=(COUNT,), device=FIRST)
        producer.dl.data, producer.dl.byte_offset = block, 0
        idle: list[int] = []
        producer.on_delete = partial(note_idle, rt, stream, idle)
        x = rt.call("runtime_from_dlpack", managed=producer.managed, params=None).succeeds().out
        with pushed(rt, stream):
            for _ in range(4):
                copied = rt.call("runtime_copy", x, *FIRST).succeeds().out

        free(rt, x)

        assert idle == [1], "the owner was let go while a copy from it was under way"
        are(rt, copied, 8)
        give(rt, resource, block, stream)


# ---- devices ---------------------------------------------------------------------------------------------------------


@memory_case("P04")
@clause("KINA-STREAM-1", "3bc9d729")
@clause("KINA-DEVICE-17", "6eb1b3d6")
def test_one_thread_works_on_two_devices_in_turn(rt: Executor) -> None:
    devices = (FIRST, SECOND)[: device_count(rt)]
    results = []
    for i in range(ROUNDS):
        for device in devices:
            stream = checkout(rt, device)
            y = negated(rt, there(rt, [i] * COUNT, stream, device), stream)
            assert y.device == device and int(rt.ffi.cast("uintptr_t", y.struct.stream)) == stream.value
            results.append((y, -i))

    assert len({main(rt, device).value for device in devices}) == len(devices)
    for y, value in results:
        are(rt, y, value)


@memory_case("P19")
@clause("KINA-RESOURCE-13", "8168f4f4")
def test_a_new_default_of_one_device_leaves_the_others(rt: Executor) -> None:
    if device_count(rt) < 2:
        return
    theirs, kept = pool(rt, SECOND), default(rt, SECOND)
    for (kind, number), resource in ((SECOND, theirs), (FIRST, pool(rt, FIRST)), (FIRST, None)):
        rt.call("runtime_resource_set_default", device_type=kind, device_id=number, resource=resource).succeeds()

    y = there(rt, [1], device=SECOND)

    assert Info(rt, theirs).live_blocks == 1, "the second device lost its default to a call for the first"
    free(rt, y)
    set_default = rt.call("runtime_resource_set_default", device_type=12, device_id=1, resource=kept).succeeds()
    assert set_default.previous != kept == default(rt, SECOND)


@memory_case("P63")
@clause("KINA-RESOURCE-10", "aedf1891")
def test_every_device_has_memory_of_its_own(rt: Executor) -> None:
    if device_count(rt) < 2:
        return
    resources = [default(rt, FIRST), default(rt, SECOND)]
    before = [Info(rt, resource).live_blocks for resource in resources]

    x = there(rt, [1, 2, 3], device=SECOND)

    infos = [Info(rt, resource) for resource in resources]
    assert [(info.device_type, info.device_id) for info in infos] == [FIRST, SECOND]
    assert [info.live_blocks for info in infos] == [before[0], before[1] + 1]
    assert Handle(rt, "KinaResource", x.struct.allocator) == resources[1] != resources[0]


@memory_case("P60")
@clause("KINA-MOVEMENT-1", "a841c518")
def test_a_copy_between_devices_arrives(rt: Executor) -> None:
    if device_count(rt) < 2:
        return
    values = list(range(COUNT))
    for _ in range(ROUNDS):
        x = there(rt, values, checkout(rt, FIRST), FIRST)
        y = there(rt, [-1] * COUNT, checkout(rt, SECOND), SECOND)

        rt.call("runtime_copy", x, *SECOND, out=y).succeeds()

        assert back(rt, y) == values
