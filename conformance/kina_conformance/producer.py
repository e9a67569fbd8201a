"""A DLPack producer: structs whose every field a test may bend, on guarded memory, with deleters that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kina.runtime import interface

from .dtypes import Array, dtype_of, encode
from .executor import Executor
from .memory import Buffer, compact, small_values, span

STRUCTS = {False: "DLManagedTensorVersioned", True: "DLManagedTensor"}
_alive: dict[int, Producer] = {}


def _delete(managed: Any) -> None:
    """What a real deleter does: the struct is the producer's again, once."""
    address = int(interface().cast("uintptr_t", managed))
    producer = _alive.pop(address, None)
    if producer is None:
        Producer.strays += 1
    else:
        producer.deleted += 1
        if producer.on_delete is not None:
            producer.on_delete()


# Made once and kept for the life of the process: a callback that dies before its callers is a crash at exit.
_DELETERS = {
    legacy: interface().callback(f"void(struct {struct} *)", _delete, onerror=None)
    for legacy, struct in STRUCTS.items()
}


class Producer:
    """One struct to be imported. `managed` is what the library gets, `dl` its DLTensor; `deleted` counts deleter calls.

    `offset` elements of `byte_offset` lie between `data` and element 0 (more where negative strides need room). The
    struct lives until its deleter has run, or until `discard`.
    """

    strays = 0  # deleter calls with a struct that is not, or no longer, alive

    def __init__(
        self,
        rt: Executor,
        legacy: bool = False,
        *,
        dtype: str = "f32",
        shape: Sequence[int] = (2, 3),
        values: ArrayLike | None = None,
        strides: Sequence[int] | None = None,
        null_strides: bool = False,
        offset: int = 0,
        version: tuple[int, int] = (1, 0),
        flags: int = 0,
        device: tuple[int, int] = (1, 0),
        deleter: bool = True,
    ) -> None:
        ffi, row = rt.ffi, dtype_of(dtype)
        self.rt, self.legacy, self.row = rt, legacy, row
        self.shape = tuple(shape)
        self.strides = compact(self.shape) if strides is None else tuple(strides)
        low, high = (0, -1) if 0 in self.shape else span(self.shape, self.strides)
        self.buffer = Buffer(max(offset - low + high + 1, 1) * row.bytes)
        self.first = (offset - low) * row.bytes
        self.managed = ffi.new(f"struct {STRUCTS[legacy]} *")
        self.address = int(ffi.cast("uintptr_t", self.managed))
        self.dl = self.managed.dl_tensor
        self.shape_array = ffi.new("int64_t[]", list(self.shape) or [7])
        self.stride_array = ffi.new("int64_t[]", list(self.strides) or [7])
        self.dl.data = ffi.cast("void *", self.buffer.address)
        self.dl.byte_offset = self.first
        self.dl.device = {"device_type": device[0], "device_id": device[1]}
        self.dl.ndim = len(self.shape)
        self.dl.dtype = {"code": row.value & 0xFF, "bits": row.value >> 8 & 0xFF, "lanes": row.value >> 16}
        self.dl.shape = self.shape_array
        self.dl.strides = ffi.NULL if null_strides else self.stride_array
        if not legacy:
            self.managed.version = {"major": version[0], "minor": version[1]}
            self.managed.flags = flags
        self.managed.deleter = _DELETERS[legacy] if deleter else ffi.NULL
        self.deleted = 0
        self.on_delete: Any = None
        if 0 not in self.shape:
            self.elements[...] = encode(small_values(self.shape, row) if values is None else values, dtype)
        if deleter:
            _alive[self.address] = self

    @property
    def elements(self) -> Array:
        """The elements as the producer sees them."""
        steps = [s * self.row.bytes for s in self.strides]
        return np.ndarray(self.shape, self.row.storage, self.buffer.data.data, self.first, steps)

    @property
    def element_address(self) -> int:
        return self.buffer.address + self.first

    def bytes(self) -> bytes:
        """The struct, its arrays and its memory."""
        ffi = self.rt.ffi
        parts = [ffi.buffer(self.managed), ffi.buffer(self.shape_array), ffi.buffer(self.stride_array)]
        return b"".join(map(bytes, parts)) + self.buffer.data.tobytes()

    def discard(self) -> None:
        """The producer takes its struct back without the deleter."""
        _alive.pop(self.address, None)

    @property
    def take(self) -> str:
        """The function that imports such a struct."""
        return "runtime_from_dlpack_legacy" if self.legacy else "runtime_from_dlpack"

    def __repr__(self) -> str:
        return f"{STRUCTS[self.legacy]} of {self.row.name}{list(self.shape)} strides {list(self.strides)}"
