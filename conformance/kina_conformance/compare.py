"""Decides whether a result is right: exactly, or within the accuracy that `spec/tables/ops.toml` states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .contract import contract
from .dtypes import DTYPES, Array, decode, rounded, unit
from .memory import Tensor


@dataclass(frozen=True)
class Accuracy:
    """What a row of the table allows for one dtype; no field set means exact."""

    ulp: float | None = None
    absolute: str | None = None
    bound: str | None = None

    @property
    def exact(self) -> bool:
        return self.ulp is None and self.absolute is None and self.bound is None

    def __str__(self) -> str:
        ulp = None if self.ulp is None else f"{self.ulp:g} ulp"
        return " or ".join(words for words in (self.bound, ulp, self.absolute) if words) or "none"


@cache
def operation(enumerator_or_function: str) -> dict[str, Any]:
    """The row of an op, named by its enumerator, or by its function where that has one op."""
    for row in contract().tables["ops"]["op"]:
        if enumerator_or_function in {row.get("enumerator"), row["function"]}:
            found: dict[str, Any] = row
            return found
    raise KeyError(enumerator_or_function)


def dtypes_of(op: str) -> list[str]:
    """The dtypes that an op takes."""
    sets = contract().tables["ops"]["set"]
    return [dtype for name in operation(op)["dtypes"] for dtype in sets.get(name, [name])]


def accuracy(op: str, dtype: str, compute: str = "strict") -> Accuracy:
    """The accuracy of an op for the dtype of its input."""
    row = contract().tables["ops"]["accuracy"][operation(op)["accuracy"]].get(dtype)
    if row is None:
        return Accuracy()
    if compute == "tf32" and "tf32" in row:
        return Accuracy(bound=row["tf32"])
    return Accuracy(row.get("ulp"), row.get("absolute"), row.get("bound"))


def tolerance(allowed: Accuracy, reference: Array, dtype: str, names: dict[str, Any]) -> Array:
    """How far each element may lie from the reference; expressions of the table see the names that it lists."""
    ref = np.where(np.isfinite(reference), reference, 0)
    ulp = unit(ref, dtype)
    known = {"ref": ref, "ulp": ulp, "log2": np.log2, "abs": np.abs, "__builtins__": {}, **names}
    with np.errstate(all="ignore"):
        if allowed.bound is not None:
            return np.broadcast_to(np.asarray(eval(allowed.bound, known)), ref.shape)
        limit = ulp * (allowed.ulp or 0)
        if allowed.absolute is not None:
            limit = np.maximum(limit, np.asarray(eval(allowed.absolute, known)))
    return limit


def same(out: Tensor, expected: ArrayLike) -> None:
    """The stored elements are exactly the expected ones, bit by bit; any NaN for NaN."""
    raw, want = out.raw(), np.asarray(expected)
    assert raw.shape == want.shape, f"shape {raw.shape}, expected {want.shape}"
    assert raw.dtype == want.dtype, f"expected elements must be stored ones: encode them to {out.dtype} first"
    equal = _bits(raw) == _bits(want)
    if DTYPES[out.dtype].kind == "c":
        equal = equal.all(axis=-1)
    if DTYPES[out.dtype].kind == "f":
        equal |= np.isnan(decode(raw, out.dtype)) & np.isnan(decode(want, out.dtype))
    _refuse(
        ~equal, lambda i: f"element {list(i)} is {_shown(raw[i], out.dtype)}, expected {_shown(want[i], out.dtype)}"
    )


def close(out: Tensor, reference: ArrayLike, op: str, dtype: str, *, compute: str = "strict", **names: Any) -> None:
    """The result of `op` on inputs of `dtype` is as near to the exact value as the table demands.

    `reference` holds exact values (longdouble or float64 for floats, integers, bools); `names` are what the table's
    expressions use beside `ref` and `ulp`: x, n, sum_abs, depth, k.
    """
    want = np.asarray(reference)
    assert out.shape == want.shape, f"shape {out.shape}, expected {want.shape}"
    row = DTYPES[out.dtype]
    if row.kind != "f":
        same(out, want.astype(row.storage))
        return
    allowed = accuracy(op, dtype, compute)
    within(out.raw(), want, out.dtype, allowed, names)


def within(raw: Array, reference: Array, dtype: str, allowed: Accuracy, names: dict[str, Any]) -> None:
    """Stored float elements against exact values: NaN for NaN, infinities as rounded, else the tolerance."""
    with np.errstate(all="ignore"):
        got = decode(raw, dtype).astype(np.longdouble)
        ref = np.asarray(reference, np.longdouble)
        want = rounded(ref, dtype)
        good = (got == want) | (np.isnan(got) & np.isnan(want))
        if allowed.exact:
            good &= (got != 0) | (np.signbit(got) == np.signbit(want))
        else:
            limit = tolerance(allowed, ref, dtype, {k: _broad(v) for k, v in names.items()})
            finite = np.isfinite(ref) & ~np.isnan(got)
            good |= finite & np.isfinite(got) & (np.abs(got - ref) <= limit)
            edge = np.abs(ref) + limit
            overflow = finite & np.isinf(got) & (np.sign(got) == np.sign(ref)) & np.isinf(rounded(edge, dtype))
            good |= overflow | (np.isinf(want) & np.isfinite(ref) & (np.abs(got - ref) <= limit))
    _refuse(
        ~good,
        lambda i: f"element {list(i)} is {_shown(raw[i], dtype)}, exact value {ref[i]!s}, allowed error {allowed}",
    )


def _broad(value: Any) -> Any:
    return np.asarray(value, np.longdouble) if isinstance(value, np.ndarray | float | int) else value


def _bits(array: Array) -> Array:
    """The elements as unsigned integers; a complex one as its two halves on a last axis."""
    flat = np.ascontiguousarray(array).reshape(array.shape)
    if flat.dtype.kind == "c":
        return flat.reshape((*flat.shape, 1)).view(np.dtype(f"u{flat.itemsize // 2}"))
    return flat.view(np.dtype(f"u{flat.itemsize}"))


def _shown(element: Any, dtype: str) -> str:
    bits = np.asarray(element).tobytes()[::-1].hex()
    return f"{decode(np.asarray(element), dtype)!s} (0x{bits})"


def _refuse(bad: Array, text: Any) -> None:
    if bad.any():
        index = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))[: bad.ndim]
        raise AssertionError(f"{text(index)}; {int(bad.sum())} of {bad.size} elements are wrong")


def equal_bits(y: Tensor, raw: Array) -> None:
    """Demands the shape and the stored elements of `raw`."""
    assert y.shape == raw.shape, f"shape {y.shape}, expected {raw.shape}"
    same = np.ascontiguousarray(y.raw()).tobytes() == np.ascontiguousarray(raw).tobytes()
    assert same, f"elements {y.raw().tolist()}, expected {raw.tolist()}"
