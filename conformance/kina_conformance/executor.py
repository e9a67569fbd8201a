"""One library under test, with everything that a test makes on it."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from kina.runtime import Runtime

from .arguments import is_out
from .call import OPERATIONS as OPERATIONS
from .call import Call as Call
from .call import Result as Result
from .call import renamed
from .contract import Contract, contract
from .dtypes import dtype_of
from .guard import Guard
from .memory import Buffer, Handle, Params, Tensor, compact, small_values, span
from .observer import Journal, Witness
from .record import POISONS
from .record import Record as Record
from .record import Violation as Violation


class Executor:
    """One library under test, and everything a test makes on it. The fixture `rt` is one of these."""

    def __init__(self, path: str | os.PathLike[str], journal: Path | None = None) -> None:
        self.contract: Contract = contract()
        self.journal = Journal(journal)
        names = {
            value: name.removeprefix("KINA_ERROR_")
            for name, value in self.contract.header.constants.items()
            if name.startswith("KINA_ERROR_")
        }
        self.witness = Witness(self.contract, names, self.journal)
        self.lib = Runtime(path, self.witness)
        self.ffi = self.lib.ffi
        self.live: list[tuple[Any, Callable[[], Any]]] = []
        self.fresh_looks = 0
        self.device_looks = 0
        self.kept: list[Any] = []  # callbacks that the library may still call

    # ---- calls -----------------------------------------------------------------------------------------------------

    def function(self, name: str) -> Callable[..., Any]:
        """The bare entry point; calls through it are journalled and counted."""
        try:
            return self.lib.functions[name]
        except KeyError:
            raise Violation(f"{name} is not exported", "KINA-VERSION-17") from None

    def call(self, name: str, *positional: Any, **named: Any) -> Call:
        """A valid call, to be proved with `succeeds()` or broken with `refuses(status, one=change)`."""
        function = self.contract.functions[name]
        inputs = [p.name for p in function.parameters if not (is_out(p) and p.name in {"out"})]
        return Call(self, function, {**dict(zip(inputs, positional, strict=False)), **renamed(named)})

    def offers(self, feature: str) -> bool:
        """Whether tests of a feature can run: the library claims it and, where it takes devices, there is one."""
        kinds = {"cuda": [2], "sim": [12], "capture": [2, 12]}.get(feature)
        if not self.lib.offers(feature) or kinds is None:
            return self.lib.offers(feature)
        return any(self.device_count(kind) > 0 for kind in kinds)

    def device_count(self, device_type: int) -> int:
        count = self.ffi.new("int32_t *")
        status = self.function("runtime_device_count")(count, device_type)
        return int(count[0]) if status == 0 else 0

    def constant(self, name: str) -> int:
        return self.lib.constants[name]

    # ---- operands --------------------------------------------------------------------------------------------------

    def empty(self) -> Tensor:
        """The all-zero struct."""
        return Tensor(self, self.ffi.new("KinaTensor *"))

    def tensor(
        self,
        dtype: str = "f32",
        shape: Sequence[int] | int = (),
        values: ArrayLike | None = None,
        *,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        owned: bool = False,
        read_only: bool = False,
        poison: int = 0xA5,
        tail: int = 0,
    ) -> Tensor:
        """A host tensor: borrowed on guarded memory of the suite, or owned by the library.

        `strides` in elements (negative, zero, padded as you like), `offset` elements before the lowest one, `tail`
        bytes behind the highest. `values` default to small distinct numbers.
        """
        shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        made = self._owned if owned else self._borrowed
        tensor = made(dtype, shape, tuple(strides) if strides is not None else compact(shape), offset, tail, poison)
        tensor.write(small_values(shape, dtype_of(dtype)) if values is None else values)
        if read_only:
            return self._read_only(tensor)
        return tensor

    def out(self, dtype: str, shape: Sequence[int] | int = (), **layout: Any) -> Tensor:
        """A poisoned tensor to be written: as `tensor`, without values."""
        out = self.tensor(dtype, shape, 0, **layout)
        if out.buffer is not None:
            out.buffer.data[:] = POISONS[0]
        else:
            out.poison(POISONS[0])
        return out

    def _borrowed(
        self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, tail: int, poison: int
    ) -> Tensor:
        row = dtype_of(dtype)
        low, high = span(shape, strides) if 0 not in shape else (0, -1)
        size = (offset + high - low + 1) * row.bytes + tail
        buffer = Buffer(size, poison)
        struct = self.ffi.new("KinaTensor *")
        shape_array, stride_array = self.ffi.new("int64_t[]", shape or (0,)), self.ffi.new("int64_t[]", strides or (0,))
        struct.dl.data = self.ffi.cast("void *", buffer.address if size else 0)
        struct.dl.device = {"device_type": 1, "device_id": 0}
        struct.dl.ndim = len(shape)
        struct.dl.dtype = {"code": row.value & 0xFF, "bits": row.value >> 8 & 0xFF, "lanes": row.value >> 16}
        struct.dl.shape, struct.dl.strides = shape_array, stride_array
        struct.dl.byte_offset = (offset - low) * row.bytes if size else 0
        struct.size_bytes = size
        struct.flags = self.lib.KINA_FLAG_BORROWED
        struct.magic = self.lib.KINA_TENSOR_MAGIC
        return Tensor(self, struct, buffer, [shape_array, stride_array])

    def _owned(
        self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, tail: int, poison: int
    ) -> Tensor:
        if strides == compact(shape) and not offset and not tail:
            return self.alloc(dtype, shape, poison)
        item = dtype_of(dtype).bytes
        low, high = span(shape, strides) if 0 not in shape else (0, -1)
        base = self.alloc(dtype, (offset + high - low + 1 + -(-tail // item),), poison)
        view = self.call(
            "runtime_view", base, shape=shape, strides=strides, ndim=len(shape), offset_elements=offset - low, flags=0
        ).succeeds()
        view.out.keep.append(base)
        tensor: Tensor = view.out
        return tensor

    def alloc(self, dtype: str, shape: Sequence[int], poison: int = 0xA5) -> Tensor:
        """A compact tensor from `runtime_alloc`, filled with the poison."""
        made = self.call(
            "runtime_alloc", tuple(shape), ndim=len(shape), dtype=dtype, device_type=1, device_id=0, stream=None
        ).succeeds()
        tensor: Tensor = made.out
        tensor.poison(poison)
        return tensor

    def _read_only(self, tensor: Tensor) -> Tensor:
        flag = self.lib.KINA_FLAG_READ_ONLY
        if tensor.buffer is not None:
            tensor.struct.flags |= flag
            return tensor
        view = self.call(
            "runtime_view",
            tensor,
            shape=tensor.shape,
            strides=tensor.strides,
            ndim=len(tensor.shape),
            offset_elements=0,
            flags=flag,
        ).succeeds()
        view.out.keep.append(tensor)
        made: Tensor = view.out
        return made

    def params(self, type_name: str, size: int | None = None, tail: bytes = b"", **fields: Any) -> Params:
        """An option struct; `struct_size` is right unless given, `size` and `tail` make it longer than 1.0's."""
        return Params(self, type_name, size, tail, **fields)

    def handle(self, type_name: str, value: int) -> Handle:
        """A handle made up from a number."""
        return Handle(self, type_name, self.ffi.cast(type_name, value))

    def string(self, pointer: Any) -> str | None:
        if pointer == self.ffi.NULL:
            return None
        text = self.ffi.string(pointer)
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)

    @functools.cached_property
    def guard(self) -> Guard:
        """The suite's own host resource."""
        return Guard(self)

    # ---- states ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def limited(self, maximum_bytes: int = 0, device: tuple[int, int] = (1, 0)) -> Iterator[Handle]:
        """Within it allocations beyond the limit are OUT_OF_MEMORY; `within=rt.limited` is one change."""
        mark = len(self.live)
        if device == (1, 0):
            base = self.call("runtime_resource_host").succeeds().out
        else:
            base = self.call("runtime_resource_current", *device).succeeds().out
        limit = self.call("runtime_resource_limit", base, maximum_bytes).succeeds().out
        scope = self.call("runtime_resource_push", limit).succeeds().out
        try:
            yield limit
        finally:
            self.function("runtime_scope_pop")(scope.cdata)
            self.forget([scope])
            self.release_since(mark)

    def record(self) -> Record:
        return Record(self)

    def counters(self) -> tuple[int, int] | None:
        """Live bytes and blocks of the current host resource; None where the library does not tell."""
        slot = self.ffi.new("KinaResource *")
        info = self.ffi.new("KinaResourceInfo *")
        info.struct_size = self.ffi.sizeof("KinaResourceInfo")
        try:
            if self.function("runtime_resource_current")(slot, 1, 0) != 0:
                return None
            if self.function("runtime_resource_info")(info, slot[0]) != 0:
                return None
        except Violation:
            return None
        return int(info.live_bytes), int(info.live_blocks)

    # ---- what a test made ------------------------------------------------------------------------------------------

    def own(self, tensor: Tensor) -> Tensor:
        """The tensor is freed with the test, unless the test frees it."""
        free = self.function("runtime_free")
        self.live.append((tensor, lambda: 0 if tensor.is_empty else free(tensor.struct)))
        return tensor

    def may_read(self, tensor: Tensor) -> bool:
        """Whether the tensor's bytes are there: its own, its caller's, or those of a tensor that is still live."""
        if tensor.buffer is not None or tensor.handle == 0:
            return True
        return any(isinstance(thing, Tensor) and thing.handle == tensor.handle for thing, _ in self.live)

    def forget(self, things: Sequence[Any]) -> None:
        """These are no longer the test's to release."""
        numbers = {id(t) for t in things}
        values = {t.value for t in things if isinstance(t, Handle)}
        self.live = [
            (thing, release)
            for thing, release in self.live
            if id(thing) not in numbers and not (isinstance(thing, Handle) and thing.value in values)
        ]

    def release_since(self, mark: int) -> None:
        """Gives back, newest first, what was made since `mark = len(rt.live)`."""
        refused: list[str] = []
        while len(self.live) > mark:
            thing, release = self.live.pop()
            status = release()
            if status not in {0, None} and self.lib.status_name(status) != "INVALID_HANDLE":
                refused.append(f"{thing!r}: {self.lib.status_name(status)} ({self.record()})")
        if refused:
            raise Violation(f"releasing failed: {'; '.join(refused)}", "KINA-STATUS-30")

    @contextlib.contextmanager
    def example(self) -> Iterator[None]:
        """One test or one Hypothesis example: what it made is released, and the library then holds what it held."""
        mark, counters = len(self.live), self.counters()
        failed = True
        try:
            yield
            failed = False
        finally:
            try:
                self.release_since(mark)
            except Violation:
                if not failed:
                    raise
        after = self.counters()
        if after != counters:
            raise Violation(
                f"after everything was released the library holds {after}, before {counters}", "KINA-STATUS-17"
            )
