"""The reduction chapter: reduce, softmax and log_softmax."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, Tensor, clause, oracle
from kina_conformance import strategies as kst
from kina_conformance.compare import close, dtypes_of, operation, same
from kina_conformance.dtypes import COMPUTING, DTYPES, Array, decode, encode
from kina_conformance.operations import LAYOUTS, REPEATED, other_dtypes, rows, stored, valued

REDUCE = [row["enumerator"] for row in rows("runtime_gpu_reduce")]
SOFTMAXES = ["runtime_gpu_softmax", "runtime_gpu_log_softmax"]
FLOATS, INTEGERS = kst.FLOATS, kst.INTEGERS
KEEPDIMS = 0x10000
ALL = -(2**31)


def reduce(rt: Executor, op: str, x: Tensor, axis: int = ALL, flags: int = 0, **more: Any) -> Tensor:
    number = rt.constant(f"KINA_REDUCE_{op}") | flags
    result: Tensor = rt.call("runtime_gpu_reduce", x, axis=axis, op=number, **more).succeeds().out
    return result


def name_of(op: str) -> str:
    return str(operation(op)["name"])


def axis_of(axis: int) -> int | None:
    return None if axis == ALL else axis


def close_reduction(y: Tensor, op: str, x: Array, axis: int | None, dtype: str) -> None:
    """Against the exact value, with the table's names."""
    expected = oracle.reduce(name_of(op), x, axis, dtype)
    names = oracle.names_of_sum(x, axis) if dtype in FLOATS else {}
    close(y, expected, op, dtype, **names)


def tame(op: str, dtype: str, shape: tuple[int, ...], kind: str, seed: int) -> Array:
    """Elements for which the table bounds the op: partial products stay in range, sums do not overflow."""
    if dtype not in FLOATS:
        return kst.make_elements(dtype, shape, kind, seed)
    if op == "KINA_REDUCE_PROD":
        random = np.random.default_rng(seed)
        return encode(np.exp2(random.random(shape) - 0.5) * random.choice([-1, 1], shape), dtype)
    if op in {"KINA_REDUCE_SUM", "KINA_REDUCE_MEAN"} and kind in {"teeth", "any"}:
        kind = "unit"
    return kst.make_elements(dtype, shape, kind, seed)


# ---- the axis ----------------------------------------------------------------------------------------------------


@clause("KINA-REDUCTION-1", "4b076fcd")
@clause("KINA-REDUCTION-4", "ffb11a34")
@pytest.mark.parametrize("op", ["SUM", "PROD", "MAX", "MIN", "ARGMAX", "ARGMIN", "ANY", "ALL"])
def test_axes_count_from_both_ends_and_go_or_stay(rt: Executor, op: str) -> None:
    x = rt.tensor("i32", (2, 3, 5))

    for axis in range(3):
        front = reduce(rt, op, x, axis)
        back = reduce(rt, op, x, axis - 3)
        kept = reduce(rt, op, x, axis, KEEPDIMS)
        shape = [2, 3, 5]
        assert list(front.shape) == list(back.shape) == shape[:axis] + shape[axis + 1 :]
        assert list(kept.shape) == [*shape[:axis], 1, *shape[axis + 1 :]]
        assert front.raw().tobytes() == back.raw().tobytes() == kept.raw().tobytes()


@clause("KINA-REDUCTION-1", "4b076fcd")
@pytest.mark.parametrize("function", SOFTMAXES)
def test_a_softmax_axis_counts_from_both_ends(rt: Executor, function: str) -> None:
    x = rt.tensor("f32", (2, 3, 5))

    for axis in range(3):
        front = rt.call(function, x, axis=axis).succeeds().out
        back = rt.call(function, x, axis=axis - 3).succeeds().out
        assert front.raw().tobytes() == back.raw().tobytes()


@clause("KINA-REDUCTION-2", "a4133558")
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 1, 1)])
def test_an_axis_outside_the_rank_is_refused(rt: Executor, shape: tuple[int, ...]) -> None:
    x = rt.tensor("f32", shape)
    calls = [rt.call("runtime_gpu_reduce", x, axis=0, op="KINA_REDUCE_SUM")]
    calls += [rt.call(function, x, axis=0) for function in SOFTMAXES]

    for call in calls:
        for axis in (len(shape), len(shape) + 7, -len(shape) - 1, 32, -33, 2**31 - 1, -(2**31) + 1):
            call.refuses("INVALID_SHAPE", clause="KINA-REDUCTION-2", argument="axis", axis=axis)


@clause("KINA-REDUCTION-2", "a4133558")
@clause("KINA-REDUCTION-3", "d1534ae0")
def test_a_tensor_without_axes_has_only_all_of_them(rt: Executor) -> None:
    x = rt.tensor("f32", (), 2.5)
    calls = [rt.call("runtime_gpu_reduce", x, axis=ALL, op="KINA_REDUCE_SUM")]
    calls += [rt.call(function, x, axis=ALL) for function in SOFTMAXES]

    assert [call.succeeds().out.numpy().tolist() for call in calls] == [2.5, 1.0, 0.0]
    for call in calls:
        for axis in (0, -1, 1):
            call.refuses("INVALID_SHAPE", clause="KINA-REDUCTION-2", argument="axis", axis=axis)


@clause("KINA-REDUCTION-3", "d1534ae0")
@clause("KINA-REDUCTION-4", "ffb11a34")
@pytest.mark.parametrize("op", REDUCE)
def test_all_axes_are_reduced_together(rt: Executor, op: str) -> None:
    dtype = dtypes_of(op)[-1]
    elements = tame(op, dtype, (3, 4, 5), "small", 2)
    x = stored(rt, dtype, elements)

    for flags, shape in ((0, ()), (KEEPDIMS, (1, 1, 1))):
        y = reduce(rt, op.removeprefix("KINA_REDUCE_"), x, ALL, flags)
        assert y.shape == shape
        flat = decode(elements, dtype).reshape(-1)
        close_reduction(shaped(rt, y), op, flat, None, dtype)


def shaped(rt: Executor, y: Tensor) -> Tensor:
    """The one element of a tensor as a tensor without axes."""
    return stored(rt, y.dtype, y.raw().reshape(()))


@clause("KINA-REDUCTION-5", "5cc729f5")
@given(data=st.data())
def test_a_reduction_takes_any_strides(rt: Executor, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(REDUCE))
    dtype = data.draw(st.sampled_from(dtypes_of(op)))
    kinds = (
        ("unit",) if dtype in FLOATS and op in ("KINA_REDUCE_SUM", "KINA_REDUCE_MEAN") else ("small", "teeth", "any")
    )
    kinds = ("small",) if dtype in FLOATS and op == "KINA_REDUCE_PROD" else kinds
    shape = data.draw(kst.shapes(rank=(1, 4), extents=[1, 2, 3, 5, 7]))
    source = data.draw(kst.operands(dtype=dtype, shape=shape, kinds=kinds))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    flags = data.draw(st.sampled_from([0, KEEPDIMS]))
    x = source.on(rt)
    values = kst.values_of(source, x)
    result = values.max(axis=axis, keepdims=bool(flags)).shape
    gives = str(operation(op)["result"])
    target = data.draw(kst.operands(dtype=dtype if gives == "input" else gives, shape=result, writable=True))
    out = target.out_on(rt)

    y = reduce(rt, op.removeprefix("KINA_REDUCE_"), x, axis, flags, out=out)

    if op == "KINA_REDUCE_PROD" and dtype in FLOATS:
        bounded = np.sum(np.log2(np.maximum(np.abs(values), 1)), axis=axis).max(initial=0) < 13
        if not bounded:
            return
    expected = stored(rt, y.dtype, y.raw().reshape(values.max(axis=axis).shape))
    close_reduction(expected, op, values, axis, dtype)


@clause("KINA-REDUCTION-5", "5cc729f5")
def test_reductions_go_from_every_layout_to_every_other(rt: Executor) -> None:
    values = np.arange(15.0).reshape(3, 5) - 7
    for strides in LAYOUTS + REPEATED:
        x = rt.tensor("f32", (3, 5), values, strides=strides, offset=1)
        held = x.numpy()
        for axis, step in ((0, 1), (0, -2), (1, 3), (1, -1)):
            out = rt.out("f32", (5 - 2 * axis,), strides=(step,))
            assert reduce(rt, "SUM", x, axis, out=out).numpy().tolist() == held.sum(axis).tolist(), (strides, axis)
        for target in LAYOUTS:
            out = rt.out("f32", (3, 5), strides=target)
            y = rt.call("runtime_gpu_softmax", x, out=out, axis=1).succeeds().out
            close_softmax(y, "runtime_gpu_softmax", held, 1, "f32")


@clause("KINA-REDUCTION-5", "5cc729f5")
@clause("KINA-REDUCTION-21", "d6b3815d")
@given(data=st.data())
def test_a_softmax_takes_any_strides(rt: Executor, data: st.DataObject) -> None:
    function = data.draw(st.sampled_from(SOFTMAXES))
    shape = data.draw(kst.shapes(rank=(1, 4)))
    source = data.draw(kst.operands(dtype=kst.float_dtypes, shape=shape))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1) | st.just(ALL))
    target = data.draw(kst.operands(dtype=source.dtype, shape=shape, writable=True))
    x, out = source.on(rt), target.out_on(rt)
    values = kst.values_of(source, x)

    y = rt.call(function, x, out=out, axis=axis).succeeds().out

    close_softmax(y, function, values, axis_of(axis), source.dtype)


def close_softmax(y: Tensor, function: str, x: Array, axis: int | None, dtype: str) -> None:
    expected = oracle.softmax(x, axis, log=function.endswith("log_softmax"))
    count = x.size if axis is None else x.shape[axis]
    with np.errstate(all="ignore"):
        depth = np.max(x, axis=axis, keepdims=True, initial=-np.inf) - x
    depth = np.where(np.isfinite(depth), depth, 0)
    close(y, expected, function, dtype, n=max(1, count), depth=depth)


@clause("KINA-REDUCTION-6", "a73fe9d5")
@pytest.mark.parametrize("op", REDUCE)
def test_a_result_without_elements_is_no_failure(rt: Executor, op: str) -> None:
    dtype = dtypes_of(op)[0]
    word = op.removeprefix("KINA_REDUCE_")

    assert reduce(rt, word, rt.tensor(dtype, (0, 3)), 1).shape == (0,)
    assert reduce(rt, word, rt.tensor(dtype, (0, 0)), 0).shape == (0,)
    assert reduce(rt, word, rt.tensor(dtype, (0, 3, 0)), 2, KEEPDIMS).shape == (0, 3, 1)
    assert reduce(rt, word, rt.tensor(dtype, (1 << 40, 0, 2)), 0).shape == (0, 2)


@clause("KINA-REDUCTION-6", "a73fe9d5")
@pytest.mark.parametrize("function", SOFTMAXES)
def test_a_softmax_of_nothing_is_no_failure(rt: Executor, function: str) -> None:
    for shape in ((0,), (3, 0), (0, 3), (1 << 40, 0)):
        for axis in (0, -1, ALL):
            assert rt.call(function, rt.tensor("f32", shape), axis=axis).succeeds().out.shape == shape


# ---- reduce ------------------------------------------------------------------------------------------------------


@clause("KINA-REDUCTION-7", "99149d4a")
@clause("KINA-VERSION-16", "e54fde4b")
def test_an_unknown_op_is_unsupported(rt: Executor) -> None:
    call = rt.call("runtime_gpu_reduce", rt.tensor("f32", (3,)), axis=0, op="KINA_REDUCE_SUM")

    for op in (0, -1, 0x2FF, 0x309, 0x100, 0x200, 0x40000000, 0x20300, 0x300 | 0x20000, KEEPDIMS, 2**31 - 1):
        call.refuses("UNSUPPORTED", clause="KINA-REDUCTION-7", argument="op", op=op)


@clause("KINA-REDUCTION-8", "8f733036")
@pytest.mark.parametrize("op", REDUCE)
def test_an_op_is_unsupported_for_every_other_dtype(rt: Executor, op: str) -> None:
    call = rt.call("runtime_gpu_reduce", rt.tensor(dtypes_of(op)[0], (3,)), axis=0, op=op)

    for dtype in other_dtypes(op):
        call.refuses("UNSUPPORTED", clause="KINA-REDUCTION-8", in_=rt.tensor(dtype, (3,)))


@clause("KINA-REDUCTION-8", "8f733036")
def test_sums_of_bool_and_means_of_integers_are_unsupported(rt: Executor) -> None:
    summed = rt.call("runtime_gpu_reduce", rt.tensor("f32", (3,)), axis=0, op="KINA_REDUCE_SUM")
    mean = rt.call("runtime_gpu_reduce", rt.tensor("f32", (3,)), axis=0, op="KINA_REDUCE_MEAN")

    summed.refuses("UNSUPPORTED", clause="KINA-REDUCTION-8", in_=rt.tensor("bool", (3,)))
    mean.refuses("UNSUPPORTED", clause="KINA-REDUCTION-8", in_=rt.tensor("i32", (3,)))


@clause("KINA-REDUCTION-10", "2a04844f")
@clause("KINA-REDUCTION-12", "54d398c4")
@clause("KINA-REDUCTION-13", "10444f2c")
@clause("KINA-REDUCTION-16", "2022f097")
@pytest.mark.parametrize("op", REDUCE)
def test_a_reduction_is_as_exact_as_the_table_says(rt: Executor, op: str) -> None:
    for dtype in dtypes_of(op):
        for seed, (shape, axis) in enumerate([((3, 257), 1), ((257, 3), 0), ((2, 33, 5), 1), ((7,), 0)]):
            for kind in ("unit", "small", "teeth", "any"):
                elements = tame(op, dtype, shape, kind, seed)

                y = reduce(rt, op.removeprefix("KINA_REDUCE_"), stored(rt, dtype, elements), axis)

                assert y.dtype == (dtype if operation(op)["result"] == "input" else operation(op)["result"])
                close_reduction(y, op, decode(elements, dtype), axis, dtype)


@clause("KINA-REDUCTION-10", "2a04844f")
@pytest.mark.parametrize("dtype", FLOATS)
def test_long_sums_do_not_lose_their_terms(rt: Executor, dtype: str) -> None:
    """One term after the other in the input's own format loses every term behind 2^mantissa."""
    x = stored(rt, dtype, np.broadcast_to(encode(np.array(0.25), dtype), (70001,)))

    y, mean = reduce(rt, "SUM", x, 0), reduce(rt, "MEAN", x, 0)

    values = np.full(70001, 0.25)
    close_reduction(y, "KINA_REDUCE_SUM", values, 0, dtype)
    close_reduction(mean, "KINA_REDUCE_MEAN", values, 0, dtype)


@clause("KINA-REDUCTION-10", "2a04844f")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_are_rounded_once(rt: Executor, dtype: str) -> None:
    """Partial sums beyond the format's largest value, or below its digits, show where it was rounded in between."""
    large = 65504.0 if dtype == "f16" else 256.0
    x = valued(rt, dtype, [large, large, -large, -large, 1.0] if dtype == "f16" else [256.0, 1.0, 1.0, 1.0, -256.0])

    assert reduce(rt, "SUM", x, 0).numpy().tolist() == (1.0 if dtype == "f16" else 3.0)


@clause("KINA-REDUCTION-9", "799a2882")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_sums_and_products_of_integers_keep_their_dtype_and_wrap(rt: Executor, dtype: str) -> None:
    info = np.iinfo(DTYPES[dtype].storage)
    low, high = int(info.min), int(info.max)
    values = [high, high, 3, low, 7]
    x = valued(rt, dtype, values)
    modulus = high - low + 1

    total, product = reduce(rt, "SUM", x), reduce(rt, "PROD", x)

    assert total.dtype == product.dtype == dtype
    assert total.numpy().tolist() == (sum(values) - low) % modulus + low
    assert product.numpy().tolist() == (int(np.prod(np.array(values, object))) - low) % modulus + low


@clause("KINA-REDUCTION-11", "86c90a84")
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_mean_is_the_sum_by_the_count(rt: Executor, dtype: str) -> None:
    x = valued(rt, dtype, [[1, 2, 3, 6], [-4, 0, 0, 0], [8, 8, 8, 8]])

    assert reduce(rt, "MEAN", x, 1).numpy().tolist() == [3, -1, 8]
    assert reduce(rt, "MEAN", x).numpy().tolist() == encode_one(40 / 12, dtype)


def encode_one(value: float, dtype: str) -> float:
    return float(decode(encode(np.array(value), dtype), dtype))


@clause("KINA-REDUCTION-12", "54d398c4")
@pytest.mark.parametrize("dtype", FLOATS)
def test_max_and_min_order_zeros_and_keep_nan(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    x = valued(rt, dtype, [[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [1, nan], [nan, 1], [-inf, 5], [inf, -inf]])

    same(reduce(rt, "MAX", x, 1), encode(np.array([0.0, 0.0, -0.0, nan, nan, 5, inf]), dtype))
    same(reduce(rt, "MIN", x, 1), encode(np.array([-0.0, -0.0, -0.0, nan, nan, -inf, -inf]), dtype))


@clause("KINA-REDUCTION-12", "54d398c4")
def test_true_is_greater_than_false(rt: Executor) -> None:
    x = stored(rt, "bool", np.array([[0, 0], [0, 2], [255, 1]], np.uint8))

    assert reduce(rt, "MAX", x, 1).raw().tolist() == [0, 1, 1]
    assert reduce(rt, "MIN", x, 1).raw().tolist() == [0, 0, 1]


@clause("KINA-REDUCTION-13", "10444f2c")
@pytest.mark.parametrize("dtype", COMPUTING)
def test_the_first_of_equal_elements_is_chosen(rt: Executor, dtype: str) -> None:
    x = valued(rt, dtype, [[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]])

    largest, smallest = reduce(rt, "ARGMAX", x, 1), reduce(rt, "ARGMIN", x, 1)

    assert (largest.dtype, smallest.dtype) == ("i64", "i64")
    assert largest.numpy().tolist() == [0, 0, 1]
    assert smallest.numpy().tolist() == [1, 0, 0]


@clause("KINA-REDUCTION-13", "10444f2c")
@clause("KINA-REDUCTION-14", "bdec6522")
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_first_nan_is_chosen_before_all(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    x = valued(rt, dtype, [[1, nan, inf, nan], [nan, -inf, inf, 0], [0.0, -0.0, 0.0, -0.0], [-inf, -inf, nan, nan]])

    assert reduce(rt, "ARGMAX", x, 1).numpy().tolist() == [1, 0, 0, 2]
    assert reduce(rt, "ARGMIN", x, 1).numpy().tolist() == [1, 0, 0, 2]


@clause("KINA-REDUCTION-15", "3e5ad033")
@pytest.mark.parametrize("strides", [(5, 1), (1, 3), (-5, -1), (-1, 6), (11, 2)])
def test_over_all_axes_the_index_counts_in_row_major_order(rt: Executor, strides: tuple[int, int]) -> None:
    values = np.zeros((3, 5))
    values[1, 2], values[2, 0] = 9, -9
    x = rt.tensor("f32", (3, 5), values, strides=strides)

    assert reduce(rt, "ARGMAX", x).numpy().tolist() == 7
    assert reduce(rt, "ARGMIN", x).numpy().tolist() == 10


@clause("KINA-REDUCTION-16", "2022f097")
@pytest.mark.parametrize("dtype", COMPUTING)
def test_any_and_all_look_for_zeros(rt: Executor, dtype: str) -> None:
    x = valued(rt, dtype, [[0, 0, 0], [0, 1, 0], [1, 1, 1]])

    assert reduce(rt, "ANY", x, 1).raw().tolist() == [0, 1, 1]
    assert reduce(rt, "ALL", x, 1).raw().tolist() == [0, 0, 1]


@clause("KINA-REDUCTION-16", "2022f097")
@clause("KINA-TENSOR-33", "3c069acf")
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_is_true_and_every_zero_false(rt: Executor, dtype: str) -> None:
    x = valued(rt, dtype, [[np.nan, 0.0], [-0.0, 0.0], [np.nan, np.inf]])
    truth = stored(rt, "bool", np.array([2, 255, 128], np.uint8))

    assert reduce(rt, "ANY", x, 1).raw().tolist() == [1, 0, 1]
    assert reduce(rt, "ALL", x, 1).raw().tolist() == [0, 0, 1]
    assert reduce(rt, "ALL", truth).raw().tolist() == 1


@clause("KINA-REDUCTION-17", "68646711")
@pytest.mark.parametrize("axis", [0, ALL])
def test_reductions_of_nothing_give_their_neutral_value(rt: Executor, axis: int) -> None:
    for dtype in FLOATS + INTEGERS:
        x = rt.tensor(dtype, (0,))
        assert reduce(rt, "SUM", x, axis).numpy().tolist() == 0
        assert reduce(rt, "PROD", x, axis).numpy().tolist() == 1
    for dtype in COMPUTING:
        x = rt.tensor(dtype, (0,))
        assert reduce(rt, "ANY", x, axis).raw().tolist() == 0
        assert reduce(rt, "ALL", x, axis).raw().tolist() == 1
    for dtype in FLOATS:
        assert np.isnan(reduce(rt, "MEAN", rt.tensor(dtype, (0,)), axis).numpy())
    assert reduce(rt, "SUM", rt.tensor("f32", (3, 0, 2)), 1).numpy().tolist() == [[0, 0]] * 3


@clause("KINA-REDUCTION-18", "7cc29148")
@pytest.mark.parametrize("op", ["MAX", "MIN", "ARGMAX", "ARGMIN"])
def test_the_best_of_nothing_is_refused(rt: Executor, op: str) -> None:
    for shape, axis in (((0,), 0), ((0,), ALL), ((3, 0), 1), ((3, 0), ALL), ((2, 0, 4), -2)):
        control = rt.tensor("f32", tuple(max(n, 1) for n in shape))
        call = rt.call("runtime_gpu_reduce", control, axis=axis, op=f"KINA_REDUCE_{op}")
        call.refuses("INVALID_SHAPE", clause="KINA-REDUCTION-18", in_=rt.tensor("f32", shape))


@clause("KINA-REDUCTION-19", "7ac3b289")
@pytest.mark.parametrize("dtype", FLOATS)
def test_infinities_and_nan_travel_through_sums(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    x = valued(rt, dtype, [[1, inf, 2], [inf, -inf, 0], [nan, 1, 1], [-inf, -inf, 1]])
    factors = valued(rt, dtype, [[2, inf, 1], [0, inf, 1], [nan, 0, 1], [-inf, 2, -1]])

    same(reduce(rt, "SUM", x, 1), encode(np.array([inf, nan, nan, -inf]), dtype))
    same(reduce(rt, "MEAN", x, 1), encode(np.array([inf, nan, nan, -inf]), dtype))
    same(reduce(rt, "PROD", factors, 1), encode(np.array([inf, nan, nan, inf]), dtype))


@clause("KINA-REDUCTION-20", "036b7907")
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_same_input_gives_the_same_bits(rt: Executor, dtype: str) -> None:
    x = stored(rt, dtype, kst.make_elements(dtype, (17, 311), "unit", 3))

    for axis in (0, 1, ALL):
        for op in ("SUM", "MEAN", "PROD"):
            assert reduce(rt, op, x, axis).raw().tobytes() == reduce(rt, op, x, axis).raw().tobytes()
        for function in SOFTMAXES:
            first, second = (rt.call(function, x, axis=axis).succeeds().out for _ in range(2))
            assert first.raw().tobytes() == second.raw().tobytes()


# ---- softmax -----------------------------------------------------------------------------------------------------


@clause("KINA-REDUCTION-21", "d6b3815d")
@clause("KINA-REDUCTION-22", "183c7135")
@pytest.mark.parametrize("function", SOFTMAXES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_is_as_exact_as_the_table_says(rt: Executor, function: str, dtype: str) -> None:
    form = DTYPES[dtype].format
    assert form is not None
    rising = np.linspace(-0.5, 0.5, 7) * form.maximum
    given = [
        np.linspace(-9, 9, 513).reshape(3, 171),
        np.array([rising, rising[::-1]]),
        np.array([[88.0, 87.5, -300.0]]),
    ]
    given += [np.full((1, 5), form.maximum), np.full((2, 3), -form.maximum), np.array([[5.0]])]

    for values in given:
        elements = encode(values, dtype)
        x = decode(elements, dtype)
        for axis in (1, 0, ALL):
            y = rt.call(function, stored(rt, dtype, elements), axis=axis).succeeds().out
            assert y.dtype == dtype
            close_softmax(y, function, x, axis_of(axis), dtype)


@clause("KINA-REDUCTION-22", "183c7135")
@pytest.mark.parametrize("function", SOFTMAXES)
def test_softmax_of_other_dtypes_is_unsupported(rt: Executor, function: str) -> None:
    call = rt.call(function, rt.tensor("f32", (3,)), axis=0)

    for dtype in other_dtypes(function):
        call.refuses("UNSUPPORTED", clause="KINA-REDUCTION-22", in_=rt.tensor(dtype, (3,)))


@clause("KINA-REDUCTION-23", "0542418b")
@clause("KINA-REDUCTION-24", "dd19ffbf")
@clause("KINA-REDUCTION-25", "13371b65")
@pytest.mark.parametrize("dtype", FLOATS)
def test_masked_rows_and_poisoned_rows_are_defined(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    x = valued(rt, dtype, [[-inf, 0, -inf], [-inf, -inf, -inf], [nan, 0, 1], [inf, 0, -inf], [inf, inf, inf]])

    plain = rt.call("runtime_gpu_softmax", x, axis=1).succeeds().out
    logs = rt.call("runtime_gpu_log_softmax", x, axis=1).succeeds().out

    same(plain, encode(np.array([[0, 1, 0], [0, 0, 0], [nan] * 3, [nan] * 3, [nan] * 3]), dtype))
    same(logs, encode(np.array([[-inf, 0, -inf], [-inf] * 3, [nan] * 3, [nan] * 3, [nan] * 3]), dtype))


@clause("KINA-REDUCTION-26", "a63c1a2b")
@pytest.mark.parametrize("function", SOFTMAXES)
def test_softmax_in_place_is_an_overlap(rt: Executor, function: str) -> None:
    for owned in (False, True):
        x = rt.tensor("f32", (3, 4), owned=owned)
        call = rt.call(function, x, out=rt.out("f32", (3, 4)), axis=1)
        call.refuses("OVERLAP", argument="out", out=x)
