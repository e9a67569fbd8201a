"""A valid call for every function that takes tensors, and tensors that are wrong in exactly one way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .executor import Call, Executor
from .memory import Buffer, Tensor

_Make = Callable[[Executor], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One function with arguments that are valid on the host; `shape` is what an operation's f32 result has."""

    function: str
    make: _Make
    shape: tuple[int, ...] = ()
    in_place: bool = False
    structural: bool = False

    def call(self, rt: Executor, **more: Any) -> Call:
        return rt.call(self.function, **{**self.make(rt), **more})

    def out(self, rt: Executor, **layout: Any) -> Tensor:
        """A poisoned tensor that fits the result."""
        return rt.out("f32", self.shape, **layout)

    def __str__(self) -> str:
        return self.function.removeprefix("runtime_")


def _x(rt: Executor, shape: tuple[int, ...] = (2, 3)) -> Tensor:
    return rt.tensor("f32", shape, owned=True)


def _positions(rt: Executor) -> Tensor:
    return rt.tensor("i64", (2,), [1, 0], owned=True)


# Results are f32, and so is the first input, so that the two can share memory.
OPERATIONS = [
    Case("runtime_copy_to_host", lambda rt: {"in_": _x(rt)}, (2, 3)),
    Case("runtime_copy", lambda rt: {"in_": _x(rt), "device_type": 1, "device_id": 0}, (2, 3)),
    Case("runtime_gpu_unary", lambda rt: {"in_": _x(rt), "op": "KINA_UNARY_NEG"}, (2, 3), in_place=True),
    Case("runtime_gpu_binary", lambda rt: {"a": _x(rt), "b": _x(rt), "op": "KINA_BINARY_ADD"}, (2, 3), in_place=True),
    Case("runtime_gpu_cast", lambda rt: {"in_": _x(rt), "target": "f32"}, (2, 3), in_place=True),
    Case("runtime_gpu_reduce", lambda rt: {"in_": _x(rt), "axis": 1, "op": "KINA_REDUCE_SUM"}, (2,)),
    Case("runtime_gpu_softmax", lambda rt: {"in_": _x(rt), "axis": 1}, (2, 3)),
    Case("runtime_gpu_log_softmax", lambda rt: {"in_": _x(rt), "axis": 1}, (2, 3)),
    Case("runtime_gpu_matmul", lambda rt: {"a": _x(rt), "b": _x(rt, (3, 4)), "params": None}, (2, 4)),
    Case("runtime_gpu_gather", lambda rt: {"values": _x(rt), "indices": _positions(rt)}, (2, 3)),
    Case("runtime_gpu_gather_axis", lambda rt: {"values": _x(rt), "indices": _positions(rt), "axis": 1}, (2, 2)),
    Case("runtime_gpu_repeat_interleave", lambda rt: {"in_": _x(rt), "axis": 0, "repeats": 2}, (4, 3)),
    Case("runtime_gpu_transpose", lambda rt: {"in_": _x(rt), "permutation": (1, 0)}, (3, 2), structural=True),
    Case(
        "runtime_gpu_reshape", lambda rt: {"in_": _x(rt), "new_shape": (3, 2), "new_ndim": 2}, (3, 2), structural=True
    ),
    Case(
        "runtime_gpu_broadcast",
        lambda rt: {"in_": _x(rt), "target_shape": (2, 2, 3), "target_ndim": 3},
        (2, 2, 3),
        structural=True,
    ),
    Case("runtime_gpu_slice", lambda rt: {"in_": _x(rt), "axis": 1, "start": 1, "stop": 3}, (2, 2), structural=True),
    Case("runtime_gpu_concat", lambda rt: {"a": _x(rt), "b": _x(rt), "axis": 0}, (4, 3)),
]

# Calls that take a tensor and produce no result of an operation.
QUERIES = [
    Case("runtime_view", lambda rt: {"in_": _x(rt), **geometry((3,))}),
    Case("runtime_alias", lambda rt: {"in_": _x(rt)}),
    Case("runtime_tensor_synchronize", lambda rt: {"tensor": _x(rt)}),
    Case("runtime_tensor_record_use", lambda rt: {"tensor": _x(rt), "stream": None, "access": "KINA_ACCESS_READ"}),
    Case("runtime_overlap", lambda rt: {"a": _x(rt), "b": _x(rt)}),
    Case("runtime_is_exclusive", lambda rt: {"tensor": _x(rt)}),
    Case("runtime_byte_range", lambda rt: {"tensor": _x(rt)}),
    Case("runtime_failure_set", lambda rt: {"tensor": _x(rt), "cause": 0, "status": "DEVICE", "message": "broken"}),
    Case("runtime_failure_get", lambda rt: {"tensor": _x(rt)}),
    Case("runtime_failure_clear", lambda rt: {"tensor": _x(rt)}),
    Case("runtime_weak_create", lambda rt: {"tensor": _x(rt)}),
    Case("runtime_peer_share", lambda rt: {"tensor": _x(rt)}),
    Case("runtime_fill", lambda rt: {"tensor": _x(rt), "value": b"\0\0\0\0", "value_bytes": 4}),
]

CASES = {case.function: case for case in OPERATIONS + QUERIES}


def inputs_of(case: Case, rt: Executor) -> list[str]:
    """The names of the tensors that the call reads, in the order of the parameters."""
    return [p.name for p in rt.contract.functions[case.function].parameters if p.type == "const KinaTensor *"]


def geometry(shape: tuple[int, ...], strides: tuple[int, ...] | None = None, offset: int = 0) -> dict[str, Any]:
    """The arguments of `runtime_view` behind `in`."""
    return {"shape": shape, "strides": strides, "ndim": len(shape), "offset_elements": offset, "flags": 0}


@dataclass(frozen=True)
class Flaw:
    """One way to be no valid tensor: what it answers and under which clause."""

    name: str
    status: str
    clause: str
    spoil: Callable[[Executor, Tensor], None]

    def on(self, rt: Executor) -> Tensor:
        """A borrowed tensor with this flaw."""
        tensor = rt.tensor("f32", (2, 3), tail=8)
        self.spoil(rt, tensor)
        return tensor

    def __str__(self) -> str:
        return self.name


def _all_zero(rt: Executor, tensor: Tensor) -> None:
    rt.ffi.memmove(tensor.struct, bytes(96), 96)
    tensor.buffer = None


def _dirty(rt: Executor, tensor: Tensor) -> None:
    _all_zero(rt, tensor)
    tensor.struct.size_bytes = 1


def _stale(rt: Executor, tensor: Tensor) -> None:
    """The struct of a tensor that was freed; its address is taken out, nobody may look there any more."""
    owned = rt.alloc("f32", (2, 3))
    rt.ffi.memmove(tensor.struct, owned.struct, 96)
    rt.call("runtime_free", tensor=owned).succeeds()
    tensor.struct.dl.ndim = 0
    tensor.struct.dl.data = rt.ffi.NULL
    tensor.struct.size_bytes = 0
    tensor.buffer = None


def _forged(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.handle = 0x1234_5678_9ABC_DEF0


def _other_kind(rt: Executor, tensor: Tensor) -> None:
    main = rt.call("runtime_stream_main", 1, 0).succeeds().out
    tensor.struct.handle = main.value


def _ranks(count: int) -> Callable[[Executor, Tensor], None]:
    def spoil(rt: Executor, tensor: Tensor) -> None:
        arrays = [rt.ffi.new("int64_t[40]", [1] * 40) for _ in range(2)]
        tensor.keep += arrays
        tensor.struct.dl.shape, tensor.struct.dl.strides = arrays
        tensor.struct.dl.ndim = count

    return spoil


def _fields(path: str, value: Callable[[Executor], Any]) -> Callable[[Executor, Tensor], None]:
    def spoil(rt: Executor, tensor: Tensor) -> None:
        place = tensor.struct
        *way, last = path.split(".")
        for word in way:
            place = getattr(place, word)
        setattr(place, last, value(rt))

    return spoil


def _extents(*extents: int) -> Callable[[Executor, Tensor], None]:
    def spoil(rt: Executor, tensor: Tensor) -> None:
        for i, extent in enumerate(extents):
            tensor.struct.dl.shape[i] = extent

    return spoil


def _wild_stride(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.dl.strides[0] = (1 << 63) - 1


def _misaligned(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.dl.byte_offset += 1


def _below(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.dl.strides[0] = -3


FLAWS = [
    Flaw("empty", "INVALID_ARGUMENT", "KINA-TENSOR-2", _all_zero),
    Flaw("wrong magic", "INVALID_HANDLE", "KINA-TENSOR-3", _fields("magic", lambda rt: 0x4B494E41)),
    Flaw("magic 0 and a byte set", "INVALID_HANDLE", "KINA-TENSOR-3", _dirty),
    Flaw("freed", "INVALID_HANDLE", "KINA-TENSOR-4", _stale),
    Flaw("made-up handle", "INVALID_HANDLE", "KINA-TENSOR-4", _forged),
    Flaw("handle of a stream", "INVALID_HANDLE", "KINA-TENSOR-4", _other_kind),
    Flaw("no flag", "INVALID_HANDLE", "KINA-TENSOR-23", _fields("flags", lambda rt: 0)),
    Flaw("flags with VIEW", "INVALID_HANDLE", "KINA-TENSOR-23", _fields("flags", lambda rt: 0xA)),
    Flaw("flags with bit 31", "INVALID_HANDLE", "KINA-TENSOR-23", _fields("flags", lambda rt: 0x8000_0008)),
    Flaw(
        "an allocator",
        "INVALID_HANDLE",
        "KINA-TENSOR-23",
        _fields("allocator", lambda rt: rt.call("runtime_resource_host").succeeds().out.cdata),
    ),
    Flaw("reserved set", "INVALID_HANDLE", "KINA-TENSOR-23", _fields("reserved", lambda rt: 1)),
    Flaw("NULL shape", "INVALID_ARGUMENT", "KINA-TENSOR-19", _fields("dl.shape", lambda rt: rt.ffi.NULL)),
    Flaw("NULL data", "INVALID_ARGUMENT", "KINA-TENSOR-20", _fields("dl.data", lambda rt: rt.ffi.NULL)),
    Flaw("ends outside", "INVALID_SHAPE", "KINA-TENSOR-21", _fields("size_bytes", lambda rt: 23)),
    Flaw("begins outside", "INVALID_SHAPE", "KINA-TENSOR-21", _below),
    Flaw("offset outside", "INVALID_SHAPE", "KINA-TENSOR-21", _fields("dl.byte_offset", lambda rt: (1 << 64) - 4)),
    Flaw("not aligned", "INVALID_ARGUMENT", "KINA-TENSOR-22", _misaligned),
    Flaw("negative extent", "INVALID_SHAPE", "KINA-TENSOR-15", _extents(2, -3)),
    Flaw("rank 33", "INVALID_SHAPE", "KINA-TENSOR-15", _ranks(33)),
    Flaw("rank -1", "INVALID_SHAPE", "KINA-TENSOR-15", _ranks(-1)),
    Flaw("too many elements", "INVALID_SHAPE", "KINA-STATUS-25", _extents(1 << 40, 1 << 40)),
    Flaw("too many bytes", "INVALID_SHAPE", "KINA-STATUS-25", _extents(1 << 31, 1 << 31)),
    Flaw("span overflows", "INVALID_SHAPE", "KINA-STATUS-25", _wild_stride),
    Flaw("two lanes", "UNSUPPORTED", "KINA-TENSOR-17", _fields("dl.dtype.lanes", lambda rt: 2)),
    Flaw("four bits", "UNSUPPORTED", "KINA-TENSOR-17", _fields("dl.dtype.bits", lambda rt: 4)),
    Flaw("no such device type", "UNSUPPORTED", "KINA-STATUS-24", _fields("dl.device.device_type", lambda rt: 4)),
    Flaw("no such device", "INVALID_ARGUMENT", "KINA-STATUS-24", _fields("dl.device.device_id", lambda rt: 77)),
]


@contextlib.contextmanager
def failed(rt: Executor, tensor: Tensor, message: str = "made by the test") -> Iterator[int]:
    """Within it the bytes of an owned tensor are failed; gives the failure's id."""
    set_ = rt.call("runtime_failure_set", tensor=tensor, cause=0, status="DEVICE", message=message).succeeds()
    try:
        yield set_.failure
    finally:
        rt.call("runtime_failure_clear", tensor=tensor).succeeds()


class Blocks:
    """A custom resource of the suite: what it gave and got back, with the numbers of each block."""

    def __init__(self, rt: Executor) -> None:
        self.rt = rt
        self.live: dict[int, tuple[int, int, Buffer]] = {}
        self.given: list[tuple[int, int, int]] = []  # address, bytes, alignment
        self.returned: list[tuple[int, int, int]] = []
        self.destroyed = 0
        ffi = rt.ffi
        self._callbacks = (
            ffi.callback("KinaAllocateCallback", self._allocate),
            ffi.callback("KinaDeallocateCallback", self._deallocate),
            ffi.callback("KinaDestroyCallback", self._destroy),
        )
        allocate, deallocate, destroy = self._callbacks
        vtable = rt.params(
            "KinaResourceVtable", supports_streams=1, allocate=allocate, deallocate=deallocate, destroy=destroy
        )
        made = rt.call("runtime_resource_custom", device_type=1, device_id=0, vtable=vtable, context=None).succeeds()
        self.resource = made.out

    def _allocate(self, out: Any, context: Any, size: int, alignment: int, stream: Any) -> int:
        buffer = Buffer(size, alignment=max(alignment, 256))
        self.live[buffer.address] = (size, alignment, buffer)
        self.given.append((buffer.address, size, alignment))
        out[0] = self.rt.ffi.cast("void *", buffer.address)
        return 0

    def _deallocate(self, context: Any, data: Any, size: int, alignment: int, stream: Any) -> int:
        address = int(self.rt.ffi.cast("uintptr_t", data))
        self.returned.append((address, size, alignment))
        self.live.pop(address, None)
        return 0

    def _destroy(self, context: Any) -> None:
        self.destroyed += 1

    @contextlib.contextmanager
    def pushed(self) -> Iterator[None]:
        """Within it the host's allocations of this thread come from here."""
        scope = self.rt.call("runtime_resource_push", self.resource).succeeds().out
        self.borrowed = self.rt.call("runtime_resource_current", 1, 0).succeeds().out
        try:
            yield
        finally:
            self.rt.call("runtime_scope_pop", scope).succeeds()
