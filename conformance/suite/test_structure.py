"""The structure chapter: transpose, reshape, broadcast, slice, concat."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance import strategies as kst
from kina_conformance.compare import equal_bits
from kina_conformance.dtypes import DTYPES, Array
from kina_conformance.executor import Call
from kina_conformance.memory import Tensor, compact
from kina_conformance.operations import failed, stored

VIEWS = ["transpose", "reshape", "broadcast", "slice"]
ALL = [*VIEWS, "concat", "concat_n"]


def valid(rt: Executor, name: str, x: Tensor, **changes: Any) -> Call:
    """A call on a (2, 3) tensor that works, and its result has another shape."""
    arguments: dict[str, Any] = {
        "transpose": {"in_": x, "permutation": (1, 0)},
        "reshape": {"in_": x, "new_shape": (3, 2), "new_ndim": 2},
        "broadcast": {"in_": x, "target_shape": (4, 2, 3), "target_ndim": 3},
        "slice": {"in_": x, "axis": 1, "start": 1, "stop": 3},
        "concat": {"a": x, "b": x, "axis": 0},
        "concat_n": {"inputs": [x, x, x], "count": 3, "axis": -1},
    }[name]
    return rt.call(f"runtime_gpu_{name}", **{**arguments, **changes})


def expected(name: str, raw: Array) -> Array:
    """What `valid` gives for these elements."""
    results: dict[str, Callable[[], Array]] = {
        "transpose": lambda: raw.T,
        "reshape": lambda: raw.reshape(3, 2),
        "broadcast": lambda: np.broadcast_to(raw, (4, 2, 3)),
        "slice": lambda: raw[:, 1:3],
        "concat": lambda: np.concatenate([raw, raw]),
        "concat_n": lambda: np.concatenate([raw, raw, raw], axis=1),
    }
    return np.asarray(results[name]())


def repeats_bytes(shape: Sequence[int], strides: Sequence[int]) -> bool:
    return 0 not in shape and any(s == 0 and n > 1 for n, s in zip(shape, strides, strict=True))


def is_view_of(rt: Executor, y: Tensor, x: Tensor) -> bool:
    """Flags and place of a view; False when `y` has bytes of its own."""
    owned, view = rt.constant("KINA_FLAG_OWNED"), rt.constant("KINA_FLAG_VIEW")
    read_only = rt.constant("KINA_FLAG_READ_ONLY")
    if y.flags & owned:
        return False
    inherited = (x.flags & ~owned) | view if x.flags & owned else x.flags
    if repeats_bytes(y.shape, y.strides) or repeats_bytes(x.shape, x.strides):
        assert y.flags | read_only == inherited | read_only
    else:
        assert y.flags == inherited
    assert y.elements == 0 or (y.data, y.size_bytes) == (x.data, x.size_bytes)
    return True


def check(rt: Executor, call: Call, x: Tensor, result: Array, out: kst.Operand | None) -> Tensor:
    """The result is right, as a view or in `out`."""
    y: Tensor = call.succeeds().out if out is None else call.succeeds(out=out.out_on(rt)).out
    equal_bits(y, result)
    assert y.dtype == x.dtype
    return y


@st.composite
def cases(draw: st.DrawFn, rank: tuple[int, int] = (0, 4)) -> tuple[kst.Operand, st.DataObject]:
    source = draw(kst.operands(dtype=kst.all_dtypes, shape=kst.shapes(rank), kinds=("any",)))
    return source, draw(st.data())


def drawn_out(data: st.DataObject, dtype: str, shape: Sequence[int]) -> kst.Operand | None:
    if data.draw(st.booleans()):
        return None
    return data.draw(kst.operands(dtype=dtype, shape=tuple(shape), writable=True, kinds=("any",)))


# ---- views and copies -----------------------------------------------------------------------------------------------


@clause("KINA-STRUCTURE-1", "d2be1886")
@clause("KINA-TENSOR-12", "1bab7422")
@pytest.mark.parametrize("owned", [True, False], ids=["owned", "borrowed"])
@pytest.mark.parametrize("name", VIEWS)
def test_an_empty_out_becomes_a_view(rt: Executor, name: str, owned: bool) -> None:
    x = rt.tensor("f32", (2, 3), owned=owned)

    y = valid(rt, name, x).succeeds().out

    assert is_view_of(rt, y, x)
    equal_bits(y, expected(name, x.raw()))


@clause("KINA-STRUCTURE-2", "eacd191c")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["concat", "concat_n"])
def test_joined_tensors_have_new_compact_bytes(rt: Executor, name: str, dtype: str) -> None:
    x = stored(rt, dtype, kst.make_elements(dtype, (2, 3), "any", 3), owned=True)

    y = valid(rt, name, x).succeeds().out

    equal_bits(y, expected(name, x.raw()))
    assert y.flags == rt.constant("KINA_FLAG_OWNED")
    assert y.strides == compact(y.shape) and y.data != x.data


@clause("KINA-STRUCTURE-3", "38343125")
@clause("KINA-STRUCTURE-7", "84077b89")
@clause("KINA-TENSOR-26", "eebbf8de")
@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_a_non_empty_out_receives_every_bit(rt: Executor, name: str, data: st.DataObject) -> None:
    source = data.draw(kst.operands(dtype=kst.all_dtypes, shape=(2, 3), kinds=("any",)))
    x = source.on(rt)
    result = expected(name, x.raw())
    out = data.draw(kst.operands(dtype=source.dtype, shape=result.shape, writable=True))

    y = valid(rt, name, x).succeeds(out=out.out_on(rt)).out

    equal_bits(y, result)


@clause("KINA-STRUCTURE-4", "622a35b1")
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_keeps_the_bytes_and_shares_them(rt: Executor, name: str) -> None:
    x = rt.tensor("i32", (2, 3), owned=True)
    y = valid(rt, name, x).succeeds().out
    place = rt.call("runtime_byte_range", x).succeeds().out.storage

    assert rt.call("runtime_byte_range", y).succeeds().out.storage == place
    assert (y.struct.stream, y.struct.allocator) == (x.struct.stream, x.struct.allocator)
    x.write(np.arange(6).reshape(2, 3) + 40)
    equal_bits(y, expected(name, x.raw()))
    before = y.raw().tobytes()
    rt.call("runtime_free", tensor=x).succeeds()
    rt.tensor("i32", (2, 3), owned=True)
    assert y.raw().tobytes() == before


@clause("KINA-STRUCTURE-4", "622a35b1")
def test_a_write_through_a_view_reaches_the_source(rt: Executor) -> None:
    x = rt.tensor("i32", (2, 3), 0, owned=True)
    y = valid(rt, "slice", x).succeeds().out

    rt.call("runtime_fill", y, value=np.int32(9), value_bytes=4).succeeds()

    assert x.numpy().tolist() == [[0, 9, 9], [0, 9, 9]]


@clause("KINA-STRUCTURE-5", "c91df2e8")
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_failed_bytes_is_made_and_is_failed(rt: Executor, name: str) -> None:
    x = rt.tensor("f32", (2, 3), owned=True)

    with failed(rt, x):
        y = valid(rt, name, x).succeeds().out

        assert rt.call("runtime_failure_get", y).succeeds().out.status != 0
    assert rt.call("runtime_failure_get", y).succeeds().out.status == 0


@clause("KINA-STRUCTURE-6", "f70a2987")
@clause("KINA-TENSOR-32", "3cfb9a89")
@pytest.mark.parametrize("name", ALL)
def test_failed_bytes_are_not_copied(rt: Executor, name: str) -> None:
    x = rt.tensor("f32", (2, 3), owned=True)
    shape = expected(name, x.raw()).shape
    for given_out in [lambda: rt.out("f32", shape), lambda: rt.out("f32", shape, owned=True)]:
        call = valid(rt, name, x, out=given_out)
        call.refuses("FAILED_INPUT", within=lambda: failed(rt, x))


@clause("KINA-STRUCTURE-6", "f70a2987")
@pytest.mark.parametrize("name", ["concat", "concat_n"])
def test_failed_bytes_are_not_joined_into_new_ones(rt: Executor, name: str) -> None:
    x = rt.tensor("f32", (2, 3), owned=True)

    valid(rt, name, x).refuses("FAILED_INPUT", within=lambda: failed(rt, x))


@clause("KINA-STRUCTURE-6", "f70a2987")
def test_new_bytes_of_a_reshape_are_not_made_from_failed_ones(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3), strides=(1, 2), owned=True)

    valid(rt, "reshape", x).refuses("FAILED_INPUT", within=lambda: failed(rt, x))


@clause("KINA-STRUCTURE-6", "f70a2987")
def test_failed_bytes_outside_a_slice_do_not_matter(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3), owned=True)
    first = valid(rt, "slice", x, start=0, stop=1).succeeds().out

    with failed(rt, first):
        y = valid(rt, "slice", x, out=rt.out("f32", (2, 2))).succeeds().out

    equal_bits(y, x.raw()[:, 1:3])


@clause("KINA-STRUCTURE-8", "342bf4b9")
@clause("KINA-TENSOR-30", "2d933e5c")
@pytest.mark.parametrize("owned", [True, False], ids=["owned", "borrowed"])
@pytest.mark.parametrize("name", ALL)
def test_out_shares_no_byte_with_an_input(rt: Executor, name: str, owned: bool) -> None:
    base = rt.tensor("f32", (96,), owned=owned)
    shape = expected(name, np.zeros((2, 3))).shape

    def part(at: int, extents: Sequence[int]) -> Tensor:
        view = rt.call("runtime_view", base, extents, strides=None, ndim=len(extents), offset_elements=at, flags=0)
        made: Tensor = view.succeeds().out
        return made

    size = math.prod(shape)
    call = valid(rt, name, part(40, (2, 3)), out=rt.out("f32", shape))
    for at in (45, 41, 40, 40 - size + 1):
        call.refuses("OVERLAP", argument="out", out=part(at, shape))
    for at in (46, 40 - size):
        assert call.status(out=part(at, shape)) == "SUCCESS"


@clause("KINA-STRUCTURE-8", "342bf4b9")
def test_out_may_not_be_exactly_the_input(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3))
    same: dict[str, Any] = {"reshape": {"new_shape": (2, 3)}, "slice": {"start": 0, "stop": 3}}
    same |= {"broadcast": {"target_shape": (2, 3), "target_ndim": 2}, "transpose": {"permutation": (0, 1)}}

    for name, arguments in same.items():
        valid(rt, name, x, **arguments, out=rt.out("f32", (2, 3))).refuses("OVERLAP", argument="out", out=x)


@clause("KINA-STRUCTURE-32", "25c7ad1a")
@pytest.mark.parametrize("owned", [True, False], ids=["owned", "borrowed"])
@pytest.mark.parametrize("name", ALL)
def test_what_is_read_only_gives_read_only_views_and_writable_copies(rt: Executor, name: str, owned: bool) -> None:
    x = rt.tensor("f32", (2, 3), owned=owned, read_only=True)

    y = valid(rt, name, x).succeeds().out

    assert bool(y.flags & rt.constant("KINA_FLAG_READ_ONLY")) == (name in VIEWS)
    valid(rt, name, x, out=rt.out("f32", y.shape)).succeeds()


# ---- transpose ------------------------------------------------------------------------------------------------------


@clause("KINA-STRUCTURE-9", "fdbd0e9a")
@given(case=cases())
def test_a_transpose_permutes_extents_and_strides(rt: Executor, case: tuple[kst.Operand, st.DataObject]) -> None:
    source, data = case
    ndim = len(source.shape)
    order = data.draw(st.permutations(range(ndim)))
    entries = tuple(axis - ndim * data.draw(st.integers(0, 1)) for axis in order)
    x = source.on(rt)
    result = np.transpose(x.raw(), order)
    out = drawn_out(data, source.dtype, result.shape)

    y = check(rt, rt.call("runtime_gpu_transpose", x, permutation=entries), x, result, out)

    if out is None:
        assert y.strides == tuple(x.strides[axis] for axis in order)
        assert is_view_of(rt, y, x)


@clause("KINA-STRUCTURE-9", "fdbd0e9a")
def test_thirty_two_axes_are_permuted(rt: Executor) -> None:
    shape = tuple(2 if axis % 8 == 0 else 1 for axis in range(32))
    x = rt.tensor("i16", shape, np.arange(16).reshape(shape))
    order = tuple(reversed(range(32)))

    y = rt.call("runtime_gpu_transpose", x, permutation=order).succeeds().out

    equal_bits(y, np.transpose(x.raw(), order))


@clause("KINA-STRUCTURE-10", "794ad3cc")
@pytest.mark.parametrize("entries", [(0, 0), (0, 2), (-3, 0), (1, -1), (0, 32), (-(2**31), 0), (2**31 - 1, 1)])
def test_a_permutation_names_each_axis_once(rt: Executor, entries: tuple[int, int]) -> None:
    call = valid(rt, "transpose", rt.tensor("f32", (2, 3)))

    call.refuses("INVALID_SHAPE", clause="KINA-STRUCTURE-10", argument="permutation", permutation=entries)


@clause("KINA-STRUCTURE-11", "413e6e03")
def test_a_permutation_is_null_for_a_scalar_only(rt: Executor) -> None:
    scalar = rt.tensor("f32", (), 7)

    assert rt.call("runtime_gpu_transpose", scalar, permutation=None).succeeds().out.numpy() == 7
    for owned in (True, False):
        call = valid(rt, "transpose", rt.tensor("f32", (2, 3), owned=owned))
        call.refuses("INVALID_ARGUMENT", clause="KINA-STRUCTURE-11", argument="permutation", permutation=None)


@clause("KINA-STRUCTURE-11", "413e6e03")
@clause("KINA-TENSOR-6", "4046082b")
def test_a_changed_rank_does_not_excuse_a_null_permutation(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3), owned=True)
    x.struct.dl.ndim = 0

    status = rt.call("runtime_gpu_transpose", x, permutation=None).status()

    x.struct.dl.ndim = 2
    assert status in {"INVALID_ARGUMENT", "INVALID_HANDLE"}


# ---- reshape --------------------------------------------------------------------------------------------------------


@st.composite
def factorings(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """Extents whose product is `count`, ones among them."""
    if count == 0:
        shape = [0, *draw(st.lists(st.sampled_from([0, 1, 2, 5]), max_size=3))]
        return tuple(draw(st.permutations(shape)))
    shape = []
    while count > 1:
        divisor = draw(st.sampled_from([d for d in range(2, count + 1) if count % d == 0]))
        shape.append(divisor)
        count //= divisor
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return tuple(shape)


def view_strides_exist(raw: Array, shape: Sequence[int]) -> bool:
    """Whether an affine map of the new indices reaches the old places in order: decided on the places themselves."""
    places = np.zeros(raw.shape, np.int64)
    for axis, (extent, stride) in enumerate(zip(raw.shape, raw.strides, strict=True)):
        steps = np.arange(extent) * stride
        places = places + steps.reshape([-1 if i == axis else 1 for i in range(raw.ndim)])
    target = places.reshape(shape)
    affine = np.zeros(shape, np.int64) + (target.flat[0] if target.size else 0)
    for axis, extent in enumerate(shape):
        if extent > 1:
            step = int(target[tuple(1 if i == axis else 0 for i in range(len(shape)))] - target.flat[0])
            affine = affine + (np.arange(extent) * step).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return bool((affine == target).all())


@clause("KINA-STRUCTURE-12", "7ab6079b")
@clause("KINA-STRUCTURE-14", "cc171730")
@clause("KINA-STRUCTURE-15", "20ee8176")
@given(case=cases())
def test_a_reshape_keeps_row_major_order_and_is_a_view_where_strides_allow(
    rt: Executor, case: tuple[kst.Operand, st.DataObject]
) -> None:
    source, data = case
    shape = data.draw(factorings(math.prod(source.shape)))
    assume(len(shape) <= 32)
    x = source.on(rt)
    result = np.ascontiguousarray(x.raw()).reshape(shape)
    out = drawn_out(data, source.dtype, shape)

    y = check(rt, rt.call("runtime_gpu_reshape", x, new_shape=shape, new_ndim=len(shape)), x, result, out)

    if out is None:
        possible = 0 in shape or view_strides_exist(x.raw(), shape)
        assert is_view_of(rt, y, x) == possible
        assert possible or (y.flags == rt.constant("KINA_FLAG_OWNED") and y.strides == compact(shape))


@clause("KINA-STRUCTURE-12", "7ab6079b")
@pytest.mark.parametrize("strides", [(1, 2), (-3, 1), (8, 2)])
def test_a_reshape_between_layouts_that_nothing_reconciles_is_right(rt: Executor, strides: tuple[int, int]) -> None:
    x = rt.tensor("i64", (2, 3), strides=strides)

    y = valid(rt, "reshape", x, out=rt.out("i64", (3, 2), strides=(1, 4))).succeeds().out

    equal_bits(y, np.ascontiguousarray(x.raw()).reshape(3, 2))


@clause("KINA-STRUCTURE-13", "f3095168")
@pytest.mark.parametrize("shape", [(7,), (2, 2), (6, 0), (-1, 6), (-2, -3), (2, -1)])
def test_a_reshape_keeps_the_number_of_elements(rt: Executor, shape: tuple[int, ...]) -> None:
    call = valid(rt, "reshape", rt.tensor("f32", (2, 3)), new_shape=(1, 6))
    clauses = ["KINA-TENSOR-15"] if min(shape) < 0 else ["KINA-STRUCTURE-13"]

    call.refuses(
        "INVALID_SHAPE", clause=clauses, argument="new_shape", new_shape=shape, new_ndim=len(shape), as_one="a shape"
    )


@clause("KINA-STRUCTURE-13", "f3095168")
@clause("KINA-STATUS-25", "baced594")
def test_a_product_that_wraps_to_the_count_is_refused(rt: Executor) -> None:
    call = valid(rt, "reshape", rt.tensor("u8", (0, 3)), new_shape=(3, 0), new_ndim=2)

    call.refuses("INVALID_SHAPE", clause="KINA-STATUS-25", new_shape=(2**32, 2**32))
    call.refuses("INVALID_SHAPE", clause="KINA-STATUS-25", new_shape=(0, 2**62, 8), new_ndim=3, as_one="a shape")


@clause("KINA-STRUCTURE-16", "7f9c7613")
@clause("KINA-STRUCTURE-20", "35b9b32e")
@pytest.mark.parametrize("name", ["reshape", "broadcast"])
def test_a_shape_is_null_without_axes_only(rt: Executor, name: str) -> None:
    function = f"runtime_gpu_{name}"
    shape, ndim = ("new_shape", "new_ndim") if name == "reshape" else ("target_shape", "target_ndim")
    x = rt.tensor("f32", (1,) if name == "reshape" else (), 5)

    y = rt.call(function, x, **{shape: None, ndim: 0}).succeeds().out

    assert y.shape == () and y.numpy() == 5
    call = rt.call(function, x, **{shape: (1, 1), ndim: 2})
    own = "KINA-STRUCTURE-16" if name == "reshape" else "KINA-STRUCTURE-20"
    nothing: dict[str, Any] = {shape: None}
    call.refuses("INVALID_ARGUMENT", clause=own, argument=shape, **nothing)


@clause("KINA-TENSOR-15", "7e378526")
@pytest.mark.parametrize("ndim", [-1, 33, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("name", ["reshape", "broadcast"])
def test_a_rank_outside_the_limit_is_refused(rt: Executor, name: str, ndim: int) -> None:
    shape, rank = ("new_shape", "new_ndim") if name == "reshape" else ("target_shape", "target_ndim")
    call = rt.call(f"runtime_gpu_{name}", rt.tensor("f32", (1,)), **{shape: (1,) * 40, rank: 1})

    change: dict[str, Any] = {rank: ndim}
    call.refuses("INVALID_SHAPE", clause="KINA-TENSOR-15", **change)


# ---- broadcast ------------------------------------------------------------------------------------------------------


@clause("KINA-STRUCTURE-17", "df3b5e3b")
@clause("KINA-STRUCTURE-18", "a55c1f1f")
@clause("KINA-STRUCTURE-19", "1847ca15")
@given(case=cases((0, 3)))
def test_a_broadcast_expands_unit_axes_and_adds_new_ones(rt: Executor, case: tuple[kst.Operand, st.DataObject]) -> None:
    source, data = case
    kept = [n if n != 1 else data.draw(st.sampled_from([0, 1, 3])) for n in source.shape]
    target = (*data.draw(st.lists(st.sampled_from([0, 1, 2]), max_size=2)), *kept)
    x = source.on(rt)
    result = np.broadcast_to(x.raw(), target)
    out = drawn_out(data, source.dtype, target)
    call = rt.call("runtime_gpu_broadcast", x, target_shape=target, target_ndim=len(target))

    y = check(rt, call, x, result, out)

    if out is None:
        added = len(target) - len(source.shape)
        expanded = [i < added or x.shape[i - added] != n for i, n in enumerate(target)]
        own = [0] * added + list(x.strides)
        assert all(s == 0 if e else s == o for s, e, o in zip(y.strides, expanded, own, strict=True) if e or s != o)
        shared = repeats_bytes(y.shape, y.strides)
        assert bool(y.flags & rt.constant("KINA_FLAG_READ_ONLY")) >= shared
        assert is_view_of(rt, y, x)


@clause("KINA-STRUCTURE-19", "1847ca15")
@clause("KINA-TENSOR-13", "2ddca600")
def test_a_broadcast_that_repeats_nothing_stays_writable(rt: Executor) -> None:
    read_only = rt.constant("KINA_FLAG_READ_ONLY")
    x = rt.tensor("f32", (1, 3), owned=True)

    def flags(*target: int) -> int:
        call = rt.call("runtime_gpu_broadcast", x, target_shape=target, target_ndim=len(target))
        return int(call.succeeds().out.flags) & read_only

    assert (flags(1, 1, 3), flags(1, 3), flags(0, 3)) == (0, 0, 0)
    assert (flags(2, 3), flags(2, 1, 3)) == (read_only, read_only)


@clause("KINA-STRUCTURE-17", "df3b5e3b")
@pytest.mark.parametrize("target", [(3,), (2, 4), (2, 1), (3, 3), (0, 3), (2, 3, 1), ()])
def test_a_shape_that_does_not_broadcast_is_refused(rt: Executor, target: tuple[int, ...]) -> None:
    call = valid(rt, "broadcast", rt.tensor("f32", (2, 3)))

    call.refuses(
        "INVALID_SHAPE",
        clause="KINA-STRUCTURE-17",
        argument="target_shape",
        target_shape=target,
        target_ndim=len(target),
        as_one="a shape",
    )


@clause("KINA-STRUCTURE-17", "df3b5e3b")
def test_an_axis_broadcasts_beyond_any_memory(rt: Executor) -> None:
    x = rt.tensor("u8", (1,), 3)

    for extent in (2**31 - 1, 2**31 + 1, 2**62):
        y = rt.call("runtime_gpu_broadcast", x, target_shape=(extent,), target_ndim=1).succeeds().out
        assert y.shape == (extent,) and y.strides == (0,)
    call = rt.call("runtime_gpu_broadcast", x, target_shape=(2**31, 2**31), target_ndim=2)
    call.refuses("INVALID_SHAPE", clause="KINA-STATUS-25", target_shape=(2**32, 2**32))


# ---- slice ----------------------------------------------------------------------------------------------------------


@clause("KINA-STRUCTURE-21", "3ddc7932")
@clause("KINA-STRUCTURE-23", "0d31785f")
@given(case=cases((1, 4)))
def test_a_slice_keeps_indices_from_start_to_stop(rt: Executor, case: tuple[kst.Operand, st.DataObject]) -> None:
    source, data = case
    ndim = len(source.shape)
    axis = data.draw(st.integers(-ndim, ndim - 1))
    stop = data.draw(st.integers(0, source.shape[axis]))
    start = data.draw(st.integers(0, stop))
    x = source.on(rt)
    result = np.moveaxis(np.moveaxis(x.raw(), axis, 0)[start:stop], 0, axis)
    out = drawn_out(data, source.dtype, result.shape)

    y = check(rt, rt.call("runtime_gpu_slice", x, axis=axis, start=start, stop=stop), x, result, out)

    if out is None:
        assert y.strides == x.strides
        assert is_view_of(rt, y, x)
        if y.elements and x.elements:
            assert y.address == x.address + start * x.strides[axis] * DTYPES[x.dtype].bytes


@clause("KINA-STRUCTURE-22", "f894b666")
@pytest.mark.parametrize(
    ("start", "stop"), [(-1, 2), (2, 1), (0, 4), (4, 4), (-2, -1), (0, 2**63 - 1), (-(2**63), 3), (0, -1)]
)
def test_bounds_are_neither_clamped_nor_counted_from_the_end(rt: Executor, start: int, stop: int) -> None:
    call = valid(rt, "slice", rt.tensor("f32", (2, 3)))

    call.refuses("INVALID_SHAPE", clause="KINA-STRUCTURE-22", start=start, stop=stop, as_one="a pair of bounds")


@clause("KINA-STRUCTURE-23", "0d31785f")
def test_an_empty_slice_is_found_at_both_ends(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3))

    for at in (0, 3):
        assert valid(rt, "slice", x, start=at, stop=at).succeeds().out.shape == (2, 0)


# ---- concat ---------------------------------------------------------------------------------------------------------


@clause("KINA-STRUCTURE-24", "3e9532ea")
@given(case=cases((1, 4)))
def test_a_concat_joins_in_order(rt: Executor, case: tuple[kst.Operand, st.DataObject]) -> None:
    first, data = case
    ndim = len(first.shape)
    axis = data.draw(st.integers(-ndim, ndim - 1))
    sources = [first]
    for _ in range(data.draw(st.integers(0, 3))):
        shape = list(first.shape)
        shape[axis] = data.draw(st.sampled_from([0, 1, 2, 5]))
        sources.append(data.draw(kst.operands(dtype=first.dtype, shape=tuple(shape), kinds=("any",))))
    tensors = [source.on(rt) for source in sources]
    result = np.concatenate([tensor.raw() for tensor in tensors], axis=axis)
    out = drawn_out(data, first.dtype, result.shape)
    call = rt.call("runtime_gpu_concat_n", inputs=tensors, count=len(tensors), axis=axis)

    y = check(rt, call, tensors[0], result, out)

    assert out is not None or (y.strides == compact(y.shape) and y.flags == rt.constant("KINA_FLAG_OWNED"))


@clause("KINA-STRUCTURE-25", "5a1d171b")
@given(case=cases((1, 3)))
def test_concat_is_concat_n_of_two(rt: Executor, case: tuple[kst.Operand, st.DataObject]) -> None:
    source, data = case
    axis = data.draw(st.integers(-len(source.shape), len(source.shape) - 1))
    other = data.draw(kst.operands(dtype=source.dtype, shape=source.shape, kinds=("any",)))
    a, b = source.on(rt), other.on(rt)

    two = rt.call("runtime_gpu_concat", a, b, axis=axis).succeeds().out
    many = rt.call("runtime_gpu_concat_n", inputs=[a, b], count=2, axis=axis).succeeds().out

    equal_bits(two, np.concatenate([a.raw(), b.raw()], axis=axis))
    equal_bits(many, two.raw())


@clause("KINA-STRUCTURE-24", "3e9532ea")
def test_a_thousand_tensors_are_joined(rt: Executor) -> None:
    parts = [rt.tensor("i32", (1,), i) for i in range(1000)]

    y = rt.call("runtime_gpu_concat_n", inputs=parts, count=1000, axis=0).succeeds().out

    assert y.numpy().tolist() == list(range(1000))


@clause("KINA-STRUCTURE-26", "c70a788f")
@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (2, 3, 1), (3,), (0, 4), (0,), ()])
def test_shapes_that_do_not_join_are_refused(rt: Executor, shape: tuple[int, ...]) -> None:
    x = rt.tensor("f32", (2, 3))
    axis = 0 if shape not in {(3, 3)} else 1
    other = rt.tensor("f32", shape)

    two = valid(rt, "concat", x, axis=axis)
    two.refuses("INVALID_SHAPE", clause="KINA-STRUCTURE-26", argument="b", b=other)
    many = valid(rt, "concat_n", x, axis=axis)
    many.refuses("INVALID_SHAPE", clause="KINA-STRUCTURE-26", argument="inputs", inputs=[x, other, x])


@clause("KINA-STRUCTURE-27", "e09d41fb")
@pytest.mark.parametrize("dtype", ["f64", "i32", "bf16"])
def test_dtypes_that_differ_are_not_joined(rt: Executor, dtype: str) -> None:
    x, other = rt.tensor("f32", (2, 3)), rt.tensor(dtype, (2, 3))

    valid(rt, "concat", x).refuses("INVALID_DTYPE", clause="KINA-STRUCTURE-27", argument="b", b=other)
    many = valid(rt, "concat_n", x)
    many.refuses("INVALID_DTYPE", clause="KINA-STRUCTURE-27", argument="inputs", inputs=[x, x, other])


@clause("KINA-STRUCTURE-28", "ee4cbc46")
@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_nothing_cannot_be_joined(rt: Executor, count: int) -> None:
    call = valid(rt, "concat_n", rt.tensor("f32", (2, 3)))

    call.refuses("INVALID_ARGUMENT", clause="KINA-STRUCTURE-28", argument="count", count=count)


@clause("KINA-STRUCTURE-28", "ee4cbc46")
def test_one_tensor_is_copied(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3), owned=True)

    y = rt.call("runtime_gpu_concat_n", inputs=[x], count=1, axis=0).succeeds().out

    equal_bits(y, x.raw())
    assert y.data != x.data and y.flags == rt.constant("KINA_FLAG_OWNED")


@clause("KINA-STRUCTURE-29", "6c410dda")
def test_no_entry_of_a_list_is_null(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3))
    call = valid(rt, "concat_n", x)

    for place in range(3):
        entries = [None if i == place else x for i in range(3)]
        call.refuses("INVALID_ARGUMENT", clause="KINA-STRUCTURE-29", argument="inputs", inputs=entries)


@clause("KINA-STRUCTURE-30", "65d38956")
def test_a_tensor_is_joined_with_itself_and_its_views(rt: Executor) -> None:
    x = rt.tensor("i32", (4,), [1, 2, 3, 4], owned=True)
    tail = rt.call("runtime_gpu_slice", x, axis=0, start=1, stop=4).succeeds().out

    y = rt.call("runtime_gpu_concat_n", inputs=[x, tail, x], count=3, axis=0).succeeds().out

    assert y.numpy().tolist() == [1, 2, 3, 4, 2, 3, 4, 1, 2, 3, 4]


@clause("KINA-STRUCTURE-31", "eac2bdf9")
@pytest.mark.parametrize("axis", [2, -3, 32, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("name", ["slice", "concat", "concat_n"])
def test_an_axis_outside_the_rank_is_refused(rt: Executor, name: str, axis: int) -> None:
    call = valid(rt, name, rt.tensor("f32", (2, 3)))

    call.refuses("INVALID_SHAPE", clause="KINA-STRUCTURE-31", argument="axis", axis=axis)


@clause("KINA-STRUCTURE-31", "eac2bdf9")
@pytest.mark.parametrize("axis", [0, -1])
def test_a_scalar_has_no_axis(rt: Executor, axis: int) -> None:
    scalar, x = rt.tensor("f32", ()), rt.tensor("f32", (2, 3))

    call = valid(rt, "slice", x, axis=axis, start=0, stop=1)
    call.refuses("INVALID_SHAPE", clause="KINA-STRUCTURE-31", in_=scalar)
    call = valid(rt, "concat", x, axis=axis)
    call.refuses("INVALID_SHAPE", clause="KINA-STRUCTURE-31", a=scalar, b=scalar, as_one="scalars")


@clause("KINA-STATUS-44", "01bc6644")
@clause("KINA-STRUCTURE-15", "20ee8176")
def test_without_memory_a_reshape_that_copies_has_no_result(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3), strides=(1, 2))

    rt.call("runtime_gpu_reshape", x, new_shape=(3, 2), new_ndim=2).refuses("OUT_OF_MEMORY", within=rt.limited)
