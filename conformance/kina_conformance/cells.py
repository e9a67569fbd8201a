"""Violations that follow from types and tags alone: function × parameter × kind, and the status that each must give."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kina.header import Parameter

from .arguments import HANDLES
from .bases import BASES, base, has_control, matrix
from .contract import Function, contract
from .dtypes import dtype_of
from .executor import OPERATIONS, Call, Executor
from .memory import Params, Tensor

MAKERS = {
    *("runtime_alloc", "runtime_view", "runtime_alias", "runtime_wrap", "runtime_weak_upgrade", "runtime_peer_open"),
    *("runtime_from_dlpack", "runtime_from_dlpack_legacy"),
}


@dataclass(frozen=True)
class Cell:
    """One thing to break in one function."""

    function: str
    parameter: str
    kind: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, [self.function.removeprefix("runtime_"), self.parameter, self.kind]))


def functions() -> list[Function]:
    """Functions that have a valid call and tags, in the order of the header."""
    return [f for f in contract().functions.values() if f.name in BASES and f.tags is not None]


def parameters(choose: Callable[[Function, Parameter], bool], kinds: Iterable[str] = ("",)) -> list[Any]:
    """A cell for each chosen parameter and kind; those of features that a build may lack are marked."""
    found = []
    for function in functions():
        marks = [pytest.mark.needs(function.feature)] if function.feature != "core" else []
        for parameter in function.parameters:
            if choose(function, parameter):
                cells = [Cell(function.name, parameter.name, kind) for kind in kinds]
                found += [pytest.param(cell, marks=marks, id=str(cell)) for cell in cells]
    return found


def nullable(function: Function, parameter: Parameter) -> bool:
    """Whether the tag allows NULL without a condition."""
    assert function.tags is not None
    return parameter.name in function.tags.null and function.tags.null[parameter.name] is None


def declares(function: Function, status: str) -> bool:
    return function.tags is not None and status in function.tags.errors


def is_handle(parameter: Parameter) -> bool:
    return parameter.type in HANDLES


def is_input(parameter: Parameter) -> bool:
    """A tensor that is read."""
    return parameter.type == "const KinaTensor *" or (parameter.type == "KinaTensor *" and parameter.name != "out")


def is_operation(function: Function) -> bool:
    return function.chapter in OPERATIONS and any(p.name == "out" for p in function.parameters)


def refuse(rt: Executor, cell: Cell, status: str, value: Any, clause: str | Sequence[str] | None, **more: Any) -> None:
    """The valid call with the cell's parameter changed to `value` is refused, for that clause or its own chapter's."""
    call = base(rt, cell.function)
    changed = value(rt, call) if callable(value) and not isinstance(value, rt.ffi.CData) else value
    if clause is not None:
        clause = [*([clause] if isinstance(clause, str) else clause), *own_clauses(call.function, status)]
    call.refuses(status, clause=clause, control=has_control(rt, cell.function), **{cell.parameter: changed}, **more)


def agreeing(function: Function, what: str) -> list[str]:
    """The inputs of an operation that must agree in `dtype` or `device`: to change one alone is a second fault."""
    names = [p.name for p in function.parameters if p.type == "const KinaTensor *"]
    return [name for name in names if what == "device" or name != "indices"] if is_operation(function) else []


def alone_or_first(what: str) -> Callable[[Function, Parameter], bool]:
    """Inputs that agree with no other, and the first of those that do."""

    def choose(function: Function, parameter: Parameter) -> bool:
        group = agreeing(function, what)
        indices = what == "dtype" and parameter.name == "indices"
        free = parameter.name not in group and not indices
        return is_input(parameter) and function.name != "runtime_free" and (free or parameter.name == group[0])

    return choose


def refuse_together(
    rt: Executor, cell: Cell, what: str, made: Callable[[Executor, Call, str], Tensor], status: str, clause: str
) -> None:
    """As `refuse`, with every input changed that must agree with the cell's."""
    call = base(rt, cell.function)
    group = agreeing(call.function, what)
    names = group if cell.parameter in group else [cell.parameter]
    changes = {name: made(rt, call, name) for name in names}
    clauses = [clause, *own_clauses(call.function, status)]
    call.refuses(status, clause=clauses, control=has_control(rt, cell.function), as_one=f"one {what}", **changes)


def own_clauses(function: Function, status: str) -> list[str]:
    """Clauses of the function's own chapter for a status: they say more than the general one."""
    rows = function.tags.errors if function.tags else {}
    return [c for c in rows[status].clauses if f"-{function.chapter.upper()}-" in c] if status in rows else []


def given_tensor(rt: Executor, call: Call, parameter: str) -> Tensor:
    """The tensor that the valid call has there."""
    value = call.given[parameter]
    tensor = value() if callable(value) else value
    return tensor if isinstance(tensor, Tensor) else matrix(rt)


# ---- tensors that are wrong in one way -------------------------------------------------------------------


def wrong_magic(rt: Executor, call: Call, parameter: str) -> Tensor:
    tensor = given_tensor(rt, call, parameter).copy()
    tensor.struct.magic ^= 1
    return tensor


def zero_magic(rt: Executor, call: Call, parameter: str) -> Tensor:
    tensor = given_tensor(rt, call, parameter).copy()
    tensor.struct.magic = 0
    return tensor


def stale(rt: Executor, call: Call, parameter: str) -> Tensor:
    """A copy of a struct whose tensor has been freed; its memory is not read."""
    live = given_tensor(rt, call, parameter)
    twin = rt.tensor(live.dtype, live.shape, owned=True)
    copy = twin.copy()
    copy.keep = []
    rt.call("runtime_free", twin).succeeds()
    copy.struct.dl.shape = rt.ffi.NULL
    copy.struct.dl.strides = rt.ffi.NULL
    copy.struct.dl.ndim = 0
    copy.struct.dl.data = rt.ffi.NULL
    copy.struct.size_bytes = 0
    return copy


def borrowed(rt: Executor, call: Call, parameter: str) -> Tensor:
    """The same tensor on memory of the suite."""
    live = given_tensor(rt, call, parameter)
    return rt.tensor(live.dtype, live.shape, live.numpy())


def bent(change: Callable[[Executor, Tensor], None]) -> Callable[[Executor, Call, str], Tensor]:
    """A borrowed tensor with one field changed."""

    def made(rt: Executor, call: Call, parameter: str) -> Tensor:
        tensor = borrowed(rt, call, parameter)
        change(rt, tensor)
        return tensor

    return made


def _set(path: str, value: Any) -> Callable[[Executor, Tensor], None]:
    def change(rt: Executor, tensor: Tensor) -> None:
        target = tensor.struct
        *parents, name = path.split(".")
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, name, rt.ffi.NULL if value is None else value)

    return change


def _flag(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.flags |= rt.lib.KINA_FLAG_VIEW


def _allocator(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.allocator = rt.ffi.cast("KinaResource", 64)


def _short(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.size_bytes -= 1


def _offset(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.dl.byte_offset += dtype_of(tensor.dtype).bytes


def _misaligned(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.dl.byte_offset += 1
    tensor.struct.size_bytes += 8


def _far_stride(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.dl.strides[0] = 2**40


def _huge(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.dl.shape[0] = 2**62


def _negative(rt: Executor, tensor: Tensor) -> None:
    tensor.struct.dl.shape[0] = -1


BAD_STRUCTS: dict[str, Callable[[Executor, Call, str], Tensor]] = {"magic": wrong_magic, "zero_magic": zero_magic}
BAD_FLAGS = {"flag": bent(_flag), "allocator": bent(_allocator), "reserved": bent(_set("reserved", 1))}
BEYOND = {"short": bent(_short), "offset": bent(_offset), "stride": bent(_far_stride)}
BAD_SHAPES = {
    "rank_33": bent(_set("dl.ndim", 33)),
    "rank_below_0": bent(_set("dl.ndim", -1)),
    "extent_below_0": bent(_negative),
}
OVERFLOWS = {"count": bent(_huge)}
NULL_SHAPE = bent(_set("dl.shape", None))
NULL_DATA = bent(_set("dl.data", None))
MISALIGNED = bent(_misaligned)
BAD_DTYPES = {
    "code": bent(_set("dl.dtype.code", 3)),
    "bits": bent(_set("dl.dtype.bits", 7)),
    "lanes": bent(_set("dl.dtype.lanes", 4)),
}
NO_DEVICE = {"opencl": bent(_set("dl.device.device_type", 4)), "unknown": bent(_set("dl.device.device_type", 77))}


# ---- outs that are wrong in one way ----------------------------------------------------------------------


def result_of(rt: Executor, call: Call) -> tuple[str, tuple[int, ...]]:
    """Dtype and shape of what the valid call gives."""
    out = call.succeeds().out
    return out.dtype, out.shape


def into_out(rt: Executor, call: Call) -> Call:
    """The valid call with an out to write into: structural operations then copy."""
    out = call.succeeds().out
    given = out if out.device != (1, 0) else rt.out(out.dtype, out.shape)
    return Call(rt, call.function, {**call.given, "out": given})


def other_shape(rt: Executor, call: Call) -> Tensor:
    dtype, shape = result_of(rt, call)
    return rt.out(dtype, (*shape[:-1], shape[-1] + 1) if shape else (1,))


def other_rank(rt: Executor, call: Call) -> Tensor:
    dtype, shape = result_of(rt, call)
    return rt.out(dtype, (1, *shape))


def other_dtype(rt: Executor, call: Call) -> Tensor:
    dtype, shape = result_of(rt, call)
    return rt.out("i16" if dtype != "i16" else "i32", shape)


def read_only_out(rt: Executor, call: Call) -> Tensor:
    dtype, shape = result_of(rt, call)
    out = rt.out(dtype, shape)
    out.struct.flags |= rt.lib.KINA_FLAG_READ_ONLY
    return out


def overlapping_out(rt: Executor, call: Call) -> Tensor:
    """A borrowed out that begins one element behind element 0 of the first input."""
    dtype, shape = result_of(rt, call)
    value = next(v for k, v in call.given.items() if k in {"in", "a", "values", "inputs"})
    source = value[0] if isinstance(value, list) else value
    out = rt.tensor(dtype, shape)
    item = out.size_bytes // max(1, out.elements)
    out.struct.dl.data = rt.ffi.cast("void *", source.address + max(item, 4))
    out.buffer = None
    out.watched = False
    out.keep.append(source)
    return out


OTHER_SHAPES = {"extent": other_shape, "rank": other_rank}


# ---- structs that grow -----------------------------------------------------------------------------------


def struct_of(parameter: Parameter) -> str | None:
    """The name of an option or output struct that begins with struct_size."""
    name = parameter.type.removeprefix("const ").removesuffix(" *")
    names = ("Params", "Vtable", "ErrorInfo", "FailureInfo", "DeviceInfo", "ResourceInfo")
    return name if name.startswith("Kina") and name.endswith(names) else None


def sized(rt: Executor, call: Call, parameter: Parameter, struct_size: int, tail: bytes = b"") -> Params:
    """The struct of the valid call with another struct_size."""
    given = call.given.get(parameter.name)
    fields = dict(given) if isinstance(given, dict) else {}
    name = struct_of(parameter)
    assert name is not None
    return rt.params(
        name,
        size=max(struct_size, 64) if struct_size <= 8192 else None,
        tail=tail,
        **fields | {"struct_size": struct_size},
    )


STRUCT_SIZES: dict[str, Callable[[int], int]] = {
    "zero": lambda _known: 0,
    "smaller": lambda known: known - 8,
    "odd": lambda known: known + 4,
    "above_the_limit": lambda _known: 4104,
    "huge": lambda _known: 2**32 - 8,
}


@contextlib.contextmanager
def failed(rt: Executor, call: Call) -> Iterator[None]:
    """Within it the first byte range under an input's elements carries a failure."""
    names = [k for k, v in call.given.items() if k in {"in", "a", "values", "inputs", "tensor"}]
    value = call.given[names[0]]
    tensor = value[0] if isinstance(value, list) else value
    cause = rt.call("runtime_failure_set", tensor=tensor, cause=0, status="DEVICE", message="set by a test")
    cause.succeeds()
    try:
        yield
    finally:
        rt.call("runtime_failure_clear", tensor=tensor).succeeds()
