"""Makes calls and proves what the contract says of each: the control, the refusal, and everything around them."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kina.runtime import Runtime

from .arguments import HANDLES, OMITTED, Argument, converted, is_out
from .contract import Contract, Function, contract
from .dtypes import dtype_of
from .guard import Guard
from .memory import Buffer, Handle, Params, Tensor, compact, small_values, span
from .observer import Journal, Witness

OPERATIONS = {"movement", "elementwise", "reduction", "matmul", "indexing", "structure"}
POISONS = (0xA5, 0x5A)
POISON = bytes([POISONS[0]]) * 4096
_RELEASES = {"KinaScope": "runtime_scope_pop", "KinaWeak": "runtime_weak_release", "KinaPeer": "runtime_peer_release"}
_MAKERS = {
    "runtime_stream_checkout": "runtime_stream_checkin",
    "runtime_stream_import": "runtime_stream_release",
    **dict.fromkeys(
        [f"runtime_resource_{word}" for word in ("host", "cuda", "cuda_async", "pool", "logging", "limit", "custom")],
        "runtime_resource_release",
    ),
}
_RELEASING = {
    "runtime_free",
    "runtime_scope_pop",
    "runtime_weak_release",
    "runtime_peer_release",
    "runtime_stream_checkin",
    "runtime_stream_release",
    "runtime_resource_release",
    "runtime_memory_deallocate",
    "runtime_to_dlpack",
    "runtime_to_dlpack_legacy",
    "runtime_from_dlpack",
    "runtime_from_dlpack_legacy",
}
_SETS_NO_RECORD = {"runtime_last_error"}
_UNSPECIFIED_CONTENTS = {"DEVICE", "KERNEL_LAUNCH", "INTERNAL", "DEVICE_LOST", "VENDOR_LIBRARY"}


class Violation(AssertionError):
    """The library broke a clause; `clause` names it where the harness, not the test, found it."""

    def __init__(self, message: str, clause: str | None = None) -> None:
        super().__init__(f"{message} [{clause}]" if clause else message)
        self.clause = clause


class Record:
    """The error record of this thread. Where `runtime_last_error` itself is broken it is unreadable: the chapter
    *status* fails for that, and the others are still judged by the rest of what they promise."""

    def __init__(self, rt: Executor) -> None:
        info = rt.ffi.new("KinaErrorInfo *")
        size = rt.ffi.sizeof("KinaErrorInfo")
        rt.ffi.memmove(info, POISON[:size], size)
        info.struct_size = size
        answered = rt.function("runtime_last_error")(info)
        self.bytes = bytes(rt.ffi.buffer(info))
        self.readable = answered == 0 and self.bytes[4:] != POISON[: size - 4]
        if not self.readable:
            rt.ffi.memmove(info, bytes(size), size)
        self.status = rt.lib.status_name(info.status)
        self.category = int(info.category)
        self.retryable = int(info.retryable)
        self.argument = int(info.argument)
        self.failure = int(info.failure)
        self.requested_bytes = int(info.requested_bytes)
        self.function = rt.string(info.function)
        self.argument_name = rt.string(info.argument_name)
        self.clause = rt.string(info.clause)
        self.message = rt.string(info.message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and (self.bytes, self.message) == (other.bytes, other.message)

    def __repr__(self) -> str:
        if not self.readable or self.status == "SUCCESS":
            return "no record" if self.readable else "record unreadable"
        blamed = f"argument {self.argument} ({self.argument_name})"
        return f"{self.status} in {self.function}, {blamed}, {self.clause}: {self.message}"


class Result:
    """What a successful call gave: out parameters as attributes, `result.out` first of all."""

    def __init__(self, values: dict[str, Any], arguments: list[Argument]) -> None:
        self.values = values
        self.arguments = arguments

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["values"][name]
        except KeyError:
            raise AttributeError(name) from None


class Call:
    """A call that is valid as written. Arguments left out that are answers get fresh poisoned memory."""

    def __init__(self, rt: Executor, function: Function, given: dict[str, Any]) -> None:
        self.rt = rt
        self.function = function
        self.given = given
        unknown = set(given) - {p.name for p in function.parameters}
        if unknown:
            raise TypeError(f"{function.name} has no parameter {', '.join(sorted(unknown))}")

    # ---- the three verbs -------------------------------------------------------------------------------------------

    def succeeds(self, **changes: Any) -> Result:
        """The call succeeds and keeps every general promise of a success; what it produced is freed with the test."""
        given = self._merged(changes)
        result = self._succeeding(given, POISONS[0])
        if self._repeatable(given):
            self._written_twice(given, result)
        elif self._is_fresh(given, result):
            self._written_afresh(given)
        return result

    def refuses(
        self,
        status: str | set[str],
        *,
        clause: Any = None,  # str, several of them, or None; Any, so that **changes of any one type can be unpacked
        argument: Any = None,
        within: Any = None,
        control: Any = True,
        as_one: Any = None,
        **changes: Any,
    ) -> Record:
        """With exactly one thing changed the valid call is refused, and nothing else has happened.

        `within` enters a context (a limit, a scope) as that one change. `as_one` names a single thing that takes
        several parameters to say. `control=False` is for calls that cannot succeed here.
        """
        changes = _renamed(changes)
        if len(changes) + (within is not None) != 1 and as_one is None and control:
            raise TypeError(f"a refusal changes exactly one thing, not {len(changes) + (within is not None)}")
        if control:
            self._control()
        with within() if within is not None else contextlib.nullcontext():
            record = self._refused(self._merged(changes), {status} if isinstance(status, str) else status)
        self._check_origin(record, clause, argument)
        if control:
            self._control()
        return record

    def status(self, **changes: Any) -> str:
        """The bare status, nothing checked but what every call is checked for."""
        arguments = self._arguments(self._merged(changes), POISONS[0])
        return self.rt.lib.status_name(self._invoke(arguments))

    # ---- how -------------------------------------------------------------------------------------------------------

    def _merged(self, changes: dict[str, Any]) -> dict[str, Any]:
        return {**self.given, **_renamed(changes)}

    def _arguments(self, given: dict[str, Any], poison: int) -> list[Argument]:
        return [converted(self.rt, p, given.get(p.name, OMITTED), poison) for p in self.function.parameters]

    def _invoke(self, arguments: list[Argument]) -> int:
        witness = self.rt.witness
        text = f"{self.function.name}({', '.join(map(repr, arguments))})"
        witness.journal.text(text)
        witness.distinct.add(hash(text))
        return int(self.rt.function(self.function.name)(*(a.cdata for a in arguments)))

    def _show(self, arguments: list[Argument]) -> str:
        return f"{self.function.name}({', '.join(map(repr, arguments))})"

    def _control(self) -> None:
        """The unchanged call succeeds; what it produced is given back at once."""
        mark = len(self.rt.live)
        try:
            self._succeeding(self.given, POISONS[0])
        finally:
            self.rt.release_since(mark)

    def _succeeding(self, given: dict[str, Any], poison: int) -> Result:
        rt = self.rt
        arguments = self._arguments(given, poison)
        shown = self._show(arguments)
        record = rt.record()
        written = [a.tensors[0] for a in arguments if a.out and a.tensors and not a.tensors[0].is_empty]
        inputs = [(a, _bytes_of(rt, a, written)) for a in arguments if not self._writes(a)]
        structs = {id(a): a.tensors[0].is_empty for a in arguments if a.out and a.tensors}
        frame = [_gaps(a.tensors[0]) for a in arguments if a.out and a.tensors and not structs[id(a)]]
        status = self._invoke(arguments)
        if status != 0:
            raise Violation(f"{shown} answered {rt.lib.status_name(status)} ({rt.record()}), expected SUCCESS")
        result = self._collect(arguments, structs)
        if rt.record() != record:
            raise Violation(f"{shown} succeeded and changed the error record", "KINA-STATUS-4")
        for argument, before in inputs:
            _same(rt, argument, before, f"{shown} succeeded and wrote its input", "KINA-TENSOR-28")
        for gap in frame:
            gap(f"{shown} wrote between the elements of its out")
        _guards(arguments, shown)
        return result

    def _writes(self, argument: Argument) -> bool:
        """Whether a success may change what the argument reaches."""
        if argument.parameter.type.startswith("const ") or not argument.parameter.is_pointer:
            return False
        return argument.parameter.type != "void *"

    def _collect(self, arguments: list[Argument], empty: dict[int, bool]) -> Result:
        rt, name = self.rt, self.function.name
        values: dict[str, Any] = {}
        for argument in arguments:
            if not argument.out or argument.given is None:
                continue
            kind = argument.parameter.type
            if kind == "KinaTensor *":
                tensor = argument.tensors[0] if argument.tensors else Tensor(rt, argument.cdata)
                _well_formed(rt, tensor, name)
                if empty.get(id(argument), False):
                    rt.own(tensor)
                values[argument.parameter.name] = tensor
                continue
            for what, address, size in argument.reached:
                if argument.buffers and bytes(rt.ffi.buffer(rt.ffi.cast("char *", address), size)).endswith(
                    POISON[: max(4, size - 4)]
                ):
                    raise Violation(f"{name} succeeded and did not write {what}")
            values[argument.parameter.name] = self._answer(argument, kind, arguments)
        if name in _RELEASING:
            owner = self.function.tags.owner if self.function.tags is not None else {}
            ended = [a for a in arguments if owner.get(a.parameter.name, "consume") == "consume"]
            rt.forget([thing for argument in ended for thing in (argument.given, *argument.tensors)])
        return Result(values, arguments)

    def _answer(self, argument: Argument, kind: str, arguments: list[Argument]) -> Any:
        rt, item = self.rt, kind.removesuffix(" *").removesuffix("*").strip()
        value = argument.cdata
        if item in HANDLES:
            handle = Handle(rt, item, value[0])
            release = _RELEASES.get(item) or _MAKERS.get(self.function.name)
            if release is not None:
                rt.live.append((handle, lambda: rt.function(release)(handle.cdata)))
            return handle
        if kind.endswith("**"):
            if self.function.name == "runtime_memory_allocate":
                block = value[0]
                inputs = [a.cdata for a in arguments[1:]]
                rt.live.append((block, lambda: rt.function("runtime_memory_deallocate")(inputs[0], block, *inputs[1:])))
                return block
            elif "DLManaged" in kind:
                managed = value[0]
                rt.live.append((managed, lambda: managed.deleter(managed)))
                return managed
            return value[0]
        if rt.ffi.typeof(value).item.kind == "primitive":
            return int(value[0])
        # The answer keeps the memory that it points to.
        return rt.ffi.gc(value, lambda _value, _kept=argument.buffers: None) if argument.buffers else value

    def _repeatable(self, given: dict[str, Any]) -> bool:
        """Operations can run again into the same out: what differs afterwards was never written."""
        out = given.get("out", OMITTED)
        return (
            self.function.chapter in OPERATIONS
            and isinstance(out, Tensor)
            and out.buffer is not None
            and not any(isinstance(v, Tensor) and v.buffer is out.buffer for k, v in given.items() if k != "out")
        )

    def _written_twice(self, given: dict[str, Any], first: Result) -> None:
        out = first.out
        before = out.raw().copy()
        out.poison(POISONS[1])
        self._succeeding(given, POISONS[1])
        if before.tobytes() != out.raw().tobytes():
            raise Violation(
                f"{self._show(first.arguments)}: the bytes of out depend on what was there before, or on the run",
                "KINA-TENSOR-26",
            )

    def _is_fresh(self, given: dict[str, Any], result: Result) -> bool:
        """Whether the operation made new host bytes, and the test still has a look at such to spend."""
        out = given.get("out", OMITTED)
        if self.function.chapter not in OPERATIONS or not (out is OMITTED or isinstance(out, Tensor)):
            return False
        made = result.values.get("out")
        return (
            self.rt.fresh_looks > 0
            and isinstance(made, Tensor)
            and made.flags == self.rt.lib.KINA_FLAG_OWNED
            and made.device == (1, 0)
            and made.elements > 0
            and self.rt.guard.ready
        )

    def _written_afresh(self, given: dict[str, Any]) -> None:
        """Twice more on poisoned blocks of the suite: every element is written, and nothing beside them."""
        rt = self.rt
        rt.fresh_looks -= 1
        images = []
        for poison in POISONS:
            mark = len(rt.live)
            with rt.guard.within(poison):
                out = self._succeeding({**given, "out": OMITTED}, poison).out
                images.append(out.raw().tobytes())
                rt.release_since(mark)
        if rt.guard.broken:
            raise Violation(f"{self.function.name}: {rt.guard.broken.pop()}", "KINA-TENSOR-28")
        if images[0] != images[1]:
            text = f"{self.function.name}: elements of a fresh out were not written, or differ from run to run"
            raise Violation(text, "KINA-TENSOR-25")

    def _refused(self, given: dict[str, Any], statuses: set[str]) -> Record:
        rt = self.rt
        arguments = self._arguments(given, POISONS[0])
        shown = self._show(arguments)
        before = [(a, _bytes_of(rt, a)) for a in arguments]
        counters = rt.counters()
        untouched = rt.record()
        got = rt.lib.status_name(self._invoke(arguments))
        if got == "SUCCESS":
            self._collect(arguments, {})
        if got not in statuses:
            raise Violation(f"{shown} answered {got}, expected {' or '.join(sorted(statuses))}")
        record = rt.record()
        for argument, held in before:
            clause = "KINA-STATUS-15" if argument.out else "KINA-STATUS-16"
            if got in _UNSPECIFIED_CONTENTS and argument.out:
                held = held[:1]
            _same(rt, argument, held, f"{shown} answered {got} and changed", clause)
        _guards(arguments, shown)
        if rt.counters() != counters:
            raise Violation(
                f"{shown} answered {got} and holds more: {counters} became {rt.counters()}", "KINA-STATUS-17"
            )
        if self.function.name not in _SETS_NO_RECORD:
            self._check_record(record, got, shown)
        elif record != untouched:
            raise Violation(f"{shown} answered {got} and changed the error record", "KINA-STATUS-5")
        return record

    def _check_record(self, record: Record, status: str, shown: str) -> None:
        if not record.readable:
            return
        if record.status != status or record.function != self.function.name:
            raise Violation(f"{shown} answered {status}, but the record says {record}", "KINA-STATUS-3")
        if record.category != self.rt.contract.category(status):
            raise Violation(f"{shown}: category {record.category} does not belong to {status}", "KINA-STATUS-12")
        if bool(record.retryable) != self.rt.contract.retryable(status):
            raise Violation(f"{shown}: retryable {record.retryable} does not belong to {status}", "KINA-STATUS-12")
        if not record.message:
            raise Violation(f"{shown} answered {status} without a message", "KINA-STATUS-3")
        if (record.argument == 0) != (record.argument_name is None):
            raise Violation(f"{shown}: argument and argument_name disagree: {record}", "KINA-STATUS-11")
        if record.argument:
            names = [p.name for p in self.function.parameters]
            root = (record.argument_name or "").split(".")[0].split("[")[0]
            if record.argument > len(names) or names[record.argument - 1] != root:
                raise Violation(f"{shown}: argument {record.argument} is not {record.argument_name}", "KINA-STATUS-11")

    def _check_origin(self, record: Record, clause: str | Sequence[str] | None, argument: str | None) -> None:
        tags = self.function.tags
        if self.function.name in _SETS_NO_RECORD:
            return
        wanted = [clause] if isinstance(clause, str) else list(clause or ())
        if not wanted and tags is not None and record.status in tags.errors:
            wanted = list(tags.errors[record.status].clauses)
        if wanted and record.readable and record.clause not in wanted:
            raise Violation(
                f"{self.function.name}: {record.status} is laid to {record.clause}, expected {' or '.join(wanted)}",
                "KINA-STATUS-10",
            )
        if argument is not None and record.readable and record.argument_name != argument:
            raise Violation(
                f"{self.function.name}: {record} blames {record.argument_name}, not {argument}", "KINA-STATUS-11"
            )


def _renamed(changes: dict[str, Any]) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in changes.items()}


def _bytes_of(
    rt: Executor, argument: Argument, written: Sequence[Tensor] = ()
) -> list[tuple[str, Callable[[], bytes], bytes]]:
    """Everything that the argument reaches, with its bytes now: structs first, then contents.

    Contents of a storage that holds a tensor of `written` are left out: an operation in place changes them.
    """
    held: list[tuple[str, Callable[[], bytes], bytes]] = []
    for what, address, size in argument.reached:
        read = _reader(rt, address, size)
        held.append((what, read, read()))
    for tensor in argument.tensors:
        shared = any(tensor.data < w.data + w.size_bytes and w.data < tensor.data + tensor.size_bytes for w in written)
        if (
            tensor.watched
            and rt.may_read(tensor)
            and tensor.struct.magic == rt.lib.KINA_TENSOR_MAGIC
            and tensor.device[0] in {1, 3}
            and not shared
        ):
            held.append((f"the bytes of {argument.parameter.name}", tensor.storage_bytes, tensor.storage_bytes()))
    return held


def _reader(rt: Executor, address: int, size: int) -> Callable[[], bytes]:
    return lambda: bytes(rt.ffi.buffer(rt.ffi.cast("char *", address), size))


def _same(
    rt: Executor, argument: Argument, held: list[tuple[str, Callable[[], bytes], bytes]], message: str, clause: str
) -> None:
    for what, read, before in held:
        if read() != before:
            where = "KINA-STATUS-19" if what.startswith("the bytes") and clause.startswith("KINA-STATUS") else clause
            raise Violation(f"{message}: {what}", where)


def _gaps(tensor: Tensor) -> Callable[[str], None]:
    """Remembers the bytes of an out between its elements; the answer complains when they have changed."""
    if tensor.buffer is None:
        return lambda _message: None
    mask = np.ones(len(tensor.buffer.data), bool)
    item = dtype_of(tensor.dtype).bytes
    if tensor.elements:
        low = tensor.address - tensor.buffer.address
        strides = [s * item for s in tensor.strides]
        np.ndarray((*tensor.shape, item), bool, mask.data, low, (*strides, 1))[...] = False
    before = tensor.buffer.data[mask].copy()

    def check(message: str) -> None:
        assert tensor.buffer is not None
        if not np.array_equal(tensor.buffer.data[mask], before):
            raise Violation(message, "KINA-TENSOR-28")

    return check


def _guards(arguments: list[Argument], shown: str) -> None:
    for argument in arguments:
        for buffer in argument.buffers:
            side = buffer.broken_guard()
            if side is not None:
                raise Violation(f"{shown} wrote {side} the memory of {argument.parameter.name}", "KINA-TENSOR-28")


def _well_formed(rt: Executor, tensor: Tensor, name: str) -> None:
    """A tensor given out names a live storage that holds all its elements."""
    struct = tensor.struct
    if struct.magic != rt.lib.KINA_TENSOR_MAGIC or struct.reserved != 0:
        raise Violation(
            f"{name} produced a struct with magic {struct.magic:#x}, reserved {struct.reserved}", "KINA-TENSOR-7"
        )
    if not 0 <= struct.dl.ndim <= rt.lib.KINA_MAX_NDIM:
        raise Violation(f"{name} produced ndim {struct.dl.ndim}", "KINA-TENSOR-15")
    borrowed = bool(tensor.flags & rt.lib.KINA_FLAG_BORROWED)
    if struct.dl.ndim and (struct.dl.shape == rt.ffi.NULL or (struct.dl.strides == rt.ffi.NULL and not borrowed)):
        raise Violation(f"{name} produced a tensor without shape or strides", "KINA-TENSOR-7")
    if tensor.handle == 0 and not borrowed:
        raise Violation(f"{name} produced a tensor without a handle", "KINA-TENSOR-7")
    low, high = tensor.hull()
    if low != high and not tensor.data <= low <= high <= tensor.data + tensor.size_bytes:
        raise Violation(f"{name} produced elements outside the storage", "KINA-TENSOR-9")


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
        return Call(self, function, {**dict(zip(inputs, positional, strict=False)), **_renamed(named)})

    def offers(self, feature: str) -> bool:
        """Whether tests of a feature can run: the library claims it and, for a kind of device, there is one."""
        kind = {"cuda": 2, "sim": 12}.get(feature)
        if not self.lib.offers(feature) or kind is None:
            return self.lib.offers(feature)
        count = self.ffi.new("int32_t *")
        return bool(self.function("runtime_device_count")(count, kind) == 0 and count[0] > 0)

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
    def limited(self, maximum_bytes: int = 0) -> Iterator[Handle]:
        """Within it host allocations beyond the limit are OUT_OF_MEMORY; `within=rt.limited` is one change."""
        mark = len(self.live)
        base = self.call("runtime_resource_host").succeeds().out
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
