"""The dtypes of the contract as NumPy holds them: storage, encoding of values, decoding of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kina.header import load

Array = NDArray[Any]


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: what decides how a real number rounds."""

    mantissa: int
    exponent: int
    bias: int
    maximum: float
    infinite: bool

    @property
    def minimum_exponent(self) -> int:
        return 1 - self.bias


@dataclass(frozen=True)
class Dtype:
    """One dtype: `kind` is b, u, i, f or c; `storage` is what its elements are in memory."""

    name: str
    value: int
    storage: np.dtype[Any]
    kind: str
    format: Format | None

    @property
    def bytes(self) -> int:
        return int(self.storage.itemsize)


_FORMATS = {
    "f8e4m3fn": Format(3, 4, 7, 448.0, False),
    "f8e5m2": Format(2, 5, 15, 57344.0, True),
    "f16": Format(10, 5, 15, 65504.0, True),
    "bf16": Format(7, 8, 127, float(np.frombuffer(b"\x00\x00\x7f\x7f", np.float32)[0]), True),
    "f32": Format(23, 8, 127, float(np.finfo(np.float32).max), True),
    "f64": Format(52, 11, 1023, float(np.finfo(np.float64).max), True),
}
_STORAGE = {
    "bool": np.uint8,
    "u8": np.uint8,
    "i8": np.int8,
    "u16": np.uint16,
    "i16": np.int16,
    "u32": np.uint32,
    "i32": np.int32,
    "u64": np.uint64,
    "i64": np.int64,
    "f8e4m3fn": np.uint8,
    "f8e5m2": np.uint8,
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
}


def _table() -> dict[str, Dtype]:
    constants = load().constants
    return {
        name: Dtype(
            name,
            constants[f"KINA_DTYPE_{name.upper()}"],
            np.dtype(storage),
            "b" if name == "bool" else "f" if name in _FORMATS else name[0],
            _FORMATS.get(name),
        )
        for name, storage in _STORAGE.items()
    }


DTYPES: dict[str, Dtype] = _table()
BY_VALUE: dict[int, Dtype] = {d.value: d for d in DTYPES.values()}
COMPUTING = ["bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"]
STORAGE_ONLY = ["u16", "u32", "u64", "c64", "c128"]
CAST_ONLY = ["f8e4m3fn", "f8e5m2"]


def dtype_of(name: str | int | Dtype) -> Dtype:
    if isinstance(name, Dtype):
        return name
    return DTYPES[name] if isinstance(name, str) else BY_VALUE[name]


def unit(values: ArrayLike, dtype: str) -> Array:
    """One unit in the last place of a floating dtype at each value; below the normal range the smallest denormal."""
    form = _FORMATS[dtype]
    x = _wide(values)
    _, exponents = np.frexp(np.where(np.isfinite(x), x, 1))
    exponents = np.maximum(exponents - 1, form.minimum_exponent) - form.mantissa
    return np.asarray(np.ldexp(np.ones_like(x), exponents))


def _wide(values: ArrayLike) -> Array:
    array = np.asarray(values)
    return array if array.dtype == np.longdouble else array.astype(np.float64)


def rounded(values: ArrayLike, dtype: str, saturate: bool = False) -> Array:
    """Real values rounded once, half to even, to what a floating dtype can hold; float64 or longdouble as given."""
    form = _FORMATS[dtype]
    x = _wide(values)
    quantum = unit(x, dtype)
    with np.errstate(all="ignore"):
        y = np.where(np.isfinite(x), np.rint(x / quantum) * quantum, x)
    over = np.abs(y) > form.maximum
    if saturate:
        return np.where(over, np.copysign(form.maximum, y), y)
    return np.where(over & ~np.isnan(y), np.copysign(np.inf, y) if form.infinite else np.nan, y)


@cache
def _small_values(dtype: str) -> Array:
    """The value of every 8-bit pattern of a small format."""
    form = _FORMATS[dtype]
    patterns = np.arange(256)
    sign = np.where(patterns >= 128, -1.0, 1.0)
    exponent = (patterns >> form.mantissa) & ((1 << form.exponent) - 1)
    fraction = patterns & ((1 << form.mantissa) - 1)
    normal = (1 + fraction / (1 << form.mantissa)) * np.exp2(exponent - float(form.bias))
    subnormal = fraction / (1 << form.mantissa) * np.exp2(float(form.minimum_exponent))
    values = sign * np.where(exponent == 0, subnormal, normal)
    top = exponent == (1 << form.exponent) - 1
    if form.infinite:
        return np.where(top, np.where(fraction == 0, sign * np.inf, np.nan), values)
    return np.where(top & (fraction == (1 << form.mantissa) - 1), np.nan, values)


def encode(values: ArrayLike, dtype: str, saturate: bool = False) -> Array:
    """Values as the elements that a tensor of this dtype stores."""
    row = DTYPES[dtype]
    array = np.asarray(values)
    if row.kind == "b":
        return np.asarray((array != 0).astype(np.uint8))
    if row.kind in "ui":
        if array.dtype.kind == "f":
            return np.asarray(np.trunc(array).astype(np.int64).astype(row.storage))
        return array.astype(row.storage)
    if row.kind == "c":
        return array.astype(row.storage)
    y = rounded(array, dtype, saturate)
    if dtype in {"f16", "f32", "f64"}:
        with np.errstate(all="ignore"):
            return y.astype(row.storage)
    if dtype == "bf16":
        with np.errstate(all="ignore"):
            return (y.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return _encode_small(y, dtype)


def _encode_small(y: Array, dtype: str) -> Array:
    table = _small_values(dtype)
    magnitudes = table[:128]
    finite = np.isfinite(magnitudes)
    order = magnitudes[finite]
    index = np.searchsorted(order, np.where(np.isfinite(y), np.abs(y), 0.0))
    nan = 0x7F if dtype == "f8e4m3fn" else 0x7E
    index = np.where(np.isnan(y), nan, np.where(np.isinf(y), 0x7C, index))
    return (index | np.where(np.signbit(y), 0x80, 0)).astype(np.uint8)


def decode(elements: Array, dtype: str) -> Array:
    """What the stored elements mean: float64, int64, uint64, bool or complex128."""
    row = DTYPES[dtype]
    if row.kind == "b":
        return np.asarray(elements != 0)
    if row.kind == "u":
        return np.asarray(elements.astype(np.uint64))
    if row.kind == "i":
        return np.asarray(elements.astype(np.int64))
    if row.kind == "c":
        return elements.astype(np.complex128)
    if dtype in CAST_ONLY:
        return np.asarray(_small_values(dtype)[elements])
    with np.errstate(all="ignore"):
        if dtype == "bf16":
            return np.asarray((elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64))
        return elements.astype(np.float64)
