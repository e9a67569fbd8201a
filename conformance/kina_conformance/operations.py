"""What every operation refuses alike: a valid call of each, and the one change that breaks it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .compare import dtypes_of
from .contract import contract
from .dtypes import DTYPES, Array, encode
from .executor import Call, Executor
from .memory import Tensor


def rows(function: str) -> list[dict[str, Any]]:
    """The rows of the operations table for one function."""
    return [row for row in contract().tables["ops"]["op"] if row["function"] == function]


def other_dtypes(op: str) -> list[str]:
    """The dtypes of the contract that an op does not take."""
    return [dtype for dtype in DTYPES if dtype not in dtypes_of(op)]


def stored(rt: Executor, dtype: str, elements: Array, **layout: Any) -> Tensor:
    """A tensor with these elements, as they are stored."""
    tensor = rt.tensor(dtype, elements.shape, 0, **layout)
    raw = tensor.raw()
    raw[...] = elements
    return tensor


def valued(rt: Executor, dtype: str, values: Any, **layout: Any) -> Tensor:
    """A tensor with these values, each rounded to the dtype."""
    return stored(rt, dtype, encode(values, dtype), **layout)


def ended(rt: Executor, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """The struct of a tensor that was freed; its bytes are gone, so it names none."""
    tensor = rt.tensor(dtype, shape, owned=True)
    stale = tensor.copy()
    rt.call("runtime_free", tensor=tensor).succeeds()
    stale.struct.dl.data, stale.struct.size_bytes = rt.ffi.NULL, 0
    return stale


@contextlib.contextmanager
def failed(rt: Executor, tensor: Tensor) -> Iterator[None]:
    """Within it the tensor's bytes carry a failure."""
    rt.call("runtime_failure_set", tensor=tensor, cause=0, status="DEVICE", message="planned").succeeds()
    try:
        yield
    finally:
        rt.call("runtime_failure_clear", tensor=tensor).succeeds()


@dataclass(frozen=True)
class Operation:
    """A valid call: its tensor inputs, its other arguments, and what it gives for them.

    All inputs have `dtype` and `shape`, but those named in `dtypes` and `shapes`. A `listed` input is one entry of a list.
    """

    function: str
    inputs: tuple[str, ...]
    arguments: Mapping[str, Any]
    dtype: str = "f32"
    shape: tuple[int, ...] = (3, 4)
    result_dtype: str = "f32"
    result_shape: tuple[int, ...] = (3, 4)
    in_place: bool = False
    gives_view: bool = False
    listed: bool = False
    dtypes: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def dtype_of(self, name: str) -> str:
        return self.result_dtype if name == "out" else self.dtypes.get(name, self.dtype)

    def shape_of(self, name: str) -> tuple[int, ...]:
        return self.result_shape if name == "out" else self.shapes.get(name, self.shape)

    def tensor(self, rt: Executor, name: str, **layout: Any) -> Tensor:
        return rt.tensor(self.dtype_of(name), self.shape_of(name), **layout)

    def given(self, name: str, tensor: Tensor) -> dict[str, Any]:
        """The argument `name` with this tensor in it."""
        return {name: [tensor] if self.listed and name != "out" else tensor}

    def operands(self, rt: Executor, owned: bool = False) -> dict[str, Tensor]:
        return {name: self.tensor(rt, name, owned=owned) for name in self.inputs}

    def call(self, rt: Executor, owned: bool = False, **changes: Any) -> Call:
        operands: dict[str, Any] = {}
        for name, tensor in self.operands(rt, owned).items():
            operands |= self.given(name, tensor)
        return rt.call(self.function, **{**operands, **self.arguments, **changes})

    def out(self, rt: Executor, **layout: Any) -> Tensor:
        return rt.out(self.result_dtype, self.result_shape, **layout)

    # ---- refusals --------------------------------------------------------------------------------------------------

    def refuses_null(self, rt: Executor) -> None:
        call = self.call(rt)
        for name in (*self.inputs, "out"):
            call.refuses("INVALID_ARGUMENT", clause="KINA-STATUS-23", argument=name.rstrip("_"), **{name: None})

    def refuses_empty_inputs(self, rt: Executor) -> None:
        call = self.call(rt)
        for name in self.inputs:
            call.refuses("INVALID_ARGUMENT", clause="KINA-TENSOR-2", **self.given(name, rt.empty()))
        empty = rt.empty()
        changes: dict[str, Any] = {"out": empty}
        for name in self.inputs:
            changes |= self.given(name, empty)
        call.refuses("INVALID_ARGUMENT", clause="KINA-TENSOR-2", as_one="one empty struct as out and input", **changes)

    def refuses_strangers(self, rt: Executor) -> None:
        """Wrong magic, and a handle that is not live."""
        call = self.call(rt, out=self.out(rt, owned=True))
        for name in (*self.inputs, "out"):
            broken = self.tensor(rt, name)
            broken.struct.magic ^= 1
            call.refuses("INVALID_HANDLE", clause="KINA-TENSOR-3", **self.given(name, broken))
            stale = ended(rt, self.dtype_of(name), self.shape_of(name))
            call.refuses("INVALID_HANDLE", clause="KINA-TENSOR-4", **self.given(name, stale))

    def refuses_bad_borrowed(self, rt: Executor) -> None:
        """Structs on the caller's memory that cannot be."""
        call = self.call(rt)
        for name in self.inputs:
            outside = self.tensor(rt, name)
            outside.struct.size_bytes -= 1
            call.refuses("INVALID_SHAPE", clause="KINA-TENSOR-21", **self.given(name, outside))
            negative = self.tensor(rt, name)
            negative.struct.dl.shape[0] = -1
            call.refuses("INVALID_SHAPE", clause="KINA-TENSOR-15", control=True, **self.given(name, negative))
            negative.struct.dl.shape[0] = self.shape_of(name)[0]
            unknown = self.tensor(rt, name)
            unknown.struct.dl.dtype.lanes = 2
            call.refuses("UNSUPPORTED", clause="KINA-TENSOR-17", **self.given(name, unknown))
            unknown.struct.dl.dtype.lanes = 1

    def refuses_wrong_out(self, rt: Executor) -> None:
        """Shape and dtype must be those of the result."""
        call = self.call(rt, out=self.out(rt))
        for shape in ((*self.result_shape, 1), tuple(n + 1 for n in self.result_shape) or (1,)):
            call.refuses("INVALID_SHAPE", argument="out", out=rt.out(self.result_dtype, shape))
        other = "f64" if self.result_dtype != "f64" else "f32"
        call.refuses("INVALID_DTYPE", argument="out", out=rt.out(other, self.result_shape))

    def refuses_read_only(self, rt: Executor) -> None:
        call = self.call(rt, out=self.out(rt))
        call.refuses("READ_ONLY", clause="KINA-TENSOR-14", argument="out", out=self.out(rt, read_only=True))

    def refuses_overlap(self, rt: Executor) -> None:
        """Borrowed and owned bytes alike: one element, all but one, and a whole input where that is not legal."""
        whole = 4096
        for owned in (False, True):
            result = rt.tensor(self.result_dtype, (whole,), owned=owned)
            for name in self.inputs:
                base = rt.tensor(self.dtype_of(name), (whole,), owned=owned)
                given = _part(rt, base, self.shape_of(name), 64)
                call = self.call(rt, out=_part(rt, result, self.result_shape, 64), **self.given(name, given))
                if self.result_dtype != self.dtype_of(name):
                    continue
                for offset in (63, 65):
                    shifted = _part(rt, base, self.result_shape, offset)
                    call.refuses("OVERLAP", argument="out", out=shifted)
                if not self.in_place and self.result_shape == self.shape_of(name):
                    call.refuses("OVERLAP", argument="out", out=given)

    def refuses_failed_inputs(self, rt: Executor) -> None:
        operands = self.operands(rt, owned=True)
        arguments: dict[str, Any] = {}
        for name, tensor in operands.items():
            arguments |= self.given(name, tensor)
        outs = [] if self.gives_view else [rt.empty()]
        for out in (*outs, self.out(rt, owned=True)):
            was_empty = out.is_empty
            call = self.call(rt, **arguments, **({} if was_empty else {"out": out}))
            for tensor in operands.values():
                call.refuses("FAILED_INPUT", clause="KINA-TENSOR-32", within=lambda t=tensor: failed(rt, t))
                if not was_empty:
                    rt.call("runtime_failure_clear", tensor=out).succeeds()

    def refuses_without_memory(self, rt: Executor) -> None:
        self.call(rt).refuses("OUT_OF_MEMORY", clause="KINA-STATUS-44", within=rt.limited)


def _part(rt: Executor, base: Tensor, shape: tuple[int, ...], offset: int) -> Tensor:
    """Compact elements of a flat tensor from one of its elements on."""
    made: Tensor = (
        rt.call("runtime_view", base, shape=shape, strides=None, ndim=len(shape), offset_elements=offset, flags=0)
        .succeeds()
        .out
    )
    made.keep.append(base)
    return made
