"""One call of the library: the control, the refusal, and everything that the contract says around them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .arguments import HANDLES, OMITTED, Argument, converted
from .checks import bytes_of, gaps_of, require_guards, require_same, require_well_formed
from .contract import Function
from .elsewhere import is_movable, require_the_same_bits
from .memory import Handle, Tensor
from .record import POISON, POISONS, Record, Violation

if TYPE_CHECKING:
    from .executor import Executor

OPERATIONS = {"movement", "elementwise", "reduction", "matmul", "indexing", "structure"}
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
        if self.rt.device_looks > 0 and is_movable(self, given, result):
            self.rt.device_looks -= 1
            require_the_same_bits(self, given, result)
        return result

    def once(self) -> Result:
        """As `succeeds`, without a second look at anything."""
        return self._succeeding(self.given, POISONS[0])

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
        changes = renamed(changes)
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
        return {**self.given, **renamed(changes)}

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
        inputs = [(a, bytes_of(rt, a, written)) for a in arguments if not self._writes(a)]
        structs = {id(a): a.tensors[0].is_empty for a in arguments if a.out and a.tensors}
        frame = [gaps_of(a.tensors[0]) for a in arguments if a.out and a.tensors and not structs[id(a)]]
        status = self._invoke(arguments)
        if status != 0:
            raise Violation(f"{shown} answered {rt.lib.status_name(status)} ({rt.record()}), expected SUCCESS")
        result = self._collect(arguments, structs)
        if rt.record() != record:
            raise Violation(f"{shown} succeeded and changed the error record", "KINA-STATUS-4")
        for argument, before in inputs:
            require_same(rt, argument, before, f"{shown} succeeded and wrote its input", "KINA-TENSOR-28")
        for gap in frame:
            gap(f"{shown} wrote between the elements of its out")
        require_guards(arguments, shown)
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
                require_well_formed(rt, tensor, name)
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
        before = [(a, bytes_of(rt, a)) for a in arguments]
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
            require_same(rt, argument, held, f"{shown} answered {got} and changed", clause)
        require_guards(arguments, shown)
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


def renamed(changes: dict[str, Any]) -> dict[str, Any]:
    return {name.rstrip("_"): value for name, value in changes.items()}
