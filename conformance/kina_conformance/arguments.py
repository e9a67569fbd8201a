"""Turns what a test writes into what a prototype takes, and knows which bytes each argument reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kina.header import Parameter

from .memory import Buffer, Handle, Params, Tensor, fields_shown

if TYPE_CHECKING:
    from .executor import Executor

HANDLES = {"KinaStream", "KinaScope", "KinaResource", "KinaWeak", "KinaPeer"}
OMITTED: Any = object()


def is_out(parameter: Parameter) -> bool:
    """Whether the library writes through this pointer only to answer."""
    kind = parameter.type
    if kind == "KinaTensor *":
        return parameter.name == "out"
    return (
        parameter.is_pointer
        and not kind.startswith("const ")
        and kind not in {"void *", "DLManagedTensor *", "DLManagedTensorVersioned *"}
    )


@dataclass
class Argument:
    """One argument ready for the call: `reached` lists (what, address, bytes) that it points to."""

    parameter: Parameter
    given: Any
    cdata: Any
    keep: list[Any] = field(default_factory=list)
    reached: list[tuple[str, int, int]] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    @property
    def out(self) -> bool:
        return is_out(self.parameter)

    def __repr__(self) -> str:
        if self.out and not isinstance(self.given, Tensor) and self.given is not None:
            return f"{self.parameter.name}=&out"
        given = fields_shown(self.given) if isinstance(self.given, dict) else repr(self.given)
        return f"{self.parameter.name}={given}"


def converted(rt: Executor, parameter: Parameter, given: Any, poison: int) -> Argument:
    """The argument for one parameter; a callable is a factory, called anew for each run."""
    if callable(given) and not isinstance(given, rt.ffi.CData):
        given = given()
    kind = parameter.type
    if is_out(parameter) and given is OMITTED:
        return _fresh_out(rt, parameter, poison)
    if given is OMITTED:
        raise TypeError(f"no value for {parameter.name}")
    argument = Argument(parameter, given, given)
    if given is None:
        argument.cdata = rt.ffi.NULL
    elif isinstance(given, Tensor):
        _add_tensor(rt, argument, given)
    elif isinstance(given, Handle):
        argument.cdata = given.cdata
    elif isinstance(given, Params):
        _add_params(rt, argument, given)
    else:
        _CONVERSIONS.get(kind, _plain)(rt, argument)
    return argument


def _fresh_out(rt: Executor, parameter: Parameter, poison: int) -> Argument:
    if parameter.type == "KinaTensor *":
        empty = rt.empty()
        argument = Argument(parameter, empty, empty.struct)
        _add_tensor(rt, argument, empty)
        return argument
    item = rt.ffi.typeof(parameter.type).item
    size = rt.ffi.sizeof(item)
    buffer = Buffer(size, poison)
    cdata = rt.ffi.cast(rt.ffi.typeof(parameter.type), buffer.address)
    if item.kind == "struct" and item.fields and item.fields[0][0] == "struct_size":
        cdata.struct_size = size
    argument = Argument(parameter, cdata, cdata, [buffer], [(parameter.name, buffer.address, size)], [buffer])
    return argument


def _address(rt: Executor, pointer: Any) -> int:
    return int(rt.ffi.cast("uintptr_t", pointer))


def _add_tensor(rt: Executor, argument: Argument, tensor: Tensor) -> None:
    argument.tensors.append(tensor)
    argument.keep.append(tensor)
    if argument.parameter.type == "const DLTensor *":
        argument.cdata = rt.ffi.addressof(tensor.struct, "dl")
    else:
        argument.cdata = tensor.struct
    argument.reached.append((f"the struct of {argument.parameter.name}", _address(rt, tensor.struct), 96))
    if tensor.buffer is not None:
        argument.buffers.append(tensor.buffer)


def _add_params(rt: Executor, argument: Argument, params: Params) -> None:
    argument.cdata = params.cdata
    argument.keep.append(params)
    argument.buffers.append(params.buffer)
    argument.reached.append((argument.parameter.name, params.buffer.address, params.size))
    for tensor in params.tensors():
        argument.tensors.append(tensor)
        if tensor.buffer is not None:
            argument.buffers.append(tensor.buffer)


def _integers(rt: Executor, argument: Argument) -> None:
    """A tuple for `const int64_t *` or `const int32_t *`, in guarded memory."""
    if not isinstance(argument.given, Sequence | np.ndarray):
        return
    item = rt.ffi.typeof(argument.parameter.type).item
    array = np.array(argument.given, np.int64 if rt.ffi.sizeof(item) == 8 else np.int32)
    buffer = Buffer(array.nbytes, alignment=64)
    buffer.data[:] = array.view(np.uint8)
    argument.buffers.append(buffer)
    argument.cdata = rt.ffi.cast(rt.ffi.typeof(argument.parameter.type), buffer.address)
    argument.reached.append((argument.parameter.name, buffer.address, array.nbytes))


def _tensors(rt: Executor, argument: Argument) -> None:
    """A list of tensors for `const KinaTensor *const *`."""
    if not isinstance(argument.given, Sequence):
        return
    argument.cdata = rt.ffi.new(
        "const KinaTensor *[]", [rt.ffi.NULL if t is None else t.struct for t in argument.given]
    )
    argument.keep.append(argument.cdata)
    for tensor in filter(None, argument.given):
        inner = Argument(argument.parameter, tensor, None)
        _add_tensor(rt, inner, tensor)
        argument.tensors += inner.tensors
        argument.reached += inner.reached
        argument.buffers += inner.buffers


def _text(rt: Executor, argument: Argument) -> None:
    if isinstance(argument.given, str | bytes):
        data = argument.given.encode() if isinstance(argument.given, str) else argument.given
        argument.cdata = rt.ffi.new("char[]", data)
        argument.keep.append(argument.cdata)


def _bytes(rt: Executor, argument: Argument) -> None:
    given = argument.given
    if isinstance(given, np.generic | np.ndarray):
        given = given.tobytes()
    if isinstance(given, bytes):
        buffer = Buffer(len(given))
        buffer.data[:] = np.frombuffer(given, np.uint8)
        argument.buffers.append(buffer)
        argument.cdata = rt.ffi.cast("const void *", buffer.address)
        argument.reached.append((argument.parameter.name, buffer.address, len(given)))
    elif isinstance(given, int):
        argument.cdata = rt.ffi.cast("void *", given)


def _plain(rt: Executor, argument: Argument) -> None:
    """Numbers, names of enumerators, dtypes by name, handles as integers, dicts for option structs, cdata as it is."""
    given, kind = argument.given, argument.parameter.type
    if isinstance(given, rt.ffi.CData):
        return
    if isinstance(given, dict):
        given = dict(given)
        _add_params(rt, argument, Params(rt, kind.removeprefix("const ").removesuffix(" *"), **given))
    elif isinstance(given, str) and kind == "KinaDtype":
        argument.cdata = rt.lib.constants[f"KINA_DTYPE_{given.upper()}"]
    elif isinstance(given, str) and kind == "KinaStatus":
        argument.cdata = rt.lib.status(given)
    elif isinstance(given, str):
        argument.cdata = rt.lib.constants[given]
    elif kind in HANDLES or "*" in kind:
        argument.cdata = rt.ffi.cast(rt.ffi.typeof(kind), int(given))


_CONVERSIONS: dict[str, Callable[[Executor, Argument], None]] = {
    "const int64_t *": _integers,
    "const int32_t *": _integers,
    "const KinaTensor * const *": _tensors,
    "const char *": _text,
    "const void *": _bytes,
    "void *": _bytes,
}
