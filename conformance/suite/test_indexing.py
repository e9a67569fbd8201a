"""The indexing chapter: gather, gather_axis, repeat_interleave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance import strategies as kst
from kina_conformance.compare import equal_bits
from kina_conformance.dtypes import DTYPES
from kina_conformance.executor import Call
from kina_conformance.memory import Tensor, compact
from kina_conformance.operations import failed, stored

GATHERS = ["runtime_gpu_gather", "runtime_gpu_gather_axis"]


def gather(rt: Executor, function: str, values: Tensor, indices: Tensor, axis: int = 0, **changes: Any) -> Call:
    extra = {"axis": axis} if function.endswith("axis") else {}
    return rt.call(function, **{"values": values, "indices": indices, **extra, **changes})


def indices_in(data: st.DataObject, rt: Executor, extent: int, shape: tuple[int, ...]) -> Tensor:
    """Indices of either dtype, in any layout."""
    dtype = data.draw(st.sampled_from(["i32", "i64"]))
    layout = data.draw(kst.operands(dtype=dtype, shape=shape, writable=True))
    tensor = layout.out_on(rt)
    seed = data.draw(st.integers(0, 999))
    tensor.write(np.random.default_rng(seed).integers(0, max(extent, 1), shape))
    return tensor


def is_compact_and_owned(rt: Executor, y: Tensor) -> bool:
    return y.flags == rt.constant("KINA_FLAG_OWNED") and y.strides == compact(y.shape)


# ---- gather ---------------------------------------------------------------------------------------------------------


@clause("KINA-INDEXING-1", "7cf413f4")
@clause("KINA-INDEXING-5", "03c85991")
@clause("KINA-INDEXING-14", "5065f203")
@clause("KINA-INDEXING-20", "28a4e07d")
@given(data=st.data())
def test_gather_axis_takes_the_slices_that_indices_name(rt: Executor, data: st.DataObject) -> None:
    source = data.draw(kst.operands(dtype=kst.all_dtypes, shape=kst.shapes((1, 4)), kinds=("any",)))
    ndim = len(source.shape)
    axis = data.draw(st.integers(-ndim, ndim - 1))
    extent = source.shape[axis]
    shape = data.draw(kst.shapes((0, 3), [0] if extent == 0 else [0, 1, 2, 5]))
    if extent == 0 and 0 not in shape:
        shape = (0,)
    values, indices = source.on(rt), indices_in(data, rt, extent, shape)
    result = np.take(values.raw(), indices.numpy(), axis=axis)
    call = gather(rt, "runtime_gpu_gather_axis", values, indices, axis)

    y = call.succeeds().out

    equal_bits(y, result)
    assert y.dtype == source.dtype and is_compact_and_owned(rt, y)
    out = data.draw(kst.operands(dtype=source.dtype, shape=result.shape, writable=True))
    equal_bits(call.succeeds(out=out.out_on(rt)).out, result)


@clause("KINA-INDEXING-2", "92a65eeb")
@given(data=st.data())
def test_gather_is_gather_axis_zero(rt: Executor, data: st.DataObject) -> None:
    source = data.draw(kst.operands(dtype=kst.all_dtypes, shape=kst.shapes((1, 3), [1, 2, 5]), kinds=("any",)))
    values = source.on(rt)
    indices = indices_in(data, rt, source.shape[0], data.draw(kst.shapes((0, 2), [0, 1, 3])))

    plain = gather(rt, "runtime_gpu_gather", values, indices).succeeds().out
    along = gather(rt, "runtime_gpu_gather_axis", values, indices, 0).succeeds().out

    equal_bits(plain, np.take(values.raw(), indices.numpy(), axis=0))
    equal_bits(along, plain.raw())


@clause("KINA-INDEXING-3", "41762429")
@pytest.mark.parametrize("axis", [2, -3, 32, -(2**31), 2**31 - 1])
def test_an_axis_outside_the_rank_of_values_is_refused(rt: Executor, axis: int) -> None:
    call = gather(rt, "runtime_gpu_gather_axis", rt.tensor("f32", (2, 3)), rt.tensor("i32", (1,), 0))

    call.refuses("INVALID_SHAPE", clause="KINA-INDEXING-3", argument="axis", axis=axis)


@clause("KINA-INDEXING-3", "41762429")
@pytest.mark.parametrize("function", GATHERS)
def test_a_scalar_has_nothing_to_gather_from(rt: Executor, function: str) -> None:
    call = gather(rt, function, rt.tensor("f32", (1,)), rt.tensor("i64", (1,), 0))

    call.refuses("INVALID_SHAPE", clause="KINA-INDEXING-3", values=rt.tensor("f32", ()))


@clause("KINA-INDEXING-4", "dbe269cf")
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype not in {"i32", "i64"}])
@pytest.mark.parametrize("function", GATHERS)
def test_indices_are_i32_or_i64(rt: Executor, function: str, dtype: str) -> None:
    call = gather(rt, function, rt.tensor("f32", (2, 3)), rt.tensor("i32", (2,), 0))

    call.refuses("INVALID_DTYPE", clause="KINA-INDEXING-4", argument="indices", indices=rt.tensor(dtype, (2,), 0))


@clause("KINA-INDEXING-5", "03c85991")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", GATHERS)
def test_every_bit_of_every_dtype_is_gathered(rt: Executor, function: str, dtype: str) -> None:
    elements = kst.make_elements(dtype, (7, 3), "any", 11)
    values = stored(rt, dtype, elements)

    y = gather(rt, function, values, rt.tensor("i32", (4,), [6, 0, 3, 6])).succeeds().out

    equal_bits(y, elements[[6, 0, 3, 6]])


@clause("KINA-INDEXING-6", "33609ebb")
@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_a_scalar_index_removes_the_axis(rt: Executor, dtype: str) -> None:
    values = rt.tensor("i32", (2, 3), [[1, 2, 3], [4, 5, 6]])

    row = gather(rt, "runtime_gpu_gather", values, rt.tensor(dtype, (), 1)).succeeds().out
    column = gather(rt, "runtime_gpu_gather_axis", values, rt.tensor(dtype, (), 2), -1).succeeds().out

    assert (row.numpy().tolist(), column.numpy().tolist()) == ([4, 5, 6], [3, 6])


@clause("KINA-INDEXING-7", "37ccdeda")
@pytest.mark.parametrize("function", GATHERS)
def test_a_result_of_too_many_dimensions_is_refused(rt: Executor, function: str) -> None:
    values = rt.tensor("f32", (2,) + (1,) * 15)
    call = gather(rt, function, values, rt.tensor("i32", (1,) * 17, 0))

    assert len(call.succeeds().out.shape) == 32
    call.refuses("INVALID_SHAPE", clause="KINA-INDEXING-7", indices=rt.tensor("i32", (1,) * 18, 0))


@clause("KINA-INDEXING-7", "37ccdeda")
@clause("KINA-STATUS-25", "baced594")
@pytest.mark.parametrize("function", GATHERS)
def test_a_result_of_too_many_bytes_is_refused(rt: Executor, function: str) -> None:
    values = rt.tensor("f64", (1, 1), strides=(0, 0))
    values.struct.dl.shape[1] = 2**40
    call = gather(rt, function, values, rt.tensor("i32", (0,), 0))

    many = repeated(rt, "i32", 2**30)
    call.refuses("INVALID_SHAPE", clause=["KINA-INDEXING-7", "KINA-STATUS-25"], indices=many)


def repeated(rt: Executor, dtype: str, extent: int) -> Tensor:
    """One element, `extent` times."""
    one = rt.tensor(dtype, (1,), 0, strides=(0,))
    one.struct.dl.shape[0] = extent
    return one


@clause("KINA-INDEXING-8", "6deca6e4")
@clause("KINA-INDEXING-10", "95b9d064")
@clause("KINA-STATUS-20", "f6364a9f")
@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("wrong", [-1, 3, 4, -3, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("function", GATHERS)
def test_an_index_out_of_range_is_refused_before_anything_is_written(
    rt: Executor, function: str, wrong: int, dtype: str
) -> None:
    values = rt.tensor("f32", (3, 2))
    good, bad = rt.tensor(dtype, (5,), 0), rt.tensor(dtype, (5,), [0, 1, 2, 0, wrong])

    for out in (rt.empty, rt.out("f32", (5, 2)), rt.out("f32", (5, 2), owned=True)):
        call = gather(rt, function, values, good, out=out)
        record = call.refuses("INDEX_OUT_OF_RANGE", clause="KINA-INDEXING-8", argument="indices", indices=bad)
        assert record.failure == 0


@clause("KINA-INDEXING-8", "6deca6e4")
@pytest.mark.parametrize("wrong", [2**32, 2**32 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("function", GATHERS)
def test_an_index_is_not_cut_to_32_bits(rt: Executor, function: str, wrong: int) -> None:
    call = gather(rt, function, rt.tensor("f32", (3, 2)), rt.tensor("i64", (2,), 0))

    call.refuses("INDEX_OUT_OF_RANGE", clause="KINA-INDEXING-8", indices=rt.tensor("i64", (2,), [0, wrong]))


@clause("KINA-INDEXING-8", "6deca6e4")
@clause("KINA-INDEXING-12", "4758143f")
@given(data=st.data())
def test_one_wrong_index_anywhere_is_found(rt: Executor, data: st.DataObject) -> None:
    shape = data.draw(kst.shapes((1, 3), [1, 2, 5]))
    axis = data.draw(st.integers(0, 1))
    values = rt.tensor("i32", (3, 4))
    indices = indices_in(data, rt, 3, shape)
    place = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    wrong = data.draw(st.sampled_from([-1, values.shape[axis], 1 << 20, -(1 << 20)]))
    call = gather(rt, "runtime_gpu_gather_axis", values, indices, axis)
    call.succeeds()
    bad = indices.raw()
    bad[place] = wrong

    assert call.status() == "INDEX_OUT_OF_RANGE"


@clause("KINA-INDEXING-9", "d0d94d31")
@pytest.mark.parametrize("function", GATHERS)
def test_every_index_is_checked_also_for_a_result_without_elements(rt: Executor, function: str) -> None:
    call = gather(rt, function, rt.tensor("f32", (3, 0)), rt.tensor("i32", (2,), 0))

    call.refuses("INDEX_OUT_OF_RANGE", clause="KINA-INDEXING-8", indices=rt.tensor("i32", (2,), [0, 3]))


@clause("KINA-INDEXING-9", "d0d94d31")
@pytest.mark.parametrize("function", GATHERS)
def test_an_axis_of_extent_zero_has_no_index(rt: Executor, function: str) -> None:
    call = gather(rt, function, rt.tensor("f32", (0, 2)), rt.tensor("i32", (0,), 0))

    assert call.succeeds().out.shape == (0, 2)
    call.refuses("INDEX_OUT_OF_RANGE", clause="KINA-INDEXING-8", indices=rt.tensor("i32", (1,), 0))


@clause("KINA-INDEXING-10", "95b9d064")
@pytest.mark.parametrize("function", GATHERS)
def test_an_out_keeps_its_failure_state_when_an_index_is_refused(rt: Executor, function: str) -> None:
    out = rt.out("f32", (1, 2), owned=True)
    values, bad = rt.tensor("f32", (3, 2)), rt.tensor("i32", (1,), 3)

    assert gather(rt, function, values, bad, out=out).status() == "INDEX_OUT_OF_RANGE"
    assert rt.call("runtime_failure_get", out).succeeds().out.status == 0
    with failed(rt, out):
        assert gather(rt, function, values, bad, out=out).status() == "INDEX_OUT_OF_RANGE"
        assert rt.call("runtime_failure_get", out).succeeds().out.status != 0


@clause("KINA-INDEXING-13", "9db69c7a")
@clause("KINA-TENSOR-32", "3cfb9a89")
@pytest.mark.parametrize("function", GATHERS)
def test_failed_bytes_anywhere_in_an_input_stop_a_gather(rt: Executor, function: str) -> None:
    values, indices = rt.tensor("f32", (3, 2), owned=True), rt.tensor("i64", (2,), [0, 0], owned=True)
    last = rt.call("runtime_gpu_slice", values, axis=0, start=2, stop=3).succeeds().out

    for out in (rt.empty, rt.out("f32", (2, 2))):
        call = gather(rt, function, values, indices, out=out)
        call.refuses("FAILED_INPUT", within=lambda: failed(rt, last), argument="values")
        call.refuses("FAILED_INPUT", within=lambda: failed(rt, indices), argument="indices")


@clause("KINA-INDEXING-21", "dcd74a90")
@pytest.mark.parametrize("function", GATHERS)
def test_one_index_still_gets_bytes_of_its_own(rt: Executor, function: str) -> None:
    values = rt.tensor("f32", (3, 2), owned=True)

    y = gather(rt, function, values, rt.tensor("i32", (1,), 1)).succeeds().out

    assert is_compact_and_owned(rt, y) and y.data != values.data
    y.write(9)
    assert 9 not in values.numpy()


@clause("KINA-INDEXING-22", "200d3ac9")
@clause("KINA-TENSOR-30", "2d933e5c")
@pytest.mark.parametrize("owned", [True, False], ids=["owned", "borrowed"])
@pytest.mark.parametrize("function", GATHERS)
def test_out_shares_no_byte_with_values_or_indices(rt: Executor, function: str, owned: bool) -> None:
    base = rt.tensor("i32", (64,), 0, owned=owned)
    values, indices = part(rt, base, 20, (3, 2)), part(rt, base, 40, (3,))
    call = gather(rt, function, values, rt.tensor("i32", (3,), 0), out=rt.out("i32", (3, 2)))

    for at in (15, 20, 25):
        call.refuses("OVERLAP", argument="out", out=part(rt, base, at, (3, 2)))
    call = gather(rt, function, rt.tensor("i32", (3, 2)), indices, out=rt.out("i32", (3, 2)))
    for at in (35, 40, 42):
        call.refuses("OVERLAP", argument="out", out=part(rt, base, at, (3, 2)))


def part(rt: Executor, base: Tensor, at: int, shape: Sequence[int]) -> Tensor:
    view = rt.call("runtime_view", base, shape, strides=None, ndim=len(shape), offset_elements=at, flags=0)
    made: Tensor = view.succeeds().out
    return made


@clause("KINA-INDEXING-23", "7c487bc8")
@pytest.mark.parametrize("function", GATHERS)
def test_a_tensor_may_index_itself(rt: Executor, function: str) -> None:
    x = rt.tensor("i32", (4,), [3, 0, 0, 1])

    assert gather(rt, function, x, x).succeeds().out.numpy().tolist() == [1, 3, 3, 0]


# ---- repeat_interleave ----------------------------------------------------------------------------------------------


@clause("KINA-INDEXING-15", "2d8c93be")
@clause("KINA-INDEXING-19", "961128c0")
@clause("KINA-INDEXING-20", "28a4e07d")
@given(data=st.data())
def test_repeat_interleave_repeats_every_slice_in_place(rt: Executor, data: st.DataObject) -> None:
    source = data.draw(kst.operands(dtype=kst.all_dtypes, shape=kst.shapes((1, 4)), kinds=("any",)))
    ndim = len(source.shape)
    axis, repeats = data.draw(st.integers(-ndim, ndim - 1)), data.draw(st.integers(0, 5))
    x = source.on(rt)
    result = np.repeat(x.raw(), repeats, axis=axis)
    call = rt.call("runtime_gpu_repeat_interleave", x, axis=axis, repeats=repeats)

    y = call.succeeds().out

    equal_bits(y, result)
    assert y.dtype == source.dtype and is_compact_and_owned(rt, y)
    out = data.draw(kst.operands(dtype=source.dtype, shape=result.shape, writable=True))
    equal_bits(call.succeeds(out=out.out_on(rt)).out, result)


@clause("KINA-INDEXING-16", "7baf3d1b")
def test_no_repeats_leave_nothing(rt: Executor) -> None:
    y = rt.call("runtime_gpu_repeat_interleave", rt.tensor("f32", (2, 3)), axis=1, repeats=0).succeeds().out

    assert y.shape == (2, 0)


@clause("KINA-INDEXING-16", "7baf3d1b")
@pytest.mark.parametrize("repeats", [-1, -(2**31)])
def test_negative_repeats_are_refused(rt: Executor, repeats: int) -> None:
    call = rt.call("runtime_gpu_repeat_interleave", rt.tensor("f32", (2, 3)), axis=1, repeats=2)

    call.refuses("INVALID_ARGUMENT", clause="KINA-INDEXING-16", argument="repeats", repeats=repeats)


@clause("KINA-INDEXING-17", "e8d99e6c")
@pytest.mark.parametrize("axis", [2, -3, 32, -(2**31), 2**31 - 1])
def test_an_axis_outside_the_rank_is_not_repeated(rt: Executor, axis: int) -> None:
    call = rt.call("runtime_gpu_repeat_interleave", rt.tensor("f32", (2, 3)), axis=0, repeats=2)

    call.refuses("INVALID_SHAPE", clause="KINA-INDEXING-17", argument="axis", axis=axis)


@clause("KINA-INDEXING-17", "e8d99e6c")
def test_a_scalar_is_not_repeated(rt: Executor) -> None:
    call = rt.call("runtime_gpu_repeat_interleave", rt.tensor("f32", (1,)), axis=0, repeats=2)

    call.refuses("INVALID_SHAPE", clause="KINA-INDEXING-17", in_=rt.tensor("f32", ()))


@clause("KINA-INDEXING-18", "d43883c9")
@clause("KINA-STATUS-25", "baced594")
def test_repeats_that_overflow_are_refused(rt: Executor) -> None:
    call = rt.call("runtime_gpu_repeat_interleave", repeated(rt, "u8", 2**40), axis=0, repeats=0)

    call.refuses("INVALID_SHAPE", clause="KINA-INDEXING-18", repeats=2**31 - 1)
    call = rt.call("runtime_gpu_repeat_interleave", repeated(rt, "f64", 2**30), axis=0, repeats=0)
    call.refuses("INVALID_SHAPE", clause=["KINA-INDEXING-18", "KINA-STATUS-25"], repeats=2**31 - 1)


@clause("KINA-INDEXING-21", "dcd74a90")
def test_one_repeat_still_gets_bytes_of_its_own(rt: Executor) -> None:
    x = rt.tensor("f32", (3, 2), owned=True)

    y = rt.call("runtime_gpu_repeat_interleave", x, axis=0, repeats=1).succeeds().out

    assert is_compact_and_owned(rt, y) and y.data != x.data


@clause("KINA-INDEXING-22", "200d3ac9")
@clause("KINA-TENSOR-30", "2d933e5c")
@pytest.mark.parametrize("owned", [True, False], ids=["owned", "borrowed"])
def test_a_repeated_out_shares_no_byte_with_in(rt: Executor, owned: bool) -> None:
    base = rt.tensor("f32", (64,), owned=owned)
    call = rt.call(
        "runtime_gpu_repeat_interleave", part(rt, base, 20, (4,)), axis=0, repeats=1, out=rt.out("f32", (4,))
    )

    for at in (17, 20, 23):
        call.refuses("OVERLAP", argument="out", out=part(rt, base, at, (4,)))


@clause("KINA-TENSOR-32", "3cfb9a89")
def test_failed_bytes_are_not_repeated(rt: Executor) -> None:
    x = rt.tensor("f32", (3, 2), owned=True)

    for out in (rt.empty, rt.out("f32", (6, 2))):
        call = rt.call("runtime_gpu_repeat_interleave", x, axis=0, repeats=2, out=out)
        call.refuses("FAILED_INPUT", within=lambda: failed(rt, x), argument="in")
