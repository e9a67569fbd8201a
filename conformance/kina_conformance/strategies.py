"""Hypothesis strategies: dtypes, shapes, layouts and values with teeth, as descriptions that print and shrink well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .dtypes import CAST_ONLY, COMPUTING, DTYPES, STORAGE_ONLY, Array, decode, encode
from .executor import Executor
from .memory import Tensor
from .memory import compact as compact

EXTENTS = [0, 1, 2, 3, 5, 7, 13]
FLOATS = ["f16", "bf16", "f32", "f64"]
INTEGERS = ["u8", "i8", "i16", "i32", "i64"]

all_dtypes = st.sampled_from(COMPUTING + STORAGE_ONLY + CAST_ONLY)
computing_dtypes = st.sampled_from(COMPUTING)
float_dtypes = st.sampled_from(FLOATS)
integer_dtypes = st.sampled_from(INTEGERS)


@dataclass(frozen=True)
class Operand:
    """A tensor to be made: dtype, shape, layout and the recipe of its values."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0
    owned: bool = False
    kind: str = "small"
    seed: int = 0

    def elements(self) -> Array:
        """The stored elements, before layout."""
        return make_elements(self.dtype, self.shape, self.kind, self.seed)

    def on(self, rt: Executor) -> Tensor:
        """The tensor, made on a library."""
        tensor = rt.tensor(self.dtype, self.shape, 0, strides=self.strides, offset=self.offset, owned=self.owned)
        raw = tensor.raw()
        raw[...] = self.elements()
        return tensor

    def out_on(self, rt: Executor) -> Tensor:
        """The same layout, poisoned, to be written."""
        return rt.out(self.dtype, self.shape, strides=self.strides, offset=self.offset, owned=self.owned)


def teeth(dtype: str) -> Array:
    """Stored elements that break careless code: NaN payloads, signed zeros, denormals, extremes, -1 and the lowest."""
    row = DTYPES[dtype]
    if row.kind == "b":
        return np.array([0, 1, 2, 128, 255], np.uint8)
    if row.kind in "ui":
        info = np.iinfo(row.storage)
        near = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1]
        return np.array(near + ([-1, -2, -7] if row.kind == "i" else []), row.storage)
    if row.kind == "c":
        part = [0.0, -0.0, 1.0, -1.5, np.inf, np.nan]
        return np.array([complex(a, b) for a in part for b in part], row.storage)
    form = row.format
    assert form is not None
    smallest = 2.0 ** (form.minimum_exponent - form.mantissa) if dtype != "f64" else 5e-324
    normal = 2.0**form.minimum_exponent
    values = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, 1 + 2.0**-form.mantissa, form.maximum, normal, smallest, 10.0, 88.0]
    values += [-v for v in values] + [np.nan] + ([np.inf, -np.inf] if form.infinite else [])
    found = encode(np.array(values), dtype)
    if dtype in {"f16", "f32", "f64"}:
        bits = np.dtype(f"u{row.bytes}")
        payload = (encode(np.nan, dtype).view(bits) | bits.type(5)).astype(bits)
        found = np.concatenate([found, np.atleast_1d(payload.view(row.storage))])
    return found


def make_elements(dtype: str, shape: Sequence[int], kind: str, seed: int) -> Array:
    """`small` numbers that every dtype holds, `teeth`, `unit` interval, or `any` bits at all."""
    row = DTYPES[dtype]
    count = int(np.prod(shape, dtype=np.int64)) if len(shape) else 1
    random = np.random.default_rng(seed)
    shape = tuple(shape)
    if kind == "teeth":
        return random.choice(teeth(dtype), count).reshape(shape)
    if kind == "any":
        return np.frombuffer(random.bytes(count * row.bytes), row.storage).reshape(shape)
    if kind == "unit":
        return encode(random.random(count) * 2 - 1, dtype).reshape(shape)
    low = 0 if row.kind in "ub" else -4
    return encode(random.integers(low, 2 if row.kind == "b" else 5, count), dtype).reshape(shape)


@st.composite
def shapes(draw: st.DrawFn, rank: int | tuple[int, int] = (0, 4), extents: Sequence[int] = EXTENTS) -> tuple[int, ...]:
    """Few extents, all telling: 0, 1, primes; at most some thousand elements."""
    low, high = (rank, rank) if isinstance(rank, int) else rank
    count = draw(st.integers(low, high))
    shape: list[int] = []
    for _ in range(count):
        room = max(1, 4096 // max(1, int(np.prod(shape))))
        shape.append(draw(st.sampled_from([n for n in extents if n <= room] or [1])))
    return tuple(shape)


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...], writable: bool = False) -> tuple[tuple[int, ...] | None, int]:
    """(strides, offset): compact, transposed, reversed, padded, and for inputs repeated; extent-1 axes go wild."""
    kinds = ["compact", "transposed", "reversed", "padded"] + ([] if writable else ["repeated"])
    kind = draw(st.sampled_from(kinds))
    offset = draw(st.sampled_from([0, 0, 1, 3]))
    if kind == "compact" or not shape:
        return None, offset
    if kind == "transposed":
        order = draw(st.permutations(range(len(shape))))
        steps = compact([shape[i] for i in order])
        strides = [steps[order.index(i)] for i in range(len(shape))]
    elif kind == "padded":
        strides = list(compact([n + draw(st.integers(0, 2)) for n in shape]))
    else:
        strides = list(compact(shape))
    for i, extent in enumerate(shape):
        if kind == "reversed" and draw(st.booleans()):
            strides[i] = -strides[i]
        if kind == "repeated" and draw(st.booleans()):
            strides[i] = 0
        if extent == 1 and draw(st.booleans()):
            strides[i] = draw(st.sampled_from([0, -7, 1 << 40, 1]))
    return tuple(strides), offset


@st.composite
def operands(
    draw: st.DrawFn,
    dtype: str | st.SearchStrategy[str] = computing_dtypes,
    shape: tuple[int, ...] | st.SearchStrategy[tuple[int, ...]] | None = None,
    kinds: Sequence[str] = ("small", "teeth", "unit", "any"),
    writable: bool = False,
) -> Operand:
    """A tensor of any layout with values with teeth. With `writable`, no two indices share a byte."""
    chosen = dtype if isinstance(dtype, str) else draw(dtype)
    extents = shape if isinstance(shape, tuple) else draw(shapes() if shape is None else shape)
    strides, offset = draw(layouts(extents, writable))
    if strides is not None and 0 in strides and any(s == 0 and n > 1 for s, n in zip(strides, extents, strict=True)):
        owned = False  # repeated elements: the last write of each byte is what both sides read
    else:
        owned = draw(st.booleans())
    return Operand(
        chosen, extents, strides, offset, owned, draw(st.sampled_from(list(kinds))), draw(st.integers(0, 2**16))
    )


@st.composite
def broadcastable(draw: st.DrawFn, count: int = 2) -> tuple[tuple[int, ...], ...]:
    """Shapes that broadcast together as in NumPy."""
    result = draw(shapes((0, 4)))
    found: list[tuple[int, ...]] = []
    for _ in range(count):
        cut = draw(st.integers(0, len(result)))
        found.append(tuple(1 if draw(st.booleans()) and draw(st.booleans()) else n for n in result[cut:]))
    return tuple(found)


def values_of(operand: Operand, tensor: Tensor) -> Any:
    """The operand's values as the tensor now holds them (repeated layouts included)."""
    return decode(tensor.raw().copy(), operand.dtype)
