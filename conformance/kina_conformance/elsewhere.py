"""Operations once more on a simulated device: what succeeds on the host gives the same bits there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .arguments import OMITTED
from .dtypes import dtype_of
from .memory import Params, Tensor
from .record import Violation

if TYPE_CHECKING:
    from .call import Call, Result
    from .executor import Executor

CHAPTERS = {"elementwise", "reduction", "matmul", "indexing", "structure"}
MOST_ELEMENTS = 2**20  # of a result: broadcast views can be larger than any memory
HOST, SIMULATED = (1, 0), (12, 0)


class _Stays(Exception):
    """An operand that cannot be moved: the call is not made a second time."""


def is_movable(call: Call, given: dict[str, Any], result: Result) -> bool:
    """Whether the operands are still what they were and all of them lie on the host."""
    out, made = given.get("out", OMITTED), result.values.get("out")
    params = given.get("params")
    return (
        call.function.chapter in CHAPTERS
        and isinstance(made, Tensor)
        and made.device == HOST
        and made.elements <= MOST_ELEMENTS
        and (out is OMITTED or isinstance(out, Tensor))
        and not (isinstance(out, Tensor) and out.elements and any(_shares(out, value) for value in _inputs(given)))
        and not (isinstance(params, dict) and params.get("beta"))
    )


def require_the_same_bits(call: Call, given: dict[str, Any], result: Result) -> None:
    """Makes the call on copies of its operands that lie on the simulated device."""
    rt = call.rt
    mark = len(rt.live)
    try:
        moved = {name: _moved(rt, value) for name, value in given.items() if name != "out"}
        there = rt.call(call.function.name, **moved)
        out = there.once().out
        back = rt.call("runtime_copy_to_host", out).once().out
        if back.raw().tobytes() != result.out.raw().tobytes():
            raise Violation(f"{call.function.name} gives other bits on a simulated device", "KINA-DEVICE-24")
    except _Stays:
        pass
    finally:
        rt.release_since(mark)


def _inputs(given: dict[str, Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for name, value in given.items():
        values = value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]
        found += [item for item in values if name != "out" and isinstance(item, Tensor)]
    return found


def _shares(out: Tensor, other: Tensor) -> bool:
    return other.data < out.data + out.size_bytes and out.data < other.data + other.size_bytes


def _moved(rt: Executor, value: Any) -> Any:
    if isinstance(value, Tensor):
        return _tensor_there(rt, value)
    if isinstance(value, list):
        return [_moved(rt, item) for item in value]
    if isinstance(value, dict):
        return {name: _moved(rt, item) for name, item in value.items()}
    if isinstance(value, Params) or (callable(value) and not isinstance(value, rt.ffi.CData)):
        raise _Stays
    return value


def _tensor_there(rt: Executor, tensor: Tensor) -> Tensor:
    """The same elements in the same places of a storage of the device."""
    item = dtype_of(tensor.dtype).bytes
    if tensor.device != HOST or not rt.may_read(tensor):
        raise _Stays
    place = {"device_type": SIMULATED[0], "device_id": SIMULATED[1]}
    count = tensor.size_bytes // item
    if tensor.elements == 0 or count == 0:
        shape = tensor.shape
        made = rt.call("runtime_alloc", shape, ndim=len(shape), dtype=tensor.dtype, **place, stream=None).once().out
        return _own(made)
    whole = rt.tensor(tensor.dtype, (count,), 0)
    whole.raw()[...] = _storage_of(rt, tensor, count)
    base = rt.call("runtime_copy", whole, **place).once().out
    view = rt.call(
        "runtime_view",
        base,
        shape=tensor.shape,
        strides=tensor.strides,
        ndim=len(tensor.shape),
        offset_elements=int(tensor.struct.dl.byte_offset) // item,
        flags=0,
    ).once()
    view.out.keep.append(base)
    return _own(view.out)


def _own(tensor: Any) -> Tensor:
    assert isinstance(tensor, Tensor)
    return tensor


def _storage_of(rt: Executor, tensor: Tensor, count: int) -> Any:
    row = dtype_of(tensor.dtype)
    memory = rt.ffi.buffer(rt.ffi.cast("char *", tensor.data), count * row.bytes)
    return np.frombuffer(memory, row.storage, count)
