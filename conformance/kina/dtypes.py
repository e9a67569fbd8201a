"""Element types by name, as DLPack codes and as NumPy sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Dtype:
    """One row of the dtype table; `numpy` is the array interface's type string, None where NumPy has no such type."""

    name: str
    code: int
    bits: int
    numpy: str | None

    @property
    def value(self) -> int:
        """The KinaDtype."""
        return self.code | self.bits << 8 | 1 << 16

    @property
    def itemsize(self) -> int:
        return self.bits // 8

    def __repr__(self) -> str:
        return self.name


DTYPES = (
    Dtype("bool", 6, 8, "|b1"),
    Dtype("u8", 1, 8, "|u1"),
    Dtype("i8", 0, 8, "|i1"),
    Dtype("u16", 1, 16, "<u2"),
    Dtype("i16", 0, 16, "<i2"),
    Dtype("u32", 1, 32, "<u4"),
    Dtype("i32", 0, 32, "<i4"),
    Dtype("u64", 1, 64, "<u8"),
    Dtype("i64", 0, 64, "<i8"),
    Dtype("f8e4m3fn", 10, 8, None),
    Dtype("f8e5m2", 12, 8, None),
    Dtype("f16", 2, 16, "<f2"),
    Dtype("bf16", 4, 16, None),
    Dtype("f32", 2, 32, "<f4"),
    Dtype("f64", 2, 64, "<f8"),
    Dtype("c64", 5, 64, "<c8"),
    Dtype("c128", 5, 128, "<c16"),
)
_BY_VALUE = {dtype.value: dtype for dtype in DTYPES}
_BY_NAME = {dtype.name: dtype for dtype in DTYPES}
_LONG_NAMES = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2"}  # NumPy knows none of them
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES if dtype.numpy is not None}


def of_value(value: int) -> Dtype:
    """The row of a KinaDtype that a runtime gave."""
    return _BY_VALUE[value]


def of(dtype: Any) -> Dtype:
    """The row that a caller means: a row, its name ("f32"), PyTorch's, or anything that NumPy takes for a dtype."""
    if isinstance(dtype, Dtype):
        return dtype
    of_torch = type(dtype).__module__ == "torch"
    word = str(dtype).removeprefix("torch.") if of_torch else dtype
    if isinstance(word, str) and _LONG_NAMES.get(word, word) in _BY_NAME:
        return _BY_NAME[_LONG_NAMES.get(word, word)]
    import numpy

    try:
        return _BY_NUMPY[numpy.dtype(word).newbyteorder("=").str]
    except (TypeError, KeyError):
        raise TypeError(f"{dtype!r} is no dtype of this runtime; there are {', '.join(_BY_NAME)}") from None
