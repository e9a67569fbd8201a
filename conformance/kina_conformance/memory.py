"""Operands: guarded buffers, tensors, handles and option structs that the suite hands to the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .dtypes import BY_VALUE, Array, Dtype, decode, dtype_of, encode

if TYPE_CHECKING:
    from .executor import Executor

GUARD_BYTES = 128
_GUARD = np.tile(np.frombuffer(b"\xc3\x3c\xc9\x9c", np.uint8), GUARD_BYTES // 4)


class Buffer:
    """Bytes of the suite between two guard zones; `misalign` moves them off their alignment."""

    def __init__(self, size: int, poison: int = 0xA5, misalign: int = 0, alignment: int = 256) -> None:
        self._raw = np.empty(size + 2 * GUARD_BYTES + alignment + misalign, np.uint8)
        base = int(self._raw.ctypes.data)
        start = -(base + GUARD_BYTES) % alignment + GUARD_BYTES + misalign
        self._low = self._raw[start - GUARD_BYTES : start]
        self._high = self._raw[start + size : start + size + GUARD_BYTES]
        self.data = self._raw[start : start + size]
        self.address = base + start
        self._low[:] = _GUARD
        self._high[:] = _GUARD
        self.data[:] = poison

    def broken_guard(self) -> str | None:
        """Which guard zone was written, if any."""
        if not np.array_equal(self._low, _GUARD):
            return "before"
        return None if np.array_equal(self._high, _GUARD) else "behind"


class Tensor:
    """A `KinaTensor` of the suite or of the library, with its bytes as NumPy sees them."""

    def __init__(self, rt: Executor, struct: Any, buffer: Buffer | None = None, keep: Sequence[Any] = ()) -> None:
        self.rt = rt
        self.struct = struct
        self.buffer = buffer
        self.keep = list(keep)
        self.watched = True  # False: its bytes are others', so that changes there prove nothing
        self.rank: int | None = None  # of a copy: what its arrays hold, whatever the struct is made to say

    @property
    def is_empty(self) -> bool:
        return not any(self.struct_bytes())

    @property
    def flags(self) -> int:
        return int(self.struct.flags)

    @property
    def handle(self) -> int:
        return int(self.struct.handle)

    @property
    def shape(self) -> tuple[int, ...]:
        dl = self.struct.dl
        return () if dl.shape == self.rt.ffi.NULL else tuple(int(dl.shape[i]) for i in range(dl.ndim))

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements; compact row-major where the struct says NULL."""
        dl = self.struct.dl
        if dl.strides == self.rt.ffi.NULL:
            return compact(self.shape)
        return tuple(int(dl.strides[i]) for i in range(dl.ndim))

    @property
    def dtype(self) -> str:
        raw = self.struct.dl.dtype
        return BY_VALUE[raw.code | raw.bits << 8 | raw.lanes << 16].name

    @property
    def device(self) -> tuple[int, int]:
        device = self.struct.dl.device
        return int(device.device_type), int(device.device_id)

    @property
    def data(self) -> int:
        """Address of the storage's first byte."""
        return int(self.rt.ffi.cast("uintptr_t", self.struct.dl.data))

    @property
    def address(self) -> int:
        """Address of element 0."""
        return self.data + int(self.struct.dl.byte_offset)

    @property
    def size_bytes(self) -> int:
        return int(self.struct.size_bytes)

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    def struct_bytes(self) -> bytes:
        return bytes(self.rt.ffi.buffer(self.struct, 96))

    def hull(self) -> tuple[int, int]:
        """First byte and one past the last byte that the elements span, as addresses."""
        if self.elements == 0:
            return self.address, self.address
        item = dtype_of(self.dtype).bytes
        low, high = span(self.shape, self.strides)
        return self.address + low * item, self.address + (high + 1) * item

    def storage_bytes(self) -> bytes:
        """All bytes of the storage that the struct describes."""
        if self.buffer is not None:
            return self.buffer.data.tobytes()
        if self.size_bytes == 0 or self.data == 0:
            return b""
        return bytes(self.rt.ffi.buffer(self.rt.ffi.cast("char *", self.data), self.size_bytes))

    def raw(self) -> Array:
        """The elements as they are stored: a view on the tensor's own memory."""
        row = dtype_of(self.dtype)
        if self.elements == 0:
            return np.zeros(self.shape, row.storage)
        low, high = self.hull()
        memory = self.rt.ffi.buffer(self.rt.ffi.cast("char *", low), high - low)
        strides = [s * row.bytes if n > 1 else 0 for n, s in zip(self.shape, self.strides, strict=True)]
        return np.ndarray(self.shape, row.storage, memory, self.address - low, strides)

    def numpy(self) -> Array:
        """The values: float64, int64, uint64, bool or complex128, whatever the dtype."""
        return decode(self.raw().copy(), self.dtype)

    def write(self, values: ArrayLike) -> None:
        """Sets the elements, encoded to the dtype."""
        raw = self.raw()
        raw[...] = np.broadcast_to(encode(values, self.dtype), raw.shape)

    def poison(self, byte: int) -> None:
        """Sets every byte of every element, whatever the rank and the strides."""
        raw = self.raw()
        raw[...] = np.frombuffer(bytes([byte]) * raw.itemsize, raw.dtype)[0]

    def copy(self) -> Tensor:
        """A second struct that names the same tensor."""
        struct = self.rt.ffi.new("KinaTensor *", self.struct[0])
        made = Tensor(self.rt, struct, self.buffer, [self])
        made.rank = int(struct.dl.ndim)
        return made

    def __repr__(self) -> str:
        try:
            if self.is_empty:
                return "empty"
            dl = self.struct.dl
            readable = 0 <= dl.ndim <= 32 and (dl.ndim == 0 or dl.shape != self.rt.ffi.NULL)
            readable = readable and self.rank in (None, dl.ndim)
            if self.struct.magic != self.rt.lib.KINA_TENSOR_MAGIC or not readable:
                return f"KinaTensor(magic={self.struct.magic:#x}, handle={self.handle:#x})"
            text = f"{self.dtype}{list(self.shape)}"
            if self.strides != compact(self.shape):
                text += f" strides {list(self.strides)}"
            if self.struct.dl.byte_offset:
                text += f" byte_offset {self.struct.dl.byte_offset}"
            return text + (" read-only" if self.flags & self.rt.lib.KINA_FLAG_READ_ONLY else "")
        except KeyError:
            return "KinaTensor(dtype unknown)"


class Handle:
    """A handle that the library returned: stream, scope, resource, weak or peer."""

    def __init__(self, rt: Executor, type_name: str, value: Any) -> None:
        self.rt = rt
        self.type = type_name
        self.cdata = value

    @property
    def value(self) -> int:
        return int(self.rt.ffi.cast("uintptr_t", self.cdata))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __repr__(self) -> str:
        return f"{self.type}({self.value:#x})"


class Params:
    """An option struct in guarded memory: `size` bytes there, `struct_size` as told, the rest of the fields zero."""

    def __init__(self, rt: Executor, type_name: str, size: int | None = None, tail: bytes = b"", **fields: Any) -> None:
        self.type = type_name
        ffi = rt.ffi
        known = ffi.sizeof(type_name)
        self.size = max(size or known, known + len(tail)) if tail else size or known
        self.buffer = Buffer(max(self.size, known), poison=0)
        self.cdata = ffi.cast(f"{type_name} *", self.buffer.address)
        self.cdata.struct_size = known
        self.keep: list[Any] = []
        self.fields = fields
        for name, value in fields.items():
            self._set(rt, name, value)
        if tail:
            self.buffer.data[known : known + len(tail)] = np.frombuffer(tail, np.uint8)

    def _set(self, rt: Executor, name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            self.keep.append(value)
            value = value.struct
        elif isinstance(value, Handle):
            value = value.cdata
        elif isinstance(value, str) and value.startswith("KINA_"):
            value = rt.lib.constants[value]
        elif isinstance(value, str | bytes):
            value = rt.ffi.new("char[]", value.encode() if isinstance(value, str) else value)
            self.keep.append(value)
        elif value is None:
            value = rt.ffi.NULL
        elif rt.ffi.typeof(self.cdata).item.fields is not None and isinstance(value, int):
            field = dict(rt.ffi.typeof(self.cdata).item.fields)[name].type
            if field.kind == "pointer":
                value = rt.ffi.cast(field, value)
        setattr(self.cdata, name, value)

    def tensors(self) -> list[Tensor]:
        return [item for item in self.keep if isinstance(item, Tensor)]

    def __repr__(self) -> str:
        return fields_shown(self.fields)


def fields_shown(fields: dict[str, Any]) -> str:
    """The fields of an option struct; a callback as one, because its address is another in each run."""
    texts = {name: repr(value) for name, value in fields.items()}
    texts |= {name: "a callback" for name, text in texts.items() if text.startswith("<cdata") and " calling " in text}
    return "{" + ", ".join(f"{name}={text}" for name, text in texts.items()) + "}"


def compact(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def span(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Lowest and highest element offset from element 0; extent-1 axes do not move."""
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(0, s) for s in steps), sum(max(0, s) for s in steps)


def small_values(shape: Sequence[int], dtype: Dtype) -> Array:
    """Distinct small values that every dtype holds exactly; never all zero."""
    count = int(np.prod(shape, dtype=np.int64)) if shape else 1
    return (np.arange(count) % 7 + 1).reshape(tuple(shape)) % (2 if dtype.kind == "b" else 8)
