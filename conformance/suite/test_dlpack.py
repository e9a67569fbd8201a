"""The dlpack chapter, as C sees it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance import strategies as own
from kina_conformance.alone import alone
from kina_conformance.cases import case
from kina_conformance.dtypes import DTYPES, dtype_of
from kina_conformance.memory import Tensor, compact
from kina_conformance.memory_cases import memory_case
from kina_conformance.producer import STRUCTS, Producer
from kina_conformance.resources import address as address_of
from kina_conformance.tensors import free

pytestmark = pytest.mark.needs("dlpack")

READ_ONLY, IS_COPIED = 1, 2  # DLPack's flag bits

both = pytest.mark.parametrize("legacy", [False, True], ids=["versioned", "legacy"])


def give(legacy: bool) -> str:
    return "runtime_to_dlpack_legacy" if legacy else "runtime_to_dlpack"


def take(legacy: bool) -> str:
    return "runtime_from_dlpack_legacy" if legacy else "runtime_from_dlpack"


def export(rt: Executor, tensor: Tensor, legacy: bool = False, **params: Any) -> Any:
    """The struct that a tensor becomes; its deleter runs with the end of the test unless `end` calls it."""
    return (
        rt.call(give(legacy), tensor, params=rt.params("KinaDlpackParams", **params) if params else None).succeeds().out
    )


def owned(rt: Executor, operand: own.Operand) -> Tensor:
    """The operand, on memory of the library."""
    return replace(operand, owned=True).on(rt)


def end(rt: Executor, managed: Any) -> None:
    """What a consumer does when it has finished."""
    rt.forget([managed])
    managed.deleter(managed)


def imported(rt: Executor, producer: Producer, **params: Any) -> Tensor:
    made = rt.call(
        producer.take, producer.managed, params=rt.params("KinaDlpackParams", **params) if params else None
    ).succeeds()
    tensor: Tensor = made.out
    return tensor


def seen(rt: Executor, managed: Any) -> np.ndarray[Any, Any]:
    """The elements that a consumer of the struct sees."""
    dl = managed.dl_tensor
    shape = [dl.shape[i] for i in range(dl.ndim)]
    row = dtype_of(dl.dtype.code | dl.dtype.bits << 8 | dl.dtype.lanes << 16)
    steps = [dl.strides[i] * row.bytes for i in range(dl.ndim)]
    reach = [(n - 1) * s for n, s in zip(shape, steps, strict=True)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + row.bytes
    first = address_of(rt, dl.data) + dl.byte_offset
    memory = rt.ffi.buffer(rt.ffi.cast("char *", first + low), high - low)
    return np.ndarray(shape, row.storage, memory, -low, steps)


def extents(managed: Any) -> tuple[int, ...]:
    return tuple(int(managed.dl_tensor.shape[i]) for i in range(managed.dl_tensor.ndim))


def steps(managed: Any) -> tuple[int, ...]:
    return tuple(int(managed.dl_tensor.strides[i]) for i in range(managed.dl_tensor.ndim))


def refused(
    rt: Executor,
    status: str,
    clause_id: str,
    change: Callable[[Producer], None],
    *,
    legacy: bool = False,
    **made: Any,
) -> None:
    """An import of a struct with one thing wrong is refused; the struct is still the caller's, to the byte."""
    broken = Producer(rt, legacy, **made)
    change(broken)
    before = broken.bytes()
    call = rt.call(take(legacy), managed=lambda: Producer(rt, legacy, **made).managed, params=None)

    call.refuses(status, managed=broken.managed, clause=clause_id, argument="managed")

    assert broken.bytes() == before
    assert broken.deleted == 0
    broken.discard()


# ---- parameters -----------------------------------------------------------------------------------------------------


@both
@clause("KINA-STATUS-23", "54af5684")
def test_null_pointers_are_refused(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy)
    exporting = rt.call(give(legacy), tensor=lambda: rt.tensor(owned=True), params=None)
    importing = rt.call(take(legacy), managed=lambda: Producer(rt, legacy).managed, params=None)

    exporting.refuses("INVALID_ARGUMENT", out=None, argument="out")
    exporting.refuses("INVALID_ARGUMENT", tensor=None, argument="tensor")
    importing.refuses("INVALID_ARGUMENT", managed=None, argument="managed")
    rt.call(take(legacy), producer.managed, params=None).refuses(
        "INVALID_ARGUMENT", out=None, argument="out", control=False
    )
    assert producer.deleted == 0
    producer.discard()


@both
@clause("KINA-DLPACK-1", "1de78a4e")
def test_a_version_that_the_function_does_not_speak_is_refused(rt: Executor, legacy: bool) -> None:
    exporting = rt.call(give(legacy), tensor=lambda: rt.tensor(owned=True), params=None)
    importing = rt.call(take(legacy), managed=lambda: Producer(rt, legacy).managed, params=None)
    for major in (1, 2, 0xFFFFFFFF) if legacy else (2, 0xFFFFFFFF):
        params = rt.params("KinaDlpackParams", max_major=major)
        exporting.refuses("VERSION", params=params, clause="KINA-DLPACK-1", argument="params.max_major")
        importing.refuses("VERSION", params=params, clause="KINA-DLPACK-1", argument="params.max_major")


@both
@clause("KINA-DLPACK-1", "1de78a4e")
def test_every_minor_version_is_accepted_as_a_limit(rt: Executor, legacy: bool) -> None:
    for major in (0,) if legacy else (0, 1):
        for minor in (0, 1, 3, 0xFFFFFFFF):
            end(rt, export(rt, rt.tensor(owned=True), legacy, max_major=major, max_minor=minor))
            free(rt, imported(rt, Producer(rt, legacy), max_major=major, max_minor=minor))


@both
@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
@clause("KINA-VERSION-13", "b43e0d18")
def test_the_parameters_grow_as_all_option_structs_do(rt: Executor, legacy: bool) -> None:
    exporting = rt.call(give(legacy), tensor=lambda: rt.tensor(owned=True), params=None)
    importing = rt.call(take(legacy), managed=lambda: Producer(rt, legacy).managed, params=None)
    for call in (exporting, importing):
        for size, broken in ((16, "KINA-VERSION-11"), (25, "KINA-VERSION-12"), (4104, "KINA-VERSION-12")):
            call.refuses("VERSION", params=rt.params("KinaDlpackParams", size=4200, struct_size=size), clause=broken)
        tail = rt.params("KinaDlpackParams", tail=b"\0\0\0\1\0\0\0\0", struct_size=32)
        call.refuses("VERSION", params=tail, clause="KINA-VERSION-13", argument="params")
        call.succeeds(params=rt.params("KinaDlpackParams", size=32, struct_size=32))


@both
@clause("KINA-VERSION-16", "e54fde4b")
def test_unknown_flags_are_refused(rt: Executor, legacy: bool) -> None:
    exporting = rt.call(give(legacy), tensor=lambda: rt.tensor(owned=True), params=None)
    importing = rt.call(take(legacy), managed=lambda: Producer(rt, legacy).managed, params=None)
    for bit in (0x4, 0x40000000, 0x80000000):
        params = rt.params("KinaDlpackParams", flags=bit)
        exporting.refuses("UNSUPPORTED", params=params, clause="KINA-VERSION-16", argument="params.flags")
        importing.refuses("UNSUPPORTED", params=params, clause="KINA-VERSION-16", argument="params.flags")


@both
@clause("KINA-STATUS-26", "4bd48c17")
def test_a_stream_that_is_not_live_is_refused(rt: Executor, legacy: bool) -> None:
    exporting = rt.call(give(legacy), tensor=lambda: rt.tensor(owned=True), params=None)
    importing = rt.call(take(legacy), managed=lambda: Producer(rt, legacy).managed, params=None)
    params = rt.params("KinaDlpackParams", stream=rt.handle("KinaStream", 0x1234))

    exporting.refuses("INVALID_HANDLE", params=params, clause="KINA-STATUS-26", argument="params.stream")
    importing.refuses("INVALID_HANDLE", params=params, clause="KINA-STATUS-26", argument="params.stream")


@both
@clause("KINA-DLPACK-2", "8d00a471")
def test_a_stream_of_another_device_is_refused(rt: Executor, legacy: bool) -> None:
    host = rt.call("runtime_stream_main", device_type=1, device_id=0).succeeds().out
    params = rt.params("KinaDlpackParams", stream=host)
    producer = Producer(rt, legacy, device=(2, 0))

    rt.call(take(legacy), producer.managed, params=params).refuses(
        "DEVICE_MISMATCH", clause="KINA-DLPACK-2", argument="params.stream", control=False
    )

    assert producer.deleted == 0
    producer.discard()


@both
@case("P55")
@clause("KINA-DLPACK-3", "fc69ee9d")
def test_a_stream_serves_until_the_deleter_has_run(rt: Executor, legacy: bool) -> None:
    stream = rt.call("runtime_stream_checkout", device_type=1, device_id=0).succeeds().out
    producer = Producer(rt, legacy)
    managed = export(rt, rt.tensor("f32", (2,), [3, 4], owned=True), legacy, stream=stream)
    tensor = imported(rt, producer, stream=stream)
    assert address_of(rt, tensor.struct.stream) == stream.value

    rt.call("runtime_stream_checkin", stream).succeeds()

    assert seen(rt, managed).tolist() == [3, 4]
    end(rt, managed)
    free(rt, tensor)
    assert producer.deleted == 1


@both
@clause("KINA-DLPACK-4", "a7d27bc0")
def test_a_copy_cannot_be_asked_of_an_import(rt: Executor, legacy: bool) -> None:
    call = rt.call(take(legacy), managed=lambda: Producer(rt, legacy).managed, params=None)

    call.refuses(
        "UNSUPPORTED",
        params=rt.params("KinaDlpackParams", flags="KINA_DLPACK_COPY"),
        clause="KINA-DLPACK-4",
        argument="params.flags",
    )


# ---- export ---------------------------------------------------------------------------------------------------------


@both
@clause("KINA-DLPACK-5", "c40550ea")
def test_an_export_consumes_the_tensor(rt: Executor, legacy: bool) -> None:
    tensor = rt.tensor("f32", (2, 3), owned=True)
    copied = rt.ffi.new("KinaTensor *", tensor.struct[0])

    export(rt, tensor, legacy)

    assert tensor.is_empty
    assert rt.lib.status_name(rt.function("runtime_free")(copied)) == "INVALID_HANDLE"


@both
@clause("KINA-DLPACK-6", "4143d448")
@clause("KINA-DLPACK-7", "22a9adad")
@given(operand=own.operands(own.all_dtypes))
def test_an_export_shows_the_tensors_own_bytes(rt: Executor, legacy: bool, operand: own.Operand) -> None:
    tensor = owned(rt, operand)
    address, expected, read_only = tensor.address, tensor.raw().copy(), tensor.flags & rt.lib.KINA_FLAG_READ_ONLY
    if legacy and read_only:
        return

    managed = export(rt, tensor, legacy)

    dl = managed.dl_tensor
    row = dtype_of(operand.dtype)
    assert (dl.device.device_type, dl.device.device_id) == (1, 0)
    assert (dl.dtype.code, dl.dtype.bits, dl.dtype.lanes) == (row.value & 0xFF, row.value >> 8 & 0xFF, 1)
    assert extents(managed) == operand.shape
    assert dl.byte_offset == 0
    if expected.size:
        assert address_of(rt, dl.data) == address
        assert seen(rt, managed).tobytes() == expected.tobytes()


@both
@case("P20", "P21", "P22")
@clause("KINA-DLPACK-8", "bc582adc")
def test_a_scalar_is_exported_without_shape_and_strides(rt: Executor, legacy: bool) -> None:
    managed = export(rt, rt.tensor("f32", (), 2.5, owned=True), legacy)

    dl = managed.dl_tensor
    assert dl.ndim == 0
    assert dl.shape == rt.ffi.NULL
    assert dl.strides == rt.ffi.NULL
    assert seen(rt, managed).item() == 2.5


@both
@case("P17")
@clause("KINA-DLPACK-8", "bc582adc")
@given(shape=own.shapes((1, 6)))
def test_shape_and_strides_are_always_there_for_a_rank_above_0(
    rt: Executor, legacy: bool, shape: tuple[int, ...]
) -> None:
    managed = export(rt, rt.tensor("i32", shape, owned=True), legacy)

    assert managed.dl_tensor.shape != rt.ffi.NULL
    assert managed.dl_tensor.strides != rt.ffi.NULL
    assert steps(managed) == compact(shape)


@both
@case("P07", "P11", "P13", "P17")
@clause("KINA-DLPACK-9", "8ecd9816")
@pytest.mark.parametrize(
    ("shape", "strides", "expected"),
    [
        ((4, 5, 6), (30, 6, 1), (30, 6, 1)),
        ((1, 3, 1, 4, 1), (0, 4, 0, 1, 0), (12, 4, 4, 1, 1)),
        ((1,), (3,), (1,)),
        ((3, 4), (4, -1), (4, -1)),
        ((1, 4), (9, -2), (8, -2)),
        ((3, 1, 2), (10, 77, 3), (10, 6, 3)),
        ((1, 1, 768, 768), (1, 1, 768, 1), (589824, 589824, 768, 1)),
    ],
)
def test_exported_strides_are_the_tensors_and_canonical_where_they_mean_nothing(
    rt: Executor, legacy: bool, shape: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    tensor = imported(rt, Producer(rt, legacy, shape=shape, strides=strides))
    view = rt.tensor("f32", shape, strides=strides, owned=True)

    assert steps(export(rt, tensor, legacy)) == expected
    assert steps(export(rt, view, legacy)) == expected


@case("P13")
@clause("KINA-DLPACK-9", "8ecd9816")
@clause("KINA-DLPACK-17", "bcfd49ef")
@clause("KINA-DLPACK-18", "89843cf7")
def test_a_broadcast_view_is_exported_as_it_is_or_as_a_whole_copy(rt: Executor) -> None:
    row = rt.tensor("i32", (1, 3), [[5, 6, 7]], owned=True)
    wide = rt.call("runtime_gpu_broadcast", row, target_shape=(4, 3), target_ndim=2).succeeds().out
    again = rt.call("runtime_alias", wide).succeeds().out

    shared = export(rt, wide)
    copied = export(rt, again, flags="KINA_DLPACK_COPY")

    assert steps(shared) == (0, 1)
    assert shared.flags == READ_ONLY
    assert steps(copied) == (3, 1)
    assert copied.flags == IS_COPIED
    assert seen(rt, shared).tolist() == seen(rt, copied).tolist() == [[5, 6, 7]] * 4


@both
@case("P03")
@clause("KINA-DLPACK-10", "3cae5d88")
@pytest.mark.parametrize("shape", [(0,), (0, 2048), (2, 0, 3), (0, 0, 0), (3, 0)])
def test_an_export_without_elements_has_no_data_and_compact_strides(
    rt: Executor, legacy: bool, shape: tuple[int, ...]
) -> None:
    managed = export(rt, rt.tensor("f32", shape, owned=True), legacy)

    assert managed.dl_tensor.data == rt.ffi.NULL
    assert managed.dl_tensor.byte_offset == 0
    assert extents(managed) == shape
    assert steps(managed) == compact(shape)


@both
@case("P46", "P49")
@clause("KINA-DLPACK-11", "95e959ae")
def test_each_export_has_a_struct_of_its_own_until_its_deleter(rt: Executor, legacy: bool) -> None:
    tensor = rt.tensor("i32", (2, 3), [[1, 2, 3], [4, 5, 6]], owned=True)
    turned = rt.call("runtime_gpu_transpose", tensor, permutation=(1, 0)).succeeds().out
    first = export(rt, tensor, legacy)

    second = export(rt, turned, legacy)
    for size in range(1, 60):
        free(rt, rt.tensor("u8", (size,), owned=True))  # noise in the heap

    assert first != second
    assert first.dl_tensor.shape != second.dl_tensor.shape
    assert (extents(first), steps(first)) == ((2, 3), (3, 1))
    assert (extents(second), steps(second)) == ((3, 2), (1, 3))
    end(rt, second)
    assert seen(rt, first).tolist() == [[1, 2, 3], [4, 5, 6]]


@both
@case("P43", "P45")
@clause("KINA-DLPACK-12", "8bd77ad6")
def test_the_deleter_gives_the_bytes_back_to_their_resource(rt: Executor, legacy: bool) -> None:
    before = rt.counters()
    tensor = rt.tensor("f32", (100, 100), owned=True)
    held = rt.counters()
    managed = export(rt, tensor, legacy)
    assert managed.deleter != rt.ffi.NULL
    assert rt.counters() == held != before

    end(rt, managed)

    assert rt.counters() == before


@both
@clause("KINA-DLPACK-12", "8bd77ad6")
def test_the_bytes_stay_while_another_tensor_holds_them(rt: Executor, legacy: bool) -> None:
    tensor = rt.tensor("f32", (3,), [1, 2, 3], owned=True)
    other = rt.call("runtime_alias", tensor).succeeds().out
    held = rt.counters()

    end(rt, export(rt, tensor, legacy))

    assert rt.counters() == held
    assert other.numpy().tolist() == [1, 2, 3]


@both
@case("P50")
@clause("KINA-DLPACK-13", "c0a38937")
def test_deleters_run_on_any_thread_while_others_call(rt: Executor, legacy: bool) -> None:
    structs = [export(rt, rt.tensor("f32", (50,), owned=True), legacy) for _ in range(64)]
    rt.forget(structs)
    done = threading.Event()
    failures: list[str] = []

    def call() -> None:
        out = rt.ffi.new("KinaTensor *")
        shape = rt.ffi.new("int64_t[]", [5])
        while not done.is_set():
            made = rt.lib.library.runtime_alloc(out, shape, 1, DTYPES["f32"].value, 1, 0, rt.ffi.NULL)
            if made != 0 or rt.lib.library.runtime_free(out) != 0:
                failures.append("alloc or free failed")
                return

    def delete(some: list[Any]) -> None:
        for managed in some:
            managed.deleter(managed)

    caller = threading.Thread(target=call)
    deleters = [threading.Thread(target=delete, args=(structs[i::4],)) for i in range(4)]
    for thread in (caller, *deleters):
        thread.start()
    for thread in deleters:
        thread.join()
    done.set()
    caller.join()

    assert not failures


@both
@clause("KINA-DLPACK-13", "c0a38937")
def test_a_deleter_leaves_the_error_record_as_it_was(rt: Executor, legacy: bool) -> None:
    managed = export(rt, rt.tensor(owned=True), legacy)
    rt.call(give(legacy), tensor=None, params=None).status()
    record = rt.record()

    end(rt, managed)

    assert rt.record() == record


@both
@clause("KINA-STATUS-34", "91efe25b")
def test_deleters_still_work_after_dlclose(rt: Executor, legacy: bool) -> None:
    script = f"""
import _ctypes, sys
from kina import Runtime, zeros
runtime = Runtime({rt.lib.path!r})
tensor = zeros((100, 100), "f32", runtime=runtime)
out = runtime.ffi.new("struct {STRUCTS[legacy]} **")
assert runtime.{give(legacy)}(out, tensor.struct, runtime.ffi.NULL) == 0
managed = out[0]
managed_address = int(runtime.ffi.cast("uintptr_t", managed.deleter))
runtime.ffi.dlclose(runtime.library)
managed.deleter(managed)
print("deleted")
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=_environment(), timeout=60)

    assert (run.returncode, run.stdout) == (0, "deleted\n"), run.stderr


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@both
@clause("KINA-DLPACK-14", "caae8b1b")
def test_views_and_aliases_live_on_and_see_what_the_consumer_writes(rt: Executor, legacy: bool) -> None:
    tensor = rt.tensor("f32", (2, 3), 0, owned=True)
    view = rt.call("runtime_gpu_slice", tensor, axis=1, start=1, stop=3).succeeds().out
    alias = rt.call("runtime_alias", tensor).succeeds().out
    managed = export(rt, tensor, legacy)

    seen(rt, managed)[...] = [[1, 2, 3], [4, 5, 6]]

    assert view.numpy().tolist() == [[2, 3], [5, 6]]
    end(rt, managed)
    assert alias.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]


@both
@clause("KINA-DLPACK-15", "6427f13a")
def test_an_export_of_an_import_holds_the_import(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy, values=[[1, 2, 3], [4, 5, 6]])

    managed = export(rt, imported(rt, producer), not legacy)

    assert producer.deleted == 0
    assert address_of(rt, managed.dl_tensor.data) == producer.element_address
    assert seen(rt, managed).tolist() == [[1, 2, 3], [4, 5, 6]]
    end(rt, managed)
    assert producer.deleted == 1


@clause("KINA-DLPACK-16", "50b46e60")
def test_an_export_is_stamped_1_0(rt: Executor) -> None:
    for limit in ({}, {"max_major": 1, "max_minor": 0}, {"max_major": 1, "max_minor": 3}):
        params: dict[str, Any] = limit
        managed = export(rt, rt.tensor(owned=True), **params)
        assert (managed.version.major, managed.version.minor) == (1, 0)


@clause("KINA-DLPACK-17", "bcfd49ef")
@clause("KINA-DLPACK-19", "2f94d16c")
def test_the_flags_of_an_export_say_what_it_is_and_no_more(rt: Executor) -> None:
    copy, read_only = rt.lib.KINA_DLPACK_COPY, rt.lib.KINA_DLPACK_READ_ONLY
    for source, asked, expected in (
        (False, 0, 0),
        (True, 0, READ_ONLY),
        (False, read_only, READ_ONLY),
        (True, read_only, READ_ONLY),
        (False, copy, IS_COPIED),
        (True, copy, IS_COPIED),
        (True, copy | read_only, READ_ONLY | IS_COPIED),
    ):
        managed = export(rt, rt.tensor("f32", (2,), owned=True, read_only=source), flags=asked)
        assert managed.flags == expected, (source, asked)


@both
@clause("KINA-DLPACK-18", "89843cf7")
@given(operand=own.operands(own.all_dtypes))
def test_a_copy_has_fresh_compact_bytes_and_equal_elements(rt: Executor, legacy: bool, operand: own.Operand) -> None:
    tensor = owned(rt, operand)
    before, address = tensor.raw().copy(), tensor.address

    managed = export(rt, tensor, legacy, flags="KINA_DLPACK_COPY")

    assert tensor.is_empty
    assert steps(managed) == (compact(operand.shape) if operand.shape else ())
    if before.size:
        assert address_of(rt, managed.dl_tensor.data) != address
        assert seen(rt, managed).tobytes() == before.tobytes()


@both
@clause("KINA-DLPACK-18", "89843cf7")
@clause("KINA-STATUS-44", "01bc6644")
def test_a_copy_comes_from_the_current_resource(rt: Executor, legacy: bool) -> None:
    tensor = rt.tensor("f32", (4,), owned=True)
    copying = rt.params("KinaDlpackParams", flags="KINA_DLPACK_COPY")

    def call() -> Tensor:
        alias: Tensor = rt.call("runtime_alias", tensor).succeeds().out
        return alias

    rt.call(give(legacy), tensor=call, params=copying).refuses(
        "OUT_OF_MEMORY", within=rt.limited, clause="KINA-STATUS-44"
    )


@case("P36")
@clause("KINA-DLPACK-20", "61c60b99")
def test_what_would_be_read_only_is_not_exported_as_legacy(rt: Executor) -> None:
    call = rt.call("runtime_to_dlpack_legacy", tensor=lambda: rt.tensor("f32", (2,), owned=True), params=None)
    asking = rt.params("KinaDlpackParams", flags="KINA_DLPACK_READ_ONLY")

    call.refuses("READ_ONLY", tensor=rt.tensor("f32", (2,), owned=True, read_only=True), clause="KINA-DLPACK-20")
    call.refuses("READ_ONLY", params=asking, clause="KINA-DLPACK-20")
    call.succeeds(
        tensor=rt.tensor("f32", (2,), owned=True, read_only=True),
        params=rt.params("KinaDlpackParams", flags="KINA_DLPACK_COPY"),
    )


@both
@clause("KINA-DLPACK-22", "61e7d392")
def test_a_borrowed_tensor_is_not_exported(rt: Executor, legacy: bool) -> None:
    call = rt.call(give(legacy), tensor=lambda: rt.tensor("f32", (2,), owned=True), params=None)

    call.refuses("UNSUPPORTED", tensor=rt.tensor("f32", (2,)), clause="KINA-DLPACK-22", argument="tensor")
    rt.call(
        give(legacy), rt.tensor("f32", (2,)), params=rt.params("KinaDlpackParams", flags="KINA_DLPACK_COPY")
    ).refuses("UNSUPPORTED", clause="KINA-DLPACK-22", control=False)


@both
@clause("KINA-TENSOR-2", "9d825a0c")
@clause("KINA-TENSOR-3", "4dda0318")
@clause("KINA-TENSOR-4", "d3e0cbf9")
@clause("KINA-TENSOR-21", "8dec1558")
def test_what_is_no_tensor_is_not_exported(rt: Executor, legacy: bool) -> None:
    call = rt.call(give(legacy), tensor=lambda: rt.tensor("f32", (2,), owned=True), params=None)
    stale = rt.tensor("f32", (2,), owned=True)
    names = stale.copy()
    names.watched = False  # its bytes are gone
    free(rt, stale)
    strange = rt.tensor("f32", (2,), owned=True).copy()
    strange.struct.magic = 0x12345678
    outside = rt.tensor("f32", (2,))
    outside.struct.size_bytes = 4

    call.refuses("INVALID_ARGUMENT", tensor=rt.empty(), clause="KINA-TENSOR-2")
    call.refuses("INVALID_HANDLE", tensor=strange, clause="KINA-TENSOR-3")
    call.refuses("INVALID_HANDLE", tensor=names, clause="KINA-TENSOR-4")
    call.refuses("INVALID_SHAPE", tensor=outside, clause="KINA-TENSOR-21")


@both
@clause("KINA-DLPACK-23", "177da5da")
def test_failed_bytes_are_not_exported(rt: Executor, legacy: bool) -> None:
    tensor = rt.tensor("f32", (4,), [1, 2, 3, 4], owned=True)
    half = rt.call("runtime_gpu_slice", tensor, axis=0, start=0, stop=2).succeeds().out
    fine = rt.call("runtime_gpu_slice", tensor, axis=0, start=2, stop=4).succeeds().out
    call = rt.call(give(legacy), tensor=lambda: rt.tensor("f32", (2,), owned=True), params=None)
    rt.call("runtime_failure_set", tensor=half, cause=0, status="DEVICE", message="the disk is gone").succeeds()

    record = call.refuses("FAILED_INPUT", tensor=tensor, clause="KINA-DLPACK-23", argument="tensor")

    assert record.failure != 0
    assert seen(rt, export(rt, fine, legacy)).tolist() == [3, 4]


@clause("KINA-DLPACK-25", "e443997a")
@pytest.mark.needs("sim", "dlpack")
def test_bytes_whose_consumer_cannot_be_followed_are_never_reused(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        neg = rt.constants["KINA_UNARY_NEG"]
        consumer, current = ffi.new("KinaStream *"), ffi.new("KinaResource *")
        assert rt.runtime_stream_checkout(consumer, 12, 0) == rt.runtime_resource_current(current, 12, 0) == 0

        def leaked():
            info = ffi.new("KinaResourceInfo *")
            info.struct_size = ffi.sizeof("KinaResourceInfo")
            assert rt.runtime_resource_info(info, current[0]) == 0
            return info.leaked_blocks

        for _ in range(2):
            x, alias, y = tensor(rt, (4,), (12, 0)), ffi.new("KinaTensor *"), ffi.new("KinaTensor *")
            assert rt.runtime_gpu_unary(x, x, neg) == rt.runtime_alias(alias, x) == 0
            params = ffi.new("KinaDlpackParams *")
            params.struct_size, params.stream = ffi.sizeof("KinaDlpackParams"), consumer[0]
            managed = ffi.new("struct DLManagedTensorVersioned **")
            assert rt.runtime_to_dlpack(managed, x, params) == 0  # the first event: the writer's
            assert rt.runtime_gpu_unary(y, alias, neg) == rt.runtime_free(alias) == 0
            before = leaked()
            managed[0].deleter(managed[0])  # the second one: the reader's, which cannot be had
            print(leaked() - before)
        """,
        KINA_SIM_DEVICES="1",
        KINA_SIM_FAULT="event:2",
    )

    assert told.split() == ["1", "0"]


@both
@case("P54")
@clause("KINA-DLPACK-24", "ae0f3f46")
@clause("KINA-DLPACK-25", "e443997a")
def test_bytes_of_a_host_tensor_are_complete_when_the_export_returns(rt: Executor, legacy: bool) -> None:
    stream = rt.call("runtime_stream_main", device_type=1, device_id=0).succeeds().out
    for params in ({}, {"stream": stream}):
        x = rt.tensor("f32", (1000,), np.arange(1000), owned=True)
        y = rt.call("runtime_gpu_binary", x, x, op="KINA_BINARY_ADD").succeeds().out

        managed = export(rt, y, legacy, **params)

        assert (seen(rt, managed) == np.arange(1000) * 2).all()


# ---- import ---------------------------------------------------------------------------------------------------------


@both
@case("P02")
@clause("KINA-DLPACK-26", "01d06182")
@given(dtype=own.all_dtypes, shape=own.shapes(), offset=st.integers(0, 3))
def test_an_import_is_a_tensor_on_the_producers_own_bytes(
    rt: Executor, legacy: bool, dtype: str, shape: tuple[int, ...], offset: int
) -> None:
    producer = Producer(rt, legacy, dtype=dtype, shape=shape, offset=offset)

    tensor = imported(rt, producer)

    assert (tensor.dtype, tensor.shape, tensor.device) == (dtype, shape, (1, 0))
    assert tensor.flags & rt.lib.KINA_FLAG_IMPORTED
    assert not tensor.flags & rt.lib.KINA_FLAG_OWNED
    assert tensor.struct.allocator == rt.ffi.NULL
    if tensor.elements:
        assert tensor.address == producer.element_address
        assert tensor.raw().tobytes() == producer.elements.tobytes()
    free(rt, tensor)
    assert producer.deleted == 1


@both
@clause("KINA-DLPACK-26", "01d06182")
@clause("KINA-DLPACK-35", "f46200fb")
@given(operand=own.operands(own.all_dtypes))
def test_a_round_trip_keeps_dtype_shape_and_addresses(rt: Executor, legacy: bool, operand: own.Operand) -> None:
    tensor = owned(rt, operand)
    if legacy and tensor.flags & rt.lib.KINA_FLAG_READ_ONLY:
        return
    address, before = tensor.address, tensor.raw().tobytes()
    managed = export(rt, tensor, legacy)
    rt.forget([managed])

    back = rt.call(take(legacy), managed, params=None).succeeds().out

    assert (back.dtype, back.shape) == (operand.dtype, operand.shape)
    assert back.raw().tobytes() == before
    if back.elements:
        assert back.address == address


@both
@case("P26", "P41")
@clause("KINA-DLPACK-27", "705a3612")
def test_a_failed_import_leaves_the_struct_with_its_owner(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy)
    occupied = rt.tensor("f32", (2,), owned=True)
    before = producer.bytes()

    rt.call(take(legacy), producer.managed, params=None, out=occupied).refuses(
        "INVALID_ARGUMENT", clause="KINA-TENSOR-27", argument="out", control=False
    )

    assert producer.bytes() == before
    assert producer.deleted == 0
    free(rt, imported(rt, producer))
    assert producer.deleted == 1


@both
@case("P43")
@clause("KINA-DLPACK-28", "81a206f9")
def test_the_deleter_runs_once_when_the_last_hold_has_ended(rt: Executor, legacy: bool) -> None:
    strays = Producer.strays
    producer = Producer(rt, legacy, shape=(4,))
    tensor = imported(rt, producer)
    view = rt.call("runtime_gpu_slice", tensor, axis=0, start=1, stop=3).succeeds().out
    alias = rt.call("runtime_alias", tensor).succeeds().out
    managed = export(rt, rt.call("runtime_alias", tensor).succeeds().out, legacy)
    releases: list[Callable[[], object]] = [
        lambda: free(rt, tensor),
        lambda: end(rt, managed),
        lambda: free(rt, view),
    ]
    for release in releases:
        release()
        assert producer.deleted == 0

    free(rt, alias)

    assert producer.deleted == 1
    assert Producer.strays == strays


@both
@clause("KINA-DLPACK-28", "81a206f9")
def test_a_weak_reference_does_not_keep_an_import(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy)
    tensor = imported(rt, producer)
    weak = rt.call("runtime_weak_create", tensor).succeeds().out

    free(rt, tensor)

    assert producer.deleted == 1
    assert rt.call("runtime_weak_upgrade", weak).status() == "INVALID_HANDLE"


@both
@pytest.mark.needs("peer")
@clause("KINA-DLPACK-28", "81a206f9")
def test_a_peer_handle_keeps_an_import(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy)
    tensor = imported(rt, producer)
    peer = rt.call("runtime_peer_share", tensor).succeeds().out

    free(rt, tensor)

    assert producer.deleted == 0
    rt.call("runtime_peer_release", peer).succeeds()
    assert producer.deleted == 1


@both
@clause("KINA-DLPACK-12", "8bd77ad6")
def test_an_export_counts_as_a_live_tensor_until_its_deleter(rt: Executor, legacy: bool) -> None:
    tensor = rt.tensor("f32", (3,), owned=True)
    managed = export(rt, rt.call("runtime_alias", tensor).succeeds().out, legacy)
    exclusive = rt.call("runtime_is_exclusive", tensor)
    assert exclusive.succeeds().out == 0

    end(rt, managed)

    assert exclusive.succeeds().out == 1


@both
@case("P45")
@clause("KINA-DLPACK-28", "81a206f9")
def test_a_deleter_that_frees_the_struct_is_left_to_do_so(rt: Executor, legacy: bool) -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    pattern = Producer(rt, legacy)
    for _ in range(50):
        managed = rt.ffi.cast(f"struct {STRUCTS[legacy]} *", libc.malloc(rt.ffi.sizeof(f"struct {STRUCTS[legacy]}")))
        managed[0] = pattern.managed[0]
        managed.deleter = rt.ffi.cast(
            f"void (*)(struct {STRUCTS[legacy]} *)", ctypes.cast(libc.free, ctypes.c_void_p).value
        )
        free(rt, rt.call(take(legacy), managed, params=None).succeeds().out)
    pattern.discard()


@both
@case("P44")
@clause("KINA-DLPACK-29", "20a45dd6")
def test_a_null_deleter_is_not_called(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy, deleter=False, values=[[1, 2, 3], [4, 5, 6]])

    tensor = imported(rt, producer)

    assert tensor.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]
    free(rt, tensor)


@memory_case("P53")
@both
@clause("KINA-DLPACK-30", "9904cc68")
@clause("KINA-STATUS-38", "187afefb")
def test_a_deleter_may_call_the_library(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy)
    inner = Producer(rt, legacy)
    held = imported(rt, inner)
    threads: list[int] = []

    def busy() -> None:
        threads.append(threading.get_ident())
        free(rt, rt.tensor("f32", (10,), owned=True))
        end(rt, export(rt, rt.tensor(owned=True), legacy))
        free(rt, held)

    producer.on_delete = busy

    free(rt, imported(rt, producer))

    assert (producer.deleted, inner.deleted) == (1, 1)
    assert threads == [threading.get_ident()]


@both
@clause("KINA-STATUS-4", "f37fb44f")
def test_failures_of_a_deleter_leave_no_trace(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy)
    tensor = imported(rt, producer)

    def fail() -> None:
        rt.call("runtime_free", tensor=None).status()

    producer.on_delete = fail
    rt.call("runtime_stream_query", stream=None).status()
    record = rt.record()

    free(rt, tensor)

    assert producer.deleted == 1
    assert rt.record() == record


@both
@case("P50", "P51")
@clause("KINA-DLPACK-30", "9904cc68")
def test_deleters_that_need_a_lock_of_their_callers_do_not_deadlock(rt: Executor, legacy: bool) -> None:
    library = rt.lib.library
    function = getattr(library, take(legacy))
    producers: list[Producer] = []
    failures: list[int] = []

    def work() -> None:
        tensors = rt.ffi.new("KinaTensor[8]")
        for _ in range(40):
            for i in range(8):
                producer = Producer(rt, legacy, shape=(3,))  # its deleter needs the interpreter's lock
                producers.append(producer)
                failures.append(function(rt.ffi.addressof(tensors, i), producer.managed, rt.ffi.NULL))
            for i in range(8):
                failures.append(library.runtime_free(rt.ffi.addressof(tensors, i)))

    workers = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)

    assert not any(worker.is_alive() for worker in workers), "the threads wait for each other"
    assert not any(failures)
    assert [producer.deleted for producer in producers] == [1] * len(producers)


@both
@clause("KINA-DLPACK-31", "c7a91796")
def test_an_import_keeps_nothing_of_the_structs_arrays(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy, shape=(2, 3), strides=(3, 1), values=[[1, 2, 3], [4, 5, 6]])
    before = producer.bytes()

    tensor = imported(rt, producer)

    assert producer.bytes() == before
    for i in range(2):
        producer.shape_array[i] = 1 << 40
        producer.stride_array[i] = -(1 << 40)
    copied = rt.call("runtime_copy", tensor, device_type=1, device_id=0).succeeds().out
    assert copied.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]


@clause("KINA-DLPACK-32", "5532c313")
def test_another_major_version_is_refused_unread(rt: Executor) -> None:
    for major in (0, 2, 0xFFFFFFFF):

        def change(producer: Producer, major: int = major) -> None:
            producer.managed.version.major = major
            producer.dl.ndim = -5
            producer.dl.data = producer.dl.shape = producer.dl.strides = rt.ffi.cast("void *", 8)

        refused(rt, "VERSION", "KINA-DLPACK-32", change)


@case("P19", "P33")
@clause("KINA-DLPACK-33", "8cea8d42")
@clause("KINA-DLPACK-34", "c73621d6")
def test_every_minor_version_is_imported(rt: Executor) -> None:
    for minor in (0, 1, 2, 3, 99):
        for null_strides in (False, True):
            producer = Producer(rt, shape=(4,), version=(1, minor), null_strides=null_strides, values=[1, 2, 3, 4])
            assert imported(rt, producer).numpy().tolist() == [1, 2, 3, 4]


@both
@case("P18", "P19")
@clause("KINA-DLPACK-34", "c73621d6")
@clause("KINA-TENSOR-7", "f9fbd2b0")
def test_null_strides_are_compact_row_major(rt: Executor, legacy: bool) -> None:
    tensor = imported(rt, Producer(rt, legacy, shape=(2, 3), null_strides=True, values=[[1, 2, 3], [4, 5, 6]]))

    assert tensor.struct.dl.strides != rt.ffi.NULL
    assert tensor.strides == (3, 1)
    assert tensor.numpy().tolist() == [[1, 2, 3], [4, 5, 6]]


@both
@case("P33", "P35")
@clause("KINA-DLPACK-35", "f46200fb")
@pytest.mark.parametrize("null_strides", [False, True])
def test_the_byte_offset_is_added(rt: Executor, legacy: bool, null_strides: bool) -> None:
    for offset in (2, 4):  # 8 and 16 bytes
        producer = Producer(rt, legacy, shape=(4,), offset=offset, null_strides=null_strides, values=[2, 3, 4, 5])
        assert producer.dl.byte_offset == offset * 4

        tensor = imported(rt, producer)

        copied = rt.call("runtime_copy", tensor, device_type=1, device_id=0).succeeds().out
        assert copied.numpy().tolist() == [2, 3, 4, 5]


@case("P34")
@clause("KINA-DLPACK-35", "f46200fb")
@clause("KINA-DLPACK-7", "22a9adad")
def test_an_offset_survives_every_path_there_and_back(rt: Executor) -> None:
    for first in (False, True):
        for second in (False, True):
            producer = Producer(rt, first, shape=(4,), offset=2, values=[2, 3, 4, 5])
            managed = export(rt, imported(rt, producer), second)
            assert address_of(rt, managed.dl_tensor.data) + managed.dl_tensor.byte_offset == producer.element_address
            rt.forget([managed])

            back = rt.call(take(second), managed, params=None).succeeds().out

            assert back.address == producer.element_address
            assert back.numpy().tolist() == [2, 3, 4, 5]


@both
@clause("KINA-DLPACK-36", "abad9be7")
def test_a_null_shape_is_refused(rt: Executor, legacy: bool) -> None:
    refused(rt, "DLPACK", "KINA-DLPACK-36", lambda p: setattr(p.dl, "shape", rt.ffi.NULL), legacy=legacy)


@both
@clause("KINA-TENSOR-15", "7e378526")
def test_a_rank_or_extent_that_cannot_be_is_refused(rt: Executor, legacy: bool) -> None:
    for ndim in (-1, 33, -(2**31)):
        refused(rt, "INVALID_SHAPE", "KINA-TENSOR-15", lambda p, n=ndim: setattr(p.dl, "ndim", n), legacy=legacy)  # type: ignore[misc]
    refused(rt, "INVALID_SHAPE", "KINA-TENSOR-15", lambda p: p.shape_array.__setitem__(1, -1), legacy=legacy)


@both
@case("P20")
@clause("KINA-DLPACK-37", "19fb74f7")
def test_shape_and_strides_of_a_scalar_are_never_read(rt: Executor, legacy: bool) -> None:
    for pointer in (0, 8):
        producer = Producer(rt, legacy, shape=(), values=2.5)
        producer.dl.shape = rt.ffi.cast("int64_t *", pointer)
        producer.dl.strides = rt.ffi.cast("int64_t *", pointer)

        tensor = imported(rt, producer)

        assert tensor.shape == ()
        assert tensor.numpy().item() == 2.5


@both
@clause("KINA-DLPACK-38", "6a0246f9")
@pytest.mark.parametrize("shape", [(2, 3), (), (1,)])
def test_null_data_with_elements_is_refused(rt: Executor, legacy: bool, shape: tuple[int, ...]) -> None:
    refused(rt, "DLPACK", "KINA-DLPACK-38", lambda p: setattr(p.dl, "data", rt.ffi.NULL), legacy=legacy, shape=shape)


@both
@case("P01", "P02", "P04")
@clause("KINA-DLPACK-39", "f7632500")
@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((0, 0, 0), (1, 1, 1)),
        ((0, 0, 2), (1, 1, 1)),
        ((1, 0, 2), (1, 1, 1)),
        ((0, 3), (3, 1)),
        ((0,), (0,)),
        ((0,), (1,)),
        ((0, 4), (0, 0)),
        ((2, 0), (1 << 62, -(1 << 62))),
    ],
)
def test_a_struct_without_elements_is_imported_whatever_else_it_says(
    rt: Executor, legacy: bool, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    for data, offset in ((0, 0), (3, 5), (4096, 1 << 63)):
        producer = Producer(rt, legacy, shape=shape)
        for axis, stride in enumerate(strides):
            producer.stride_array[axis] = stride
        producer.dl.data = rt.ffi.cast("void *", data)
        producer.dl.byte_offset = offset

        tensor = imported(rt, producer)

        assert tensor.shape == shape
        assert tensor.data == 0
        assert tensor.size_bytes == 0
        free(rt, tensor)
        assert producer.deleted == 1


@both
@case("P64")
@clause("KINA-DLPACK-40", "9a7ae327")
@clause("KINA-STATUS-25", "baced594")
@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((2**32, 2**32, 16), None),
        ((2**62, 4), None),
        ((2**61,), None),
        ((2, 2), (2**61, 1)),
        ((3,), (2**62,)),
        ((2,), (-(2**63),)),
        ((2**31, 2**31), (2**31, 1)),
    ],
)
def test_sizes_that_overflow_are_refused(
    rt: Executor, legacy: bool, shape: tuple[int, ...], strides: tuple[int, ...] | None
) -> None:
    def change(producer: Producer) -> None:
        for axis, extent in enumerate(shape):
            producer.shape_array[axis] = extent
            producer.stride_array[axis] = strides[axis] if strides else 1
        if strides is None:
            producer.dl.strides = rt.ffi.NULL

    broken = Producer(rt, legacy, dtype="i32", shape=(1,) * len(shape))
    change(broken)
    rt.call(
        take(legacy), managed=lambda: Producer(rt, legacy, dtype="i32", shape=(1,) * len(shape)).managed, params=None
    ).refuses("INVALID_SHAPE", managed=broken.managed, clause="KINA-DLPACK-40", argument="managed")
    assert broken.deleted == 0
    broken.discard()


@both
@clause("KINA-DLPACK-40", "9a7ae327")
def test_addresses_that_wrap_are_refused(rt: Executor, legacy: bool) -> None:
    def far(producer: Producer) -> None:
        producer.dl.byte_offset = 2**64 - 4

    def below(producer: Producer) -> None:
        producer.stride_array[0] = -(2**58)

    for change in (far, below):
        refused(rt, "INVALID_SHAPE", "KINA-DLPACK-40", change, legacy=legacy, shape=(2,), offset=1)


@both
@case("P65")
@clause("KINA-DLPACK-47", "a9ec56bd")
def test_strides_are_64_bit_throughout(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy, dtype="u8", shape=(1, 1, 1))
    for axis, (extent, stride) in enumerate(((2, 2**32), (65536, 65536), (65536, 1))):
        producer.shape_array[axis], producer.stride_array[axis] = extent, stride

    tensor, last = rt.own(rt.empty()), rt.own(rt.empty())  # bare calls: the harness would read 8 GiB that are not there
    assert rt.function(producer.take)(tensor.struct, producer.managed, rt.ffi.NULL) == 0
    assert rt.function("runtime_view")(last.struct, tensor.struct, [1], rt.ffi.NULL, 1, 2**33 - 1, 0) == 0
    out = rt.ffi.new(f"struct {STRUCTS[legacy]} **")
    assert tensor.strides == (2**32, 65536, 1)
    assert tensor.size_bytes == 2**33
    assert last.address == producer.element_address + 2**33 - 1

    assert rt.function(give(legacy))(out, tensor.struct, rt.ffi.NULL) == 0

    assert steps(out[0]) == (2**32, 65536, 1)
    out[0].deleter(out[0])


@both
@clause("KINA-DLPACK-41", "42ebff0b")
@pytest.mark.parametrize(
    ("dtype", "good", "bad"), [("f32", 4, 2), ("f64", 8, 4), ("c128", 8, 4), ("i16", 2, 1), ("c64", 4, 2)]
)
def test_misaligned_data_is_refused(rt: Executor, legacy: bool, dtype: str, good: int, bad: int) -> None:
    aligned = Producer(rt, legacy, dtype=dtype, shape=(1,), offset=2)
    aligned.dl.byte_offset = good
    free(rt, imported(rt, aligned))

    refused(
        rt,
        "DLPACK",
        "KINA-DLPACK-41",
        lambda p: setattr(p.dl, "byte_offset", bad),
        legacy=legacy,
        dtype=dtype,
        shape=(1,),
        offset=2,
    )


@both
@case("P23", "P24", "P25")
@clause("KINA-DLPACK-42", "6e05851c")
@given(dtype=own.all_dtypes)
def test_every_dtype_of_the_table_comes_back_as_itself(rt: Executor, legacy: bool, dtype: str) -> None:
    managed = export(rt, rt.tensor(dtype, (3,), owned=True), legacy)
    if dtype == "bool":
        assert (managed.dl_tensor.dtype.code, managed.dl_tensor.dtype.bits, managed.dl_tensor.dtype.lanes) == (6, 8, 1)
    rt.forget([managed])

    back = rt.call(take(legacy), managed, params=None).succeeds().out

    assert back.dtype == dtype


@both
@case("P25", "P26", "P27", "P30", "P31", "P32")
@clause("KINA-DLPACK-42", "6e05851c")
@pytest.mark.parametrize(
    ("code", "bits", "lanes"),
    [
        (99, 16, 1),  # no code at all
        (5, 64, 2),  # complex64 as one producer wrote it
        (5, 32, 1),  # complex of half
        (18, 32, 1),  # complex of bfloat16
        (1, 1, 1),  # TVM's old bool
        (2, 32, 0),
        (2, 32, 2),
        (2, 32, 0x8001),  # a scalable vector
        (3, 64, 1),  # opaque handle
        (17, 4, 1),  # packed 4-bit floats
        (17, 4, 2),
        (15, 6, 1),
        (0, 4, 1),
        (6, 1, 1),
        (4, 32, 1),
        (0, 128, 1),
    ],
)
def test_other_dtypes_and_vectors_are_refused(rt: Executor, legacy: bool, code: int, bits: int, lanes: int) -> None:
    def change(producer: Producer) -> None:
        producer.dl.dtype = {"code": code, "bits": bits, "lanes": lanes}

    refused(rt, "UNSUPPORTED", "KINA-DLPACK-42", change, legacy=legacy, shape=(5,))


@case("P31")
@clause("KINA-DLPACK-42", "6e05851c")
def test_padded_sub_byte_elements_are_refused_too(rt: Executor) -> None:
    def change(producer: Producer) -> None:
        producer.dl.dtype = {"code": 17, "bits": 4, "lanes": 1}
        producer.managed.flags = 4

    refused(rt, "UNSUPPORTED", "KINA-DLPACK-42", change, shape=(5,))


@both
@case("P27")
@clause("KINA-DLPACK-7", "22a9adad")
def test_complex_numbers_have_one_lane_and_count_both_halves(rt: Executor, legacy: bool) -> None:
    for dtype, bits in (("c64", 64), ("c128", 128)):
        raw = export(rt, rt.tensor(dtype, (2,), owned=True), legacy).dl_tensor.dtype
        assert (raw.code, raw.bits, raw.lanes) == (5, bits, 1)


@both
@case("P57", "P59")
@clause("KINA-DLPACK-43", "b2318847")
def test_device_types_that_are_not_here_are_refused(rt: Executor, legacy: bool) -> None:
    for device_type in (0, 4, 5, 7, 8, 9, 10, 11, 14, 15, 16, 17, 18, 99, -1):
        refused(
            rt,
            "UNSUPPORTED",
            "KINA-DLPACK-43",
            lambda p, t=device_type: setattr(p.dl.device, "device_type", t),  # type: ignore[misc]
            legacy=legacy,
        )


@both
@case("P60")
@clause("KINA-DLPACK-43", "b2318847")
@clause("KINA-STATUS-24", "b7c8e81b")
def test_accelerators_are_imported_where_they_are(rt: Executor, legacy: bool) -> None:
    count = rt.ffi.new("int32_t *")
    for device_type in (2, 12):
        assert rt.function("runtime_device_count")(count, device_type) == 0
        producer = Producer(rt, legacy, device=(device_type, count[0]))
        expected = "INVALID_ARGUMENT" if count[0] else "UNSUPPORTED"
        rt.call(take(legacy), producer.managed, params=None).refuses(
            expected, clause=["KINA-DLPACK-43", "KINA-STATUS-24"], argument="managed", control=False
        )
        producer.discard()


@both
@case("P56", "P58")
@clause("KINA-DLPACK-43", "b2318847")
@clause("KINA-DLPACK-44", "35228cfe")
@clause("KINA-DLPACK-45", "4fd7e274")
@pytest.mark.parametrize("device_type", [1, 3, 13])
def test_memory_that_the_host_reads_is_imported_under_its_own_type(
    rt: Executor, legacy: bool, device_type: int
) -> None:
    for device_id in (0, 1, -1):
        producer = Producer(rt, legacy, shape=(4,), values=[1, 2, 3, 4], device=(device_type, device_id))

        tensor = imported(rt, producer)
        part = rt.call("runtime_gpu_slice", tensor, axis=0, start=1, stop=3).succeeds().out
        total = (
            rt.call("runtime_gpu_binary", part, rt.tensor("f32", (2,), [10, 20]), op="KINA_BINARY_ADD").succeeds().out
        )

        assert tensor.device == part.device == (device_type, 0)
        assert total.numpy().tolist() == [12, 23]
        managed = export(rt, part, legacy)
        assert (managed.dl_tensor.device.device_type, managed.dl_tensor.device.device_id) == (device_type, 0)


@both
@case("P05", "P06", "P07", "P09")
@clause("KINA-DLPACK-46", "c7fd0c53")
@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((1, 77), (1, 1)),
        ((1, 1, 16, 8), (1, 1, 8, 1)),
        ((1,), (3,)),
        ((1, 3, 1, 4, 1), (0, 4, 0, 1, 0)),
        ((3, 1, 6, 2), (12, 1, 2, 1)),
        ((2, 1), (1, -(1 << 62))),
    ],
)
def test_strides_of_axes_of_extent_1_mean_nothing(
    rt: Executor, legacy: bool, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    producer = Producer(rt, legacy, dtype="i32", shape=shape, values=values)
    for axis, stride in enumerate(strides):
        producer.stride_array[axis] = stride

    tensor = imported(rt, producer)

    flat = rt.call("runtime_gpu_reshape", tensor, new_shape=(values.size,), new_ndim=1).succeeds().out
    total = rt.call("runtime_gpu_reduce", tensor, axis=0, op="KINA_REDUCE_SUM").succeeds().out
    assert tensor.size_bytes == values.size * 4
    assert flat.address == tensor.address, "a contiguous tensor was copied"
    assert flat.numpy().tolist() == values.ravel().tolist()
    assert total.numpy().tolist() == values.sum(axis=0).tolist()


@both
@case("P10", "P12", "P14", "P15")
@clause("KINA-DLPACK-47", "a9ec56bd")
@pytest.mark.parametrize(
    ("dtype", "shape", "strides", "memory", "first", "expected"),
    [
        ("f64", (3, 4), (4, -1), 12, 3, [[3, 2, 1, 0], [7, 6, 5, 4], [11, 10, 9, 8]]),
        ("i32", (5,), (2,), 10, 0, [0, 2, 4, 6, 8]),
        ("i32", (10,), (0,), 10, 7, [7] * 10),
        ("f32", (2, 2), (1, 2), 4, 0, [[0, 2], [1, 3]]),
        ("f32", (3, 2), (4, 1), 12, 0, [[0, 1], [4, 5], [8, 9]]),
        ("i16", (2, 3), (-3, -1), 6, 5, [[5, 4, 3], [2, 1, 0]]),
    ],
)
def test_every_stride_is_honoured(
    rt: Executor,
    legacy: bool,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    memory: int,
    first: int,
    expected: Any,
) -> None:
    producer = Producer(rt, legacy, dtype=dtype, shape=(memory,), values=np.arange(memory))
    arrays = [rt.ffi.new("int64_t[]", list(shape)), rt.ffi.new("int64_t[]", list(strides))]
    producer.dl.ndim, producer.dl.shape, producer.dl.strides = len(shape), *arrays
    producer.dl.byte_offset = first * dtype_of(dtype).bytes

    tensor = imported(rt, producer)

    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = first + sum(min(r, 0) for r in reach), first + sum(max(r, 0) for r in reach)
    assert tensor.data == producer.buffer.address + low * dtype_of(dtype).bytes
    assert tensor.size_bytes == (high - low + 1) * dtype_of(dtype).bytes
    copied = rt.call("runtime_copy", tensor, device_type=1, device_id=0).succeeds().out
    assert copied.numpy().tolist() == expected


@case("P37", "P39")
@clause("KINA-DLPACK-48", "3481025f")
def test_a_read_only_import_is_not_written(rt: Executor) -> None:
    writing = rt.call("runtime_fill", lambda: rt.tensor("f32", (4,)), value=np.float32(9), value_bytes=4)
    asking = {"flags": rt.lib.KINA_DLPACK_READ_ONLY}
    for legacy, flags, strides, params in (
        (False, READ_ONLY, None, {}),
        (False, READ_ONLY | IS_COPIED | 0xF0, None, {}),
        (False, 0, None, asking),
        (True, 0, None, asking),
        (False, 0, (0,), {}),
        (True, 0, (0,), {}),
    ):
        tensor = imported(rt, Producer(rt, legacy, shape=(4,), flags=flags, strides=strides), **params)

        assert tensor.flags & rt.lib.KINA_FLAG_READ_ONLY
        writing.refuses("READ_ONLY", tensor=tensor)


@both
@case("P37")
@clause("KINA-DLPACK-48", "3481025f")
def test_any_other_import_is_written_through(rt: Executor, legacy: bool) -> None:
    producer = Producer(rt, legacy, shape=(4,))
    tensor = imported(rt, producer)

    rt.call("runtime_fill", tensor, value=np.float32(9), value_bytes=4).succeeds()

    assert not tensor.flags & rt.lib.KINA_FLAG_READ_ONLY
    assert producer.elements.tolist() == [9, 9, 9, 9]


@clause("KINA-DLPACK-49", "23547f63")
def test_unknown_flag_bits_of_a_struct_are_ignored_and_not_handed_on(rt: Executor) -> None:
    for flags in (4, 0xF0, 1 << 63):
        tensor = imported(rt, Producer(rt, flags=flags))

        assert not tensor.flags & rt.lib.KINA_FLAG_READ_ONLY
        assert export(rt, tensor).flags == 0


@clause("KINA-DLPACK-50", "66634dde")
def test_an_import_is_exclusive_only_if_it_is_a_copy(rt: Executor) -> None:
    for legacy, flags, expected in ((False, IS_COPIED, 1), (False, 0, 0), (True, 0, 0)):
        tensor = imported(rt, Producer(rt, legacy, flags=flags))

        assert rt.call("runtime_is_exclusive", tensor).succeeds().out == expected

    copied = imported(rt, Producer(rt, flags=IS_COPIED))
    rt.call("runtime_alias", copied).succeeds()
    assert rt.call("runtime_is_exclusive", copied).succeeds().out == 0


@both
@clause("KINA-DLPACK-51", "51ad06fa")
def test_the_last_free_of_an_import_comes_before_its_deleter_returns(rt: Executor, legacy: bool) -> None:
    stream = rt.call("runtime_stream_main", device_type=1, device_id=0).succeeds().out
    for params in ({}, {"stream": stream}):
        producer = Producer(rt, legacy, shape=(4,), values=[1, 2, 3, 4])
        tensor = imported(rt, producer, **params)
        used = rt.call("runtime_gpu_unary", tensor, op="KINA_UNARY_NEG").succeeds().out
        at_delete: list[Any] = []
        producer.on_delete = lambda at=at_delete, used=used: at.append(used.numpy().tolist())

        free(rt, tensor)

        assert at_delete == [[-1, -2, -3, -4]]


@clause("KINA-TENSOR-30", "2d933e5c")
def test_two_imports_of_one_buffer_overlap(rt: Executor) -> None:
    first = Producer(rt, shape=(4,), values=[1, 2, 3, 4])
    second = Producer(rt, True, shape=(4,))
    second.dl.data, second.dl.byte_offset = first.dl.data, 4
    third = Producer(rt, shape=(2,), deleter=False)
    third.dl.data, third.dl.byte_offset = first.dl.data, 0
    second.dl.shape[0] = 2
    a, b = imported(rt, first), imported(rt, second)

    call = rt.call("runtime_gpu_unary", b, op="KINA_UNARY_NEG", out=lambda: rt.out("f32", (2,)))

    call.refuses("OVERLAP", out=imported(rt, third), clause="KINA-TENSOR-30")
    assert a.numpy().tolist() == [1, 2, 3, 4]


@both
@clause("KINA-STATUS-17", "fee89868")
def test_many_round_trips_hold_nothing(rt: Executor, legacy: bool) -> None:
    before, strays = rt.counters(), Producer.strays
    for _ in range(300):
        end(rt, export(rt, rt.tensor("f32", (8,), owned=True), legacy))
        producer = Producer(rt, legacy)
        free(rt, imported(rt, producer))
        assert producer.deleted == 1

    assert rt.counters() == before
    assert Producer.strays == strays


@both
@clause("KINA-DLPACK-21", "65b8824c")
@pytest.mark.needs("sim", devices=2)
def test_a_peer_tensor_is_exported_as_a_copy_alone(rt: Executor, legacy: bool) -> None:
    x = rt.call("runtime_copy", rt.tensor("f32", (3,), [1, 2, 3]), 12, 0).succeeds().out
    peer = rt.call("runtime_peer_share", x).succeeds().out
    opened = lambda: rt.call("runtime_peer_open", peer, 12, 1).succeeds().out  # noqa: E731
    call = rt.call(give(legacy), tensor=opened, params={"flags": "KINA_DLPACK_COPY"})

    call.refuses("UNSUPPORTED", params={}, clause="KINA-DLPACK-21")


@both
@clause("KINA-DLPACK-52", "fcd98b2b")
@pytest.mark.needs("sim")
def test_the_stream_of_an_export_is_of_the_tensors_device(rt: Executor, legacy: bool) -> None:
    own, other = (rt.call("runtime_stream_checkout", kind, 0).succeeds().out for kind in (12, 1))
    x = rt.tensor("f32", (3,), [1, 2, 3])
    there = lambda: rt.call("runtime_copy", x, 12, 0).succeeds().out  # noqa: E731
    call = rt.call(give(legacy), tensor=there, params={"stream": own})

    call.refuses("DEVICE_MISMATCH", params={"stream": other}, clause="KINA-DLPACK-52")
