"""Which stream work goes to, in any nesting of pushes on every device, against a model of the thread's stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kina_conformance import Executor, Handle, Tensor, clause
from kina_conformance.devices import SIMULATED, checkout, main
from kina_conformance.plugin import session
from kina_conformance.resources import in_thread

Device = tuple[int, int]
CHOICES = st.integers(0, 10_000)


@dataclass
class Entry:
    """One live push: its token, its kind, and what it does."""

    token: Handle
    kind: str
    device: Device | None = None
    stream: int = 0
    phase: int = 0


class Scopes(RuleBasedStateMachine):
    """Pushes of streams, redirects, phases and devices, and pops, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.rt: Executor = session()
        self.example = self.rt.example()
        self.example.__enter__()
        self.devices = [(1, 0), *((SIMULATED, i) for i in range(self.rt.device_count(SIMULATED)))]
        self.mains = {device: main(self.rt, device).value for device in self.devices}
        self.streams = {device: [checkout(self.rt, device) for _ in range(3)] for device in self.devices}
        self.inputs = {device: self.tensor(device) for device in self.devices}
        self.stack: list[Entry] = []
        self.dead: list[Handle] = []

    def tensor(self, device: Device) -> Tensor:
        stream = self.streams[device][0]
        kind, number = device
        call = self.rt.call(
            "runtime_alloc", (4,), ndim=1, dtype="f32", device_type=kind, device_id=number, stream=stream
        )
        made: Tensor = call.succeeds().out
        self.rt.call("runtime_fill", made, value=bytes(4), value_bytes=4).succeeds()
        return made

    def push(self, function: str, *arguments: Any, **entry: Any) -> None:
        token = self.rt.call(function, *arguments).succeeds().out
        self.stack.append(Entry(token, function.removeprefix("runtime_"), **entry))

    # ---- the model

    def newest(self, kind: str, device: Device | None = None) -> Entry | None:
        found = (e for e in reversed(self.stack) if e.kind == kind and (device is None or e.device == device))
        return next(found, None)

    def pushed_or_bound(self, device: Device) -> int:
        """What the stack says; 0 where it says nothing."""
        entry = self.newest("stream_push", device) or self.newest("device_push", device)
        return 0 if entry is None else entry.stream

    # ---- the rules

    @rule(
        which=CHOICES, number=st.integers(0, 2), kind=st.sampled_from(["runtime_stream_push", "runtime_redirect_push"])
    )
    def push_a_stream(self, which: int, number: int, kind: str) -> None:
        device = self.devices[which % len(self.devices)]
        stream = self.streams[device][number]
        self.push(kind, stream, device=device, stream=stream.value)

    @rule(phase=st.integers(0, 2))
    def push_a_phase(self, phase: int) -> None:
        self.push("runtime_phase_push", phase, phase=phase)

    @rule(which=CHOICES)
    def push_a_device(self, which: int) -> None:
        device = self.devices[which % len(self.devices)]
        redirect, phase = self.newest("redirect_push", device), self.newest("phase_push")
        bound = self.mains[device]
        if redirect is not None:
            bound = redirect.stream
        elif phase is not None:
            bound = self.rt.call("runtime_stream_phase", *device, phase=phase.phase).succeeds().out.value
        self.push("runtime_device_push", *device, device=device, stream=bound)

    @precondition(lambda self: self.stack)
    @rule()
    def pop(self) -> None:
        token = self.stack.pop().token
        self.rt.call("runtime_scope_pop", token).succeeds()
        self.dead.append(token)

    @precondition(lambda self: len(self.stack) > 1)
    @rule(which=CHOICES)
    def an_older_token_is_refused(self, which: int) -> None:
        token = self.stack[which % (len(self.stack) - 1)].token
        assert self.rt.call("runtime_scope_pop", token).status() == "INVALID_ARGUMENT"

    @precondition(lambda self: self.dead)
    @rule(which=CHOICES)
    def a_dead_token_is_no_handle(self, which: int) -> None:
        assert self.rt.call("runtime_scope_pop", self.dead[which % len(self.dead)]).status() == "INVALID_HANDLE"

    @precondition(lambda self: self.stack)
    @rule(which=CHOICES)
    def a_pushed_stream_does_not_end(self, which: int) -> None:
        entry = self.stack[which % len(self.stack)]
        if entry.kind in {"stream_push", "redirect_push"} and entry.device is not None:
            stream = next(s for s in self.streams[entry.device] if s.value == entry.stream)
            assert self.rt.call("runtime_stream_checkin", stream).status() == "BUSY"

    @rule()
    def other_threads_and_failing_pushes_change_nothing(self) -> None:
        rt, devices = self.rt, self.devices

        def elsewhere() -> list[int]:
            return [rt.call("runtime_stream_current", *device).succeeds().out.value for device in devices]

        assert in_thread(elsewhere) == [self.mains[device] for device in devices]
        assert rt.call("runtime_device_push", SIMULATED, 99).status() in {"INVALID_ARGUMENT", "UNSUPPORTED"}
        assert rt.call("runtime_phase_push", -1).status() == "INVALID_ARGUMENT"

    @rule(which=CHOICES)
    def work_goes_where_the_stack_says(self, which: int) -> None:
        device = self.devices[which % len(self.devices)]
        x = self.inputs[device]
        expected = self.pushed_or_bound(device) or self.streams[device][0].value

        y = self.rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").succeeds().out

        assert int(self.rt.ffi.cast("uintptr_t", y.struct.stream)) == expected
        assert int(self.rt.ffi.cast("uintptr_t", x.struct.stream)) == self.streams[device][0].value

    # ---- what always holds

    @invariant()
    def current_and_main_are_what_the_model_says(self) -> None:
        for device in self.devices:
            now = self.rt.call("runtime_stream_current", *device).succeeds().out.value
            assert now == (self.pushed_or_bound(device) or self.mains[device])
            assert main(self.rt, device).value == self.mains[device]

    @invariant()
    def phases_are_stable_and_disjoint(self) -> None:
        for device in self.devices:
            phases = [self.rt.call("runtime_stream_phase", *device, phase=n).succeeds().out.value for n in (0, 1, 0, 1)]
            assert phases[:2] == phases[2:] and len({*phases, self.mains[device]}) == 3

    def teardown(self) -> None:
        while self.stack:
            self.pop()
        self.example.__exit__(None, None, None)


@clause("KINA-STREAM-2", "60d19c12")
@clause("KINA-STREAM-6", "6b6dcae5")
@clause("KINA-STREAM-7", "889864fc")
@clause("KINA-STREAM-23", "e0afda32")
@clause("KINA-STREAM-24", "0b9a4f1d")
@clause("KINA-STREAM-25", "76488494")
@clause("KINA-STREAM-26", "5ec006d2")
@clause("KINA-STREAM-30", "07ef7e11")
@clause("KINA-STREAM-32", "6818a047")
@clause("KINA-STREAM-44", "b7f4dbc8")
@clause("KINA-STREAM-45", "7e749e63")
@clause("KINA-STREAM-47", "6e06d620")
@clause("KINA-DEVICE-14", "4cd4750d")
@clause("KINA-DEVICE-15", "7afe3b13")
@clause("KINA-DEVICE-16", "89ea86bf")
@clause("KINA-DEVICE-17", "6eb1b3d6")
class TestScopes(Scopes.TestCase):  # type: ignore[misc,valid-type]
    """Every nesting of scopes binds the stream that the rules name."""
