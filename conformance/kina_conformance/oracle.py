"""Expected results: exact integers, or float values in extended precision where NumPy has it. Never a backend.

Operands and results are values as `Tensor.numpy()` gives them: bool, int64 or uint64, float64. Float results come back
in longdouble for `compare.close`, unrounded except where IEEE 754 rounds an f64 result once; integers wrap to the width
of their dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .dtypes import DTYPES, Array, decode, encode

Wide = np.longdouble
_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])
_HALF = Wide(0.5)
_ROUNDED_ONCE = {"add", "sub", "mul", "div", "sqrt", "reciprocal", "square"}  # in f64, twice would show


def wide(values: Array) -> Array:
    return np.asarray(values).astype(Wide)


def wrapped(values: Array, dtype: str) -> Array:
    """Integers modulo 2 to the width of a dtype, as int64 (uint64 for u64)."""
    row = DTYPES[dtype]
    return decode(np.asarray(values).astype(row.storage), dtype)


# ---- unary -----------------------------------------------------------------------------------------------


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def _gelu(x: Array) -> Array:
    tail = wide(_erfc(np.asarray(-x / np.sqrt(Wide(2)), np.float64)))
    return _limits(x, _HALF * x * tail)


def _gelu_tanh(x: Array) -> Array:
    inner = np.sqrt(2 / Wide(np.pi)) * (x + Wide("0.044715") * x**3)
    return _limits(x, x * _sigmoid(2 * inner))


def _limits(x: Array, y: Array) -> Array:
    return np.asarray(np.where(np.isneginf(x), Wide(-0.0), np.where(np.isposinf(x), x, y)))


def _relu(x: Array) -> Array:
    return np.asarray(np.where(np.isnan(x), x, np.where(x > 0, x, np.zeros_like(x))))


def _sign(x: Array) -> Array:
    return np.asarray(np.where(x == 0, x, np.sign(x)))


_FLOAT_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": _sign,
    "exp": np.exp,
    "expm1": np.expm1,
    "exp2": np.exp2,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "square": lambda x: x * x,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "erf": lambda x: wide(_erf(np.asarray(x, np.float64))),
    "sigmoid": _sigmoid,
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: _limits(x, x * _sigmoid(x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
}
_INTEGER_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "square": lambda x: x * x,
    "relu": lambda x: np.maximum(x, 0),
    "bitwise_not": np.invert,
}
_TESTS: dict[str, Callable[[Array], Array]] = {
    "logical_not": lambda x: x == 0,
    "isnan": lambda x: np.isnan(x),
    "isinf": lambda x: np.isinf(x),
    "isfinite": lambda x: np.isfinite(x),
}


def unary(op: str, x: Array, dtype: str) -> Array:
    """The exact result of a unary op, named as in the table."""
    kind = DTYPES[dtype].kind
    with np.errstate(all="ignore"):
        if op in _TESTS:
            return np.asarray(_TESTS[op](x.astype(np.float64) if op != "logical_not" else x), bool)
        if kind == "b":
            return np.asarray(np.logical_not(x) if op == "bitwise_not" else x, bool)
        if kind in "ui":
            return wrapped(_INTEGER_UNARY[op](x), dtype)
        return wide(_FLOAT_UNARY[op](x if dtype == "f64" and op in _ROUNDED_ONCE else wide(x)))


# ---- binary ----------------------------------------------------------------------------------------------


def _floor_div(a: Array, b: Array) -> Array:
    """Integers: floor of the quotient, 0 by zero; the lowest value by -1 wraps to itself."""
    safe = np.where((b == 0) | (b == -1), 1, b) if b.dtype.kind == "i" else np.where(b == 0, 1, b)
    quotient = np.floor_divide(a, safe)
    if b.dtype.kind == "i":
        quotient = np.where(b == -1, np.negative(a), quotient)
    return np.asarray(np.where(b == 0, 0, quotient))


def _mod(a: Array, b: Array) -> Array:
    safe = np.where((b == 0) | (b == -1), 1, b) if b.dtype.kind == "i" else np.where(b == 0, 1, b)
    return np.asarray(np.where(b == 0, 0, np.remainder(a, safe)))


def _integer_pow(a: Array, b: Array) -> Array:
    """Wraps; a negative exponent cuts the exact value towards zero."""
    base, exponent = a.copy(), np.where(b < 0, 0, b)
    result = np.ones_like(base)
    while (exponent > 0).any():
        result = np.where(exponent & 1, result * base, result)
        base, exponent = base * base, exponent >> 1
    negative = np.where(a == 1, 1, np.where(a == -1, np.where(b & 1, -1, 1), 0)) if a.dtype.kind == "i" else result
    return np.asarray(np.where(b < 0, negative, result))


def _shift(a: Array, b: Array, left: bool, bits: int) -> Array:
    outside = (b < 0) | (b >= bits)
    count = np.where(outside, 0, b).astype(a.dtype)
    moved = np.left_shift(a, count) if left else np.right_shift(a, count)
    beyond = np.zeros_like(a) if left else np.where(a < 0, -1, 0).astype(a.dtype)
    return np.asarray(np.where(outside, beyond, moved))


def _maximum(a: Array, b: Array, sign: int) -> Array:
    """NaN wins; +0 is greater than -0."""
    tie = (a == b) & (a == 0)
    chosen = np.where((a > b) if sign > 0 else (a < b), a, b)
    if a.dtype.kind == "f":
        negative = np.where(np.signbit(a), b if sign > 0 else a, a if sign > 0 else b)
        chosen = np.where(tie, negative, chosen)
        chosen = np.where(np.isnan(a) | np.isnan(b), np.nan, chosen)
    return np.asarray(chosen)


def _float_mod(a: Array, b: Array) -> Array:
    """The sign of the divisor, also as a zero."""
    remainder = np.fmod(a, b)
    moved = np.where((remainder != 0) & (np.signbit(remainder) != np.signbit(b)), remainder + b, remainder)
    moved = np.where(moved == 0, np.copysign(np.zeros_like(moved), b), moved)
    infinite = np.isinf(b) & np.isfinite(a)
    opposite = infinite & (a != 0) & (np.signbit(a) != np.signbit(b))
    return np.asarray(np.where(opposite, b, np.where(infinite & (a != 0), a, moved)))


def _float_floor_div(a: Array, b: Array) -> Array:
    """The floor of the exact quotient; by zero it is a / b, of an infinite dividend NaN."""
    remainder = _float_mod(a, b)
    exact = np.where(np.isinf(b) & np.isfinite(a), np.where((a != 0) & (np.signbit(a) != np.signbit(b)), -1, 0), 0)
    quotient = np.where(np.isinf(b), exact, np.rint((a - remainder) / np.where(b == 0, 1, b)))
    quotient = np.where(quotient == 0, np.copysign(np.zeros_like(a), np.where(b == 0, a, a / b)), quotient)
    quotient = np.where(np.isnan(a) | np.isnan(b) | np.isinf(a), np.nan, quotient)
    return np.asarray(np.where((b == 0) & np.isfinite(a), a / b, np.where((b == 0) & np.isinf(a), a / b, quotient)))


_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": lambda a, b: (a != 0) & (b != 0),
    "logical_or": lambda a, b: (a != 0) | (b != 0),
    "logical_xor": lambda a, b: (a != 0) ^ (b != 0),
}
_BITWISE: dict[str, Callable[[Array, Array], Array]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}
_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def binary(op: str, a: Array, b: Array, dtype: str) -> Array:
    """The exact result of a binary op, operands broadcast as in NumPy."""
    kind = DTYPES[dtype].kind
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(all="ignore"):
        if op in _COMPARISONS:
            return np.asarray(_COMPARISONS[op](a, b), bool)
        if kind == "b":
            return np.asarray(_boolean(op)(a, b), bool)
        if kind in "ui":
            return wrapped(_integer(op, a, b, DTYPES[dtype].bytes * 8), dtype)
        if dtype == "f64" and op in _ROUNDED_ONCE:
            return wide(_float(op, a, b))
        return _float(op, wide(a), wide(b))


def _boolean(op: str) -> Callable[[Array, Array], Array]:
    both = {"mul", "minimum", "bitwise_and"}
    either = {"add", "maximum", "bitwise_or"}
    return np.logical_and if op in both else np.logical_or if op in either else np.logical_xor


def _integer(op: str, a: Array, b: Array, bits: int) -> Array:
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](a, b)
    if op in _BITWISE:
        return _BITWISE[op](a, b)
    if op in {"maximum", "minimum"}:
        return _maximum(a, b, 1 if op == "maximum" else -1)
    if op in {"shift_left", "shift_right"}:
        return _shift(a, b, op == "shift_left", bits)
    return {"floor_div": _floor_div, "mod": _mod, "pow": _integer_pow}[op](a, b)


def _float(op: str, a: Array, b: Array) -> Array:
    if op in _ARITHMETIC:
        return _ARITHMETIC[op](a, b)
    if op in {"maximum", "minimum"}:
        return _maximum(a, b, 1 if op == "maximum" else -1)
    functions: dict[str, Callable[[Array, Array], Array]] = {
        "div": np.divide,
        "pow": np.power,
        "atan2": np.arctan2,
        "mod": _float_mod,
        "floor_div": _float_floor_div,
    }
    return np.asarray(functions[op](a, b))


# ---- casts, reductions, products -------------------------------------------------------------------------


def cast(values: Array, source: str, target: str) -> Array:
    """The stored elements of a cast: integers wrap, floats saturate into integers, NaN to 0, floats round once."""
    kind = DTYPES[target].kind
    if DTYPES[source].kind in "bui" and kind in "ui":
        return np.asarray(values).astype(np.int64).astype(DTYPES[target].storage)
    if kind in "ui":
        info = np.iinfo(DTYPES[target].storage)
        cut = np.where(np.isnan(values), 0, np.trunc(values)).astype(Wide)
        inside = (cut > Wide(info.min)) & (cut < Wide(info.max))
        with np.errstate(all="ignore"):
            kept = np.where(inside, cut, 0).astype(np.int64)
        return np.where(inside, kept, np.where(cut > 0, info.max, np.where(cut < 0, info.min, 0))).astype(info.dtype)
    if kind == "b":
        return np.asarray(values != 0).astype(np.uint8)
    return encode(wide(values) if DTYPES[source].kind in "ui" else np.asarray(values, np.float64), target)


def reduce(op: str, x: Array, axis: int | None, dtype: str) -> Array:
    """The exact result of a reduction over one axis, or over all with None."""
    kind = DTYPES[dtype].kind
    with np.errstate(all="ignore"):
        if op in {"any", "all"}:
            return np.asarray(getattr(np, op)(x != 0, axis=axis), bool)
        if op in {"argmax", "argmin"}:
            return np.asarray(getattr(np, op)(x, axis=axis), np.int64)
        if op in {"max", "min"}:
            return _extreme(op, x, axis)
        if kind in "ui":
            return wrapped(getattr(np, op)(x, axis=axis, dtype=np.int64), dtype)
        return np.asarray(getattr(np, op)(wide(x), axis=axis))


def _extreme(op: str, x: Array, axis: int | None) -> Array:
    result = np.asarray(getattr(np, op)(x, axis=axis))
    if x.dtype.kind != "f":
        return result
    positive = np.any((x == 0) & ~np.signbit(x), axis=axis)
    negative = np.any((x == 0) & np.signbit(x), axis=axis)
    zero = np.where(positive, 0.0, -0.0) if op == "max" else np.where(negative, -0.0, 0.0)
    return np.asarray(np.where(result == 0, zero, result))


def softmax(x: Array, axis: int | None, log: bool = False) -> Array:
    """Rows of -infinity alone give 0 (log: -infinity); a NaN or +infinity makes its row NaN."""
    x = wide(x)
    if x.size == 0:
        return x
    with np.errstate(all="ignore"):
        top = np.max(x, axis=axis, keepdims=True)
        shifted = np.where(np.isneginf(top), Wide(-np.inf), x - np.where(np.isneginf(top), 0, top))
        total = np.sum(np.exp(shifted), axis=axis, keepdims=True)
        poisoned = np.isnan(top) | np.isposinf(top)
        if log:
            result = np.where(np.isneginf(shifted), Wide(-np.inf), shifted - np.log(np.where(total == 0, 1, total)))
        else:
            result = np.exp(shifted) / np.where(total == 0, 1, total)
        return np.asarray(np.where(poisoned, np.nan, result))


def matmul(a: Array, b: Array) -> tuple[Array, Array]:
    """A·B and Σ|a||b|: longdouble for floats, wrapping int64 for integers. Batch axes broadcast."""
    if a.dtype.kind in "iub":
        with np.errstate(all="ignore"):
            product = np.asarray(np.einsum("...ij,...jk->...ik", a.astype(np.int64), b.astype(np.int64)))
        return product, np.abs(product)
    wide_a, wide_b = wide(a), wide(b)
    with np.errstate(all="ignore"):
        product = np.einsum("...ij,...jk->...ik", wide_a, wide_b)
        return np.asarray(product), np.asarray(np.einsum("...ij,...jk->...ik", np.abs(wide_a), np.abs(wide_b)))


def activated(op: str | None, values: Array) -> Array:
    """The activation of a product."""
    with np.errstate(all="ignore"):
        return values if op is None else np.asarray(_FLOAT_UNARY[op](wide(values)))


def names_of_sum(x: Array, axis: int | None) -> dict[str, Any]:
    """`n` and `sum_abs` for the table's expressions."""
    count = x.size if axis is None else x.shape[axis]
    with np.errstate(all="ignore"):
        return {"n": max(1, count), "sum_abs": np.asarray(np.sum(np.abs(wide(x)), axis=axis))}
