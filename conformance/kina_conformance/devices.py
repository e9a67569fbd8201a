"""What tests on devices that run behind the call share: streams, bytes there, work on bytes that the library sees as
borrowed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from numpy.typing import ArrayLike

from .executor import Executor
from .memory import Handle, Tensor
from .resources import Info

SIMULATED = 12
HOST, FIRST, SECOND = (1, 0), (SIMULATED, 0), (SIMULATED, 1)
Device = tuple[int, int]


def device_count(rt: Executor) -> int:
    return rt.device_count(SIMULATED)


def main(rt: Executor, device: Device = FIRST) -> Handle:
    stream: Handle = rt.call("runtime_stream_main", *device).succeeds().out
    return stream


def checkout(rt: Executor, device: Device = FIRST) -> Handle:
    stream: Handle = rt.call("runtime_stream_checkout", *device).succeeds().out
    return stream


def checkin(rt: Executor, stream: Handle) -> None:
    rt.call("runtime_stream_checkin", stream).succeeds()


def wait(rt: Executor, stream: Handle, awaited: Handle) -> None:
    rt.call("runtime_stream_wait", stream, awaited).succeeds()


@contextlib.contextmanager
def pushed(rt: Executor, thing: Handle) -> Iterator[None]:
    """Within it work goes to this stream, or memory comes from this resource."""
    push = "runtime_stream_push" if thing.type == "KinaStream" else "runtime_resource_push"
    scope = rt.call(push, thing).succeeds().out
    try:
        yield
    finally:
        rt.call("runtime_scope_pop", scope).succeeds()


def default(rt: Executor, device: Device = FIRST) -> Handle:
    """The current resource of a device."""
    resource: Handle = rt.call("runtime_resource_current", *device).succeeds().out
    return resource


def base(rt: Executor, device: Device = FIRST) -> Handle:
    """What the default resource of a device stands on in the end: the device's own memory."""
    found = default(rt, device)
    while (upstream := Info(rt, found).upstream).value:
        found = upstream
    return found


def pool(rt: Executor, device: Device = FIRST, **params: Any) -> Handle:
    """A new pool over the device's own memory."""
    options = rt.params("KinaPoolParams", **params)
    made: Handle = rt.call("runtime_resource_pool", base(rt, device), options).succeeds().out
    return made


def there(
    rt: Executor, values: ArrayLike, stream: Handle | None = None, device: Device = FIRST, dtype: str = "f32"
) -> Tensor:
    """These values along one axis in new memory of a device, written by `stream`."""
    source = rt.tensor(dtype, len(values), values)  # type: ignore[arg-type]
    with contextlib.nullcontext() if stream is None else pushed(rt, stream):
        made: Tensor = rt.call("runtime_copy", source, *device).succeeds().out
    return made


def back(rt: Executor, tensor: Tensor) -> list[float]:
    """What a tensor holds, read on the host."""
    values: list[float] = rt.call("runtime_copy_to_host", tensor).succeeds().out.numpy().tolist()
    return values


def part(rt: Executor, tensor: Tensor, count: int, *, stride: int = 1, offset: int = 0) -> Tensor:
    """A view of every `stride`-th element from `offset` on."""
    arguments = {"shape": (count,), "strides": (stride,), "ndim": 1, "offset_elements": offset, "flags": 0}
    made: Tensor = rt.call("runtime_view", tensor, **arguments).succeeds().out
    return made


def negated(rt: Executor, tensor: Tensor, stream: Handle | None = None) -> Tensor:
    with contextlib.nullcontext() if stream is None else pushed(rt, stream):
        made: Tensor = rt.call("runtime_gpu_unary", tensor, op="KINA_UNARY_NEG").succeeds().out
    return made


def fill(rt: Executor, tensor: Tensor, value: float, stream: Handle | None = None) -> None:
    """Every element gets the value, by `stream`."""
    data = bytes(rt.ffi.buffer(rt.ffi.new("float *", value)))
    with contextlib.nullcontext() if stream is None else pushed(rt, stream):
        rt.call("runtime_fill", tensor=tensor, value=data, value_bytes=4).succeeds()


def busy(rt: Executor, tensor: Tensor, stream: Handle, value: float, times: int = 8) -> None:
    """Work on `stream` that takes a while and leaves `value` in the tensor."""
    for i in reversed(range(times)):
        fill(rt, tensor, value + i, stream)


def foreign(rt: Executor, data: Any, count: int, stream: Handle, device: Device = FIRST) -> Tensor:
    """f32 elements at an address of a device as a borrowed tensor: the library orders nothing for it."""
    ffi = rt.ffi
    shape = ffi.new("int64_t[1]", [count])
    source = ffi.new("DLTensor *", {"data": data, "device": device, "ndim": 1, "shape": shape, "strides": ffi.NULL})
    source.dtype = {"code": 2, "bits": 32, "lanes": 1}
    made: Tensor = rt.call("runtime_wrap", source, size_bytes=4 * count, stream=stream, flags=0).succeeds().out
    made.keep += [shape, source]
    return made
