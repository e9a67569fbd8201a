"""What every operation refuses alike: a valid call of each, and the one change that breaks it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .compare import dtypes_of
from .contract import contract
from .dtypes import DTYPES, Array, encode
from .executor import Call, Executor
from .memory import Tensor

# Strides of a (3, 5) tensor: compact, transposed, reversed on one axis or both, padded; for inputs also repeated.
LAYOUTS = [(5, 1), (1, 3), (-5, -1), (5, -1), (-5, 1), (11, 2)]
REPEATED = [(0, 1), (1, 0), (0, 0)]


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

    All inputs have `dtype` and `shape`, but those named in `dtypes` and `shapes`. A `listed` input is one of a list.
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

    def argument(self, name: str, tensor: Tensor) -> dict[str, Any]:
        """The argument `name` with this tensor in it."""
        return {name: [tensor] if self.listed and name != "out" else tensor}

    def operands(self, rt: Executor, owned: bool = False) -> dict[str, Tensor]:
        return {name: self.tensor(rt, name, owned=owned) for name in self.inputs}

    def call(self, rt: Executor, **changes: Any) -> Call:
        given: dict[str, Any] = dict(self.arguments)
        for name, tensor in self.operands(rt).items():
            given |= self.argument(name, tensor)
        return rt.call(self.function, **{**given, **changes})

    def out(self, rt: Executor, **layout: Any) -> Tensor:
        return rt.out(self.result_dtype, self.result_shape, **layout)

    # ---- refusals --------------------------------------------------------------------------------------------------
    # Each takes the status that the caller's test stands for, so that the test says what it produces.

    def refuses_null(self, rt: Executor, status: str) -> None:
        call = self.call(rt)
        for name in (*self.inputs, "out"):
            changes: dict[str, Any] = {name: None}
            call.refuses(status, clause="KINA-STATUS-23", argument=name.rstrip("_"), **changes)

    def refuses_empty_inputs(self, rt: Executor, status: str) -> None:
        call = self.call(rt)
        empty = rt.empty()
        for name in self.inputs:
            call.refuses(status, clause="KINA-TENSOR-2", **self.argument(name, rt.empty()))
        changes: dict[str, Any] = {"out": empty}
        for name in self.inputs:
            changes |= self.argument(name, empty)
        call.refuses(status, clause="KINA-TENSOR-2", as_one="one empty struct as out and input", **changes)

    def refuses_strangers(self, rt: Executor, status: str) -> None:
        """Wrong magic, a handle that is not live, a borrowed struct with a flag that none has."""
        call = self.call(rt, out=self.out(rt, owned=True))
        for name in (*self.inputs, "out"):
            dtype, shape = self.dtype_of(name), self.shape_of(name)
            broken, flagged = rt.tensor(dtype, shape), rt.tensor(dtype, shape)
            broken.struct.magic ^= 1
            flagged.struct.flags |= rt.constant("KINA_FLAG_OWNED")
            cases = {"KINA-TENSOR-3": broken, "KINA-TENSOR-4": ended(rt, dtype, shape), "KINA-TENSOR-23": flagged}
            for clause, stranger in cases.items():
                call.refuses(status, clause=clause, **self.argument(name, stranger))

    def refuses_impossible_memory(self, rt: Executor, status: str) -> None:
        """Structs on the caller's memory with NULL shape, NULL data, data between elements, or on no device."""
        call = self.call(rt)
        for name in self.inputs:
            cases = {f"KINA-TENSOR-{n}": self.tensor(rt, name, tail=8) for n in (19, 20, 22)}
            cases["KINA-STATUS-24"] = self.tensor(rt, name)
            cases["KINA-TENSOR-19"].struct.dl.shape = rt.ffi.NULL
            cases["KINA-TENSOR-20"].struct.dl.data = rt.ffi.NULL
            cases["KINA-TENSOR-22"].struct.dl.byte_offset += 1
            cases["KINA-STATUS-24"].struct.dl.device.device_id = 7
            for clause, tensor in cases.items():
                bare = rt.ffi.new("KinaTensor *[]", [tensor.struct]) if self.listed else tensor.struct
                changes: dict[str, Any] = {name: bare}
                call.refuses(status, clause=clause, **changes)

    def refuses_impossible_shapes(self, rt: Executor, status: str) -> None:
        """Structs on the caller's memory that reach outside it or have extents below 0."""
        call = self.call(rt)
        for name in self.inputs:
            outside, negative = self.tensor(rt, name), self.tensor(rt, name)
            outside.struct.size_bytes -= 1
            negative.struct.dl.shape[0] = -1
            for clause, tensor in {"KINA-TENSOR-21": outside, "KINA-TENSOR-15": negative}.items():
                call.refuses(status, clause=clause, **self.argument(name, tensor))
            negative.struct.dl.shape[0] = self.shape_of(name)[0]

    def refuses_unknown_dtypes(self, rt: Executor, status: str) -> None:
        call = self.call(rt)
        for name in self.inputs:
            unknown = self.tensor(rt, name)
            unknown.struct.dl.dtype.lanes = 2
            call.refuses(status, clause="KINA-TENSOR-17", **self.argument(name, unknown))
            unknown.struct.dl.dtype.lanes = 1

    def refuses_shapes_of_out(self, rt: Executor, status: str) -> None:
        call = self.call(rt, out=self.out(rt))
        for shape in ((*self.result_shape, 1), tuple(n + 1 for n in self.result_shape) or (1,)):
            call.refuses(status, clause="KINA-TENSOR-26", argument="out", out=rt.out(self.result_dtype, shape))

    def refuses_dtypes_of_out(self, rt: Executor, status: str) -> None:
        call = self.call(rt, out=self.out(rt))
        for dtype in {"f64", "u32", "bool"} - {self.result_dtype}:
            call.refuses(status, argument="out", out=rt.out(dtype, self.result_shape))

    def refuses_other_devices(self, rt: Executor, status: str) -> None:
        """Needs simulated devices: each tensor in turn lies on one, the others on the host."""
        call = self.call(rt, out=self.out(rt))
        for name in (*self.inputs, "out"):
            call.refuses(status, **self.argument(name, simulated(rt, self.dtype_of(name), self.shape_of(name))))

    def refuses_read_only(self, rt: Executor, status: str) -> None:
        call = self.call(rt, out=self.out(rt))
        call.refuses(status, clause="KINA-TENSOR-14", argument="out", out=self.out(rt, read_only=True))
        strides = (0,) * len(self.result_shape)
        repeated = rt.tensor(self.result_dtype, self.result_shape, 0, strides=strides)
        call.refuses(status, clause="KINA-TENSOR-14", argument="out", out=repeated)

    def refuses_overlap(self, rt: Executor, status: str) -> None:
        """Borrowed and owned bytes alike: one element, all but one, and a whole input where that is not legal."""
        for owned in (False, True):
            for name in self.inputs:
                base = rt.tensor(self.dtype_of(name), (4096,), owned=owned)
                given = self.argument(name, part(rt, base, self.shape_of(name), 64))
                call = self.call(rt, out=self.out(rt, owned=owned), **given)
                if self.result_dtype != self.dtype_of(name):
                    continue
                for offset in (63, 65):
                    call.refuses(status, argument="out", out=part(rt, base, self.result_shape, offset))
                if not self.in_place and self.result_shape == self.shape_of(name):
                    call.refuses(status, argument="out", out=part(rt, base, self.result_shape, 64))

    def refuses_failed_inputs(self, rt: Executor, status: str) -> None:
        operands = self.operands(rt, owned=True)
        given: dict[str, Any] = {}
        for name, tensor in operands.items():
            given |= self.argument(name, tensor)
        outs: list[Tensor | None] = [self.out(rt, owned=True)] if self.gives_view else [None, self.out(rt, owned=True)]
        for out in outs:
            call = self.call(rt, **given, **({} if out is None else {"out": out}))
            for tensor in operands.values():
                call.refuses(status, clause="KINA-TENSOR-32", within=partial(failed, rt, tensor))
                if out is not None:
                    rt.call("runtime_failure_clear", tensor=out).succeeds()

    def refuses_without_memory(self, rt: Executor, status: str) -> None:
        self.call(rt).refuses(status, clause="KINA-STATUS-44", within=rt.limited)


def simulated(rt: Executor, dtype: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor on the first simulated device."""
    call = rt.call("runtime_alloc", shape, ndim=len(shape), dtype=dtype, device_type=12, device_id=0, stream=None)
    made: Tensor = call.succeeds().out
    return made


def part(
    rt: Executor, base: Tensor, shape: tuple[int, ...], offset: int, strides: tuple[int, ...] | None = None
) -> Tensor:
    """Elements of a tensor from one of them on; compact without strides."""
    arguments = {"shape": shape, "strides": strides, "ndim": len(shape), "offset_elements": offset, "flags": 0}
    made: Tensor = rt.call("runtime_view", base, **arguments).succeeds().out
    made.keep.append(base)
    return made
