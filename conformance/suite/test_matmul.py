"""The matmul chapter: products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause, oracle
from kina_conformance import strategies as kst
from kina_conformance.compare import close, dtypes_of, same
from kina_conformance.dtypes import COMPUTING, DTYPES, Array
from kina_conformance.executor import Call
from kina_conformance.memory import Tensor
from kina_conformance.operations import failed, stored, valued

MATMUL = "runtime_gpu_matmul"
FLOATS = ["f16", "bf16", "f32", "f64"]
EXACT = ["bool", "u8", "i8", "i16", "i32", "i64"]
ACTIVATIONS = ["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"]


def call(rt: Executor, a: Tensor, b: Tensor, out: Any = None, **options: Any) -> Call:
    given_out = {} if out is None else {"out": out}
    if isinstance(options.get("out_dtype"), str):
        options["out_dtype"] = DTYPES[options["out_dtype"]].value
    return rt.call(MATMUL, a, b, params=rt.params("KinaMatmulParams", **options) if options else None, **given_out)


def activation(name: str) -> str:
    return f"KINA_UNARY_{name.upper()}"


def transposed(values: Array) -> Array:
    return np.swapaxes(values, -1, -2)


def checked(y: Tensor, a: Array, b: Array, dtype: str, **options: Any) -> None:
    """`y` is what the formula gives, within the bound of the table or exactly."""
    product, size = oracle.matmul(a, b)
    k = a.shape[-1]
    if dtype not in FLOATS:
        expected = product + np.asarray(options.get("bias", 0))
        expected = expected != 0 if dtype == "bool" else oracle.wrapped(expected, dtype)
        same(y, np.asarray(expected).astype(DTYPES[dtype].storage))
        return
    alpha, beta = options.get("alpha", 1.0), options.get("beta", 0.0)
    with np.errstate(all="ignore"):
        value = product * alpha if alpha != 0 else np.zeros_like(product)
        size = size * abs(alpha)
        for part in (options.get("c", 0.0) * np.longdouble(beta) if beta else 0.0, options.get("bias", 0.0)):
            value, size = value + part, size + np.abs(part)
        name = options.get("activation")
        value, size = oracle.activated(name, value), size * (1.2 if name else 1)
    close(y, value, MATMUL, dtype, k=k, sum_abs=size)


@st.composite
def products(draw: st.DrawFn, largest: int = 9) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of two operands that multiply, batches broadcast."""
    m, n, k = (draw(st.sampled_from([0, 1, 2, 3, 5, largest])) for _ in range(3))
    left, right = draw(kst.broadcastable())
    small = [tuple(min(e, 3) if e != 1 else 1 for e in batch[-2:]) for batch in (left, right)]
    if any(1 not in pair and pair[0] != pair[1] for pair in zip(small[0][::-1], small[1][::-1], strict=False)):
        small = [(), ()]
    return (*small[0], m, k), (*small[1], k, n)


def drawn(data: st.DataObject, rt: Executor, dtype: str, shape: Sequence[int]) -> Tensor:
    operand = data.draw(kst.operands(dtype=dtype, shape=tuple(shape), kinds=("small", "unit")))
    return operand.on(rt)


# ---- shapes ---------------------------------------------------------------------------------------------------------


@clause("KINA-MATMUL-1", "13a31d43")
@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("which", ["a", "b"])
def test_a_matrix_has_two_dimensions(rt: Executor, which: str, shape: tuple[int, ...]) -> None:
    square = rt.tensor("f32", (3, 3))
    change: dict[str, Any] = {which: rt.tensor("f32", shape)}

    record = call(rt, square, square).refuses("INVALID_SHAPE", clause="KINA-MATMUL-1", argument=which, **change)

    assert record.argument == (2 if which == "a" else 3)


@clause("KINA-MATMUL-2", "25ca6a48")
@pytest.mark.parametrize("dtype", COMPUTING)
@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_transpositions_come_before_anything_else(rt: Executor, left: int, right: int, dtype: str) -> None:
    a = rt.tensor(dtype, (2, 3, 4) if not left else (2, 4, 3))
    b = rt.tensor(dtype, (4, 5) if not right else (5, 4))

    y = call(rt, a, b, transpose_a=left, transpose_b=right).succeeds().out

    plain_a, plain_b = (transposed(t.numpy()) if t_ else t.numpy() for t, t_ in ((a, left), (b, right)))
    assert y.shape == (2, 3, 5)
    checked(y, plain_a, plain_b, dtype)


@clause("KINA-MATMUL-3", "c2628416")
@pytest.mark.parametrize(("shape", "options"), [((3, 3), {}), ((1, 3), {}), ((0, 3), {}), ((4, 3), {"transpose_b": 1})])
def test_inner_extents_that_differ_are_refused(rt: Executor, shape: tuple[int, int], options: dict[str, int]) -> None:
    good = (3, 4) if options else (4, 3)
    valid = call(rt, rt.tensor("f32", (2, 4)), rt.tensor("f32", good), **options)

    valid.refuses("INVALID_SHAPE", clause="KINA-MATMUL-3", b=rt.tensor("f32", shape))


@clause("KINA-MATMUL-4", "9861b6c1")
@pytest.mark.parametrize(("left", "right"), [((2,), (3,)), ((2, 1), (3, 3)), ((0,), (2,)), ((2, 3), (2,))])
def test_batches_that_do_not_broadcast_are_refused(rt: Executor, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    valid = call(rt, rt.tensor("f32", (*left, 2, 2)), rt.tensor("f32", (2, 2)))

    valid.refuses("INVALID_SHAPE", clause="KINA-MATMUL-4", b=rt.tensor("f32", (*right, 2, 2)))


@clause("KINA-MATMUL-4", "9861b6c1")
@clause("KINA-MATMUL-5", "6931340d")
@clause("KINA-MATMUL-6", "cc7c3876")
@clause("KINA-MATMUL-7", "ff1694e7")
@clause("KINA-MATMUL-9", "2af23c89")
@clause("KINA-MATMUL-10", "90c4b9d9")
@given(data=st.data())
def test_products_of_any_shape_and_strides_are_right(rt: Executor, data: st.DataObject) -> None:
    dtype = data.draw(kst.computing_dtypes)
    left, right = data.draw(products())
    a, b = drawn(data, rt, dtype, left), drawn(data, rt, dtype, right)
    shape = (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    target = data.draw(st.none() | kst.operands(dtype=dtype, shape=shape, writable=True))

    y = call(rt, a, b, None if target is None else target.out_on(rt)).succeeds().out

    assert (y.shape, y.dtype) == (shape, dtype)
    checked(y, a.numpy(), b.numpy(), dtype)


@clause("KINA-MATMUL-6", "cc7c3876")
@clause("KINA-MATMUL-10", "90c4b9d9")
@given(data=st.data())
def test_larger_products_are_right_in_any_layout(rt: Executor, data: st.DataObject) -> None:
    dtype = data.draw(kst.float_dtypes)
    m, n, k = (data.draw(st.sampled_from([1, 16, 17, 33, 64])) for _ in range(3))
    batch = data.draw(st.sampled_from([(), (2,)]))
    a = drawn(data, rt, dtype, (*batch, m, k) if data.draw(st.booleans()) else (m, k))
    b = drawn(data, rt, dtype, (*batch, k, n))
    target = data.draw(st.none() | kst.operands(dtype=dtype, shape=(*batch, m, n), writable=True))

    y = call(rt, a, b, None if target is None else target.out_on(rt)).succeeds().out

    checked(y, a.numpy(), b.numpy(), dtype)


@clause("KINA-MATMUL-5", "6931340d")
def test_a_product_of_rank_thirty_two_is_right(rt: Executor) -> None:
    a = rt.tensor("i32", (1,) * 29 + (2, 3, 4))
    b = rt.tensor("i32", (4, 2))

    y = call(rt, a, b).succeeds().out

    assert y.shape == (1,) * 29 + (2, 3, 2)
    assert np.array_equal(y.numpy(), a.numpy() @ b.numpy())


@clause("KINA-MATMUL-5", "6931340d")
@clause("KINA-STATUS-25", "baced594")
def test_a_result_of_too_many_bytes_is_refused(rt: Executor) -> None:
    a, b = rt.tensor("f32", (1, 1), strides=(0, 1)), rt.tensor("f32", (1, 1), strides=(1, 0))
    valid = call(rt, a, b)
    tall, broad = rt.tensor("f32", (1, 1), strides=(0, 1)), rt.tensor("f32", (1, 1), strides=(1, 0))
    tall.struct.dl.shape[0] = broad.struct.dl.shape[1] = 2**40

    valid.refuses("INVALID_SHAPE", clause="KINA-STATUS-25", a=tall, b=broad, as_one="two long operands")


@clause("KINA-MATMUL-7", "ff1694e7")
@pytest.mark.parametrize(("left", "right"), [((0, 3), (3, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (3, 4)), ((0, 0), (0, 0))])
def test_a_result_without_elements_is_produced(rt: Executor, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    y = call(rt, rt.tensor("f32", left), rt.tensor("f32", right)).succeeds().out

    assert y.shape == (*left[:-1], right[-1]) and y.elements == 0 and y.data == 0


# ---- values ---------------------------------------------------------------------------------------------------------


@clause("KINA-MATMUL-8", "fcdf7d8b")
@clause("KINA-MATMUL-11", "add65a73")
@clause("KINA-MATMUL-22", "2e36d046")
@clause("KINA-MATMUL-28", "70232c97")
@given(data=st.data())
def test_scaling_bias_and_activation_follow_the_formula(rt: Executor, data: st.DataObject) -> None:
    dtype = data.draw(kst.float_dtypes)
    m, n, k = (data.draw(st.sampled_from([1, 3, 8, 17])) for _ in range(3))
    a, b = drawn(data, rt, dtype, (m, k)), drawn(data, rt, dtype, (k, n))
    alpha, beta = (data.draw(st.sampled_from([0.0, 1.0, -0.5, 2.0, 0.25])) for _ in range(2))
    options: dict[str, Any] = {"scaled": 1, "alpha": alpha, "beta": beta}
    known: dict[str, Any] = {"alpha": alpha, "beta": beta}
    if data.draw(st.booleans()):
        options["bias"] = drawn(data, rt, dtype, (n,))
        known["bias"] = options["bias"].numpy()
    name = data.draw(st.none() | st.sampled_from(["relu", "sigmoid", "tanh", "gelu"]))
    if name is not None:
        options["activation"], known["activation"] = activation(name), name
    out = data.draw(kst.operands(dtype=dtype, shape=(m, n), writable=True, kinds=("small", "unit"))).on(rt)
    known["c"] = out.numpy()

    y = call(rt, a, b, out, **options)

    assert y.status() == "SUCCESS", rt.record()
    if name is None:
        checked(out, a.numpy(), b.numpy(), dtype, **known)
    else:
        near(out, a.numpy(), b.numpy(), dtype, **known)


def near(y: Tensor, a: Array, b: Array, dtype: str, **known: Any) -> None:
    """With an activation: the bound of the product, times its slope, and the accuracy of the activation."""
    product, size = oracle.matmul(a, b)
    value = product * known.get("alpha", 1.0) + known.get("c", 0.0) * np.longdouble(known.get("beta", 0.0))
    value = value + known.get("bias", 0.0)
    expected = oracle.activated(known["activation"], value)
    unit = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}[dtype]
    inner = 2.0**-24 if dtype != "f64" else 2.0**-53
    total = size * abs(known.get("alpha", 1.0)) + abs(known.get("beta", 0.0)) * np.abs(known.get("c", 0.0))
    total = total + np.abs(known.get("bias", 0.0))
    limit = 1.2 * (2 * a.shape[-1] + 8) * inner * total + 8 * unit * np.abs(expected) + 8 * inner + 1e-7 * unit
    limit = limit + (2.0**-25 if dtype == "f16" else 0)
    assert (np.abs(y.numpy() - expected) <= limit).all()


@clause("KINA-MATMUL-8", "fcdf7d8b")
@clause("KINA-MATMUL-29", "6b99b6b7")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_each_activation_is_the_unary_op_of_its_name(rt: Executor, name: str, dtype: str) -> None:
    values = np.array([[-20.0, -3.0, -1.0, -0.5, 0.0, 0.25, 1.0, 2.5, 19.0]])
    row, one = valued(rt, dtype, values), valued(rt, dtype, [[1.0]])
    unary = rt.call("runtime_gpu_unary", row, op=activation(name)).succeeds().out

    y = call(rt, one, row, activation=activation(name)).succeeds().out

    same(y, unary.raw())


@clause("KINA-MATMUL-9", "2af23c89")
@pytest.mark.parametrize("dtype", COMPUTING)
def test_without_inner_extent_the_product_is_zero_and_the_bias_remains(rt: Executor, dtype: str) -> None:
    a, b = rt.tensor(dtype, (2, 0)), rt.tensor(dtype, (0, 3))
    bias = rt.tensor(dtype, (3,))

    plain = call(rt, a, b).succeeds().out
    biased = call(rt, a, b, bias=bias).succeeds().out

    assert not plain.numpy().any()
    assert np.array_equal(biased.numpy(), np.broadcast_to(bias.numpy(), (2, 3)))


@clause("KINA-MATMUL-9", "2af23c89")
def test_without_inner_extent_beta_and_activation_remain(rt: Executor) -> None:
    out = rt.tensor("f32", (2, 2), [[1, -2], [3, -4]])

    status = call(
        rt, rt.tensor("f32", (2, 0)), rt.tensor("f32", (0, 2)), out, scaled=1, alpha=3.0, beta=2.0,
        activation=activation("relu"),
    ).status()  # fmt: skip

    assert status == "SUCCESS" and out.numpy().tolist() == [[2, 0], [6, 0]]


@clause("KINA-MATMUL-10", "90c4b9d9")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_small_floats_are_accumulated_in_f32(rt: Executor, dtype: str) -> None:
    k = 4096
    a, b = valued(rt, dtype, np.ones((1, k))), valued(rt, dtype, np.full((k, 1), 1.0))

    assert call(rt, a, b, out_dtype="f32").succeeds().out.numpy() == k


@clause("KINA-MATMUL-11", "add65a73")
def test_a_bias_is_added_before_the_only_rounding(rt: Executor) -> None:
    a = valued(rt, "f16", [[2048.0, 1.0]])
    b = valued(rt, "f16", [[1.0], [1.0]])
    bias = valued(rt, "f16", [1.0])

    assert call(rt, a, b, bias=bias).succeeds().out.numpy() == 2050  # 2049 alone would round to 2048, and so would 2049


@clause("KINA-MATMUL-12", "5f2aebf0")
@pytest.mark.parametrize("size", [2, 40])
@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity_travel(rt: Executor, dtype: str, size: int) -> None:
    a, b = np.ones((size, size)), np.ones((size, size))
    a[0, 1], a[1, 0] = np.nan, np.inf
    b[0, 1], b[1, 0] = 0, -np.inf
    x, y = valued(rt, dtype, a), valued(rt, dtype, b)

    z = call(rt, x, y).succeeds().out.numpy()

    with np.errstate(all="ignore"):
        expected = a @ b
    assert np.isnan(z[0]).all() and np.isnan(z[1, 1]) and np.isnan(z[1, 0]), z
    assert np.array_equal(np.isnan(z), np.isnan(expected)) and np.array_equal(np.isposinf(z), np.isposinf(expected))
    assert np.array_equal(np.isneginf(z), np.isneginf(expected))


@clause("KINA-MATMUL-13", "8e1a161d")
@clause("KINA-MATMUL-15", "3c67fb33")
@pytest.mark.parametrize("dtype", ["u8", "i8", "i16", "i32", "i64"])
@given(seed=st.integers(0, 99), shape=st.tuples(*[st.sampled_from([1, 2, 7, 30])] * 3))
def test_integers_wrap(rt: Executor, dtype: str, seed: int, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a = stored(rt, dtype, kst.make_elements(dtype, (m, k), "any", seed))
    b = stored(rt, dtype, kst.make_elements(dtype, (k, n), "teeth", seed + 1))

    y = call(rt, a, b).succeeds().out

    checked(y, a.numpy(), b.numpy(), dtype)


@clause("KINA-MATMUL-13", "8e1a161d")
def test_the_bias_of_integers_wraps_too(rt: Executor) -> None:
    a, b = rt.tensor("i8", (1, 1), 100), rt.tensor("i8", (1, 1), 1)

    y = call(rt, a, b, bias=rt.tensor("i8", (1,), 100)).succeeds().out

    assert y.numpy().tolist() == [[-56]]


@clause("KINA-MATMUL-14", "d497b814")
@clause("KINA-TENSOR-33", "3c069acf")
@given(seed=st.integers(0, 99))
def test_bools_multiply_with_and_and_add_with_or(rt: Executor, seed: int) -> None:
    random = np.random.default_rng(seed)
    a = stored(rt, "bool", random.choice(np.array([0, 0, 1, 2, 255], np.uint8), (4, 5)))
    b = stored(rt, "bool", random.choice(np.array([0, 0, 1, 128], np.uint8), (5, 3)))
    bias = stored(rt, "bool", random.choice(np.array([0, 7], np.uint8), 3))

    y = call(rt, a, b).succeeds().out
    biased = call(rt, a, b, bias=bias).succeeds().out

    expected = (a.numpy().astype(int) @ b.numpy().astype(int)) > 0
    same(y, expected.astype(np.uint8))
    same(biased, (expected | bias.numpy()).astype(np.uint8))


@clause("KINA-MATMUL-15", "3c67fb33")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [5, 48])
def test_small_integers_multiply_exactly_in_floats(rt: Executor, dtype: str, size: int) -> None:
    random = np.random.default_rng(size)
    a, b = random.integers(-1, 2, (size, size)), random.integers(-2, 3, (size, size))

    y = call(rt, valued(rt, dtype, a), valued(rt, dtype, b)).succeeds().out

    assert np.array_equal(y.numpy(), a @ b)


@clause("KINA-MATMUL-2", "25ca6a48")
@clause("KINA-MATMUL-15", "3c67fb33")
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "i32"])
def test_a_linear_layer_is_one_call(rt: Executor, dtype: str) -> None:
    x = rt.tensor(dtype, (1, 2), [[1, 2]])

    def linear(weights: list[list[int]]) -> Any:
        return call(rt, x, rt.tensor(dtype, (2, 2), weights), transpose_b=1).succeeds().out.numpy().tolist()

    assert linear([[1, 0], [0, 1]]) == [[1, 2]]
    assert linear([[1, 1], [0, 1]]) == [[3, 2]]


@clause("KINA-MATMUL-2", "25ca6a48")
@clause("KINA-MATMUL-10", "90c4b9d9")
@clause("KINA-MATMUL-32", "00567a43")
@pytest.mark.parametrize("compute", ["KINA_COMPUTE_STRICT", "KINA_COMPUTE_TF32"])
@given(shape=st.tuples(*[st.sampled_from([1, 3, 16, 65, 128])] * 3), dtype=kst.float_dtypes, seed=st.integers(0, 999))
def test_a_linear_layer_lies_within_the_bound(
    rt: Executor, compute: str, shape: tuple[int, int, int], dtype: str, seed: int
) -> None:
    rows, inner, outer = shape
    x = stored(rt, dtype, kst.make_elements(dtype, (rows, inner), "unit", seed))
    w = stored(rt, dtype, kst.make_elements(dtype, (outer, inner), "unit", seed + 1))

    y = call(rt, x, w, transpose_b=1, compute=compute).succeeds().out

    product, size = oracle.matmul(x.numpy(), transposed(w.numpy()))
    mode = "tf32" if compute.endswith("TF32") else "strict"
    close(y, product, MATMUL, dtype, compute=mode, k=inner, sum_abs=size)


# ---- dtypes ---------------------------------------------------------------------------------------------------------


@clause("KINA-MATMUL-16", "112e006d")
@pytest.mark.parametrize(("dtype", "other"), [("f32", "f64"), ("f16", "bf16"), ("i32", "f32"), ("i8", "u8")])
def test_operands_of_two_dtypes_are_refused(rt: Executor, dtype: str, other: str) -> None:
    square = rt.tensor(dtype, (3, 3))

    call(rt, square, square).refuses("INVALID_DTYPE", clause="KINA-MATMUL-16", b=rt.tensor(other, (3, 3)))


@clause("KINA-MATMUL-17", "c6de8d48")
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_exist_for_the_dtypes_of_the_table(rt: Executor, dtype: str) -> None:
    square = rt.tensor(dtype, (3, 3))
    computed = call(rt, square, square)

    if dtype in dtypes_of(MATMUL):
        assert dtype in COMPUTING and computed.succeeds().out.dtype == dtype
        return
    good = rt.tensor("f32", (3, 3))
    call(rt, good, good).refuses("UNSUPPORTED", clause="KINA-MATMUL-17", a=square, b=square, as_one="the dtype of both")


@clause("KINA-MATMUL-18", "99a85f2e")
@pytest.mark.parametrize("dtype", COMPUTING)
@pytest.mark.parametrize("target", [*DTYPES, 0x12345678])
def test_the_result_has_the_inputs_dtype_or_f32_for_small_floats(rt: Executor, target: str | int, dtype: str) -> None:
    a, b = rt.tensor(dtype, (3, 3)), rt.tensor(dtype, (3, 3))
    value = DTYPES[target].value if isinstance(target, str) else target

    if target == dtype or (target == "f32" and dtype in {"f16", "bf16"}):
        assert call(rt, a, b, out_dtype=value).succeeds().out.dtype == target
    else:
        call(rt, a, b, out_dtype=0).refuses(
            "UNSUPPORTED", clause="KINA-MATMUL-18", argument="params.out_dtype",
            params=rt.params("KinaMatmulParams", out_dtype=value),
        )  # fmt: skip


@clause("KINA-MATMUL-18", "99a85f2e")
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_an_f32_result_is_not_rounded_to_the_small_dtype(rt: Executor, dtype: str) -> None:
    random = np.random.default_rng(3)
    a = valued(rt, dtype, random.random((20, 30)))
    b = valued(rt, dtype, random.random((30, 20)))

    y = call(rt, a, b, out_dtype="f32").succeeds().out

    product, size = oracle.matmul(a.numpy(), b.numpy())
    assert y.dtype == "f32"
    assert (np.abs(y.numpy() - product) <= (2 * 30 + 8) * 2.0**-24 * size + 2.0**-24 * np.abs(product)).all()


# ---- options --------------------------------------------------------------------------------------------------------


@clause("KINA-MATMUL-19", "697dfd8e")
@clause("KINA-VERSION-9", "3ea31a1f")
@clause("KINA-VERSION-10", "c9be635c")
def test_no_options_are_all_defaults(rt: Executor) -> None:
    a, b = rt.tensor("f32", (20, 30)), rt.tensor("f32", (30, 20))

    none = call(rt, a, b).succeeds().out
    zero = rt.call(MATMUL, a, b, params=rt.params("KinaMatmulParams")).succeeds().out

    checked(none, a.numpy(), b.numpy(), "f32")
    same(zero, none.raw())


def refuses_option(rt: Executor, status: str, cited: str, name: str, value: Any, dtype: str = "f32") -> None:
    a, b = rt.tensor(dtype, (3, 3)), rt.tensor(dtype, (3, 3))
    valid = call(rt, a, b, transpose_a=0)

    changed = rt.params("KinaMatmulParams", **{name: value})
    valid.refuses(status, clause=cited, argument=f"params.{name}", params=changed)


@clause("KINA-MATMUL-20", "174905fd")
@clause("KINA-VERSION-16", "e54fde4b")
@pytest.mark.parametrize("value", [2, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("name", ["transpose_a", "transpose_b", "scaled"])
def test_a_boolean_is_zero_or_one(rt: Executor, name: str, value: int) -> None:
    refuses_option(rt, "UNSUPPORTED", "KINA-MATMUL-20", name, value)


@clause("KINA-MATMUL-21", "62c9b109")
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_without_scaling_alpha_and_beta_are_not_read(rt: Executor, dtype: str) -> None:
    a, b = rt.tensor(dtype, (3, 3)), rt.tensor(dtype, (3, 3))
    plain = call(rt, a, b).succeeds().out

    y = call(rt, a, b, alpha=float("nan"), beta=7.0).succeeds().out

    same(y, plain.raw())


@clause("KINA-MATMUL-23", "df6323b4")
@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("dtype", FLOATS)
def test_with_beta_zero_out_is_not_read(rt: Executor, dtype: str, size: int) -> None:
    a, b = rt.tensor(dtype, (size, size), 1), rt.tensor(dtype, (size, size), 1)
    for value in (np.nan, np.inf):
        out = valued(rt, dtype, np.full((size, size), value), owned=True)

        assert call(rt, a, b, out, scaled=1, alpha=2.0, beta=0.0).status() == "SUCCESS"

        assert (out.numpy() == 2 * size).all()


@clause("KINA-MATMUL-23", "df6323b4")
@clause("KINA-TENSOR-26", "eebbf8de")
def test_with_beta_zero_failed_bytes_of_out_are_repaired(rt: Executor) -> None:
    a, out = rt.tensor("f32", (3, 3)), rt.out("f32", (3, 3), owned=True)
    rt.call("runtime_failure_set", tensor=out, cause=0, status="DEVICE", message="planned").succeeds()

    assert call(rt, a, a, out, scaled=1, alpha=1.0, beta=0.0).status() == "SUCCESS"

    assert rt.call("runtime_failure_get", out).succeeds().out.status == 0


@clause("KINA-MATMUL-24", "1ca43c4d")
@pytest.mark.parametrize("size", [3, 40])
@pytest.mark.parametrize("dtype", FLOATS)
def test_with_alpha_zero_the_operands_do_not_matter(rt: Executor, dtype: str, size: int) -> None:
    a, b = valued(rt, dtype, np.full((size, size), np.nan)), valued(rt, dtype, np.full((size, size), np.inf))
    out = valued(rt, dtype, np.full((size, size), 3.0))

    assert call(rt, a, b, out, scaled=1, alpha=0.0, beta=2.0).status() == "SUCCESS"
    assert (out.numpy() == 6).all()


@clause("KINA-MATMUL-25", "d080627e")
@pytest.mark.parametrize("beta", [1.0, -0.5, 1e-300, float("nan"), float("inf")])
def test_beta_needs_an_out_that_is_not_empty(rt: Executor, beta: float) -> None:
    a = rt.tensor("f32", (3, 3))
    valid = call(rt, a, a, scaled=1, alpha=1.0, beta=0.0)

    valid.refuses(
        "INVALID_ARGUMENT", clause="KINA-MATMUL-25", argument="params.beta",
        params=rt.params("KinaMatmulParams", scaled=1, alpha=1.0, beta=beta),
    )  # fmt: skip
    assert call(rt, a, a, scaled=1, alpha=1.0, beta=-0.0).status(out=rt.out("f32", (3, 3))) == "SUCCESS"


@clause("KINA-MATMUL-26", "3a047680")
@clause("KINA-TENSOR-32", "3cfb9a89")
def test_with_beta_failed_bytes_of_out_are_a_failed_input(rt: Executor) -> None:
    a, out = rt.tensor("f32", (3, 3)), rt.tensor("f32", (3, 3), 1, owned=True)
    valid = call(rt, a, a, out, scaled=1, alpha=1.0, beta=1.0)

    with failed(rt, out):
        assert valid.status() == "FAILED_INPUT"
        assert rt.record().clause in {"KINA-TENSOR-32", "KINA-MATMUL-26"}
    assert valid.status() == "SUCCESS"


@clause("KINA-MATMUL-27", "637a65dd")
@pytest.mark.parametrize("dtype", EXACT)
def test_integers_are_not_scaled(rt: Executor, dtype: str) -> None:
    refuses_option(rt, "UNSUPPORTED", "KINA-MATMUL-27", "scaled", 1, dtype)


@clause("KINA-MATMUL-28", "70232c97")
@pytest.mark.parametrize("shape", [(3,), (5,), (1,), (4, 1), (1, 4), (), (0,)])
def test_a_bias_has_one_axis_of_n(rt: Executor, shape: tuple[int, ...]) -> None:
    a, b = rt.tensor("f32", (2, 3)), rt.tensor("f32", (3, 4))
    valid = call(rt, a, b, bias=rt.tensor("f32", (4,)))

    valid.refuses(
        "INVALID_SHAPE", clause="KINA-MATMUL-28", argument="params.bias",
        params=rt.params("KinaMatmulParams", bias=rt.tensor("f32", shape)),
    )  # fmt: skip


@clause("KINA-MATMUL-28", "70232c97")
@pytest.mark.parametrize(("dtype", "target", "bias"), [("f32", 0, "f64"), ("f16", "f32", "f16"), ("i32", 0, "i64")])
def test_a_bias_has_the_dtype_of_the_result(rt: Executor, dtype: str, target: Any, bias: str) -> None:
    out_dtype = DTYPES[target].value if target else 0
    result = target or dtype
    a, b = rt.tensor(dtype, (2, 3)), rt.tensor(dtype, (3, 4))
    valid = call(rt, a, b, bias=rt.tensor(result, (4,)), out_dtype=out_dtype)

    valid.refuses(
        "INVALID_DTYPE", clause="KINA-MATMUL-28", argument="params.bias",
        params=rt.params("KinaMatmulParams", bias=rt.tensor(bias, (4,)), out_dtype=out_dtype),
    )  # fmt: skip


@clause("KINA-MATMUL-28", "70232c97")
@pytest.mark.parametrize("dtype", COMPUTING)
@pytest.mark.parametrize("size", [2, 20])
def test_a_bias_of_any_stride_is_added_to_every_row(rt: Executor, size: int, dtype: str) -> None:
    a, b = rt.tensor(dtype, (2, size, size)), rt.tensor(dtype, (size, size))
    for stride in (1, -2, 0, 3):
        bias = rt.tensor(dtype, (size,), strides=(stride,))
        y = call(rt, a, b, bias=bias).succeeds().out
        checked(y, a.numpy(), b.numpy(), dtype, bias=bias.numpy())


@clause("KINA-MATMUL-28", "70232c97")
def test_a_bias_is_a_tensor_argument_like_any_other(rt: Executor) -> None:
    a, b, good = rt.tensor("f32", (2, 3)), rt.tensor("f32", (3, 4)), rt.tensor("f32", (4,), owned=True)
    valid = call(rt, a, b, bias=good)

    def with_bias(bias: Tensor) -> Any:
        return rt.params("KinaMatmulParams", bias=bias)

    broken, outside = rt.tensor("f32", (4,)), rt.tensor("f32", (4,))
    broken.struct.magic ^= 1
    outside.struct.size_bytes -= 1
    freed = rt.tensor("f32", (4,), owned=True)
    stale = freed.copy()
    rt.call("runtime_free", tensor=freed).succeeds()
    valid.refuses("INVALID_ARGUMENT", clause="KINA-TENSOR-2", argument="params.bias", params=with_bias(rt.empty()))
    valid.refuses("INVALID_HANDLE", clause="KINA-TENSOR-3", argument="params.bias", params=with_bias(broken))
    valid.refuses("INVALID_HANDLE", clause="KINA-TENSOR-4", argument="params.bias", params=with_bias(stale))
    valid.refuses("INVALID_SHAPE", clause="KINA-TENSOR-21", argument="params.bias", params=with_bias(outside))
    valid.refuses("FAILED_INPUT", argument="params.bias", within=lambda: failed(rt, good))


@clause("KINA-MATMUL-29", "6b99b6b7")
@clause("KINA-VERSION-16", "e54fde4b")
@pytest.mark.parametrize("value", ["KINA_UNARY_NEG", "KINA_UNARY_EXP", "KINA_UNARY_ERF", 1, -1, 0x125, 0x40000000])
def test_other_activations_are_not_offered(rt: Executor, value: str | int) -> None:
    refuses_option(rt, "UNSUPPORTED", "KINA-MATMUL-29", "activation", value)


@clause("KINA-MATMUL-30", "9b98bcc0")
@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_integers_take_no_activation(rt: Executor, name: str, dtype: str) -> None:
    refuses_option(rt, "UNSUPPORTED", "KINA-MATMUL-30", "activation", activation(name), dtype)


@clause("KINA-MATMUL-31", "5ad9940e")
@pytest.mark.parametrize("value", [2, -1, 2**31 - 1])
def test_other_ways_to_compute_are_not_offered(rt: Executor, value: int) -> None:
    refuses_option(rt, "UNSUPPORTED", "KINA-MATMUL-31", "compute", value)


@clause("KINA-MATMUL-32", "00567a43")
@pytest.mark.parametrize("dtype", [d for d in COMPUTING if d != "f32"])
def test_tf32_changes_nothing_for_other_dtypes(rt: Executor, dtype: str) -> None:
    a = stored(rt, dtype, kst.make_elements(dtype, (20, 20), "unit", 1))

    strict = call(rt, a, a).succeeds().out
    tf32 = call(rt, a, a, compute="KINA_COMPUTE_TF32").succeeds().out

    same(tf32, strict.raw())


@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
@clause("KINA-VERSION-13", "b43e0d18")
@clause("KINA-VERSION-14", "7da7fd1f")
def test_an_option_struct_of_another_version_is_refused(rt: Executor) -> None:
    a = rt.tensor("f32", (3, 3))
    valid = call(rt, a, a, transpose_a=0)

    def options(**fields: Any) -> Any:
        return rt.params("KinaMatmulParams", **fields)

    for size in (0, 8, 48):
        valid.refuses("VERSION", clause="KINA-VERSION-11", params=options(struct_size=size))
    for size in (57, 60, 4104, 2**32 - 8):
        valid.refuses("VERSION", clause="KINA-VERSION-12", params=options(struct_size=size))
    valid.refuses("VERSION", clause="KINA-VERSION-13", params=options(tail=b"\0" * 7 + b"\1", struct_size=64))
    valid.refuses("VERSION", clause="KINA-VERSION-14", params=options(reserved=1))
    call(rt, a, a, tail=b"\0" * 8, struct_size=64).succeeds()
    call(rt, a, a, tail=b"\0" * 4040, struct_size=4096).succeeds()


# ---- out and order --------------------------------------------------------------------------------------------------


@clause("KINA-MATMUL-33", "1601414f")
@pytest.mark.parametrize("dtype", COMPUTING)
def test_a_produced_result_is_compact_and_owned(rt: Executor, dtype: str) -> None:
    a = rt.tensor(dtype, (4, 4), strides=(1, 4))

    y = call(rt, a, a).succeeds().out

    assert y.strides == (4, 1) and y.flags == rt.constant("KINA_FLAG_OWNED")


@clause("KINA-MATMUL-33", "1601414f")
@clause("KINA-TENSOR-26", "eebbf8de")
@pytest.mark.parametrize("dtype", COMPUTING)
@pytest.mark.parametrize("size", [3, 20])
def test_a_result_is_written_through_any_strides(rt: Executor, size: int, dtype: str) -> None:
    a = rt.tensor(dtype, (size, size))
    for strides in ((size, 1), (1, size), (size + 3, 1), (-size, 1), (2 * size, -2)):
        y = call(rt, a, a, rt.out(dtype, (size, size), strides=strides)).succeeds().out
        checked(y, a.numpy(), a.numpy(), dtype)


@clause("KINA-MATMUL-34", "0f95ab36")
@clause("KINA-TENSOR-30", "2d933e5c")
@pytest.mark.parametrize("owned", [True, False], ids=["owned", "borrowed"])
def test_out_shares_no_byte_with_an_input(rt: Executor, owned: bool) -> None:
    base, other = rt.tensor("f32", (64,), owned=owned), rt.tensor("f32", (3, 3))

    def part(at: int, *shape: int) -> Tensor:
        view = rt.call("runtime_view", base, shape, strides=None, ndim=len(shape), offset_elements=at, flags=0)
        made: Tensor = view.succeeds().out
        return made

    square, row = part(20, 3, 3), part(40, 3)
    for valid in (
        call(rt, square, other, rt.out("f32", (3, 3))),
        call(rt, other, square, rt.out("f32", (3, 3))),
    ):
        for at in (12, 20, 28):
            valid.refuses("OVERLAP", argument="out", out=part(at, 3, 3))
    valid = call(rt, other, other, rt.out("f32", (3, 3)), bias=row)
    for at in (32, 40, 42):
        valid.refuses("OVERLAP", argument="out", out=part(at, 3, 3))


@clause("KINA-MATMUL-35", "f1bca096")
@pytest.mark.parametrize("size", [3, 30])
def test_a_tensor_multiplies_itself(rt: Executor, size: int) -> None:
    x = rt.tensor("f32", (size, size))

    y = call(rt, x, x, transpose_b=1).succeeds().out

    checked(y, x.numpy(), transposed(x.numpy()), "f32")


@clause("KINA-MATMUL-36", "20a2900c")
@pytest.mark.parametrize("dtype", COMPUTING)
@pytest.mark.parametrize("size", [7, 65])
def test_equal_calls_give_equal_bits(rt: Executor, size: int, dtype: str) -> None:
    a = stored(rt, dtype, kst.make_elements(dtype, (size, size), "unit", 5))
    b = stored(rt, dtype, kst.make_elements(dtype, (size, size), "unit", 6))
    first = call(rt, a, b).succeeds().out

    for _ in range(4):
        same(call(rt, a, b).succeeds().out, first.raw())


@clause("KINA-MATMUL-38", "8dad4b36")
@pytest.mark.parametrize("dtype", FLOATS)
def test_temporary_memory_is_given_back(rt: Executor, dtype: str) -> None:
    a = rt.tensor(dtype, (40, 40), strides=(2, 81))
    bias, out = rt.tensor(dtype, (40,)), rt.out(dtype, (40, 40), strides=(1, 41))
    before = rt.counters()

    call(rt, a, a, out, bias=bias, activation=activation("relu")).succeeds()

    assert rt.counters() == before


@clause("KINA-MATMUL-38", "8dad4b36")
@clause("KINA-STATUS-44", "01bc6644")
@pytest.mark.parametrize("dtype", FLOATS)
def test_without_memory_for_temporaries_nothing_is_written(rt: Executor, dtype: str) -> None:
    a, out = rt.tensor(dtype, (40, 40), strides=(2, 81)), rt.out(dtype, (40, 40))
    before = out.storage_bytes()

    with rt.limited():
        status = call(rt, a, a, out).status()

    assert status == "SUCCESS" or (status == "OUT_OF_MEMORY" and out.storage_bytes() == before)
    call(rt, a, a).refuses("OUT_OF_MEMORY", clause=["KINA-STATUS-44", "KINA-MATMUL-38"], within=rt.limited)
