"""What order costs: calls of the driver where somebody has to wait, and none where the order is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kina_conformance import Executor, Handle, Tensor, clause, devices
from kina_conformance.simulated import Counts, Native

pytestmark = pytest.mark.needs("sim")

NOTHING = Counts(0, 0, 0)


@contextmanager
def costs(rt: Executor, counts: Counts) -> Iterator[None]:
    """Within it the drivers of all devices are asked for just so much."""
    driver = Native.foreign(rt)
    before = driver.counts()
    yield
    assert driver.counts().since(before) == counts


def bare(rt: Executor, function: str, *values: Any) -> None:
    """One call and no more: `succeeds` makes others beside it."""
    assert rt.function(function)(*values) == 0, rt.record()


def three_streams(rt: Executor) -> list[Handle]:
    """Streams that nobody has the native handles of."""
    return [rt.call("runtime_stream_phase", *devices.FIRST, 1000 + i).succeeds().out for i in range(3)]


def fill(rt: Executor, tensor: Tensor, stream: Handle) -> None:
    """Work on `stream` that writes the tensor."""
    with devices.pushed(rt, stream):
        bare(rt, "runtime_fill", tensor.struct, rt.ffi.new("float *", 1.0), 4)


def made(rt: Executor, stream: Handle) -> Tensor:
    """A tensor of `stream`, which has work on it that nobody waits for."""
    tensor = devices.there(rt, [0.0] * 100, stream)
    fill(rt, tensor, stream)
    return tensor


@clause("KINA-STREAM-54", "c81dcbaa")
@clause("KINA-STREAM-55", "24f09a61")
def test_work_of_one_stream_costs_no_call_besides_itself(rt: Executor) -> None:
    first, *_ = three_streams(rt)
    x = made(rt, first)

    with costs(rt, NOTHING):
        for _ in range(10):
            fill(rt, x, first)


@clause("KINA-STREAM-54", "c81dcbaa")
def test_a_stream_waits_once_for_all_that_it_uses_of_another(rt: Executor) -> None:
    first, second, _ = three_streams(rt)
    x, y = made(rt, first), made(rt, first)

    with costs(rt, Counts(1, 1, 0)):
        for _ in range(3):
            fill(rt, y, second)
            fill(rt, x, second)  # written earlier


@clause("KINA-STREAM-54", "c81dcbaa")
def test_order_through_a_third_stream_is_known(rt: Executor) -> None:
    first, second, third = three_streams(rt)
    x, y = made(rt, first), made(rt, second)
    bare(rt, "runtime_stream_wait", second.cdata, first.cdata)
    fill(rt, y, second)
    bare(rt, "runtime_stream_wait", third.cdata, second.cdata)

    with costs(rt, NOTHING):
        bare(rt, "runtime_stream_wait", third.cdata, first.cdata)
        fill(rt, x, third)


@clause("KINA-STREAM-54", "c81dcbaa")
def test_what_the_host_has_waited_for_is_known_to_all(rt: Executor) -> None:
    first, second, third = three_streams(rt)
    x, y = made(rt, first), made(rt, second)
    bare(rt, "runtime_stream_wait", second.cdata, first.cdata)
    fill(rt, y, second)
    with costs(rt, Counts(1, 0, 1)):
        bare(rt, "runtime_stream_synchronize", second.cdata)

    with costs(rt, NOTHING):
        bare(rt, "runtime_stream_synchronize", first.cdata)
        fill(rt, x, third)
        fill(rt, y, third)


@clause("KINA-STREAM-55", "24f09a61")
def test_one_event_serves_all_who_wait_for_a_moment(rt: Executor) -> None:
    first, second, third = three_streams(rt)
    x = made(rt, first)

    with costs(rt, Counts(1, 2, 0)):
        bare(rt, "runtime_stream_wait", second.cdata, first.cdata)
        bare(rt, "runtime_stream_wait", third.cdata, first.cdata)
        fill(rt, x, second)


@clause("KINA-STREAM-55", "24f09a61")
def test_a_free_records_no_event_whoever_used_the_bytes(rt: Executor) -> None:
    first, second, third = three_streams(rt)
    with devices.pushed(rt, devices.pool(rt)):
        x = made(rt, first)
    fill(rt, x, second)
    fill(rt, x, third)

    with costs(rt, NOTHING):
        bare(rt, "runtime_free", x.struct)


@clause("KINA-STREAM-55", "24f09a61")
def test_many_small_tensors_of_one_stream_cost_no_call(rt: Executor) -> None:
    first, *_ = three_streams(rt)
    out = rt.ffi.new("KinaTensor *")
    shape, f32 = rt.ffi.new("int64_t[1]", [10]), rt.lib.KINA_DTYPE_F32

    with devices.pushed(rt, devices.pool(rt)), costs(rt, NOTHING):
        for _ in range(20):
            bare(rt, "runtime_alloc", out, shape, 1, f32, *devices.FIRST, first.cdata)
            bare(rt, "runtime_free", out)
