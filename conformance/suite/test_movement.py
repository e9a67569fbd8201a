"""The movement chapter: copies."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance import strategies as kst
from kina_conformance.compare import same
from kina_conformance.dtypes import DTYPES
from kina_conformance.memory import compact
from kina_conformance.operations import LAYOUTS, REPEATED, Operation, ended, failed, simulated, stored

HOST, CUDA, SIMULATED = 1, 2, 12
COPY = Operation("runtime_copy", ("in_",), {"device_type": HOST, "device_id": 0})
TO_HOST = Operation("runtime_copy_to_host", ("in_",), {})
OPERATIONS = [pytest.param(COPY, id="copy"), pytest.param(TO_HOST, id="copy_to_host")]


def has_accelerator(rt: Executor) -> bool:
    return any(rt.call("runtime_device_count", device_type=kind).succeeds().out > 0 for kind in (CUDA, SIMULATED))


@clause("KINA-MOVEMENT-1", "a841c518")
@clause("KINA-MOVEMENT-8", "001f994a")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_copy_keeps_every_bit_of_every_dtype(rt: Executor, operation: Operation, dtype: str) -> None:
    elements = kst.make_elements(dtype, (5, 29), "any", 7)
    x = stored(rt, dtype, elements)

    y = operation.call(rt, in_=x).succeeds().out

    assert (y.dtype, y.shape, y.device) == (dtype, (5, 29), (HOST, 0))
    assert y.raw().tobytes() == elements.tobytes()


@clause("KINA-MOVEMENT-1", "a841c518")
@clause("KINA-MOVEMENT-9", "552e12c6")
@given(data=st.data())
def test_a_copy_takes_any_strides_of_in_and_out(rt: Executor, data: st.DataObject) -> None:
    source = data.draw(kst.operands(dtype=kst.all_dtypes, kinds=("any",)))
    target = data.draw(kst.operands(dtype=source.dtype, shape=source.shape, writable=True))
    x, out = source.on(rt), target.out_on(rt)

    y = rt.call("runtime_copy", x, out=out, device_type=HOST, device_id=0).succeeds().out

    assert y.raw().tobytes() == x.raw().tobytes()


@clause("KINA-MOVEMENT-9", "552e12c6")
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32", "c64", "c128"])
def test_a_copy_goes_from_every_layout_to_every_other(rt: Executor, dtype: str) -> None:
    for strides in LAYOUTS + REPEATED:
        x = rt.tensor(dtype, (3, 5), np.arange(15).reshape(3, 5), strides=strides, offset=1)
        for target in LAYOUTS:
            out = rt.out(dtype, (3, 5), strides=target)
            y = rt.call("runtime_copy", x, out=out, device_type=HOST, device_id=0).succeeds().out
            assert y.raw().tobytes() == x.raw().tobytes(), (strides, target)


@clause("KINA-MOVEMENT-2", "e61c2f43")
@given(source=kst.operands(dtype=kst.all_dtypes, kinds=("any",)))
def test_copy_to_host_is_a_copy_to_the_host(rt: Executor, source: kst.Operand) -> None:
    x = source.on(rt)

    here = rt.call("runtime_copy_to_host", x).succeeds().out
    there = rt.call("runtime_copy", x, device_type=HOST, device_id=0).succeeds().out

    assert here.raw().tobytes() == there.raw().tobytes() == x.raw().tobytes()
    assert (here.shape, here.strides, here.dtype) == (there.shape, there.strides, there.dtype)
    assert here.device == there.device == (HOST, 0)


@clause("KINA-MOVEMENT-3", "8b697eef")
@clause("KINA-MOVEMENT-4", "6a0fbdde")
def test_copy_to_device_goes_to_the_accelerator_or_is_unsupported(rt: Executor) -> None:
    x = rt.tensor("f32", (3, 4))
    call = rt.call("runtime_copy_to_device", x, device_id=0)

    if not has_accelerator(rt):
        for device_id in (0, 1, -1):
            call.refuses("UNSUPPORTED", clause="KINA-MOVEMENT-4", control=False, device_id=device_id)
        return
    away = call.succeeds().out
    back = rt.call("runtime_copy_to_host", away).succeeds().out
    assert away.device[0] in (CUDA, SIMULATED)
    assert back.raw().tobytes() == x.raw().tobytes()


@clause("KINA-MOVEMENT-4", "6a0fbdde")
@clause("KINA-STATUS-22", "e6e68084")
def test_copy_to_device_checks_its_arguments_before_it_is_unsupported(rt: Executor) -> None:
    x = rt.tensor("f32", (3, 4))
    call = rt.call("runtime_copy_to_device", x, device_id=0)
    broken, stale = rt.tensor("f32", (3, 4)), ended(rt, "f32", (3, 4))
    broken.struct.magic ^= 1
    outside = rt.tensor("f32", (3, 4))
    outside.struct.size_bytes -= 1

    call.refuses("INVALID_ARGUMENT", clause="KINA-STATUS-23", control=False, in_=None)
    call.refuses("INVALID_ARGUMENT", clause="KINA-STATUS-23", control=False, out=None)
    call.refuses("INVALID_ARGUMENT", clause="KINA-TENSOR-2", control=False, in_=rt.empty())
    call.refuses("INVALID_HANDLE", clause="KINA-TENSOR-3", control=False, in_=broken)
    call.refuses("INVALID_HANDLE", clause="KINA-TENSOR-4", control=False, in_=stale)
    call.refuses("INVALID_SHAPE", clause="KINA-TENSOR-21", control=False, in_=outside)


@clause("KINA-MOVEMENT-5", "a4cf65b5")
def test_copy_to_device_into_a_host_tensor_is_a_mismatch(rt: Executor) -> None:
    x, out = rt.tensor("f32", (3, 4)), rt.out("f32", (3, 4))

    call = rt.call("runtime_copy_to_device", x, device_id=0)

    call.refuses("DEVICE_MISMATCH", argument="out", control=False, out=out)


@clause("KINA-MOVEMENT-6", "1f596fc1")
@pytest.mark.parametrize("operation", OPERATIONS)
@given(source=kst.operands(dtype=kst.all_dtypes, kinds=("any",)))
def test_a_copy_has_compact_bytes_of_its_own(rt: Executor, operation: Operation, source: kst.Operand) -> None:
    x = source.on(rt)

    y = operation.call(rt, in_=x).succeeds().out

    assert y.strides == compact(source.shape)
    low, high = y.hull()
    first, last = x.hull()
    assert low == high or high <= first or last <= low, "the copy shares bytes with its source"


@clause("KINA-MOVEMENT-7", "119d106b")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_copy_is_owned_and_nothing_else(rt: Executor, operation: Operation) -> None:
    base = rt.tensor("f32", (3, 4), owned=True)
    view = rt.call("runtime_view", base, shape=(4,), strides=(1,), ndim=1, offset_elements=2, flags=0).succeeds().out
    sources = [rt.tensor("f32", (3, 4)), rt.tensor("f32", (3, 4), read_only=True), base, view]
    sources += [rt.tensor("f32", (3, 4), owned=True, read_only=True), rt.tensor("f32", (3, 4), strides=(0, 1))]

    for source in sources:
        y = operation.call(rt, in_=source).succeeds().out

        assert y.flags == rt.constant("KINA_FLAG_OWNED"), source


@clause("KINA-MOVEMENT-10", "31eb6020")
def test_a_copy_into_a_tensor_of_another_device_is_a_mismatch(rt: Executor) -> None:
    call = rt.call("runtime_copy", rt.tensor(), out=rt.out("f32"), device_type=HOST, device_id=0)

    call.refuses("DEVICE_MISMATCH", argument="out", device_type=CUDA)


@clause("KINA-MOVEMENT-11", "306b271a")
@clause("KINA-MOVEMENT-14", "a4bb0af5")
@given(data=st.data())
def test_a_copy_to_the_host_is_in_place_at_return(rt: Executor, data: st.DataObject) -> None:
    elements = kst.make_elements("f32", (257,), "any", data.draw(st.integers(0, 99)))
    x = stored(rt, "f32", elements, owned=data.draw(st.booleans()))

    y = rt.call("runtime_copy_to_host", x).succeeds().out
    x.raw()[...] = 0

    assert y.raw().tobytes() == elements.tobytes(), "the copy read its source after it returned"


@clause("KINA-MOVEMENT-12", "6d85a586")
@clause("KINA-TENSOR-30", "2d933e5c")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_copy_onto_its_source_is_an_overlap(rt: Executor, operation: Operation) -> None:
    operation.refuses_overlap(rt, "OVERLAP")


@clause("KINA-MOVEMENT-12", "6d85a586")
def test_a_copy_between_two_wraps_of_one_buffer_is_an_overlap(rt: Executor) -> None:
    x = rt.tensor("u8", (64,))
    other = x.copy()
    call = rt.call("runtime_copy", x, out=rt.out("u8", (64,)), device_type=HOST, device_id=0)

    call.refuses("OVERLAP", argument="out", out=other)


@clause("KINA-MOVEMENT-13", "12f5ef61")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5, 2), (1 << 40, 0)])
def test_a_copy_of_nothing_succeeds(rt: Executor, operation: Operation, shape: tuple[int, ...]) -> None:
    x = rt.tensor("f32", shape)

    made = operation.call(rt, in_=x).succeeds().out
    written = operation.call(rt, in_=x, out=rt.out("f32", shape)).succeeds().out

    assert made.shape == written.shape == shape and made.data == 0


@clause("KINA-MOVEMENT-13", "12f5ef61")
def test_a_copy_of_one_element_without_axes_succeeds(rt: Executor) -> None:
    y = rt.call("runtime_copy_to_host", rt.tensor("f64", (), 2.5)).succeeds().out

    same(y, np.array(2.5))


@clause("KINA-MOVEMENT-15", "d2a78a10")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_copy_takes_its_bytes_from_the_current_resource(rt: Executor, operation: Operation) -> None:
    x = rt.tensor("f32", (3, 4))

    with rt.limited(1 << 20):
        current = rt.call("runtime_resource_current", device_type=HOST, device_id=0).succeeds().out
        y = operation.call(rt, in_=x).succeeds().out

        assert int(rt.ffi.cast("uintptr_t", y.struct.allocator)) == current.value
        rt.call("runtime_free", tensor=y).succeeds()


@clause("KINA-STATUS-24", "b7c8e81b")
def test_a_copy_to_a_device_that_is_not_there_is_refused(rt: Executor) -> None:
    call = COPY.call(rt)

    for device_id in (1, -1, 2**31 - 1):
        call.refuses("INVALID_ARGUMENT", clause="KINA-STATUS-24", argument="device_id", device_id=device_id)
    for device_type in (0, 99, -1):
        call.refuses("UNSUPPORTED", clause="KINA-STATUS-24", argument="device_type", device_type=device_type)


@clause("KINA-MOVEMENT-10", "31eb6020")
@pytest.mark.needs("sim")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_out_of_another_device_is_refused(rt: Executor, operation: Operation) -> None:
    call = operation.call(rt, out=operation.out(rt))

    call.refuses("DEVICE_MISMATCH", argument="out", out=simulated(rt, "f32", (3, 4)))


@clause("KINA-MOVEMENT-3", "8b697eef")
@clause("KINA-MOVEMENT-10", "31eb6020")
@clause("KINA-MOVEMENT-12", "6d85a586")
@clause("KINA-TENSOR-14", "9c559134")
@clause("KINA-TENSOR-26", "eebbf8de")
@clause("KINA-TENSOR-32", "3cfb9a89")
@clause("KINA-STATUS-44", "01bc6644")
@pytest.mark.needs("sim")
def test_copy_to_device_refuses_what_every_copy_refuses(rt: Executor) -> None:
    x, out = rt.tensor("f32", (3, 4), owned=True), simulated(rt, "f32", (3, 4))
    call = rt.call("runtime_copy_to_device", x, out=out, device_id=0)
    geometry = {"shape": (3, 4), "strides": None, "ndim": 2, "offset_elements": 0}
    frozen = rt.call("runtime_view", out, **geometry, flags=rt.constant("KINA_FLAG_READ_ONLY")).succeeds().out
    huge = rt.tensor("u8", (1,), strides=(0,))
    huge.struct.dl.shape[0] = 1 << 40

    call.refuses("INVALID_ARGUMENT", clause="KINA-STATUS-24", argument="device_id", device_id=99)
    call.refuses("INVALID_SHAPE", argument="out", out=simulated(rt, "f32", (4, 3)))
    call.refuses("INVALID_DTYPE", argument="out", out=simulated(rt, "f64", (3, 4)))
    call.refuses("READ_ONLY", argument="out", out=frozen)
    call.refuses("OVERLAP", argument="out", in_=out)
    call.refuses("FAILED_INPUT", clause="KINA-TENSOR-32", within=partial(failed, rt, x))
    rt.call("runtime_failure_clear", tensor=out).succeeds()
    fresh = rt.call("runtime_copy_to_device", rt.tensor("u8", (1,)), device_id=0)
    fresh.refuses("OUT_OF_MEMORY", clause="KINA-STATUS-44", in_=huge)


@clause("KINA-MOVEMENT-11", "306b271a")
@clause("KINA-MOVEMENT-15", "d2a78a10")
@clause("KINA-MOVEMENT-17", "0f05fa22")
@pytest.mark.needs("sim")
def test_a_copy_between_devices_runs_at_the_accelerators_end(rt: Executor) -> None:
    x = rt.tensor("f32", (3, 4))
    place = {"device_type": SIMULATED, "device_id": 0}
    stream = rt.call("runtime_stream_checkout", **place).succeeds().out
    scope = rt.call("runtime_stream_push", stream).succeeds().out

    away = rt.call("runtime_copy", x, **place).succeeds().out
    back = rt.call("runtime_copy", away, out=rt.out("f32", (3, 4)), device_type=HOST, device_id=0).succeeds().out
    current = rt.call("runtime_resource_current", **place).succeeds().out
    rt.call("runtime_scope_pop", scope).succeeds()

    assert int(rt.ffi.cast("uintptr_t", away.struct.stream)) == stream.value
    assert int(rt.ffi.cast("uintptr_t", away.struct.allocator)) == current.value
    assert back.raw().tobytes() == x.raw().tobytes()
