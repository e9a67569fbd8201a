"""Tensors of a runtime as a NumPy user expects them, exchanged through DLPack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import index
from typing import Any, SupportsIndex

from . import dtypes
from .current import current
from .dtypes import Dtype
from .errors import CopyNeededError, KinaError, check
from .runtime import Runtime

CPU = 1
_DEVICE_WORDS = {1: "cpu", 2: "cuda", 3: "cuda_host", 12: "sim", 13: "cuda_managed"}
_DEVICE_TYPES = {word: number for number, word in _DEVICE_WORDS.items()}
_HOST_READABLE = {1, 3, 13}


def parse_device(device: str | tuple[int, int]) -> tuple[int, int]:
    """ "cuda:1" or (2, 1) → (2, 1); the id is 0 where it is left out."""
    if isinstance(device, str):
        word, _, number = device.partition(":")
        if word in _DEVICE_TYPES and (number == "" or (number.isascii() and number.isdigit())):
            return _DEVICE_TYPES[word], int(number or 0)
    elif isinstance(device, Sequence) and len(device) == 2 and all(isinstance(n, SupportsIndex) for n in device):
        return int(device[0]), int(device[1])
    words = ", ".join(_DEVICE_TYPES)
    raise ValueError(f"{device!r} is no device; write one of {words}, with :id if it is not 0, or two numbers")


class Tensor:
    """One tensor of a runtime. It is freed with the Python object; views and copies are tensors of their own."""

    __array_priority__ = 0

    def __init__(self, runtime: Runtime) -> None:
        """An empty tensor, to be filled by a call of the runtime."""
        self.runtime = runtime
        self.struct = runtime.ffi.new("KinaTensor *")
        self._free = runtime.runtime_free

    def __del__(self) -> None:
        struct = getattr(self, "struct", None)
        if struct is not None and struct.magic != 0:
            self._free(struct)

    # What it is.

    @property
    def ndim(self) -> int:
        return int(self.struct.dl.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.struct.dl.shape[axis] for axis in range(self.ndim))

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements, as in DLPack and PyTorch; `numpy().strides` counts bytes."""
        return tuple(self.struct.dl.strides[axis] for axis in range(self.ndim))

    @property
    def dtype(self) -> Dtype:
        return dtypes.of_value(
            self.struct.dl.dtype.code | self.struct.dl.dtype.bits << 8 | self.struct.dl.dtype.lanes << 16
        )

    @property
    def size(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        device_type, device_id = self.__dlpack_device__()
        word = _DEVICE_WORDS.get(device_type, f"type{device_type}")
        return word if device_type in _HOST_READABLE else f"{word}:{device_id}"

    @property
    def flags(self) -> int:
        return int(self.struct.flags)

    @property
    def is_read_only(self) -> bool:
        return bool(self.flags & self.runtime.KINA_FLAG_READ_ONLY)

    @property
    def data_ptr(self) -> int:
        """The address of element 0; 0 if there are no elements."""
        return int(self.runtime.ffi.cast("uintptr_t", self.struct.dl.data)) + int(self.struct.dl.byte_offset)

    # DLPack.

    def __dlpack_device__(self) -> tuple[int, int]:
        return int(self.struct.dl.device.device_type), int(self.struct.dl.device.device_id)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule: the versioned one for consumers that take it, else the legacy one. The tensor stays as it is."""
        from .dlpack import exported

        return exported(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def to_dlpack(self) -> Any:
        """A legacy capsule, for consumers that know no other."""
        return self.__dlpack__()

    # NumPy.

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.dtype.numpy is None:
            raise TypeError(f"NumPy has no {self.dtype}; cast to f32 first")
        if self.__dlpack_device__()[0] not in _HOST_READABLE:
            raise TypeError(f"the tensor is on {self.device}; call cpu() first")
        self.synchronize()
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.numpy,
            "strides": tuple(stride * self.dtype.itemsize for stride in self.strides),
            "data": (self.data_ptr, self.is_read_only),
        }

    def numpy(self) -> Any:
        """A NumPy array on the same bytes, without a copy; it keeps the tensor."""
        import numpy

        if self.size == 0 and self.dtype.numpy is not None:
            return numpy.empty(self.shape, self.dtype.numpy)
        return numpy.asarray(self)

    def tolist(self) -> Any:
        return self._values().tolist()

    def item(self) -> Any:
        """The value of a tensor of one element."""
        return self._values().item()

    def _values(self) -> Any:
        """A NumPy array of the same values, in f32 where NumPy lacks the type, on the host."""
        tensor = self if self.__dlpack_device__()[0] in _HOST_READABLE else self.cpu()
        return (tensor if tensor.dtype.numpy is not None else tensor.cast("f32")).numpy()

    def _lies_on(self, place: tuple[int, int]) -> bool:
        """Memory that the host reads counts as one place."""
        own = self.__dlpack_device__()
        return own == place or {own[0], place[0]} <= _HOST_READABLE

    # Movement and views.

    def _call(self, function: str, *arguments: Any) -> Tensor:
        out = Tensor(self.runtime)
        check(self.runtime, getattr(self.runtime, function)(out.struct, self.struct, *arguments))
        return out

    def synchronize(self) -> None:
        """Waits for the last write of the tensor's bytes; raises if it failed."""
        check(self.runtime, self.runtime.runtime_tensor_synchronize(self.struct))

    def to(self, device: str | tuple[int, int]) -> Tensor:
        """A copy on a device."""
        return self._call("runtime_copy", *parse_device(device))

    def cpu(self) -> Tensor:
        return self._call("runtime_copy_to_host")

    def copy(self) -> Tensor:
        return self.to(self.__dlpack_device__())

    def cast(self, dtype: Any) -> Tensor:
        return self._call("runtime_gpu_cast", dtypes.of(dtype).value)

    def alias(self) -> Tensor:
        """A second tensor on the same bytes."""
        return self._call("runtime_alias")

    def view(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Tensor:
        """A view inside this tensor's bytes; strides and offset count elements."""
        if len(shape) != len(strides):
            raise ValueError(f"{len(strides)} strides for {len(shape)} extents")
        return self._call("runtime_view", list(shape), list(strides), len(shape), offset, 0)

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        extents = _spread(shape)
        return self._call("runtime_gpu_reshape", extents, len(extents))

    def transpose(self, *axes: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        permutation = _spread(axes) if axes else list(range(self.ndim))[::-1]
        if len(permutation) != self.ndim:  # the runtime reads one entry for each axis
            raise ValueError(f"{len(permutation)} axes for a tensor of rank {self.ndim}")
        return self._call("runtime_gpu_transpose", permutation)

    @property
    def T(self) -> Tensor:
        return self.transpose()

    def broadcast_to(self, shape: Sequence[int]) -> Tensor:
        return self._call("runtime_gpu_broadcast", list(shape), len(shape))

    def __getitem__(self, key: Any) -> Tensor:
        """Integers, slices, Ellipsis and None, as in NumPy; always a view."""
        return self.view(*_select(key, self.shape, self.strides))

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a tensor of rank 0")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[at] for at in range(len(self)))

    def __bool__(self) -> bool:
        """The truth of the value of a tensor of one element."""
        if self.size != 1:
            raise ValueError(f"the truth of a tensor of {self.size} elements is ambiguous")
        return bool(self.item())

    # Text.

    def __repr__(self) -> str:
        facts = f"dtype={self.dtype}" + ("" if self.device == "cpu" else f", device={self.device}")
        try:
            return f"Tensor({self._text(', ', 'Tensor(')}, {facts})"
        except KinaError as error:
            return f"Tensor(<{error.status}>, shape={self.shape}, {facts})"

    def __str__(self) -> str:
        return self._text(" ", "")

    def _text(self, separator: str, prefix: str) -> str:
        import numpy

        if self.size == 0:
            return f"[] of shape {self.shape}" if self.ndim > 1 else "[]"
        return str(numpy.array2string(self._values(), separator=separator, prefix=prefix))


def _integer(value: Any) -> int | None:
    """None where it is not one; NumPy's are."""
    try:
        return index(value)
    except TypeError:
        return None


def _extents(shape: Any) -> list[int]:
    """5 means (5,)."""
    number = _integer(shape)
    return [index(extent) for extent in shape] if number is None else [number]


def _spread(arguments: tuple[SupportsIndex | Sequence[SupportsIndex], ...]) -> list[int]:
    """f(2, 3) and f((2, 3)) mean the same."""
    return _extents(arguments[0] if len(arguments) == 1 else arguments)


def _is_index(item: Any) -> bool:
    return isinstance(item, slice) or (not isinstance(item, bool) and _integer(item) is not None)


def _select(key: Any, shape: Sequence[int], strides: Sequence[int]) -> tuple[list[int], list[int], int]:
    """Shape, strides and offset of what NumPy's basic indexing selects."""
    keys = list(key) if isinstance(key, tuple) else [key]
    wholes = [at for at, item in enumerate(keys) if item is Ellipsis]
    others = [item for item in keys if item is not None and item is not Ellipsis]
    if len(wholes) > 1 or not all(_is_index(item) for item in others):
        raise IndexError(f"integers, slices, one Ellipsis and None select a view; {key!r} is something else")
    consuming = len(others)
    if consuming > len(shape):
        raise IndexError(f"{consuming} indices for a tensor of rank {len(shape)}")
    if not wholes:
        keys.append(Ellipsis)
    whole = wholes[0] if wholes else len(keys) - 1
    keys[whole : whole + 1] = [slice(None)] * (len(shape) - consuming)
    extents: list[int] = []
    steps: list[int] = []
    offset = axis = 0
    for item in keys:
        if item is None:
            extents.append(1)
            steps.append(1)
            continue
        if isinstance(item, slice):
            start, stop, step = item.indices(shape[axis])
            count = len(range(start, stop, step))
            extents.append(count)
            steps.append(strides[axis] * step)
            offset += start * strides[axis] if count else 0
        else:
            at = index(item)
            if not -shape[axis] <= at < shape[axis]:
                raise IndexError(f"index {at} is out of range for axis {axis} with size {shape[axis]}")
            offset += (at % shape[axis]) * strides[axis]
        axis += 1
    return extents, steps, 0 if 0 in extents else offset


def empty(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: Any = "f32",
    device: str | tuple[int, int] = "cpu",
    runtime: Runtime | None = None,
) -> Tensor:
    """A tensor with unspecified contents."""
    out = Tensor(runtime or current())
    extents = _extents(shape)
    device_type, device_id = parse_device(device)
    check(
        out.runtime,
        out.runtime.runtime_alloc(
            out.struct, extents, len(extents), dtypes.of(dtype).value, device_type, device_id, out.runtime.ffi.NULL
        ),
    )
    return out


def zeros(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: Any = "f32",
    device: str | tuple[int, int] = "cpu",
    runtime: Runtime | None = None,
) -> Tensor:
    """A tensor of zeros."""
    out = empty(shape, dtype, device, runtime)
    check(out.runtime, out.runtime.runtime_fill(out.struct, bytes(out.dtype.itemsize), out.dtype.itemsize))
    return out


def asarray(
    source: Any,
    dtype: Any = None,
    device: str | tuple[int, int] = "cpu",
    copy: bool | None = None,
    runtime: Runtime | None = None,
) -> Tensor:
    """A tensor with the values of an array or of nested lists; on the source's own bytes where that is possible."""
    import numpy

    from .dlpack import from_dlpack

    wanted = None if dtype is None else dtypes.of(dtype)
    if hasattr(source, "__dlpack__") and not isinstance(source, numpy.ndarray):  # it may know no NumPy
        tensor = from_dlpack(source, runtime=runtime)
        wanted = wanted or tensor.dtype
        if not copy and wanted == tensor.dtype and tensor._lies_on(parse_device(device)):
            return tensor
        if copy is False:
            raise CopyNeededError(
                "UNSUPPORTED", f"it is {tensor.dtype} on {tensor.device}, all else would be a copy, and copy is False"
            )
        source = tensor._values()
    host = parse_device(device)[0] in _HOST_READABLE
    form = None if wanted is None else wanted.numpy
    can_share = host and (wanted is None or form is not None)
    if copy is False:
        if not can_share:
            raise CopyNeededError("UNSUPPORTED", f"{wanted or 'it'} on {device} would be a copy, and copy is False")
        return _on_its_bytes(source, form, runtime)
    array = numpy.asarray(source, form)
    if can_share and not copy:
        with suppress(BufferError):  # such as for another byte order
            return from_dlpack(array, runtime=runtime)
    out = empty(array.shape, array.dtype, runtime=runtime)
    if out.size:
        out.numpy()[...] = array
    if wanted is not None and wanted is not out.dtype:
        out = out.cast(wanted)
    return out if host else out.to(device)


def _on_its_bytes(source: Any, form: str | None, runtime: Runtime | None) -> Tensor:
    """Without a copy, or not at all."""
    import numpy

    from .dlpack import from_dlpack

    try:
        return from_dlpack(numpy.array(source, form, copy=False), runtime=runtime)
    except (BufferError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")  # what NumPy adds is about its own parameters
        raise CopyNeededError("UNSUPPORTED", f"{reason}, and copy is False") from error
