"""One valid call for every function: what violations are cut from, and what absent features are asked with.

Tensors are owned, so that a failure can be set on them; operands that a call ends are factories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .executor import Call, Executor
from .memory import Handle, Tensor
from .resources import host
from .tensors import peer_of, weak_of

# Functions whose valid call needs an accelerator: without one they are refused as UNSUPPORTED once arguments are good.
NEED_ACCELERATOR = {
    "runtime_stream_import",
    "runtime_stream_release",
    "runtime_resource_cuda",
    "runtime_resource_cuda_async",
    "runtime_capture_push",
    "runtime_copy_to_device",
}


def matrix(rt: Executor) -> Tensor:
    return rt.tensor("f32", (4, 4), owned=True)


def stream(rt: Executor) -> Handle:
    handle: Handle = rt.call("runtime_stream_checkout", device_type=1, device_id=0).succeeds().out
    return handle


def _accelerator(rt: Executor) -> int:
    """The device type whose streams are imported and captured; CUDA's where this machine has neither."""
    return next((kind for kind in (2, 12) if rt.device_count(kind)), 2)


def _native(rt: Executor) -> Any:
    """A native stream of the accelerator, which is not looked at where there is none."""
    kind = _accelerator(rt)
    if not rt.device_count(kind):
        return 1
    main = rt.call("runtime_stream_main", device_type=kind, device_id=0).succeeds().out
    return rt.call("runtime_stream_native", main).succeeds().out


def _import_stream(rt: Executor) -> Call:
    return rt.call("runtime_stream_import", device_type=_accelerator(rt), device_id=0, native=_native(rt))


def _release_stream(rt: Executor) -> Call:
    if not rt.device_count(_accelerator(rt)):
        return rt.call("runtime_stream_release", stream(rt))
    return rt.call("runtime_stream_release", stream=lambda: _import_stream(rt).succeeds().out)


def _capture(rt: Executor) -> Call:
    kind = _accelerator(rt) if rt.device_count(_accelerator(rt)) else 1
    place = {"device_type": kind, "device_id": 0}
    taken = rt.call("runtime_stream_checkout", **place).succeeds().out
    memory = rt.call("runtime_resource_current", **place).succeeds().out
    return rt.call("runtime_capture_push", taken, memory)


def _scope(rt: Executor) -> Handle:
    handle: Handle = rt.call("runtime_phase_push", phase=1).succeeds().out
    return handle


def vtable(rt: Executor) -> dict[str, Any]:
    """A resource of the suite that always says OUT_OF_MEMORY; enough to be accepted."""
    out_of_memory = rt.lib.status("OUT_OF_MEMORY")
    allocate = rt.ffi.callback("KinaAllocateCallback", lambda *_: out_of_memory)
    deallocate = rt.ffi.callback("KinaDeallocateCallback", lambda *_: 0)
    rt.kept += [allocate, deallocate]
    return {"allocate": allocate, "deallocate": deallocate}


def _block(rt: Executor, where: Handle) -> Any:
    call = rt.call("runtime_memory_allocate", where, bytes=256, alignment=64, stream=None)
    return call.succeeds().out


_DEVICE = {"device_type": 1, "device_id": 0}


def _plain(name: str, **arguments: Any) -> Callable[[Executor], Call]:
    """A call whose arguments need no library."""
    return lambda rt: rt.call(name, **arguments)


def _on(name: str, *makers: tuple[str, Callable[[Executor], Any]], **rest: Any) -> Callable[[Executor], Call]:
    """A call whose first arguments are made anew for each base, shared by its runs."""
    return lambda rt: rt.call(name, **{key: make(rt) for key, make in makers}, **rest)


def _deallocate(rt: Executor) -> Call:
    where = host(rt)
    return rt.call(
        "runtime_memory_deallocate", where, data=lambda: _block(rt, where), bytes=256, alignment=64, stream=None
    )


def _import(name: str) -> Callable[[Executor], Call]:
    def base(rt: Executor) -> Call:
        export = rt.call(name.replace("from_", "to_"), tensor=lambda: matrix(rt), params={})
        return rt.call(name, managed=lambda: export.succeeds().out, params={})

    return base


def _export(name: str) -> Callable[[Executor], Call]:
    return lambda rt: rt.call(name, tensor=lambda: matrix(rt), params={})


def _indices(rt: Executor) -> Tensor:
    return rt.tensor("i64", (2,), [0, 1], owned=True)


_TENSOR, _IN, _A, _B = ("tensor", matrix), ("in", matrix), ("a", matrix), ("b", matrix)
_VALUES, _INDICES = ("values", matrix), ("indices", _indices)
_STREAM, _RESOURCE, _UPSTREAM = ("stream", stream), ("resource", host), ("upstream", host)

BASES: dict[str, Callable[[Executor], Call]] = {
    "runtime_field_layout": _plain("runtime_field_layout", type="KinaTensor", field="dl.shape"),
    "runtime_last_error": _plain("runtime_last_error"),
    "runtime_set_log_callback": _plain("runtime_set_log_callback", callback=None, context=None, level="KINA_LOG_OFF"),
    "runtime_device_count": _plain("runtime_device_count", device_type=1),
    "runtime_device_info": _plain("runtime_device_info", **_DEVICE),
    "runtime_device_can_access": _plain("runtime_device_can_access", **_DEVICE, peer_id=0),
    "runtime_device_synchronize": _plain("runtime_device_synchronize", **_DEVICE),
    "runtime_device_push": _plain("runtime_device_push", **_DEVICE),
    "runtime_stream_main": _plain("runtime_stream_main", **_DEVICE),
    "runtime_stream_checkout": _plain("runtime_stream_checkout", **_DEVICE),
    "runtime_stream_checkin": lambda rt: rt.call("runtime_stream_checkin", stream=lambda: stream(rt)),
    "runtime_stream_import": _import_stream,
    "runtime_stream_release": _release_stream,
    "runtime_stream_native": _on("runtime_stream_native", _STREAM),
    "runtime_stream_synchronize": _on("runtime_stream_synchronize", _STREAM),
    "runtime_stream_query": _on("runtime_stream_query", _STREAM),
    "runtime_stream_wait": _on("runtime_stream_wait", _STREAM, ("awaited", stream)),
    "runtime_stream_current": _plain("runtime_stream_current", **_DEVICE),
    "runtime_stream_phase": _plain("runtime_stream_phase", **_DEVICE, phase=1),
    "runtime_stream_push": _on("runtime_stream_push", _STREAM),
    "runtime_phase_push": _plain("runtime_phase_push", phase=1),
    "runtime_redirect_push": _on("runtime_redirect_push", _STREAM),
    "runtime_capture_push": _capture,
    "runtime_scope_pop": lambda rt: rt.call("runtime_scope_pop", scope=lambda: _scope(rt)),
    "runtime_resource_host": _plain("runtime_resource_host"),
    "runtime_resource_cuda": _plain("runtime_resource_cuda", device_id=0),
    "runtime_resource_cuda_async": _plain("runtime_resource_cuda_async", device_id=0, params={}),
    "runtime_resource_pool": _on("runtime_resource_pool", _UPSTREAM, params={}),
    "runtime_resource_logging": _on("runtime_resource_logging", _UPSTREAM, params={"path": "/dev/null"}),
    "runtime_resource_limit": _on("runtime_resource_limit", _UPSTREAM, maximum_bytes=4096),
    "runtime_resource_custom": _on("runtime_resource_custom", ("vtable", vtable), **_DEVICE, context=None),
    "runtime_resource_release": lambda rt: rt.call("runtime_resource_release", resource=lambda: host(rt)),
    "runtime_resource_info": _on("runtime_resource_info", _RESOURCE),
    "runtime_resource_trim": _on("runtime_resource_trim", _RESOURCE, keep_bytes=0),
    "runtime_resource_set_default": _plain("runtime_resource_set_default", **_DEVICE, resource=None),
    "runtime_resource_push": _on("runtime_resource_push", _RESOURCE),
    "runtime_resource_current": _plain("runtime_resource_current", **_DEVICE),
    "runtime_memory_allocate": _on("runtime_memory_allocate", _RESOURCE, bytes=256, alignment=64, stream=None),
    "runtime_memory_deallocate": _deallocate,
    "runtime_alloc": _plain("runtime_alloc", shape=(4, 4), ndim=2, dtype="f32", **_DEVICE, stream=None),
    "runtime_free": lambda rt: rt.call("runtime_free", tensor=lambda: matrix(rt)),
    "runtime_view": _on("runtime_view", _IN, shape=(2, 2), strides=(4, 1), ndim=2, offset_elements=0, flags=0),
    "runtime_alias": _on("runtime_alias", _IN),
    "runtime_wrap": _on(
        "runtime_wrap",
        ("source", lambda rt: rt.tensor("f32", (4, 4))),
        size_bytes=64,
        stream=None,
        flags=0,
    ),
    "runtime_tensor_synchronize": _on("runtime_tensor_synchronize", _TENSOR),
    "runtime_tensor_record_use": _on("runtime_tensor_record_use", _TENSOR, stream=None, access="KINA_ACCESS_READ"),
    "runtime_overlap": _on("runtime_overlap", _A, _B),
    "runtime_is_exclusive": _on("runtime_is_exclusive", _TENSOR),
    "runtime_byte_range": _on("runtime_byte_range", _TENSOR),
    "runtime_failure_set": _on("runtime_failure_set", _TENSOR, cause=0, status="DEVICE", message="set by a test"),
    "runtime_failure_get": _on("runtime_failure_get", _TENSOR),
    "runtime_failure_clear": _on("runtime_failure_clear", _TENSOR),
    "runtime_weak_create": _on("runtime_weak_create", _TENSOR),
    "runtime_weak_upgrade": _on("runtime_weak_upgrade", ("weak", lambda rt: weak_of(rt, matrix(rt)))),
    "runtime_weak_release": lambda rt: rt.call("runtime_weak_release", weak=lambda: weak_of(rt, matrix(rt))),
    "runtime_peer_share": _on("runtime_peer_share", _TENSOR),
    "runtime_peer_open": _on("runtime_peer_open", ("peer", lambda rt: peer_of(rt, matrix(rt))), **_DEVICE),
    "runtime_peer_release": lambda rt: rt.call("runtime_peer_release", peer=lambda: peer_of(rt, matrix(rt))),
    "runtime_to_dlpack": _export("runtime_to_dlpack"),
    "runtime_from_dlpack": _import("runtime_from_dlpack"),
    "runtime_to_dlpack_legacy": _export("runtime_to_dlpack_legacy"),
    "runtime_from_dlpack_legacy": _import("runtime_from_dlpack_legacy"),
    "runtime_copy_to_device": _on("runtime_copy_to_device", _IN, device_id=0),
    "runtime_copy_to_host": _on("runtime_copy_to_host", _IN),
    "runtime_copy": _on("runtime_copy", _IN, **_DEVICE),
    "runtime_fill": _on("runtime_fill", _TENSOR, value=b"\0\0\x80\x3f", value_bytes=4),
    "runtime_gpu_unary": _on("runtime_gpu_unary", _IN, op="KINA_UNARY_NEG"),
    "runtime_gpu_binary": _on("runtime_gpu_binary", _A, _B, op="KINA_BINARY_ADD"),
    "runtime_gpu_cast": _on("runtime_gpu_cast", _IN, target="f64"),
    "runtime_gpu_reduce": _on("runtime_gpu_reduce", _IN, axis=0, op="KINA_REDUCE_SUM"),
    "runtime_gpu_softmax": _on("runtime_gpu_softmax", _IN, axis=0),
    "runtime_gpu_log_softmax": _on("runtime_gpu_log_softmax", _IN, axis=0),
    "runtime_gpu_matmul": _on("runtime_gpu_matmul", _A, _B, params={}),
    "runtime_gpu_gather": _on("runtime_gpu_gather", _VALUES, _INDICES),
    "runtime_gpu_gather_axis": _on("runtime_gpu_gather_axis", _VALUES, _INDICES, axis=1),
    "runtime_gpu_repeat_interleave": _on("runtime_gpu_repeat_interleave", _IN, axis=0, repeats=2),
    "runtime_gpu_transpose": _on("runtime_gpu_transpose", _IN, permutation=(1, 0)),
    "runtime_gpu_reshape": _on("runtime_gpu_reshape", _IN, new_shape=(2, 8), new_ndim=2),
    "runtime_gpu_broadcast": _on("runtime_gpu_broadcast", _IN, target_shape=(3, 4, 4), target_ndim=3),
    "runtime_gpu_slice": _on("runtime_gpu_slice", _IN, axis=0, start=1, stop=3),
    "runtime_gpu_concat": _on("runtime_gpu_concat", _A, _B, axis=0),
    "runtime_gpu_concat_n": _on(
        "runtime_gpu_concat_n", ("inputs", lambda rt: [matrix(rt), matrix(rt)]), count=2, axis=0
    ),
}


def base(rt: Executor, function: str) -> Call:
    """The valid call of a function."""
    return BASES[function](rt)


def has_control(rt: Executor, function: str) -> bool:
    """Whether the valid call can succeed on this machine."""
    if function not in NEED_ACCELERATOR:
        return True
    return any(rt.device_count(kind) for kind in (2, 12))
