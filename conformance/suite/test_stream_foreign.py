"""Streams that the caller made: imports, their ends, and work on them."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, Handle, clause, devices
from kina_conformance.producer import Producer
from kina_conformance.resources import Info
from kina_conformance.simulated import DEVICE, Native

pytestmark = pytest.mark.needs("sim")


def imported(rt: Executor, native: Native) -> Handle:
    handle: Handle = rt.call("runtime_stream_import", DEVICE, 0, native=native.value).succeeds().out
    return handle


def release(rt: Executor, stream: Handle) -> None:
    rt.call("runtime_stream_release", stream).succeeds()
    rt.forget([stream])


@clause("KINA-STREAM-13", "46d96189")
@given(count=st.integers(1, 5))
def test_one_native_stream_has_one_counted_handle(rt: Executor, count: int) -> None:
    native, other = Native.foreign(rt), Native.foreign(rt)
    stream = imported(rt, native)
    for _ in range(count):
        assert imported(rt, native) == stream != imported(rt, other)

    for _ in range(count + 1):
        rt.call("runtime_stream_query", stream).succeeds()
        assert rt.call("runtime_stream_release", stream).status() == "SUCCESS"
    rt.forget([stream])
    rt.call("runtime_stream_query", imported(rt, other)).refuses("INVALID_HANDLE", stream=stream)


@clause("KINA-STREAM-13", "46d96189")
def test_a_native_stream_that_comes_again_has_a_new_handle(rt: Executor) -> None:
    native = Native.foreign(rt)
    first = imported(rt, native)
    rt.call("runtime_stream_release", first).succeeds()

    second = imported(rt, native)

    assert second != first and Native.of(rt, second).value == native.value


@clause("KINA-DEVICE-11", "c4ca50fc")
def test_a_device_is_waited_for_with_what_imports_that_have_ended_left_on_it(rt: Executor) -> None:
    resource = devices.base(rt)
    other = devices.checkout(rt)
    block = rt.call("runtime_memory_allocate", resource, 8000, 0, other).succeeds().out
    for _ in range(10):  # the devices choose an order of their own
        stream = imported(rt, Native.foreign(rt))
        devices.busy(rt, devices.foreign(rt, block, 2000, stream), stream, 5)
        rt.call("runtime_stream_release", stream).succeeds()
        rt.forget([stream])

        rt.call("runtime_device_synchronize", DEVICE, 0).succeeds()

        seen = devices.negated(rt, devices.foreign(rt, block, 2000, other), other)
        assert set(devices.back(rt, seen)) == {-5.0}
    rt.call("runtime_memory_deallocate", resource, block, 8000, 0, other).succeeds()


@clause("KINA-STREAM-5", "9b10453f")
@clause("KINA-STREAM-15", "d898bfa9")
def test_imported_streams_are_released_and_only_they(rt: Executor) -> None:
    native = Native.foreign(rt)
    stream = imported(rt, native)
    checked_out = rt.call("runtime_stream_checkout", DEVICE, 0).succeeds().out
    call = rt.call("runtime_stream_release", lambda: imported(rt, native))

    call.refuses("INVALID_ARGUMENT", stream=checked_out, clause="KINA-STREAM-15")
    rt.call("runtime_stream_checkin", lambda: rt.call("runtime_stream_checkout", DEVICE, 0).succeeds().out).refuses(
        "INVALID_ARGUMENT", stream=stream, clause="KINA-STREAM-5"
    )


@clause("KINA-STREAM-50", "1406bc30")
@pytest.mark.parametrize("kind", ["runtime_stream_push", "runtime_redirect_push"])
def test_the_last_import_of_a_pushed_stream_is_not_released(rt: Executor, kind: str) -> None:
    native = Native.foreign(rt)
    stream, again = imported(rt, native), imported(rt, native)
    token = rt.call(kind, stream).succeeds().out

    assert rt.call("runtime_stream_release", again).status() == "SUCCESS"
    other = rt.call("runtime_stream_release", lambda: imported(rt, Native.foreign(rt)))
    other.refuses("BUSY", stream=stream, clause="KINA-STREAM-50")

    rt.call("runtime_scope_pop", token).succeeds()
    rt.call("runtime_stream_release", stream).succeeds()


@clause("KINA-STREAM-16", "c0d77ccc")
def test_an_imported_stream_goes_on_after_its_handle(rt: Executor) -> None:
    native = Native.foreign(rt)
    stream = imported(rt, native)
    x = devices.there(rt, [1, 2, 3])
    token = rt.call("runtime_stream_push", stream).succeeds().out
    y = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").succeeds().out
    rt.call("runtime_scope_pop", token).succeeds()
    rt.call("runtime_stream_release", stream).succeeds()

    native.begin_capture()
    native.end_capture()

    assert devices.back(rt, y) == [-1, -2, -3] and imported(rt, native) != stream


@clause("KINA-STREAM-17", "40b3ef74")
def test_a_native_handle_is_what_was_imported(rt: Executor) -> None:
    native = Native.foreign(rt)

    assert Native.of(rt, imported(rt, native)).value == native.value
    main = rt.call("runtime_stream_main", DEVICE, 0).succeeds().out
    assert Native.of(rt, main).value not in {0, native.value}


@clause("KINA-STREAM-33", "63f21257")
@clause("KINA-STREAM-34", "c0cfc664")
@given(steps=st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_work_on_imported_streams_takes_effect_in_order(rt: Executor, steps: list[int]) -> None:
    streams = [imported(rt, Native.foreign(rt)), imported(rt, Native.foreign(rt))]
    streams += [rt.call("runtime_stream_checkout", DEVICE, 0).succeeds().out for _ in range(2)]
    x, one = devices.there(rt, [0.0] * 40), devices.there(rt, [1.0] * 40)

    for number in steps:
        token = rt.call("runtime_stream_push", streams[number]).succeeds().out
        assert rt.call("runtime_gpu_binary", x, one, op="KINA_BINARY_ADD").status(out=x) == "SUCCESS"
        rt.call("runtime_scope_pop", token).succeeds()

    assert devices.back(rt, x) == [float(len(steps))] * 40


@clause("KINA-DEVICE-11", "c4ca50fc")
def test_a_device_that_was_waited_for_has_done_with_imported_streams_too(rt: Executor) -> None:
    stream = imported(rt, Native.foreign(rt))
    x = devices.there(rt, [1.0] * 100)
    push = rt.call("runtime_stream_push", stream).succeeds().out
    for _ in range(10):
        rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").succeeds()
    rt.call("runtime_scope_pop", push).succeeds()

    rt.call("runtime_device_synchronize", DEVICE, 0).succeeds()

    assert rt.call("runtime_stream_query", stream).succeeds().out == 1


@clause("KINA-STREAM-51", "1ab39e0e")
def test_what_is_no_stream_of_the_device_is_not_imported(rt: Executor) -> None:
    native, ended = Native.foreign(rt), Native.foreign(rt)
    bytes_of_others = rt.ffi.new("char[4096]")
    ended.end()
    call = rt.call("runtime_stream_import", DEVICE, 0, native=native.value)

    for wrong in (ended.value, int(rt.ffi.cast("uintptr_t", bytes_of_others))):
        call.refuses("INVALID_ARGUMENT", native=wrong, clause="KINA-STREAM-51", argument="native")


@clause("KINA-STREAM-51", "1ab39e0e")
@pytest.mark.needs("sim", devices=2)
def test_a_stream_of_another_device_is_not_imported(rt: Executor) -> None:
    native, other = Native.foreign(rt, 0), Native.foreign(rt, 1)

    rt.call("runtime_stream_import", DEVICE, 0, native=native.value).refuses(
        "INVALID_ARGUMENT", native=other.value, clause="KINA-STREAM-51", argument="native"
    )


@clause("KINA-STREAM-52", "0bf4535f")
@clause("KINA-STREAM-33", "63f21257")
@given(steps=st.lists(st.booleans(), min_size=1, max_size=8))
def test_an_owner_may_end_a_stream_that_was_released(rt: Executor, steps: list[bool]) -> None:
    x, one = devices.there(rt, [0.0] * 40), devices.there(rt, [1.0] * 40)
    kept = []

    for is_awaited in steps:
        native = Native.foreign(rt)
        stream = imported(rt, native)
        with devices.pushed(rt, stream):
            assert rt.call("runtime_gpu_binary", x, one, op="KINA_BINARY_ADD").status(out=x) == "SUCCESS"
            kept.append(devices.negated(rt, x))
        if is_awaited:
            rt.call("runtime_stream_synchronize", stream).succeeds()
        release(rt, stream)
        native.end()

    assert [devices.back(rt, y)[0] for y in kept] == [-float(i + 1) for i in range(len(steps))]
    for y in kept:
        rt.call("runtime_free", y).succeeds()
    assert devices.back(rt, devices.negated(rt, x)) == [-float(len(steps))] * 40


@clause("KINA-DLPACK-3", "fc69ee9d")
@clause("KINA-DLPACK-25", "e443997a")
@pytest.mark.needs("sim", "dlpack")
def test_a_released_stream_serves_an_export_until_its_deleter_has_run(rt: Executor) -> None:
    size, owned = 8192, devices.main(rt)
    scratch = rt.call("runtime_memory_allocate", devices.base(rt), size, 0, owned).succeeds().out
    pool = devices.pool(rt, initial_bytes=size, growth="KINA_GROWTH_NONE")  # the next tensor gets the same bytes
    for i in range(10):
        native = Native.foreign(rt)
        stream = imported(rt, native)
        with devices.pushed(rt, pool):
            x = devices.there(rt, [float(i)] * (size // 4), stream)
        managed = rt.call("runtime_to_dlpack", x, params={"stream": stream}).succeeds().out
        release(rt, stream)
        for _ in range(4):
            native.copy(scratch, managed.dl_tensor.data, size)
        rt.forget([managed])
        managed.deleter(managed)
        native.end()

        with devices.pushed(rt, pool):
            y = devices.there(rt, [-1.0] * (size // 4), devices.checkout(rt))

        rt.call("runtime_device_synchronize", DEVICE, 0).succeeds()
        assert set(devices.back(rt, devices.negated(rt, devices.foreign(rt, scratch, size // 4, owned)))) == {-float(i)}
        rt.call("runtime_free", y).succeeds()
    rt.call("runtime_memory_deallocate", devices.base(rt), scratch, size, 0, owned).succeeds()


@clause("KINA-DLPACK-3", "fc69ee9d")
@clause("KINA-DLPACK-51", "51ad06fa")
@pytest.mark.needs("sim", "dlpack")
def test_a_released_stream_serves_an_import_until_its_deleter_has_run(rt: Executor) -> None:
    resource, owned, count = devices.base(rt), devices.main(rt), 2000
    block, zeros = (rt.call("runtime_memory_allocate", resource, 8000, 0, owned).succeeds().out for _ in range(2))
    devices.fill(rt, devices.foreign(rt, zeros, count, owned), 0)
    for i in range(10):
        native = Native.foreign(rt)
        stream = imported(rt, native)
        devices.wait(rt, stream, owned)
        devices.fill(rt, devices.foreign(rt, block, count, stream), i, stream)
        producer = Producer(rt, shape=(count,), device=devices.FIRST)
        producer.dl.data, producer.dl.byte_offset = block, 0
        x = rt.call("runtime_from_dlpack", managed=producer.managed, params={"stream": stream}).succeeds().out
        release(rt, stream)

        producer.on_delete = partial(native.copy, block, zeros, 8000)  # what an owner may do that has the bytes back
        y = devices.negated(rt, x, devices.checkout(rt))
        rt.call("runtime_free", x).succeeds()

        assert producer.deleted == 1 and set(devices.back(rt, y)) == {-float(i)}
        devices.wait(rt, owned, again := imported(rt, native))
        release(rt, again)
        native.end()
    for data in (block, zeros):
        rt.call("runtime_memory_deallocate", resource, data, 8000, 0, owned).succeeds()


@clause("KINA-STREAM-53", "b2d68756")
def test_many_imports_one_after_the_other_leave_no_more_than_a_few(rt: Executor) -> None:
    pool = devices.pool(rt)
    sizes = []
    with devices.pushed(rt, pool):
        for _ in range(60):
            native = Native.foreign(rt)
            stream = imported(rt, native)
            x = devices.there(rt, [1.0] * 10, stream)
            rt.call("runtime_stream_synchronize", stream).succeeds()
            rt.call("runtime_free", x).succeeds()
            release(rt, stream)
            native.end()
            sizes.append(Info(rt, pool).metadata_bytes)

    # Until then it may have grown with what was asked of it.
    assert sizes[-1] == sizes[29], f"a pool grew with the streams that it has seen: {sizes}"
