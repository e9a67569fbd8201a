"""The elementwise chapter: fill, unary and binary operations, casts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, Tensor, clause, oracle
from kina_conformance import strategies as kst
from kina_conformance.compare import close, dtypes_of, operation, same
from kina_conformance.dtypes import CAST_ONLY, COMPUTING, DTYPES, STORAGE_ONLY, Array, decode, encode
from kina_conformance.operations import (
    LAYOUTS,
    REPEATED,
    ended,
    failed,
    other_dtypes,
    part,
    rows,
    stored,
    valued,
)

UNARY = [row["enumerator"] for row in rows("runtime_gpu_unary")]
BINARY = [row["enumerator"] for row in rows("runtime_gpu_binary")]
CASTS = COMPUTING + CAST_ONLY
FLOATS, INTEGERS, SIGNED = kst.FLOATS, kst.INTEGERS, ["i8", "i16", "i32", "i64"]


def unary(rt: Executor, op: str, x: Tensor, **more: Any) -> Tensor:
    result: Tensor = rt.call("runtime_gpu_unary", x, op=f"KINA_UNARY_{op}", **more).succeeds().out
    return result


def binary(rt: Executor, op: str, a: Tensor, b: Tensor, **more: Any) -> Tensor:
    result: Tensor = rt.call("runtime_gpu_binary", a, b, op=f"KINA_BINARY_{op}", **more).succeeds().out
    return result


def cast(rt: Executor, x: Tensor, target: str, **more: Any) -> Tensor:
    result: Tensor = rt.call("runtime_gpu_cast", x, target=target, **more).succeeds().out
    return result


def plenty(dtype: str, seed: int) -> Array:
    """Stored elements of every kind: with teeth, in the unit interval, small, and any bits."""
    parts = [kst.teeth(dtype)]
    parts += [kst.make_elements(dtype, (97,), kind, seed) for kind in ("unit", "small", "any")]
    return np.concatenate(parts)


def name_of(op: str) -> str:
    return str(operation(op)["name"])


def result_dtype(op: str, dtype: str) -> str:
    return "bool" if operation(op)["result"] == "bool" else dtype


# ---- fill --------------------------------------------------------------------------------------------------------


@clause("KINA-ELEMENTWISE-1", "939ae35c")
@clause("KINA-ELEMENTWISE-3", "e733dc9e")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_fill_writes_the_value_into_every_element(rt: Executor, dtype: str) -> None:
    for element in kst.make_elements(dtype, (5,), "any", 3):
        x = rt.tensor(dtype, (3, 7))

        rt.call("runtime_fill", x, value=element, value_bytes=element.nbytes).succeeds()

        assert x.raw().tobytes() == element.tobytes() * 21


@clause("KINA-ELEMENTWISE-1", "939ae35c")
@clause("KINA-TENSOR-28", "388e8b80")
@given(operand=kst.operands(dtype=kst.all_dtypes, writable=True), seed=st.integers(0, 99))
def test_a_fill_writes_the_elements_and_nothing_between(rt: Executor, operand: kst.Operand, seed: int) -> None:
    x = operand.on(rt)
    element = kst.make_elements(operand.dtype, (1,), "any", seed)[0]
    outside = None if x.buffer is None else gaps(x)

    rt.call("runtime_fill", x, value=element, value_bytes=element.nbytes).succeeds()

    assert x.raw().tobytes() == element.tobytes() * x.elements
    assert outside is None or gaps(x) == outside, "a byte between the elements has changed"


def gaps(x: Tensor) -> bytes:
    """The bytes of a borrowed tensor's buffer that belong to no element."""
    assert x.buffer is not None
    mask = np.ones(len(x.buffer.data), bool)
    if x.elements:
        bytes_each = DTYPES[x.dtype].bytes
        strides = [s * bytes_each if n > 1 else 0 for n, s in zip(x.shape, x.strides, strict=True)]
        start = x.address - x.buffer.address
        np.ndarray((*x.shape, bytes_each), bool, mask.data, start, (*strides, 1))[...] = False
    return x.buffer.data[mask].tobytes()


@clause("KINA-ELEMENTWISE-2", "81a2b233")
@pytest.mark.parametrize("dtype", ["bool", "f16", "f32", "i64", "c128"])
def test_a_value_of_another_size_is_refused(rt: Executor, dtype: str) -> None:
    size = DTYPES[dtype].bytes
    call = rt.call("runtime_fill", rt.tensor(dtype, (3,)), value=bytes(32), value_bytes=size)

    for wrong in (0, size - 1, size + 1, 2 * size, 2**64 - 1):
        call.refuses("INVALID_ARGUMENT", clause="KINA-ELEMENTWISE-2", argument="value_bytes", value_bytes=wrong)


@clause("KINA-ELEMENTWISE-4", "61114303")
def test_a_value_may_lie_anywhere_also_inside_the_tensor(rt: Executor) -> None:
    x = rt.tensor("f64", (5,), [1, 2, 3, 4, 5])
    odd = np.zeros(17, np.uint8)
    odd[1:9] = np.frombuffer(np.float64(-2.5).tobytes(), np.uint8)

    rt.call("runtime_fill", x, value=x.address + 16, value_bytes=8).succeeds()
    assert x.numpy().tolist() == [3] * 5
    rt.call("runtime_fill", x, value=int(odd.ctypes.data) + 1, value_bytes=8).succeeds()
    odd[:] = 0

    assert x.numpy().tolist() == [-2.5] * 5


@clause("KINA-ELEMENTWISE-5", "9d32d073")
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (1 << 40, 0)])
def test_a_fill_of_nothing_succeeds_and_checks_its_arguments(rt: Executor, shape: tuple[int, ...]) -> None:
    call = rt.call("runtime_fill", rt.tensor("f32", shape), value=bytes(4), value_bytes=4)

    call.succeeds()
    call.refuses("INVALID_ARGUMENT", argument="value", value=None)
    call.refuses("INVALID_ARGUMENT", argument="value_bytes", value_bytes=3)
    call.refuses("READ_ONLY", argument="tensor", tensor=rt.tensor("f32", shape, read_only=True))


@clause("KINA-STATUS-23", "54af5684")
@clause("KINA-TENSOR-2", "9d825a0c")
@clause("KINA-TENSOR-3", "4dda0318")
@clause("KINA-TENSOR-4", "d3e0cbf9")
@clause("KINA-TENSOR-14", "9c559134")
@clause("KINA-TENSOR-17", "5471aba4")
@clause("KINA-TENSOR-21", "8dec1558")
def test_a_fill_refuses_what_is_no_writable_tensor(rt: Executor) -> None:
    call = rt.call("runtime_fill", rt.tensor("f32", (3, 4)), value=bytes(4), value_bytes=4)
    broken, outside, unknown = (rt.tensor("f32", (3, 4)) for _ in range(3))
    broken.struct.magic ^= 1
    outside.struct.size_bytes -= 1
    unknown.struct.dl.dtype.lanes = 2

    call.refuses("INVALID_ARGUMENT", clause="KINA-STATUS-23", argument="tensor", tensor=None)
    call.refuses("INVALID_ARGUMENT", clause="KINA-STATUS-23", argument="value", value=None)
    call.refuses("INVALID_ARGUMENT", clause="KINA-TENSOR-2", argument="tensor", tensor=rt.empty())
    call.refuses("INVALID_HANDLE", clause="KINA-TENSOR-3", tensor=broken)
    call.refuses("INVALID_HANDLE", clause="KINA-TENSOR-4", tensor=ended(rt, "f32", (3, 4)))
    call.refuses("INVALID_SHAPE", clause="KINA-TENSOR-21", tensor=outside)
    call.refuses("UNSUPPORTED", clause="KINA-TENSOR-17", tensor=unknown)
    unknown.struct.dl.dtype.lanes = 1
    call.refuses("READ_ONLY", clause="KINA-TENSOR-14", tensor=rt.tensor("f32", (3, 4), read_only=True))
    call.refuses("READ_ONLY", clause="KINA-TENSOR-14", tensor=rt.tensor("f32", (3, 4), strides=(0, 1)))


@clause("KINA-ELEMENTWISE-1", "939ae35c")
def test_a_fill_repairs_a_failed_tensor(rt: Executor) -> None:
    x = rt.tensor("f32", (3, 4), owned=True)

    with failed(rt, x):
        rt.call("runtime_fill", x, value=bytes(4), value_bytes=4).succeeds()
        rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").succeeds()


# ---- what all operations share -----------------------------------------------------------------------------------


@clause("KINA-ELEMENTWISE-6", "d85ad91c")
@clause("KINA-VERSION-16", "e54fde4b")
def test_an_unknown_op_is_unsupported(rt: Executor) -> None:
    x = rt.tensor("f32", (3,))
    one = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG")
    two = rt.call("runtime_gpu_binary", x, x, op="KINA_BINARY_ADD")

    for op in (0, -1, 0xFF, 0x125, 0x1FF, 0x200, 0x300, 0x40000000, 0x100 | 0x10000, 2**31 - 1):
        one.refuses("UNSUPPORTED", clause="KINA-ELEMENTWISE-6", argument="op", op=op)
    for op in (0, -1, 0x100, 0x1FF, 0x212, 0x23F, 0x246, 0x300, 0x40000000, 0x200 | 0x10000, 2**31 - 1):
        two.refuses("UNSUPPORTED", clause="KINA-ELEMENTWISE-6", argument="op", op=op)


@clause("KINA-ELEMENTWISE-7", "f725f05f")
@pytest.mark.parametrize("op", UNARY)
def test_a_unary_op_is_unsupported_for_every_other_dtype(rt: Executor, op: str) -> None:
    call = rt.call("runtime_gpu_unary", rt.tensor(dtypes_of(op)[0], (3,)), op=op)

    for dtype in other_dtypes(op):
        call.refuses("UNSUPPORTED", clause="KINA-ELEMENTWISE-7", in_=rt.tensor(dtype, (3,)))


@clause("KINA-ELEMENTWISE-7", "f725f05f")
@pytest.mark.parametrize("op", BINARY)
def test_a_binary_op_is_unsupported_for_every_other_dtype(rt: Executor, op: str) -> None:
    x = rt.tensor(dtypes_of(op)[0], (3,))
    call = rt.call("runtime_gpu_binary", x, x, op=op)

    for dtype in other_dtypes(op):
        y = rt.tensor(dtype, (3,))
        call.refuses("UNSUPPORTED", clause="KINA-ELEMENTWISE-7", as_one="the dtype of both", a=y, b=y)


@clause("KINA-ELEMENTWISE-8", "86193b5d")
@clause("KINA-ELEMENTWISE-9", "0f40f35e")
@clause("KINA-ELEMENTWISE-10", "68ba4975")
@clause("KINA-ELEMENTWISE-11", "bb9130d0")
@pytest.mark.parametrize("op", UNARY)
def test_a_unary_op_is_as_exact_as_the_table_says(rt: Executor, op: str) -> None:
    for seed, dtype in enumerate(dtypes_of(op)):
        elements = plenty(dtype, seed)
        x = decode(elements, dtype)

        y = rt.call("runtime_gpu_unary", stored(rt, dtype, elements), op=op).succeeds().out

        assert y.dtype == result_dtype(op, dtype)
        close(y, oracle.unary(name_of(op), x, dtype), op, dtype, x=x)


@clause("KINA-ELEMENTWISE-8", "86193b5d")
@clause("KINA-ELEMENTWISE-9", "0f40f35e")
@clause("KINA-ELEMENTWISE-10", "68ba4975")
@clause("KINA-ELEMENTWISE-11", "bb9130d0")
@pytest.mark.parametrize("op", BINARY)
def test_a_binary_op_is_as_exact_as_the_table_says(rt: Executor, op: str) -> None:
    """Every pair of elements with teeth, and pairs of plain ones."""
    for seed, dtype in enumerate(dtypes_of(op)):
        teeth = kst.teeth(dtype)
        plain = [kst.make_elements(dtype, (97,), kind, seed) for kind in ("unit", "small", "any")]
        left = np.concatenate([np.repeat(teeth, len(teeth)), *plain])
        right = np.concatenate([np.tile(teeth, len(teeth)), *(np.roll(part, 5) for part in plain)])
        a, b = decode(left, dtype), decode(right, dtype)

        y = rt.call("runtime_gpu_binary", stored(rt, dtype, left), stored(rt, dtype, right), op=op).succeeds().out

        assert y.dtype == result_dtype(op, dtype)
        close(y, oracle.binary(name_of(op), a, b, dtype), op, dtype, x=a)


@clause("KINA-ELEMENTWISE-9", "0f40f35e")
@clause("KINA-ELEMENTWISE-14", "1085184d")
@given(data=st.data())
def test_a_unary_op_takes_any_strides(rt: Executor, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(UNARY))
    source = data.draw(kst.operands(dtype=data.draw(st.sampled_from(dtypes_of(op)))))
    target = data.draw(kst.operands(dtype=result_dtype(op, source.dtype), shape=source.shape, writable=True))
    x, out = source.on(rt), target.out_on(rt)
    values = kst.values_of(source, x)

    y = rt.call("runtime_gpu_unary", x, out=out, op=op).succeeds().out

    close(y, oracle.unary(name_of(op), values, source.dtype), op, source.dtype, x=values)


@clause("KINA-ELEMENTWISE-9", "0f40f35e")
@clause("KINA-ELEMENTWISE-14", "1085184d")
@clause("KINA-ELEMENTWISE-25", "f622eb70")
@given(data=st.data())
def test_a_binary_op_takes_any_strides_and_broadcasts(rt: Executor, data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(BINARY))
    dtype = data.draw(st.sampled_from(dtypes_of(op)))
    left, right = data.draw(kst.broadcastable())
    first, second = (data.draw(kst.operands(dtype=dtype, shape=shape)) for shape in (left, right))
    shape = np.broadcast_shapes(left, right)
    target = data.draw(kst.operands(dtype=result_dtype(op, dtype), shape=shape, writable=True))
    a, b, out = first.on(rt), second.on(rt), target.out_on(rt)
    x, z = kst.values_of(first, a), kst.values_of(second, b)

    y = rt.call("runtime_gpu_binary", a, b, out=out, op=op).succeeds().out

    close(y, oracle.binary(name_of(op), x, z, dtype), op, dtype, x=np.broadcast_to(x, shape))


@clause("KINA-ELEMENTWISE-14", "1085184d")
def test_operations_go_from_every_layout_to_every_other(rt: Executor) -> None:
    values = np.arange(15.0).reshape(3, 5) - 7
    for strides in LAYOUTS + REPEATED:
        a, b = (rt.tensor("f32", (3, 5), values, strides=steps, offset=1) for steps in (strides, strides[::-1]))
        x, z = a.numpy(), b.numpy()
        for target in LAYOUTS:
            out, narrow = (rt.out(dtype, (3, 5), strides=target) for dtype in ("f32", "i16"))
            assert unary(rt, "NEG", a, out=out).numpy().tolist() == (-x).tolist(), (strides, target)
            assert binary(rt, "SUB", a, b, out=out).numpy().tolist() == (x - z).tolist(), (strides, target)
            assert cast(rt, a, "i16", out=narrow).numpy().tolist() == x.tolist(), (strides, target)


@clause("KINA-ELEMENTWISE-14", "1085184d")
@clause("KINA-ELEMENTWISE-46", "29fdbbc6")
@given(data=st.data())
def test_a_cast_takes_any_strides(rt: Executor, data: st.DataObject) -> None:
    source = data.draw(kst.operands(dtype=st.sampled_from(CASTS)))
    target = data.draw(kst.operands(dtype=st.sampled_from(CASTS), shape=source.shape, writable=True))
    x, out = source.on(rt), target.out_on(rt)

    y = cast(rt, x, target.dtype, out=out)

    same(y, expected_cast(x.raw().copy(), source.dtype, target.dtype))


@clause("KINA-ELEMENTWISE-10", "68ba4975")
@pytest.mark.parametrize("dtype", COMPUTING)
def test_a_bool_result_is_0_or_1(rt: Executor, dtype: str) -> None:
    x = stored(rt, dtype, plenty(dtype, 1) if dtype != "bool" else np.arange(256, dtype=np.uint8))

    results = [unary(rt, "LOGICAL_NOT", x), cast(rt, x, "bool"), binary(rt, "LOGICAL_OR", x, x)]
    results += [binary(rt, "EQUAL", x, x), binary(rt, "GREATER", x, x)]
    if dtype == "bool":
        results += [unary(rt, "BITWISE_NOT", x)]
        results += [binary(rt, op, x, x) for op in ("ADD", "MUL", "MAXIMUM", "BITWISE_AND", "BITWISE_XOR")]

    for result in results:
        assert result.dtype == "bool" and set(np.unique(result.raw())) <= {0, 1}


@clause("KINA-ELEMENTWISE-11", "bb9130d0")
@pytest.mark.parametrize("dtype", FLOATS)
def test_denormals_are_kept(rt: Executor, dtype: str) -> None:
    form = DTYPES[dtype].format
    assert form is not None
    tiny = np.ldexp(1.0, form.minimum_exponent)
    step = np.ldexp(1.0, form.minimum_exponent - form.mantissa)
    x, half = valued(rt, dtype, [step, -step, 3 * step, tiny]), valued(rt, dtype, 0.5)

    same(unary(rt, "ABS", x), encode(np.array([step, step, 3 * step, tiny]), dtype))
    same(binary(rt, "ADD", x, x), encode(np.array([2 * step, -2 * step, 6 * step, 2 * tiny]), dtype))
    same(binary(rt, "MUL", x, half), encode(np.array([0.0, -0.0, 2 * step, tiny / 2]), dtype))
    same(cast(rt, x, dtype), encode(np.array([step, -step, 3 * step, tiny]), dtype))


@clause("KINA-ELEMENTWISE-12", "a540d642")
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_same_operands_give_the_same_bits(rt: Executor, dtype: str) -> None:
    elements = kst.make_elements(dtype, (1021,), "any", 11)
    x = stored(rt, dtype, elements)

    for op in ("EXP", "SIN", "TANH", "GELU", "ERF"):
        assert unary(rt, op, x).raw().tobytes() == unary(rt, op, x).raw().tobytes(), op
    for op in ("POW", "ATAN2", "MOD", "ADD"):
        assert binary(rt, op, x, x).raw().tobytes() == binary(rt, op, x, x).raw().tobytes(), op


@clause("KINA-ELEMENTWISE-13", "999f13ae")
@clause("KINA-TENSOR-30", "2d933e5c")
def test_an_out_of_another_element_size_is_never_exactly_the_input(rt: Executor) -> None:
    x = rt.tensor("f32", (4,))
    narrow, truth = (seen_as(rt, x, dtype) for dtype in ("i16", "bool"))

    to_narrow = rt.call("runtime_gpu_cast", x, out=rt.out("i16", (4,)), target="i16")
    to_narrow.refuses("OVERLAP", argument="out", out=narrow)
    to_truth = rt.call("runtime_gpu_unary", x, out=rt.out("bool", (4,)), op="KINA_UNARY_ISNAN")
    to_truth.refuses("OVERLAP", argument="out", out=truth)
    compared = rt.call("runtime_gpu_binary", x, x, out=rt.out("bool", (4,)), op="KINA_BINARY_LESS")
    compared.refuses("OVERLAP", argument="out", out=truth)


def seen_as(rt: Executor, x: Tensor, dtype: str) -> Tensor:
    """The first bytes of a borrowed tensor as a tensor of another dtype."""
    made = rt.tensor(dtype, x.shape)
    made.struct.dl.data, made.struct.dl.byte_offset = x.struct.dl.data, x.struct.dl.byte_offset
    made.struct.size_bytes = x.struct.size_bytes
    made.buffer = x.buffer
    return made


@clause("KINA-TENSOR-29", "e35c1372")
@pytest.mark.parametrize("layout", [{}, {"strides": (-8, 2), "offset": 1}, {"strides": (1, 3)}])
@pytest.mark.parametrize("owned", [False, True])
def test_out_may_be_exactly_an_input(rt: Executor, layout: dict[str, Any], owned: bool) -> None:
    def fresh(values: Any, dtype: str = "f32") -> Tensor:
        return valued(rt, dtype, np.broadcast_to(values, (3, 4)), owned=owned, **layout)

    values = np.arange(12.0).reshape(3, 4)
    x, y = fresh(values), fresh(10.0)
    assert unary(rt, "NEG", x, out=x).numpy().tolist() == (-values).tolist()
    assert binary(rt, "ADD", x, y, out=x).numpy().tolist() == (10 - values).tolist()
    assert binary(rt, "SUB", y, x, out=x).numpy().tolist() == values.tolist()
    assert binary(rt, "MUL", x, x, out=x).numpy().tolist() == (values * values).tolist()
    assert binary(rt, "ADD", x, rt.tensor("f32", (4,), 1), out=x).numpy().tolist() == (values * values + 1).tolist()
    assert cast(rt, x, "f32", out=x).numpy().tolist() == (values * values + 1).tolist()


@clause("KINA-TENSOR-29", "e35c1372")
def test_out_may_be_exactly_an_input_of_another_dtype_of_one_size(rt: Executor) -> None:
    x = rt.tensor("f32", (5,), [1.5, -2.5, 3e9, 0, -0.0])
    flags = rt.tensor("u8", (5,), [0, 1, 2, 0, 255])

    assert cast(rt, x, "i32", out=seen_as(rt, x, "i32")).numpy().tolist() == [1, -2, 2**31 - 1, 0, 0]
    assert unary(rt, "LOGICAL_NOT", flags, out=seen_as(rt, flags, "bool")).raw().tolist() == [1, 0, 0, 1, 0]


@clause("KINA-ELEMENTWISE-15", "14d9264f")
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (1 << 40, 0), (0, 1 << 33)])
def test_a_result_of_no_elements_is_no_failure(rt: Executor, shape: tuple[int, ...]) -> None:
    x = rt.tensor("f32", shape)

    for layout in ({}, {"out": rt.out("f32", shape)}):
        assert unary(rt, "EXP", x, **layout).shape == shape
        assert binary(rt, "ADD", x, x, **layout).shape == shape
        assert binary(rt, "ADD", x, rt.tensor("f32", ()), **layout).shape == shape
        assert cast(rt, x, "f32", **layout).shape == shape


@clause("KINA-TENSOR-16", "91657c62")
@pytest.mark.parametrize("rank", [0, 1, 8, 32])
def test_tensors_of_any_rank_are_operands(rt: Executor, rank: int) -> None:
    shape = tuple(2 if i in (0, 7, 15, 31) else 1 for i in range(rank))
    x = rt.tensor("i32", shape)
    values = x.numpy()

    assert unary(rt, "NEG", x).numpy().tolist() == (-values).tolist()
    assert binary(rt, "ADD", x, x).numpy().tolist() == (2 * values).tolist()
    assert cast(rt, x, "i64").numpy().tolist() == values.tolist()


@clause("KINA-ELEMENTWISE-16", "8737aa9b")
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_comes_out_where_nan_went_in(rt: Executor, dtype: str) -> None:
    x = stored(rt, dtype, kst.teeth(dtype)[np.isnan(decode(kst.teeth(dtype), dtype))])
    one = valued(rt, dtype, 1.0)
    quiet = {"KINA_UNARY_LOGICAL_NOT", "KINA_UNARY_ISNAN", "KINA_UNARY_ISINF", "KINA_UNARY_ISFINITE"}

    for op in UNARY:
        if dtype in dtypes_of(op) and op not in quiet:
            assert np.isnan(rt.call("runtime_gpu_unary", x, op=op).succeeds().out.numpy()).all(), op
    for op in ("ADD", "SUB", "MUL", "DIV", "FLOOR_DIV", "MOD", "MAXIMUM", "MINIMUM", "ATAN2", "POW"):
        assert np.isnan(binary(rt, op, x, one).numpy()).all(), op


# ---- unary -------------------------------------------------------------------------------------------------------


@clause("KINA-ELEMENTWISE-17", "261264c2")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_neg_abs_and_square_of_integers_wrap(rt: Executor, dtype: str) -> None:
    info = np.iinfo(DTYPES[dtype].storage)
    x = valued(rt, dtype, [info.min, info.max, 0, 1, 100])
    low, high = int(info.min), int(info.max)
    modulus = high - low + 1

    def wrapped(values: list[int]) -> list[int]:
        return [(v - low) % modulus + low for v in values]

    assert unary(rt, "NEG", x).numpy().tolist() == wrapped([-low, -high, 0, -1, -100])
    assert unary(rt, "ABS", x).numpy().tolist() == wrapped([abs(low), high, 0, 1, 100])
    assert unary(rt, "SQUARE", x).numpy().tolist() == wrapped([low * low, high * high, 0, 1, 10000])


@clause("KINA-ELEMENTWISE-18", "dc4a052a")
@pytest.mark.parametrize("dtype", FLOATS)
def test_sign_of_floats(rt: Executor, dtype: str) -> None:
    x = valued(rt, dtype, [3.5, -0.25, 0.0, -0.0, np.inf, -np.inf, np.nan])

    same(unary(rt, "SIGN", x), encode(np.array([1, -1, 0.0, -0.0, 1, -1, np.nan]), dtype))


@clause("KINA-ELEMENTWISE-18", "dc4a052a")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_sign_of_integers(rt: Executor, dtype: str) -> None:
    low = np.iinfo(DTYPES[dtype].storage).min
    x = valued(rt, dtype, [0, 1, 100, low])

    assert unary(rt, "SIGN", x).numpy().tolist() == [0, 1, 1, -1 if low < 0 else 0]


@clause("KINA-ELEMENTWISE-19", "7cc49ee8")
@pytest.mark.parametrize("dtype", FLOATS)
def test_roundings_keep_sign_and_infinity(rt: Executor, dtype: str) -> None:
    given = [0.5, 1.5, 2.5, -0.5, -1.5, -0.25, 0.25, -0.0, 0.0, 3.0, np.inf, -np.inf]
    expected = {
        "ROUND": [0.0, 2, 2, -0.0, -2, -0.0, 0.0, -0.0, 0.0, 3, np.inf, -np.inf],
        "FLOOR": [0.0, 1, 2, -1, -2, -1, 0.0, -0.0, 0.0, 3, np.inf, -np.inf],
        "CEIL": [1, 2, 3, -0.0, -1, -0.0, 1, -0.0, 0.0, 3, np.inf, -np.inf],
        "TRUNC": [0.0, 1, 2, -0.0, -1, -0.0, 0.0, -0.0, 0.0, 3, np.inf, -np.inf],
    }

    for op, values in expected.items():
        same(unary(rt, op, valued(rt, dtype, given)), encode(np.array(values), dtype))


@clause("KINA-ELEMENTWISE-20", "98cbc659")
@pytest.mark.parametrize("dtype", FLOATS)
def test_relu_is_plus_zero_below_zero_and_nan_for_nan(rt: Executor, dtype: str) -> None:
    x = valued(rt, dtype, [2.5, -2.5, 0.0, -0.0, np.inf, -np.inf, np.nan])

    same(unary(rt, "RELU", x), encode(np.array([2.5, 0.0, 0.0, 0.0, np.inf, 0.0, np.nan]), dtype))


@clause("KINA-ELEMENTWISE-21", "e7e3d530")
@pytest.mark.parametrize("dtype", FLOATS)
def test_gates_take_their_limits_at_the_infinities(rt: Executor, dtype: str) -> None:
    x = valued(rt, dtype, [np.inf, -np.inf])

    same(unary(rt, "SIGMOID", x), encode(np.array([1.0, 0.0]), dtype))
    for op in ("SILU", "GELU", "GELU_TANH"):
        same(unary(rt, op, x), encode(np.array([np.inf, -0.0]), dtype))


@clause("KINA-ELEMENTWISE-22", "7ffeb53b")
@pytest.mark.parametrize("dtype", FLOATS)
def test_domains_and_poles(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    cases = {
        "LOG": ([-1, 0.0, -0.0, 1, inf, -inf], [nan, -inf, -inf, 0.0, inf, nan]),
        "LOG2": ([-1, 0.0, -0.0, 1, inf, -inf], [nan, -inf, -inf, 0.0, inf, nan]),
        "LOG1P": ([-2, -1, -0.0, inf], [nan, -inf, -0.0, inf]),
        "SQRT": ([-1, -0.0, inf, -inf], [nan, -0.0, inf, nan]),
        "RSQRT": ([-1, 0.0, -0.0, inf], [nan, inf, -inf, 0.0]),
        "RECIPROCAL": ([0.0, -0.0, inf, -inf], [inf, -inf, 0.0, -0.0]),
        "ASIN": ([2, -2, -0.0], [nan, nan, -0.0]),
        "ACOS": ([2, -2, 1], [nan, nan, 0.0]),
        "SIN": ([inf, -inf, -0.0], [nan, nan, -0.0]),
        "COS": ([inf, -inf, 0.0], [nan, nan, 1.0]),
        "TAN": ([inf, -0.0], [nan, -0.0]),
        "EXP": ([-inf, inf, 0.0], [0.0, inf, 1.0]),
        "EXP2": ([-inf, inf, 3.0], [0.0, inf, 8.0]),
        "EXPM1": ([-inf, inf, -0.0], [-1.0, inf, -0.0]),
        "TANH": ([-inf, inf, -0.0], [-1.0, 1.0, -0.0]),
        "ERF": ([-inf, inf, -0.0], [-1.0, 1.0, -0.0]),
        "SINH": ([-inf, inf, -0.0], [-inf, inf, -0.0]),
        "COSH": ([-inf, inf, 0.0], [inf, inf, 1.0]),
    }

    for op, (operands, expected) in cases.items():
        same(unary(rt, op, valued(rt, dtype, operands)), encode(np.array(expected, float), dtype))


@clause("KINA-ELEMENTWISE-23", "fc3cb1a2")
@pytest.mark.parametrize("dtype", FLOATS)
def test_logical_not_is_true_for_zeros_alone(rt: Executor, dtype: str) -> None:
    x = valued(rt, dtype, [0.0, -0.0, np.nan, 1, -1, np.inf])

    assert unary(rt, "LOGICAL_NOT", x).raw().tolist() == [1, 1, 0, 0, 0, 0]


@clause("KINA-ELEMENTWISE-23", "fc3cb1a2")
@clause("KINA-ELEMENTWISE-24", "cdf833b8")
@clause("KINA-TENSOR-33", "3c069acf")
def test_bitwise_not_of_bool_is_logical_not(rt: Executor) -> None:
    x = stored(rt, "bool", np.arange(256, dtype=np.uint8))

    for op in ("LOGICAL_NOT", "BITWISE_NOT"):
        assert unary(rt, op, x).raw().tolist() == [1] + [0] * 255


# ---- binary ------------------------------------------------------------------------------------------------------


@clause("KINA-ELEMENTWISE-25", "f622eb70")
@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ((3, 1), (1, 4), (3, 4)),
        ((), (2, 3), (2, 3)),
        ((3,), (2, 1, 1), (2, 1, 3)),
        ((0,), (1,), (0,)),
        ((2, 1), (2, 0), (2, 0)),
        ((1, 0), (5, 1), (5, 0)),
        ((1,) * 32, (2,), (1,) * 31 + (2,)),
    ],
)
def test_shapes_broadcast_as_in_numpy(rt: Executor, left: Any, right: Any, result: Any) -> None:
    a, b = rt.tensor("i32", left), rt.tensor("i32", right)

    y = binary(rt, "SUB", a, b)

    assert y.shape == result
    assert y.numpy().tolist() == (a.numpy() - b.numpy()).tolist()


@clause("KINA-ELEMENTWISE-26", "73cfa27b")
@pytest.mark.parametrize(
    ("good", "bad"), [((3,), (4,)), ((2, 3), (3, 3)), ((2, 3), (2,)), ((3,), (0,)), ((1, 3), (2, 3, 2))]
)
def test_shapes_that_do_not_broadcast_are_refused(rt: Executor, good: Any, bad: Any) -> None:
    call = rt.call("runtime_gpu_binary", rt.tensor("f32", good), rt.tensor("f32", good), op="KINA_BINARY_ADD")

    call.refuses("INVALID_SHAPE", clause="KINA-ELEMENTWISE-26", b=rt.tensor("f32", bad))
    call.refuses("INVALID_SHAPE", clause="KINA-ELEMENTWISE-26", a=rt.tensor("f32", bad))


@clause("KINA-STATUS-25", "baced594")
def test_a_broadcast_that_overflows_is_refused(rt: Executor) -> None:
    tall, broad = rt.tensor("u8", (1, 1), strides=(0, 0)), rt.tensor("u8", (1, 1), strides=(0, 0))
    tall.struct.dl.shape[0] = broad.struct.dl.shape[1] = 1 << 32
    call = rt.call("runtime_gpu_binary", tall, rt.tensor("u8", (1, 0)), op="KINA_BINARY_ADD")

    call.refuses("INVALID_SHAPE", clause="KINA-STATUS-25", b=broad)


@clause("KINA-ELEMENTWISE-27", "11aca6c7")
@pytest.mark.parametrize("dtype", ["f64", "f16", "i32", "u32", "bool"])
def test_operands_of_different_dtypes_are_refused(rt: Executor, dtype: str) -> None:
    x = rt.tensor("f32", (3,))
    call = rt.call("runtime_gpu_binary", x, x, op="KINA_BINARY_ADD")

    for shape in ((3,), ()):
        call.refuses("INVALID_DTYPE", clause="KINA-ELEMENTWISE-27", b=rt.tensor(dtype, shape))
        call.refuses("INVALID_DTYPE", clause="KINA-ELEMENTWISE-27", a=rt.tensor(dtype, shape))


@clause("KINA-ELEMENTWISE-28", "0c18037f")
@pytest.mark.parametrize("dtype", COMPUTING)
def test_a_scalar_of_the_host_is_read_during_the_call(rt: Executor, dtype: str) -> None:
    x, scalar = rt.tensor(dtype, (3, 5)), rt.tensor(dtype, (), 1)
    expected = x.numpy() | scalar.numpy() if dtype == "bool" else x.numpy() + scalar.numpy()

    right, left = binary(rt, "ADD", x, scalar), binary(rt, "ADD", scalar, x)
    scalar.write(0)

    assert right.numpy().tolist() == left.numpy().tolist() == expected.tolist()


@clause("KINA-ELEMENTWISE-28", "0c18037f")
@pytest.mark.needs("sim")
def test_a_scalar_of_the_host_serves_operands_of_other_devices(rt: Executor) -> None:
    values = np.arange(12.0).reshape(3, 4)
    x = rt.call("runtime_copy_to_device", rt.tensor("f32", (3, 4), values), device_id=0).succeeds().out
    scalar = rt.tensor("f32", (), 10)

    right, left = binary(rt, "SUB", x, scalar), binary(rt, "SUB", scalar, x)
    scalar.write(0)

    assert (right.device, left.device) == (x.device, x.device)
    for result, expected in ((right, values - 10), (left, 10 - values)):
        back = rt.call("runtime_copy_to_host", result).succeeds().out
        assert back.numpy().tolist() == expected.tolist()
    call = rt.call("runtime_gpu_binary", x, scalar, op="KINA_BINARY_SUB")
    call.refuses("DEVICE_MISMATCH", clause="KINA-TENSOR-31", b=rt.tensor("f32", (1,)))


@clause("KINA-ELEMENTWISE-29", "4dbb0720")
def test_an_out_that_is_one_input_and_touches_the_other_is_refused(rt: Executor) -> None:
    base = rt.tensor("f32", (8, 8))
    matrix = part(rt, base, (4, 8), 0)
    row = part(rt, base, (8,), 8)
    flipped = part(rt, base, (4, 8), 24, (-8, 1))
    apart = rt.tensor("f32", (8,))
    call = rt.call("runtime_gpu_binary", matrix, apart, out=matrix, op="KINA_BINARY_ADD")

    call.refuses("OVERLAP", argument="out", b=row)
    call.refuses("OVERLAP", argument="out", b=flipped)
    mirrored = rt.call("runtime_gpu_binary", apart, matrix, out=matrix, op="KINA_BINARY_ADD")
    mirrored.refuses("OVERLAP", argument="out", a=row)
    mirrored.refuses("OVERLAP", argument="out", a=flipped)


@clause("KINA-ELEMENTWISE-30", "d2c30a1f")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_add_sub_mul_and_pow_of_integers_wrap(rt: Executor, dtype: str) -> None:
    info = np.iinfo(DTYPES[dtype].storage)
    low, high = int(info.min), int(info.max)
    pairs = [(high, 1), (low, 1), (high, high), (low, low), (high, 2), (3, 5)]
    a, b = valued(rt, dtype, [p[0] for p in pairs]), valued(rt, dtype, [p[1] for p in pairs])
    exact = {"ADD": int.__add__, "SUB": int.__sub__, "MUL": int.__mul__}

    for op, function in exact.items():
        wrapped = [(function(x, y) - low) % (high - low + 1) + low for x, y in pairs]
        assert binary(rt, op, a, b).numpy().tolist() == wrapped, op
    powers = valued(rt, dtype, [2, 3, 100, 0])
    wrapped = [(pow(high, n) - low) % (high - low + 1) + low for n in (2, 3, 100, 0)]
    assert binary(rt, "POW", valued(rt, dtype, high), powers).numpy().tolist() == wrapped


@clause("KINA-ELEMENTWISE-31", "655c1fb1")
@clause("KINA-ELEMENTWISE-39", "44638bb9")
def test_arithmetic_of_bool_is_or_and_and(rt: Executor) -> None:
    a, b = stored(rt, "bool", np.array([0, 0, 1, 2], np.uint8)), stored(rt, "bool", np.array([0, 4, 0, 255], np.uint8))

    for op in ("ADD", "MAXIMUM", "BITWISE_OR", "LOGICAL_OR"):
        assert binary(rt, op, a, b).raw().tolist() == [0, 1, 1, 1], op
    for op in ("MUL", "MINIMUM", "BITWISE_AND", "LOGICAL_AND"):
        assert binary(rt, op, a, b).raw().tolist() == [0, 0, 0, 1], op
    for op in ("BITWISE_XOR", "LOGICAL_XOR", "NOT_EQUAL"):
        assert binary(rt, op, a, b).raw().tolist() == [0, 1, 1, 0], op


@clause("KINA-ELEMENTWISE-32", "a23c9a7f")
@pytest.mark.parametrize("dtype", SIGNED)
def test_division_of_integers_is_defined_everywhere(rt: Executor, dtype: str) -> None:
    low = int(np.iinfo(DTYPES[dtype].storage).min)
    pairs = [
        (7, 2),
        (-7, 2),
        (7, -2),
        (-7, -2),
        (6, -3),
        (5, 0),
        (-5, 0),
        (0, 0),
        (low, -1),
        (low, 1),
        (1, low),
        (low, low),
    ]
    quotients = [3, -4, -4, 3, -2, 0, 0, 0, low, low, -1, 1]
    remainders = [1, 1, -1, -1, 0, 0, 0, 0, 0, 0, low + 1, 0]
    a, b = valued(rt, dtype, [p[0] for p in pairs]), valued(rt, dtype, [p[1] for p in pairs])

    assert binary(rt, "FLOOR_DIV", a, b).numpy().tolist() == quotients
    assert binary(rt, "MOD", a, b).numpy().tolist() == remainders


@clause("KINA-ELEMENTWISE-32", "a23c9a7f")
def test_division_of_unsigned_integers(rt: Executor) -> None:
    a, b = rt.tensor("u8", (4,), [255, 255, 7, 0]), rt.tensor("u8", (4,), [2, 0, 255, 1])

    assert binary(rt, "FLOOR_DIV", a, b).numpy().tolist() == [127, 0, 0, 0]
    assert binary(rt, "MOD", a, b).numpy().tolist() == [1, 0, 7, 0]


@clause("KINA-ELEMENTWISE-33", "d4b42e8a")
@pytest.mark.parametrize("dtype", FLOATS)
def test_mod_of_floats_has_the_sign_of_the_divisor(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    cases = [
        (5.5, 2, 1.5), (-5.5, 2, 0.5), (5.5, -2, -0.5), (-5.5, -2, -1.5), (4, 2, 0.0), (4, -2, -0.0), (-4, 2, 0.0),
        (1, 0.0, nan), (0.0, 0.0, nan), (inf, 2, nan), (-inf, inf, nan), (1, inf, 1), (-1, inf, inf), (1, -inf, -inf),
        (-1, -inf, -1), (0.0, inf, 0.0), (-0.0, inf, 0.0), (0.0, -inf, -0.0), (nan, 1, nan), (1, nan, nan),
    ]  # fmt: skip
    a, b = valued(rt, dtype, [c[0] for c in cases]), valued(rt, dtype, [c[1] for c in cases])

    same(binary(rt, "MOD", a, b), encode(np.array([c[2] for c in cases], float), dtype))


@clause("KINA-ELEMENTWISE-34", "2e485fbc")
@pytest.mark.parametrize("dtype", FLOATS)
def test_floor_div_of_floats(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    cases = [
        (5.5, 2, 2), (-5.5, 2, -3), (5.5, -2, -3), (-5.5, -2, 2), (1, 2, 0.0), (-0.0, 2, -0.0), (0.0, -2, -0.0),
        (1, 0.0, inf), (-1, 0.0, -inf), (1, -0.0, -inf), (0.0, 0.0, nan), (inf, 2, nan), (-inf, 2, nan), (1, inf, 0.0),
        (-1, inf, -1), (1, -inf, -1), (inf, inf, nan), (nan, 1, nan), (inf, 0.0, inf),
    ]  # fmt: skip
    a, b = valued(rt, dtype, [c[0] for c in cases]), valued(rt, dtype, [c[1] for c in cases])

    same(binary(rt, "FLOOR_DIV", a, b), encode(np.array([c[2] for c in cases], float), dtype))


@clause("KINA-ELEMENTWISE-35", "b05a3bad")
@pytest.mark.parametrize("dtype", SIGNED)
def test_integers_to_negative_powers_are_cut_towards_zero(rt: Executor, dtype: str) -> None:
    low = int(np.iinfo(DTYPES[dtype].storage).min)
    cases = [
        (1, -3, 1),
        (-1, -3, -1),
        (-1, -2, 1),
        (2, -1, 0),
        (-2, -1, 0),
        (0, -1, 0),
        (0, 0, 1),
        (7, 0, 1),
        (1, low, 1),
    ]
    cases += [(-1, low, 1), (low, -1, 0), (low, 1, low), (3, 4, 81), (-2, 5, -32)]
    a, b = valued(rt, dtype, [c[0] for c in cases]), valued(rt, dtype, [c[1] for c in cases])

    assert binary(rt, "POW", a, b).numpy().tolist() == [c[2] for c in cases]


@clause("KINA-ELEMENTWISE-36", "af0ac76b")
@pytest.mark.parametrize("dtype", FLOATS)
def test_pow_and_atan2_have_the_special_values_of_c(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    powers = [
        (nan, 0.0, 1), (nan, -0.0, 1), (1, nan, 1), (1, inf, 1), (-1, inf, 1), (0.0, -1, inf), (-0.0, -1, -inf),
        (0.0, 3, 0.0), (-0.0, 3, -0.0), (-8, 0.5, nan), (-2, 3, -8), (inf, -1, 0.0), (-inf, 3, -inf), (0.5, inf, 0.0),
        (2, inf, inf), (2, -inf, 0.0), (2, nan, nan), (nan, 2, nan),
    ]  # fmt: skip
    a, b = valued(rt, dtype, [c[0] for c in powers]), valued(rt, dtype, [c[1] for c in powers])
    same(binary(rt, "POW", a, b), encode(np.array([c[2] for c in powers], float), dtype))
    zeros = [(0.0, 1), (-0.0, 1), (0.0, 0.0), (-0.0, 0.0)]
    y, x = valued(rt, dtype, [c[0] for c in zeros]), valued(rt, dtype, [c[1] for c in zeros])
    same(binary(rt, "ATAN2", y, x), encode(np.array([0.0, -0.0, 0.0, -0.0]), dtype))
    below = binary(rt, "ATAN2", valued(rt, dtype, [0.0, -0.0]), valued(rt, dtype, -0.0)).numpy()
    assert (np.abs(np.abs(below) - np.pi) < 0.02).all() and np.signbit(below).tolist() == [False, True]


@clause("KINA-ELEMENTWISE-37", "174e6b65")
@pytest.mark.parametrize("dtype", FLOATS)
def test_maximum_and_minimum_order_zeros_and_keep_nan(rt: Executor, dtype: str) -> None:
    nan, inf = np.nan, np.inf
    a = valued(rt, dtype, [0.0, -0.0, 1, nan, 1, nan, -inf, inf])
    b = valued(rt, dtype, [-0.0, 0.0, 2, 1, nan, nan, 5, -inf])

    same(binary(rt, "MAXIMUM", a, b), encode(np.array([0.0, 0.0, 2, nan, nan, nan, 5, inf]), dtype))
    same(binary(rt, "MINIMUM", a, b), encode(np.array([-0.0, -0.0, 1, nan, nan, nan, -inf, -inf]), dtype))


@clause("KINA-ELEMENTWISE-38", "62d5c6e4")
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_compares_unequal_and_zeros_equal(rt: Executor, dtype: str) -> None:
    a = valued(rt, dtype, [np.nan, np.nan, 1, -0.0, np.inf])
    b = valued(rt, dtype, [np.nan, 1, np.nan, 0.0, np.inf])
    expected = {
        "EQUAL": [0, 0, 0, 1, 1], "NOT_EQUAL": [1, 1, 1, 0, 0], "LESS": [0] * 5, "GREATER": [0] * 5,
        "LESS_EQUAL": [0, 0, 0, 1, 1], "GREATER_EQUAL": [0, 0, 0, 1, 1],
    }  # fmt: skip

    for op, values in expected.items():
        assert binary(rt, op, a, b).raw().tolist() == values, op


@clause("KINA-ELEMENTWISE-38", "62d5c6e4")
@clause("KINA-TENSOR-33", "3c069acf")
def test_false_is_less_than_true_whatever_byte_it_is(rt: Executor) -> None:
    a, b = stored(rt, "bool", np.array([0, 1, 2, 0], np.uint8)), stored(rt, "bool", np.array([3, 0, 1, 0], np.uint8))

    assert binary(rt, "LESS", a, b).raw().tolist() == [1, 0, 0, 0]
    assert binary(rt, "EQUAL", a, b).raw().tolist() == [0, 0, 1, 1]


@clause("KINA-ELEMENTWISE-39", "44638bb9")
@pytest.mark.parametrize("dtype", FLOATS)
def test_logical_ops_take_nan_as_true(rt: Executor, dtype: str) -> None:
    a, b = valued(rt, dtype, [np.nan, np.nan, -0.0, 0.5]), valued(rt, dtype, [0.0, 1, 0.0, np.nan])

    assert binary(rt, "LOGICAL_AND", a, b).raw().tolist() == [0, 1, 0, 1]
    assert binary(rt, "LOGICAL_OR", a, b).raw().tolist() == [1, 1, 0, 1]
    assert binary(rt, "LOGICAL_XOR", a, b).raw().tolist() == [1, 0, 0, 0]


@clause("KINA-ELEMENTWISE-40", "81c1003f")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_outside_the_width_shift_everything_out(rt: Executor, dtype: str) -> None:
    info = np.iinfo(DTYPES[dtype].storage)
    bits = DTYPES[dtype].bytes * 8
    counts = [0, 1, bits - 1, bits, bits + 1, int(info.max)] + ([-1, int(info.min)] if info.min < 0 else [])
    b = valued(rt, dtype, counts)
    inside = [0 <= n < bits for n in counts]

    left = binary(rt, "SHIFT_LEFT", valued(rt, dtype, 5), b).numpy().tolist()
    right = binary(rt, "SHIFT_RIGHT", valued(rt, dtype, info.max), b).numpy().tolist()

    low, high = int(info.min), int(info.max)
    assert left == [
        ((5 << n) - low) % (high - low + 1) + low if ok else 0 for n, ok in zip(counts, inside, strict=True)
    ]
    assert right == [high >> n if ok else 0 for n, ok in zip(counts, inside, strict=True)]
    if low < 0:
        negative = binary(rt, "SHIFT_RIGHT", valued(rt, dtype, low), b).numpy().tolist()
        assert negative == [low >> n if ok else -1 for n, ok in zip(counts, inside, strict=True)]


# ---- casts -------------------------------------------------------------------------------------------------------


def expected_cast(elements: Array, source: str, target: str) -> Array:
    if source == target and target != "bool":
        return elements
    return np.asarray(oracle.cast(decode(elements, source), source, target))


@clause("KINA-ELEMENTWISE-41", "8b8aadea")
@clause("KINA-ELEMENTWISE-43", "ab4449b2")
@clause("KINA-ELEMENTWISE-44", "64ccf7a5")
@clause("KINA-ELEMENTWISE-45", "6d8dba12")
@clause("KINA-ELEMENTWISE-46", "29fdbbc6")
@clause("KINA-ELEMENTWISE-47", "e2e0e406")
@clause("KINA-ELEMENTWISE-48", "b2f2eb15")
@pytest.mark.parametrize("source", CASTS)
@pytest.mark.parametrize("target", CASTS)
def test_a_cast_between_any_two_dtypes_is_exact(rt: Executor, source: str, target: str) -> None:
    elements = np.concatenate([plenty(source, 5), *near_ties(source, target)])
    x = stored(rt, source, elements)

    y = cast(rt, x, target)

    assert y.dtype == target
    same(y, expected_cast(elements, source, target))


def near_ties(source: str, target: str) -> list[Array]:
    """Elements of a wider float or of i64 that lie on, just below and just above the ties of a narrower float."""
    form = DTYPES[target].format
    narrower = DTYPES[source].bytes <= DTYPES[target].bytes and source != "i64"
    if form is None or DTYPES[source].kind == "b" or narrower:
        return []
    random = np.random.default_rng(9)
    if DTYPES[source].kind in "ui":
        odd = random.integers(1 << form.mantissa, 2 << form.mantissa, 64) * 2 + 1
        base = (odd << random.integers(0, max(1, DTYPES[source].bytes * 8 - form.mantissa - 3), 64)).astype(np.int64)
        return [encode(np.concatenate([base, base + 1, base - 1, -base, -base - 1]), source)]
    steps = random.integers(0, 2 ** (form.mantissa + 1), 64) + 0.5
    exponents = random.integers(form.minimum_exponent - form.mantissa, min(form.bias, 120) - form.mantissa, 64)
    ties = np.ldexp(steps, exponents)
    wide = DTYPES[source].format
    assert wide is not None
    nudge = ties * 2.0**-wide.mantissa
    edge = np.array(
        [form.maximum * (1 + 2.0 ** -(form.mantissa + 2)), form.maximum * (1 + 2.0 ** -(form.mantissa + 1))]
    )
    values = np.concatenate([ties, ties + nudge, ties - nudge, edge])
    with np.errstate(all="ignore"):
        return [encode(np.concatenate([values, -values]), source)]


@clause("KINA-ELEMENTWISE-41", "8b8aadea")
@pytest.mark.parametrize("other", STORAGE_ONLY)
def test_other_dtypes_are_not_cast(rt: Executor, other: str) -> None:
    call = rt.call("runtime_gpu_cast", rt.tensor("f32", (3,)), target="f64")

    call.refuses("UNSUPPORTED", clause="KINA-ELEMENTWISE-41", target=other)
    call.refuses("UNSUPPORTED", clause="KINA-ELEMENTWISE-41", in_=rt.tensor(other, (3,)))


@clause("KINA-TENSOR-17", "5471aba4")
@clause("KINA-ELEMENTWISE-41", "8b8aadea")
def test_a_target_that_is_no_dtype_is_refused(rt: Executor) -> None:
    call = rt.call("runtime_gpu_cast", rt.tensor("f32", (3,)), target="f64")

    for target in (0, 0x00022002, 0x00010402, 0x00010807, 0x00012003, 2**32 - 1):
        call.refuses("UNSUPPORTED", clause="KINA-TENSOR-17", argument="target", target=target)


@clause("KINA-ELEMENTWISE-42", "6cbb6a1a")
@pytest.mark.parametrize("dtype", CASTS)
def test_a_cast_to_its_own_dtype_copies_the_bits(rt: Executor, dtype: str) -> None:
    elements = kst.make_elements(dtype, (509,), "any", 13)
    x = stored(rt, dtype, elements)

    y = cast(rt, x, dtype)

    assert y.data != x.data and y.flags == rt.constant("KINA_FLAG_OWNED")
    wanted = (elements != 0).astype(np.uint8) if dtype == "bool" else elements
    assert y.raw().tobytes() == wanted.tobytes()


@clause("KINA-ELEMENTWISE-43", "ab4449b2")
def test_casts_between_integers_wrap(rt: Executor) -> None:
    x = rt.tensor("i64", (6,), [2**40 + 5, -1, 255, 256, -(2**63), 2**63 - 1])

    assert cast(rt, x, "u8").numpy().tolist() == [5, 255, 255, 0, 0, 255]
    assert cast(rt, x, "i8").numpy().tolist() == [5, -1, -1, 0, 0, -1]
    assert cast(rt, x, "i32").numpy().tolist() == [5, -1, 255, 256, 0, -1]


@clause("KINA-ELEMENTWISE-44", "64ccf7a5")
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_casts_of_floats_to_integers_saturate(rt: Executor, source: str, target: str) -> None:
    info = np.iinfo(DTYPES[target].storage)
    low, high = int(info.min), int(info.max)
    x = valued(rt, source, [np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, 0.9, -0.9, -0.0])

    assert cast(rt, x, target).numpy().tolist() == [0, high, low, high, low, 2, 0, 0, 0]
    negative = cast(rt, valued(rt, source, [-1.0, -2.9]), target).numpy().tolist()
    assert negative == ([-1, -2] if low < 0 else [0, 0])


@clause("KINA-ELEMENTWISE-45", "6d8dba12")
@clause("KINA-TENSOR-33", "3c069acf")
@pytest.mark.parametrize("dtype", FLOATS + CAST_ONLY)
def test_casts_to_and_from_bool(rt: Executor, dtype: str) -> None:
    smallest = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 5e-324}.get(dtype, 0.0625)
    x = valued(rt, dtype, [0.0, -0.0, np.nan, smallest, -1])
    truth = stored(rt, "bool", np.array([0, 1, 2, 255], np.uint8))

    assert cast(rt, x, "bool").raw().tolist() == [0, 0, 1, 1, 1]
    assert cast(rt, truth, dtype).numpy().tolist() == [0, 1, 1, 1]


@clause("KINA-ELEMENTWISE-47", "e2e0e406")
def test_casts_that_overflow_become_infinite_or_nan(rt: Executor) -> None:
    x = rt.tensor("f64", (4,), [1e300, -1e300, np.inf, -np.inf])
    inf, nan = np.inf, np.nan

    for target in ("f16", "bf16", "f32", "f8e5m2"):
        same(cast(rt, x, target), encode(np.array([inf, -inf, inf, -inf]), target))
    same(cast(rt, x, "f8e4m3fn"), encode(np.array([nan, -nan, nan, -nan]), "f8e4m3fn"))
    edge = rt.tensor("f32", (4,), [448, 464, 464.25, -465])
    same(cast(rt, edge, "f8e4m3fn"), encode(np.array([448, 448, nan, nan]), "f8e4m3fn"))
    large = rt.tensor("i32", (3,), [65504, 65519, 65520])
    same(cast(rt, large, "f16"), encode(np.array([65504, 65504, inf]), "f16"))


@clause("KINA-ELEMENTWISE-49", "bafd7d85")
def test_casts_of_f8_belong_to_float8(rt: Executor) -> None:
    call = rt.call("runtime_gpu_cast", rt.tensor("f32", (3,)), target="f16")

    for dtype in CAST_ONLY:
        if rt.offers("float8"):
            assert cast(rt, rt.tensor("f32", (3,)), dtype).dtype == dtype
        else:
            call.refuses("UNSUPPORTED", clause="KINA-ELEMENTWISE-49", target=dtype)


@clause("KINA-ELEMENTWISE-50", "ee634262")
def test_a_cast_into_another_dtype_than_the_target_is_refused(rt: Executor) -> None:
    call = rt.call("runtime_gpu_cast", rt.tensor("f32", (3,)), out=rt.out("i16", (3,)), target="i16")

    call.refuses("INVALID_DTYPE", argument="out", out=rt.out("i32", (3,)))
    call.refuses("INVALID_DTYPE", argument="out", target="f16")
