"""Streams, which one work goes to, what is ordered, and the scopes of a thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kina_conformance import Executor, Handle, Tensor, clause
from kina_conformance.devices import SIMULATED, checkin
from kina_conformance.plugin import session
from kina_conformance.resources import HOST, in_thread, pop

DEVICE = {"device_type": 12, "device_id": 0}
everywhere = pytest.mark.parametrize(
    "place", [pytest.param(HOST, id="host"), pytest.param(DEVICE, id="simulated", marks=pytest.mark.needs("sim"))]
)
GIVERS = ["runtime_stream_main", "runtime_stream_checkout", "runtime_stream_current", "runtime_stream_phase"]
PUSHES = ["runtime_device_push", "runtime_stream_push", "runtime_phase_push", "runtime_redirect_push"]
Value = TypeVar("Value")


def main(rt: Executor, place: dict[str, int] = HOST) -> Handle:
    handle: Handle = rt.call("runtime_stream_main", **place).succeeds().out
    return handle


def checkout(rt: Executor, place: dict[str, int] = HOST) -> Handle:
    handle: Handle = rt.call("runtime_stream_checkout", **place).succeeds().out
    return handle


def phase(rt: Executor, number: int, place: dict[str, int] = HOST) -> Handle:
    handle: Handle = rt.call("runtime_stream_phase", **place, phase=number).succeeds().out
    return handle


def current(rt: Executor, place: dict[str, int] = HOST) -> Handle:
    handle: Handle = rt.call("runtime_stream_current", **place).succeeds().out
    return handle


def push(rt: Executor, kind: str, stream: Handle | None = None, place: dict[str, int] = HOST) -> Handle:
    if kind == "runtime_device_push":
        call = rt.call(kind, **place)
    elif kind == "runtime_phase_push":
        call = rt.call(kind, phase=1)
    elif kind == "runtime_resource_push":
        call = rt.call(kind, rt.call("runtime_resource_current", **place).succeeds().out)
    else:
        call = rt.call(kind, stream or main(rt, place))
    token: Handle = call.succeeds().out
    return token


def pop_status(rt: Executor, token: Handle) -> str:
    return rt.call("runtime_scope_pop", token).status()


def eventually(happens: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether it happens soon: a joined thread still has to be taken down by the system."""
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def stream_of(tensor: Tensor) -> int:
    return int(tensor.rt.ffi.cast("uintptr_t", tensor.struct.stream))


def allocated(rt: Executor, stream: Handle | None = None, place: dict[str, int] = HOST) -> Tensor:
    call = rt.call("runtime_alloc", (3,), ndim=1, dtype="f32", **place, stream=stream)
    tensor: Tensor = call.succeeds().out
    if place == HOST:
        tensor.write([1, 2, 3])
    else:
        rt.call("runtime_copy", rt.tensor("f32", (3,), [1, 2, 3]), **place, out=tensor).succeeds()
    return tensor


def values(rt: Executor, tensor: Tensor) -> list[float]:
    here = tensor if tensor.device == (1, 0) else rt.call("runtime_copy_to_host", tensor).succeeds().out
    numbers: list[float] = here.numpy().tolist()
    return numbers


def negated(rt: Executor, x: Tensor) -> Tensor:
    tensor: Tensor = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").succeeds().out
    return tensor


# ---- streams ---------------------------------------------------------------------------------------------------------


@clause("KINA-STREAM-1", "3bc9d729")
@everywhere
def test_the_main_stream_is_the_same_at_every_call_and_on_every_thread(rt: Executor, place: dict[str, int]) -> None:
    first = main(rt, place)

    assert first and first == main(rt, place) == in_thread(lambda: main(rt, place))


@clause("KINA-STREAM-2", "60d19c12")
@pytest.mark.parametrize("kind", PUSHES)
@everywhere
def test_no_push_changes_the_main_stream(rt: Executor, place: dict[str, int], kind: str) -> None:
    before = main(rt, place)
    token = push(
        rt, kind, checkout(rt, place) if kind in {"runtime_stream_push", "runtime_redirect_push"} else None, place=place
    )

    assert main(rt, place) == before
    pop(rt, token)


@clause("KINA-STREAM-3", "bf9da2e0")
@everywhere
@given(count=st.integers(1, 20))
def test_checked_out_streams_belong_to_one_caller(rt: Executor, place: dict[str, int], count: int) -> None:
    streams = [checkout(rt, place).value for _ in range(count)]

    assert len({*streams, main(rt, place).value, phase(rt, 0, place).value, phase(rt, 1, place).value}) == count + 3


@clause("KINA-STREAM-4", "40f980a0")
@clause("KINA-STATUS-26", "4bd48c17")
@everywhere
def test_a_checkin_ends_the_handle_and_the_stream_comes_again_under_another(
    rt: Executor, place: dict[str, int]
) -> None:
    first = checkout(rt, place)
    x = negated(rt, allocated(rt, first, place=place))
    checkin(rt, first)

    rt.call("runtime_stream_synchronize", main(rt, place)).refuses(
        "INVALID_HANDLE", stream=first, clause="KINA-STATUS-26"
    )

    assert checkout(rt, place) != first and values(rt, x) == [-1, -2, -3]


@clause("KINA-STREAM-5", "9b10453f")
@everywhere
def test_only_checked_out_streams_are_checked_in(rt: Executor, place: dict[str, int]) -> None:
    call = rt.call("runtime_stream_checkin", lambda: checkout(rt, place))

    for stream in [main(rt, place), phase(rt, 0, place), phase(rt, 3, place)]:
        call.refuses("INVALID_ARGUMENT", stream=stream, clause="KINA-STREAM-5")


@clause("KINA-STREAM-6", "6b6dcae5")
@pytest.mark.parametrize("kind", ["runtime_stream_push", "runtime_redirect_push"])
@everywhere
def test_a_pushed_stream_is_not_checked_in(rt: Executor, place: dict[str, int], kind: str) -> None:
    stream = checkout(rt, place)
    token = push(rt, kind, stream, place=place)

    rt.call("runtime_stream_checkin", lambda: checkout(rt, place)).refuses(
        "BUSY", stream=stream, clause="KINA-STREAM-6"
    )
    refused = in_thread(lambda: rt.call("runtime_stream_checkin", stream).status())

    assert refused == "BUSY"
    pop(rt, token)
    checkin(rt, stream)


@clause("KINA-STREAM-7", "889864fc")
@everywhere
@given(numbers=st.lists(st.integers(0, 200), min_size=2, max_size=6, unique=True))
def test_a_phase_has_one_stream_of_its_own(rt: Executor, place: dict[str, int], numbers: list[int]) -> None:
    streams = [phase(rt, number, place).value for number in numbers]

    assert [phase(rt, number, place).value for number in numbers] == streams
    assert len({*streams, main(rt, place).value}) == len(numbers) + 1


@clause("KINA-STREAM-8", "50909e6d")
@given(number=st.integers(-(2**31), -1))
def test_a_negative_phase_is_refused(rt: Executor, number: int) -> None:
    rt.call("runtime_stream_phase", **HOST, phase=0).refuses("INVALID_ARGUMENT", phase=number, clause="KINA-STREAM-8")
    rt.call("runtime_phase_push", phase=0).refuses("INVALID_ARGUMENT", phase=number, clause="KINA-STREAM-8")


@clause("KINA-STREAM-9", "8ecfea7d")
@everywhere
def test_main_phase_and_current_streams_are_borrowed(rt: Executor, place: dict[str, int]) -> None:
    kept = [main(rt, place), phase(rt, 2, place)]
    token = push(rt, "runtime_stream_push", kept[1])
    pop(rt, token)

    for stream in kept:
        assert rt.call("runtime_stream_checkin", stream).status() == "INVALID_ARGUMENT"
        assert rt.call("runtime_stream_release", stream).status() == "INVALID_ARGUMENT"
        rt.call("runtime_stream_synchronize", stream).succeeds()


@clause("KINA-STREAM-10", "985a770b")
@clause("KINA-STREAM-19", "a8cb5211")
def test_host_streams_are_streams_and_always_idle(rt: Executor) -> None:
    for stream in [main(rt), phase(rt, 1), checkout(rt)]:
        negated(rt, allocated(rt, stream))
        assert stream and rt.call("runtime_stream_query", stream).succeeds().out == 1


@clause("KINA-STREAM-17", "40b3ef74")
def test_a_host_stream_has_no_native_handle(rt: Executor) -> None:
    for stream in [main(rt), phase(rt, 1), checkout(rt)]:
        assert rt.call("runtime_stream_native", stream).succeeds().out == rt.ffi.NULL


@clause("KINA-STREAM-12", "3cfc3b59")
def test_nothing_is_imported_on_the_host(rt: Executor) -> None:
    native = rt.ffi.cast("void *", 0x1000)
    call = rt.call("runtime_stream_import", **HOST, native=native)

    call.refuses("UNSUPPORTED", control=False, clause="KINA-STREAM-12")
    call.refuses("INVALID_ARGUMENT", control=False, native=None, clause="KINA-STATUS-23")
    call.refuses("INVALID_ARGUMENT", control=False, out=None, clause="KINA-STATUS-23")
    call.refuses("INVALID_ARGUMENT", control=False, device_id=1, clause="KINA-STATUS-24")


@clause("KINA-STREAM-15", "d898bfa9")
@clause("KINA-STATUS-26", "4bd48c17")
@everywhere
def test_only_imported_streams_are_released(rt: Executor, place: dict[str, int]) -> None:
    call = rt.call("runtime_stream_release", main(rt, place))

    for stream in [main(rt, place), phase(rt, 0, place), checkout(rt, place)]:
        call.refuses("INVALID_ARGUMENT", control=False, stream=stream, clause="KINA-STREAM-15")
    call.refuses("INVALID_ARGUMENT", control=False, stream=None, clause="KINA-STATUS-28")
    call.refuses("INVALID_HANDLE", control=False, stream=rt.handle("KinaStream", 12345), clause="KINA-STATUS-26")


@clause("KINA-STATUS-23", "54af5684")
@clause("KINA-STATUS-24", "b7c8e81b")
@pytest.mark.parametrize("name", GIVERS)
def test_a_stream_is_given_for_a_device_and_to_a_pointer(rt: Executor, name: str) -> None:
    more = {"phase": 0} if name.endswith("phase") else {}
    call = rt.call(name, **HOST, **more)

    call.refuses("INVALID_ARGUMENT", out=None, argument="out")
    for number in [-1, 1, 2**31 - 1]:
        call.refuses("INVALID_ARGUMENT", device_id=number, argument="device_id")
    for kind in [0, 99, -1]:
        call.refuses("UNSUPPORTED", device_type=kind, argument="device_type")


@clause("KINA-STATUS-23", "54af5684")
@clause("KINA-STATUS-26", "4bd48c17")
@clause("KINA-STATUS-28", "649fc08b")
@pytest.mark.parametrize(
    "name",
    [
        "runtime_stream_native",
        "runtime_stream_query",
        "runtime_stream_synchronize",
        "runtime_stream_push",
        "runtime_redirect_push",
        "runtime_stream_checkin",
    ],
)
def test_a_call_on_a_stream_needs_a_live_one(rt: Executor, name: str) -> None:
    scope = push(rt, "runtime_phase_push")
    ended = checkout(rt)
    checkin(rt, ended)
    call = rt.call(name, stream=(lambda: checkout(rt)) if name.endswith("checkin") else main(rt))

    call.refuses("INVALID_ARGUMENT", stream=None, clause="KINA-STATUS-28", argument="stream")
    for wrong in [ended.value, scope.value, 1, 2**64 - 1, main(rt).value ^ 1 << 40]:
        call.refuses("INVALID_HANDLE", stream=rt.handle("KinaStream", wrong), argument="stream")
    if rt.contract.functions[name].parameters[0].name == "out":
        call.refuses("INVALID_ARGUMENT", out=None, argument="out")


# ---- waiting ---------------------------------------------------------------------------------------------------------


@clause("KINA-STREAM-18", "c2a8d1ce")
@everywhere
def test_a_stream_can_be_waited_for(rt: Executor, place: dict[str, int]) -> None:
    stream = checkout(rt, place)
    y = negated(rt, allocated(rt, stream, place=place))

    rt.call("runtime_stream_synchronize", stream).succeeds()

    assert values(rt, y) == [-1, -2, -3]


@clause("KINA-STREAM-20", "7cca174b")
@clause("KINA-STREAM-21", "6d216172")
@everywhere
def test_a_stream_can_wait_for_another_and_for_itself(rt: Executor, place: dict[str, int]) -> None:
    first, second = checkout(rt, place), checkout(rt, place)
    y = negated(rt, allocated(rt, first, place=place))

    rt.call("runtime_stream_wait", second, first).succeeds()
    rt.call("runtime_stream_wait", second, second).succeeds()

    assert values(rt, y) == [-1, -2, -3]


@clause("KINA-STATUS-26", "4bd48c17")
@clause("KINA-STATUS-28", "649fc08b")
@pytest.mark.parametrize("which", ["stream", "awaited"])
@everywhere
def test_waiting_takes_two_live_streams(rt: Executor, place: dict[str, int], which: str) -> None:
    call = rt.call("runtime_stream_wait", stream=main(rt, place), awaited=phase(rt, 1, place))
    ended = checkout(rt, place)
    checkin(rt, ended)
    missing: dict[str, Any] = {which: None}
    stale: dict[str, Any] = {which: ended}

    call.refuses("INVALID_ARGUMENT", argument=which, **missing)
    call.refuses("INVALID_HANDLE", argument=which, **stale)


# ---- which stream ----------------------------------------------------------------------------------------------------


@clause("KINA-STREAM-23", "e0afda32")
@everywhere
def test_the_newest_stream_push_is_current_also_inside_a_later_device_scope(
    rt: Executor, place: dict[str, int]
) -> None:
    outer, inner = checkout(rt, place), checkout(rt, place)
    push(rt, "runtime_stream_push", outer)
    push(rt, "runtime_stream_push", inner)
    assert current(rt, place) == inner

    scope = push(rt, "runtime_device_push", place=place)
    assert current(rt, place) == inner
    pop(rt, scope)


@clause("KINA-STREAM-24", "0b9a4f1d")
@everywhere
def test_without_a_push_the_device_scope_decides_and_else_the_main_stream(rt: Executor, place: dict[str, int]) -> None:
    assert current(rt, place) == main(rt, place)
    numbered = push(rt, "runtime_phase_push")
    assert current(rt, place) == main(rt, place)

    scope = push(rt, "runtime_device_push", place=place)

    assert current(rt, place) == phase(rt, 1, place)
    pop(rt, scope)
    assert current(rt, place) == main(rt, place)
    pop(rt, numbered)


@clause("KINA-STREAM-25", "76488494")
@everywhere
def test_redirects_and_phases_act_on_scopes_entered_after_them_alone(rt: Executor, place: dict[str, int]) -> None:
    push(rt, "runtime_device_push", place=place)

    push(rt, "runtime_redirect_push", checkout(rt, place))
    push(rt, "runtime_phase_push")

    assert current(rt, place) == main(rt, place)


@clause("KINA-STREAM-26", "5ec006d2")
@pytest.mark.parametrize("kind", ["runtime_stream_push", "runtime_redirect_push", "runtime_phase_push"])
@everywhere
def test_scopes_do_not_reach_other_threads(rt: Executor, place: dict[str, int], kind: str) -> None:
    push(rt, kind, checkout(rt, place), place=place)
    push(rt, "runtime_device_push", place=place)
    assert current(rt, place) != main(rt, place)

    assert in_thread(lambda: current(rt, place)) == main(rt, place)


@clause("KINA-STREAM-27", "908e75df")
@everywhere
def test_a_stream_parameter_wins_and_null_means_the_current_one(rt: Executor, place: dict[str, int]) -> None:
    pushed, given_ = checkout(rt, place), checkout(rt, place)
    push(rt, "runtime_stream_push", pushed)

    assert stream_of(allocated(rt, given_, place=place)) == given_.value
    assert stream_of(allocated(rt, place=place)) == pushed.value


@clause("KINA-STREAM-30", "07ef7e11")
@everywhere
def test_an_operation_runs_on_the_first_inputs_stream_unless_a_scope_says_otherwise(
    rt: Executor, place: dict[str, int]
) -> None:
    own, other, pushed = checkout(rt, place), checkout(rt, place), checkout(rt, place)
    a, b = allocated(rt, own, place=place), allocated(rt, other, place=place)

    def result(first: Tensor, second: Tensor) -> int:
        return stream_of(rt.call("runtime_gpu_binary", first, second, op="KINA_BINARY_ADD").succeeds().out)

    assert (result(a, b), result(b, a)) == (own.value, other.value)
    scope = push(rt, "runtime_device_push", place=place)
    assert result(a, b) == main(rt, place).value
    token = push(rt, "runtime_stream_push", pushed)
    assert result(a, b) == pushed.value
    pop(rt, token)
    pop(rt, scope)
    assert result(a, b) == own.value


@clause("KINA-STREAM-31", "16d72447")
@everywhere
def test_an_ended_stream_does_not_count(rt: Executor, place: dict[str, int]) -> None:
    own = checkout(rt, place)
    x = allocated(rt, own, place=place)
    checkin(rt, own)
    taken_again = checkout(rt, place)

    y = negated(rt, x)

    assert stream_of(y) == main(rt, place).value != taken_again.value and values(rt, y) == [-1, -2, -3]


@clause("KINA-STREAM-32", "6818a047")
@pytest.mark.parametrize("kind", PUSHES)
@everywhere
def test_who_holds_a_stream_keeps_it(rt: Executor, place: dict[str, int], kind: str) -> None:
    own = checkout(rt, place)
    x = allocated(rt, own, place=place)

    token = push(rt, kind, checkout(rt, place), place=place)
    negated(rt, x)
    inside = stream_of(x)
    pop(rt, token)

    assert inside == stream_of(x) == own.value
    rt.call("runtime_stream_synchronize", own).succeeds()


# ---- order -----------------------------------------------------------------------------------------------------------


@clause("KINA-STREAM-33", "63f21257")
@everywhere
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=12))
def test_reads_and_writes_of_a_storage_keep_their_order_across_streams_and_threads(
    rt: Executor, place: dict[str, int], steps: list[tuple[int, bool]]
) -> None:
    streams = [main(rt, place), phase(rt, 1, place), checkout(rt, place), checkout(rt, place)]
    x = allocated(rt, place=place)
    one = rt.call("runtime_copy", rt.tensor("f32", (3,), 1), **place).succeeds().out

    def step(number: int) -> None:
        token = push(rt, "runtime_stream_push", streams[number])
        assert rt.call("runtime_gpu_binary", x, one, op="KINA_BINARY_ADD", out=x).status() == "SUCCESS"
        pop(rt, token)

    for number, elsewhere in steps:
        if elsewhere:
            in_thread(lambda number=number: step(number))  # type: ignore[misc]
        else:
            step(number)

    assert values(rt, x) == [n + len(steps) for n in [1, 2, 3]]


@clause("KINA-STREAM-35", "d893505d")
def test_freed_bytes_go_back_to_the_resource_that_allocated_them(rt: Executor) -> None:
    base = rt.call("runtime_resource_host").succeeds().out
    own = rt.call("runtime_resource_limit", base, 2**20).succeeds().out
    token = rt.call("runtime_resource_push", own).succeeds().out
    x = allocated(rt)
    y = negated(rt, x)
    pop(rt, token)

    def live() -> int:
        return int(rt.call("runtime_resource_info", own).succeeds().out.live_blocks)

    assert live() == 2
    y.numpy()
    for tensor in [x, y]:
        rt.call("runtime_free", tensor).succeeds()
    assert live() == 0


@clause("KINA-STREAM-36", "0d1293fe")
@given(count=st.integers(1, 5000))
def test_work_on_host_tensors_is_complete_at_return(rt: Executor, count: int) -> None:
    x = rt.tensor("i64", (count,), np.arange(count))

    y = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_SQUARE", out=rt.out("i64", (count,))).succeeds().out

    assert (y.numpy() == np.arange(count) ** 2).all()


@clause("KINA-STREAM-37", "609f45c1")
def test_a_copy_to_the_host_returns_with_its_bytes(rt: Executor) -> None:
    x = allocated(rt)

    y = rt.call("runtime_copy_to_host", x).succeeds().out
    z = rt.call("runtime_copy", x, **HOST).succeeds().out

    assert y.numpy().tolist() == z.numpy().tolist() == [1, 2, 3]


@clause("KINA-STREAM-28", "d1fe9f01")
@pytest.mark.needs("sim")
def test_a_stream_of_another_device_is_refused(rt: Executor) -> None:
    other = rt.call("runtime_stream_main", SIMULATED, 0).succeeds().out

    call = rt.call("runtime_alloc", (3,), ndim=1, dtype="f32", **HOST, stream=main(rt))
    call.refuses("DEVICE_MISMATCH", stream=other, argument="stream")
    host = rt.call("runtime_resource_host").succeeds().out
    call = rt.call("runtime_memory_allocate", host, bytes=8, alignment=0, stream=main(rt))
    call.refuses("DEVICE_MISMATCH", stream=other, argument="stream")
    block = call.succeeds().out
    give = rt.call("runtime_memory_deallocate", host, block, bytes=8, alignment=0, stream=main(rt))
    give.refuses("DEVICE_MISMATCH", control=False, stream=other, argument="stream")


@clause("KINA-STREAM-29", "49cea21d")
@pytest.mark.needs("sim")
def test_copies_between_devices_run_on_the_accelerators_stream(rt: Executor) -> None:
    x = allocated(rt)
    theirs = rt.call("runtime_stream_checkout", SIMULATED, 0).succeeds().out
    ours = checkout(rt)
    push(rt, "runtime_stream_push", theirs)
    push(rt, "runtime_stream_push", ours)

    there = rt.call("runtime_copy", x, SIMULATED, 0).succeeds().out
    result = negated(rt, there)

    assert (stream_of(there), stream_of(result)) == (theirs.value, theirs.value)
    assert stream_of(negated(rt, x)) == ours.value
    assert rt.call("runtime_copy_to_host", result).succeeds().out.numpy().tolist() == [-1, -2, -3]


@clause("KINA-STREAM-34", "c0cfc664")
@clause("KINA-STREAM-33", "63f21257")
@clause("KINA-STREAM-35", "d893505d")
@clause("KINA-STREAM-37", "609f45c1")
@pytest.mark.needs("sim")
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["add", "into", "fresh"])), min_size=1, max_size=15))
def test_work_on_many_streams_of_a_device_takes_effect_in_order(rt: Executor, steps: list[tuple[int, str]]) -> None:
    streams = [rt.call("runtime_stream_checkout", SIMULATED, 0).succeeds().out for _ in range(4)]
    one = rt.call("runtime_copy", rt.tensor("f32", (50,), 1), SIMULATED, 0).succeeds().out
    x = rt.call("runtime_copy", rt.tensor("f32", (50,), 0), SIMULATED, 0).succeeds().out
    y = rt.call("runtime_copy", rt.tensor("f32", (50,), 0), SIMULATED, 0).succeeds().out
    expected = 0
    for number, what in steps:
        token = push(rt, "runtime_stream_push", streams[number])
        add = rt.call("runtime_gpu_binary", x, one, op="KINA_BINARY_ADD")
        if what == "add":
            assert add.status(out=x) == "SUCCESS"
        elif what == "into":
            assert add.status(out=y) == "SUCCESS"
            x, y = y, x
        else:
            fresh = add.succeeds().out
            rt.call("runtime_free", x).succeeds()
            x = fresh
        expected += 1
        pop(rt, token)

    back = rt.call("runtime_copy_to_host", x).succeeds().out.numpy()

    assert (back == expected).all()


@clause("KINA-STREAM-18", "c2a8d1ce")
@clause("KINA-STREAM-19", "a8cb5211")
@clause("KINA-STREAM-20", "7cca174b")
@clause("KINA-STREAM-21", "6d216172")
@pytest.mark.needs("sim")
def test_a_device_stream_is_idle_after_it_was_waited_for(rt: Executor) -> None:
    first, second = (rt.call("runtime_stream_checkout", SIMULATED, 0).succeeds().out for _ in range(2))
    there = rt.call("runtime_copy", allocated(rt), SIMULATED, 0).succeeds().out
    push(rt, "runtime_stream_push", first)
    for _ in range(20):
        there = negated(rt, there)

    rt.call("runtime_stream_wait", second, first).succeeds()
    rt.call("runtime_stream_synchronize", second).succeeds()

    assert rt.call("runtime_stream_query", first).succeeds().out == 1
    there = negated(rt, there)
    rt.call("runtime_stream_wait", main(rt), first).succeeds()
    assert rt.call("runtime_stream_query", first).succeeds().out == 1
    rt.call("runtime_stream_synchronize", first).succeeds()


# ---- capture ---------------------------------------------------------------------------------------------------------


@clause("KINA-STREAM-42", "48039cb2")
def test_a_host_stream_is_not_captured(rt: Executor) -> None:
    host = rt.call("runtime_resource_current", **HOST).succeeds().out
    call = rt.call("runtime_capture_push", main(rt), host)

    call.refuses("UNSUPPORTED", control=False)
    for change in [{"out": None}, {"stream": None}, {"resource": None}]:
        call.refuses("INVALID_ARGUMENT", control=False, **change)
    call.refuses("INVALID_HANDLE", control=False, stream=rt.handle("KinaStream", 77))
    call.refuses("INVALID_HANDLE", control=False, resource=rt.handle("KinaResource", main(rt).value))


# ---- scopes ----------------------------------------------------------------------------------------------------------


@clause("KINA-STREAM-43", "68a10532")
@clause("KINA-STREAM-44", "b7f4dbc8")
@pytest.mark.parametrize("kind", [*PUSHES, "runtime_resource_push"])
@everywhere
def test_a_push_is_in_force_until_its_token_is_popped(rt: Executor, place: dict[str, int], kind: str) -> None:
    before = current(rt, place)
    token = push(rt, kind, checkout(rt, place), place=place)

    pop(rt, token)

    assert current(rt, place) == before and pop_status(rt, token) == "INVALID_HANDLE"


@clause("KINA-STREAM-45", "7e749e63")
@clause("KINA-STATUS-28", "649fc08b")
@everywhere
def test_only_the_newest_token_is_popped(rt: Executor, place: dict[str, int]) -> None:
    stream = checkout(rt, place)
    older = push(rt, "runtime_stream_push", stream)
    call = rt.call("runtime_scope_pop", lambda: push(rt, "runtime_phase_push"))

    call.refuses("INVALID_ARGUMENT", scope=None, clause="KINA-STATUS-28")
    push(rt, "runtime_phase_push")
    call.refuses("INVALID_ARGUMENT", scope=older, clause="KINA-STREAM-45")

    assert current(rt, place) == stream, "a refused pop changed what is in force"


@clause("KINA-STREAM-45", "7e749e63")
def test_a_dead_token_is_no_handle(rt: Executor) -> None:
    dead = push(rt, "runtime_phase_push")
    pop(rt, dead)
    call = rt.call("runtime_scope_pop", lambda: push(rt, "runtime_phase_push"))

    for wrong in [dead.value, main(rt).value, 3, 2**64 - 1]:
        call.refuses("INVALID_HANDLE", scope=rt.handle("KinaScope", wrong))


@clause("KINA-STREAM-45", "7e749e63")
def test_another_threads_token_is_refused_and_stays(rt: Executor) -> None:
    token = push(rt, "runtime_phase_push")

    refused = in_thread(lambda: pop_status(rt, token))

    assert refused == "INVALID_ARGUMENT"
    pop(rt, token)


@clause("KINA-STREAM-46", "56186d0f")
@pytest.mark.parametrize("kind", ["runtime_stream_push", "runtime_redirect_push"])
@everywhere
def test_scopes_end_with_their_thread(rt: Executor, place: dict[str, int], kind: str) -> None:
    stream = checkout(rt, place)

    def left() -> list[int]:
        tokens = [
            push(rt, kind, stream, place=place),
            push(rt, "runtime_device_push", place=place),
            push(rt, kind, stream, place=place),
        ]
        values = [token.value for token in tokens]
        rt.forget(tokens)
        assert rt.call("runtime_stream_checkin", stream).status() == "BUSY"
        return values

    tokens = in_thread(left)

    ended = eventually(lambda: rt.call("runtime_stream_checkin", stream).status() == "SUCCESS")
    rt.forget([stream])
    assert ended, "the stream stays pushed by a thread that has ended"
    for token in tokens:
        assert pop_status(rt, rt.handle("KinaScope", token)) == "INVALID_HANDLE"


@clause("KINA-STREAM-47", "6e06d620")
@everywhere
@given(count=st.integers(2, 6))
def test_one_object_is_pushed_as_often_as_one_likes(rt: Executor, place: dict[str, int], count: int) -> None:
    stream = checkout(rt, place)
    tokens = [push(rt, "runtime_stream_push", stream) for _ in range(count)]

    assert len({token.value for token in tokens}) == count
    for token in reversed(tokens):
        assert current(rt, place) == stream
        assert rt.call("runtime_stream_checkin", stream).status() == "BUSY"
        pop(rt, token)
    checkin(rt, stream)


@clause("KINA-STREAM-48", "0dab11c1")
def test_a_thread_has_a_thousand_scopes(rt: Executor) -> None:
    streams = [phase(rt, n) for n in range(7)]
    tokens = [rt.ffi.new("KinaScope *") for _ in range(1000)]
    here = rt.ffi.new("KinaStream *")
    pushes = [rt.function("runtime_stream_push")(tokens[n], streams[n % 7].cdata) for n in range(1000)]

    for n in reversed(range(1000)):
        assert rt.function("runtime_stream_current")(here, 1, 0) == 0 and here[0] == streams[n % 7].cdata
        assert rt.function("runtime_scope_pop")(tokens[n][0]) == 0
    assert not any(pushes) and current(rt) == main(rt)


class Scopes(RuleBasedStateMachine):
    """The scopes of one thread against a list: which stream is current, which token can be popped."""

    place = HOST

    def __init__(self) -> None:
        super().__init__()
        self.rt = session()
        self.mark = len(self.rt.live)
        self.main = main(self.rt, self.place)
        self.streams: list[Handle] = [self.main, phase(self.rt, 1, self.place), phase(self.rt, 2, self.place)]
        self.entered: list[tuple[str, Handle, Handle]] = []  # kind, what it binds, token

    def expected(self) -> Handle:
        return self.newest("stream") or self.newest("device") or self.main

    def newest(self, kind: str) -> Handle | None:
        return next((bound for other, bound, _ in reversed(self.entered) if other == kind), None)

    @rule(number=st.integers(0, 2), kind=st.sampled_from(["stream", "redirect"]))
    def push_a_stream(self, number: int, kind: str) -> None:
        token = push(self.rt, f"runtime_{kind}_push", self.streams[number])
        self.entered.append((kind, self.streams[number], token))

    @rule(number=st.integers(1, 2))
    def push_a_phase(self, number: int) -> None:
        token = self.rt.call("runtime_phase_push", phase=number).succeeds().out
        self.entered.append(("phase", self.streams[number], token))

    @rule()
    def enter_the_device(self) -> None:
        bound = self.newest("redirect") or self.newest("phase") or self.main
        self.entered.append(("device", bound, push(self.rt, "runtime_device_push", place=self.place)))

    @precondition(lambda self: self.entered)
    @rule()
    def pop_the_newest(self) -> None:
        pop(self.rt, self.entered.pop()[2])

    @precondition(lambda self: len(self.entered) > 1)
    @rule(data=st.data())
    def popping_an_older_one_is_refused(self, data: st.DataObject) -> None:
        older = data.draw(st.sampled_from(self.entered[:-1]))
        assert pop_status(self.rt, older[2]) == "INVALID_ARGUMENT"

    @invariant()
    def the_current_stream_is_the_expected_one(self) -> None:
        assert current(self.rt, self.place) == self.expected()

    def teardown(self) -> None:
        self.rt.release_since(self.mark)


TestScopes = clause("KINA-STREAM-44", "b7f4dbc8")(Scopes.TestCase)


class DeviceScopes(Scopes):
    """The same on a simulated device."""

    place = DEVICE


TestDeviceScopes = pytest.mark.needs("sim")(clause("KINA-STREAM-44", "b7f4dbc8")(DeviceScopes.TestCase))
