"""The two halves of the array API's exchange protocol: `Tensor.__dlpack__` and `from_dlpack`."""

from __future__ import annotations

from typing import Any

from . import capsule as capsules
from .current import current
from .errors import CopyNeededError, ExchangeError, check, failure
from .runtime import Runtime
from .tensor import CPU, Tensor, parse_device

CUDA = 2
_IS_COPIED = 2
_HIGHEST = (1, 0)  # the version whose rules the runtime obeys and stamps


def exported(
    tensor: Tensor,
    *,
    stream: int | None,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> object:
    """What `Tensor.__dlpack__` returns."""
    runtime = tensor.runtime
    layout = capsules.LEGACY if max_version is None or max_version[0] < 1 else capsules.VERSIONED
    flags = runtime.KINA_DLPACK_COPY if copy else 0
    device = tensor.__dlpack_device__()
    target = device if dl_device is None else parse_device(dl_device)
    moved = target != device
    is_shared = not moved and not copy
    if layout is capsules.LEGACY and is_shared and any(stride < 0 for stride in tensor.strides):
        raise ExchangeError(
            "UNSUPPORTED", "readers of the legacy struct may die of negative strides, as PyTorch does; use copy()"
        )
    if moved and copy is False:
        raise CopyNeededError(
            "DEVICE_MISMATCH", f"the tensor is on {device}, {target} would be a copy, and copy is False"
        )
    source = _moved(tensor, target) if moved else tensor.alias()
    params = runtime.ffi.new("KinaDlpackParams *")
    params.struct_size = runtime.ffi.sizeof("KinaDlpackParams")
    params.flags = 0 if moved else flags
    ordered = _consumer_stream(runtime, target, stream)  # held until the call has been made
    params.stream = ordered
    out = runtime.ffi.new(f"struct {layout.struct} **")
    check(runtime, getattr(runtime, layout.export)(out, source.struct, params), ExchangeError)
    managed = out[0]
    if moved and layout is capsules.VERSIONED:
        managed.flags |= _IS_COPIED  # the copy was made here, for this export
    return capsules.make(layout, int(runtime.ffi.cast("uintptr_t", managed)), lambda: managed.deleter(managed))


def _moved(tensor: Tensor, target: tuple[int, int]) -> Tensor:
    out = Tensor(tensor.runtime)
    check(tensor.runtime, tensor.runtime.runtime_copy(out.struct, tensor.struct, *target), ExchangeError)
    return out


def _consumer_stream(runtime: Runtime, device: tuple[int, int], stream: int | None) -> Any:
    """The consumer's stream as a handle: what the array API's number means on that device."""
    if device[0] != CUDA:
        if stream is not None:
            raise ValueError(f"stream must be None for device {device}, not {stream!r}")
        return runtime.ffi.NULL
    if stream == -1:
        return runtime.ffi.NULL
    if stream == 0:
        raise ValueError("stream 0 is ambiguous on CUDA: 1 is the legacy default stream, 2 the per-thread one")
    out = runtime.ffi.new("KinaStream *")
    native = runtime.ffi.cast("void *", 1 if stream is None else stream)
    check(runtime, runtime.runtime_stream_import(out, *device, native), ExchangeError)
    return runtime.ffi.gc(out[0], runtime.runtime_stream_release)


def stream_number(device_type: int, native: int) -> int | None:
    """The array API's number for a native stream of the consumer: None on the host, and never 0 on CUDA."""
    if device_type != CUDA:
        return None
    return native or 1


def from_dlpack(
    source: Any,
    *,
    device: str | tuple[int, int] | None = None,
    copy: bool | None = None,
    runtime: Runtime | None = None,
) -> Tensor:
    """A tensor on the bytes of another library's array or a fresh capsule; a producer meets the demands or refuses."""
    runtime = runtime or current()
    if capsules.is_capsule(source):
        if copy or device is not None:
            raise CopyNeededError("UNSUPPORTED", "a capsule cannot be asked for a copy or a device; ask its producer")
        return _imported(runtime, source, runtime.ffi.NULL)
    if not (hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__")):
        raise AttributeError(f"{type(source).__name__} exchanges nothing through DLPack: it has no __dlpack__")
    demanded = None if device is None else parse_device(device)
    target = demanded or parse_device(source.__dlpack_device__())
    handle, number = _own_stream(runtime, target)
    tensor = _imported(runtime, _asked(source, number, demanded, copy), handle)
    if tensor.__dlpack_device__()[0] != target[0]:
        raise ExchangeError(
            "DEVICE_MISMATCH", f"the producer says device {target}, its capsule says {tensor.__dlpack_device__()}"
        )
    return tensor


def _own_stream(runtime: Runtime, device: tuple[int, int]) -> tuple[Any, int | None]:
    """The stream on which the import will be used, as a handle and as the number that the producer is told."""
    if device[0] != CUDA:
        return runtime.ffi.NULL, None
    out = runtime.ffi.new("KinaStream *")
    check(runtime, runtime.runtime_stream_current(out, *device), ExchangeError)
    native = runtime.ffi.new("void **")
    check(runtime, runtime.runtime_stream_native(native, out[0]), ExchangeError)
    return out[0], stream_number(device[0], int(runtime.ffi.cast("uintptr_t", native[0])))


def _asked(source: Any, stream: int | None, device: tuple[int, int] | None, copy: bool | None) -> object:
    """The producer's capsule: asked for with the newest version first, then in the old way where it knows no other.

    The second question would drop a demand for a device or a copy, so it is asked only if there was none.
    """
    old: dict[str, Any] = {} if stream is None else {"stream": stream}
    demands: dict[str, Any] = {}
    if device is not None:
        demands["dl_device"] = device
    if copy is not None:
        demands["copy"] = copy
    try:
        return source.__dlpack__(**old, max_version=_HIGHEST, **demands)
    except TypeError as error:
        if demands:
            asked = " and ".join(demands)
            raise TypeError(
                f"{type(source).__name__} may be too old for {asked}, which asarray can do: {error}"
            ) from error
    return source.__dlpack__(**old)


def _imported(runtime: Runtime, capsule: object, stream: Any) -> Tensor:
    tensor = Tensor(runtime)
    params = runtime.ffi.new("KinaDlpackParams *")
    params.struct_size = runtime.ffi.sizeof("KinaDlpackParams")
    params.stream = stream

    def take(layout: capsules.Layout, managed: int) -> int:
        struct = runtime.ffi.cast(f"struct {layout.struct} *", managed)
        return int(getattr(runtime, layout.take)(tensor.struct, struct, params))

    status = capsules.take(capsule, take)
    if status != 0:
        raise failure(runtime, status, ExchangeError)
    return tensor


__all__ = ["CPU", "CUDA", "exported", "from_dlpack", "stream_number"]
