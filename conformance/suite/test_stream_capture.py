"""Capture: calls that are recorded into a graph of the caller's, and what the library refuses meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, Handle, Tensor, clause
from kina_conformance.devices import back, pushed, there
from kina_conformance.memory_cases import memory_case
from kina_conformance.simulated import DEVICE, Graph, Native

pytestmark = [pytest.mark.needs("capture"), pytest.mark.needs("sim")]
CAPTURED = {"device_type": DEVICE, "device_id": 0}


class Taken:
    """A stream with the resource that its capture takes memory from."""

    def __init__(self, rt: Executor, maximum_bytes: int = 0) -> None:
        self.rt = rt
        self.stream: Handle = rt.call("runtime_stream_checkout", **CAPTURED).succeeds().out
        self.native = Native.of(rt, self.stream)
        base = rt.call("runtime_resource_current", **CAPTURED).succeeds().out
        params = {"initial_bytes": 2**16, "maximum_bytes": maximum_bytes or 2**20, "growth": "KINA_GROWTH_FIXED"}
        self.resource: Handle = rt.call("runtime_resource_pool", base, params=params).succeeds().out
        self.graph: Graph | None = None

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Within it calls go to the stream, which captures; afterwards `graph` is what they recorded."""
        rt = self.rt
        announced = rt.call("runtime_capture_push", self.stream, self.resource).succeeds().out
        bound = rt.call("runtime_stream_push", self.stream).succeeds().out
        self.native.begin_capture()
        try:
            yield
        finally:
            self.graph = self.native.end_capture()
            rt.call("runtime_scope_pop", bound).succeeds()
            rt.call("runtime_scope_pop", announced).succeeds()

    def replay(self, reads: list[Tensor], writes: list[Tensor]) -> None:
        """Runs what was recorded, ordered with all other work by what it touches."""
        assert self.graph is not None
        for access, tensors in [("KINA_ACCESS_READ", reads), ("KINA_ACCESS_WRITE", writes)]:
            for tensor in tensors:
                self.rt.call("runtime_tensor_record_use", tensor, self.stream, access=access).succeeds()
        self.graph.replay(self.native)
        for tensor in writes:
            self.rt.call("runtime_tensor_record_use", tensor, self.stream, access="KINA_ACCESS_WRITE").succeeds()

    def live_blocks(self) -> int:
        return int(self.rt.call("runtime_resource_info", self.resource).succeeds().out.live_blocks)


@contextlib.contextmanager
def unannounced(rt: Executor, stream: Handle) -> Iterator[None]:
    """Within it the stream captures, and nobody said so."""
    native = Native.of(rt, stream)
    native.begin_capture()
    try:
        yield
    finally:
        native.end_capture()


def negated(rt: Executor, x: Tensor, out: Tensor | None = None) -> Tensor:
    more = {} if out is None else {"out": out}
    tensor: Tensor = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG", **more).succeeds().out
    return tensor


@clause("KINA-RESOURCE-47", "09588531")
@clause("KINA-RESOURCE-73", "79cb8445")
def test_bytes_that_a_captured_stream_gave_up_stay_in_the_pool(rt: Executor) -> None:
    stream: Handle = rt.call("runtime_stream_checkout", **CAPTURED).succeeds().out
    base = rt.call("runtime_resource_current", **CAPTURED).succeeds().out
    params = {"initial_bytes": 2**20, "growth": "KINA_GROWTH_NONE"}
    pool: Handle = rt.call("runtime_resource_pool", base, params=params).succeeds().out
    Native.of(rt, stream)  # from here on there may be work on it that nobody knows of
    block = rt.call("runtime_memory_allocate", pool, 2**20, 0, stream).succeeds().out
    rt.call("runtime_memory_deallocate", pool, block, 2**20, 0, stream).succeeds()
    trim = rt.call("runtime_resource_trim", resource=pool, keep_bytes=0)

    with unannounced(rt, stream):
        assert trim.succeeds().released_bytes == 0
        info = rt.call("runtime_resource_info", pool).succeeds().out
        assert (info.reserved_bytes, info.leaked_bytes) == (2**20, 0)

    assert trim.succeeds().released_bytes == 2**20
    again = rt.call("runtime_memory_allocate", pool, 2**20, 0, stream).succeeds().out
    rt.call("runtime_memory_deallocate", pool, again, 2**20, 0, stream).succeeds()


@clause("KINA-STREAM-40", "52279429")
@clause("KINA-RESOURCE-24", "cacfffc5")
def test_others_may_use_what_was_taken_on_a_stream_before_it_captures(rt: Executor) -> None:
    taken = Taken(rt)
    others = [rt.call("runtime_stream_checkout", **CAPTURED).succeeds().out for _ in range(2)]
    base = rt.call("runtime_resource_current", **CAPTURED).succeeds().out
    params = {"initial_bytes": 2**20, "growth": "KINA_GROWTH_NONE"}
    pool: Handle = rt.call("runtime_resource_pool", base, params=params).succeeds().out
    block = rt.call("runtime_memory_allocate", pool, 2**20, 0, taken.stream).succeeds().out

    with taken.recording():
        for other in others:
            rt.call("runtime_memory_deallocate", pool, block, 2**20, 0, others[0]).succeeds()
            block = rt.call("runtime_memory_allocate", pool, 2**20, 0, other).succeeds().out

    rt.call("runtime_memory_deallocate", pool, block, 2**20, 0, others[1]).succeeds()


@clause("KINA-STREAM-39", "f2ebef15")
@clause("KINA-STREAM-40", "52279429")
def test_ten_recorded_operations_are_replayed_a_hundred_times(rt: Executor) -> None:
    taken = Taken(rt)
    x, y, one = there(rt, [0.0] * 64), there(rt, [0.0] * 64), there(rt, [1.0] * 64)
    with taken.recording():
        step = x
        for number in range(10):
            out = {"out": y} if number == 9 else {}
            step = rt.call("runtime_gpu_binary", step, one, op="KINA_BINARY_ADD", **out).succeeds().out
        inside = taken.live_blocks()
    assert back(rt, y) == [0.0] * 64, "a recorded call ran"

    for number in range(100):
        rt.call("runtime_fill", x, value=np.float32(number).tobytes(), value_bytes=4).succeeds()
        taken.replay([x, one], [y])
        assert back(rt, y) == [number + 10.0] * 64

    assert inside >= 9


@clause("KINA-STREAM-39", "f2ebef15")
@clause("KINA-RESOURCE-71", "80de9da4")
def test_a_pool_that_was_refused_its_default_span_grows_for_recorded_work(rt: Executor) -> None:
    taken = Taken(rt)
    base = rt.call("runtime_resource_current", **CAPTURED).succeeds().out
    taken.resource = rt.call("runtime_resource_pool", base, params=None).succeeds().out
    x = there(rt, [1.0] * 100)

    with taken.recording():
        made = negated(rt, x)

    assert taken.live_blocks() == 1
    rt.call("runtime_tensor_record_use", made, taken.stream, access="KINA_ACCESS_WRITE").succeeds()
    taken.replay([x], [made])
    assert back(rt, made) == [-1.0] * 100


@memory_case("P66")
@clause("KINA-STREAM-39", "f2ebef15")
@given(count=st.integers(1, 6))
def test_memory_of_recorded_work_comes_from_the_announced_resource_alone(rt: Executor, count: int) -> None:
    taken = Taken(rt)
    x = there(rt, [1.0] * 100)
    current = rt.call("runtime_resource_current", **CAPTURED).succeeds().out
    in_force = rt.call("runtime_resource_limit", current, 2**20).succeeds().out

    with pushed(rt, in_force), taken.recording():
        made = [negated(rt, x) for _ in range(count)]
        allocated = rt.call("runtime_alloc", (7,), ndim=1, dtype="f32", **CAPTURED, stream=None).succeeds().out
        assert taken.live_blocks() == count + 1
    for tensor in [*made, allocated]:
        assert rt.handle("KinaResource", int(rt.ffi.cast("uintptr_t", tensor.struct.allocator))) != in_force
    assert rt.call("runtime_resource_info", in_force).succeeds().out.allocations == 0


@clause("KINA-STREAM-39", "f2ebef15")
def test_announcing_binds_no_stream(rt: Executor) -> None:
    taken = Taken(rt)
    main = rt.call("runtime_stream_main", **CAPTURED).succeeds().out

    token = rt.call("runtime_capture_push", taken.stream, taken.resource).succeeds().out

    assert rt.call("runtime_stream_current", **CAPTURED).succeeds().out == main
    rt.call("runtime_scope_pop", token).succeeds()


@memory_case("P65")
@clause("KINA-STREAM-39", "f2ebef15")
def test_a_capture_whose_resource_is_exhausted_is_out_of_memory_and_goes_on(rt: Executor) -> None:
    """The pool gives nothing back upstream while a stream captures, and asks for no more than its maximum."""
    taken = Taken(rt, maximum_bytes=2**16)
    x, y = there(rt, [1.0] * 64), there(rt, [0.0] * 64)

    def reserved() -> int:
        return int(rt.call("runtime_resource_info", taken.resource).succeeds().out.reserved_bytes)

    held = reserved()
    with taken.recording():
        call = rt.call("runtime_alloc", (2**20,), ndim=1, dtype="u8", **CAPTURED, stream=None)
        assert call.status() == "OUT_OF_MEMORY" and rt.record().requested_bytes == 2**20
        assert reserved() == held
        negated(rt, x, y)
    taken.replay([x], [y])

    assert back(rt, y) == [-1.0] * 64


class Chosen:
    """Elements of [10, 20, 30, 40] in a graph: those that `indices` choose, and these negated."""

    def __init__(self, rt: Executor) -> None:
        self.rt, self.taken = rt, Taken(rt)
        self.values, self.gathered, self.negated = (
            there(rt, values) for values in ([10.0, 20.0, 30.0, 40.0], [0.0] * 2, [0.0] * 2)
        )
        self.indices = rt.call("runtime_copy", rt.tensor("i64", (2,), [0, 0]), **CAPTURED).succeeds().out
        self.inputs = [self.values, self.indices]

    def record(self) -> None:
        call = self.rt.call("runtime_gpu_gather", self.values, self.indices)
        assert call.status(out=self.gathered) == "SUCCESS"
        call = self.rt.call("runtime_gpu_unary", self.gathered, op="KINA_UNARY_NEG")
        assert call.status(out=self.negated) == "SUCCESS"

    def choose(self, *indices: int) -> None:
        chosen = self.rt.tensor("i64", (2,), indices, owned=True)
        assert self.rt.call("runtime_copy", chosen, **CAPTURED).status(out=self.indices) == "SUCCESS"

    def failure(self, x: Tensor) -> int:
        return int(self.rt.call("runtime_failure_get", x).succeeds().out.failure)

    def clear(self) -> None:
        for x in (self.gathered, self.negated):
            self.rt.call("runtime_failure_clear", tensor=x).succeeds()


@clause("KINA-INDEXING-25", "2564a613")
def test_every_replay_of_a_gather_checks_its_indices(rt: Executor) -> None:
    chosen = Chosen(rt)
    with chosen.taken.recording():
        chosen.record()

    for number in range(6):
        bad = number in {1, 2, 4}
        chosen.choose(3, -1 if bad else number % 4)
        chosen.taken.replay(chosen.inputs, [chosen.gathered, chosen.negated])

        info = rt.call("runtime_failure_get", chosen.negated).succeeds().out
        assert (info.failure != 0) == bad and info.failure == chosen.failure(chosen.gathered)
        if bad:
            assert rt.lib.status_name(info.status) == "INDEX_OUT_OF_RANGE"
            assert rt.string(info.function) == "runtime_gpu_gather"
            assert [rt.string(info.skipped[i]) for i in range(info.skipped_count)] == ["runtime_gpu_unary"]
            assert rt.call("runtime_copy_to_host", chosen.negated).status() == "FAILED_INPUT"
            chosen.clear()
        assert back(rt, chosen.negated) == [-40.0, 0.0 if bad else -10.0 * (number % 4 + 1)]


@clause("KINA-INDEXING-25", "2564a613")
def test_a_replay_stops_nothing_and_its_check_travels(rt: Executor) -> None:
    chosen = Chosen(rt)
    with chosen.taken.recording():
        chosen.record()
    chosen.choose(4, 0)
    chosen.taken.replay(chosen.inputs, [chosen.gathered, chosen.negated])

    late = rt.empty()
    assert rt.call("runtime_gpu_unary", chosen.negated, op="KINA_UNARY_NEG").status(out=late) == "SUCCESS"
    chosen.choose(0, 0)
    chosen.taken.replay(chosen.inputs, [chosen.gathered, chosen.negated])

    assert chosen.failure(late) == chosen.failure(chosen.gathered) != 0


@clause("KINA-INDEXING-25", "2564a613")
def test_graphs_that_write_the_same_bytes_keep_their_checks(rt: Executor) -> None:
    first, second = Chosen(rt), Chosen(rt)
    second.gathered, second.negated = first.gathered, first.negated
    plain = Taken(rt)
    for graph in (first, second):
        with graph.taken.recording():
            graph.record()
    with plain.recording():
        assert rt.call("runtime_fill", first.negated, value=bytes(4), value_bytes=4).status() == "SUCCESS"

    for bad in (first, second):
        first.choose(0, 4 if bad is first else 0)
        second.choose(0, 4 if bad is second else 0)
        for graph in (first, second):
            graph.taken.replay(graph.inputs, [graph.gathered, graph.negated])
            assert (first.failure(first.negated) != 0) == (graph is bad)
            first.clear()
        plain.replay([], [first.negated])
        assert back(rt, first.negated) == [0.0, 0.0]


@clause("KINA-INDEXING-25", "2564a613")
def test_recorded_work_that_writes_the_bytes_anew_takes_the_check_from_them(rt: Executor) -> None:
    chosen = Chosen(rt)
    with chosen.taken.recording():
        chosen.record()
        call = rt.call("runtime_fill", chosen.gathered, value=bytes(4), value_bytes=4)
        assert call.status() == "SUCCESS"
    chosen.choose(0, 4)

    chosen.taken.replay(chosen.inputs, [chosen.gathered, chosen.negated])

    assert back(rt, chosen.gathered) == [0.0, 0.0]
    assert chosen.failure(chosen.negated) != 0


@clause("KINA-INDEXING-25", "2564a613")
def test_a_graph_checks_its_indices_also_when_what_it_gathered_is_gone(rt: Executor) -> None:
    chosen = Chosen(rt)
    with chosen.taken.recording():
        inside = rt.call("runtime_gpu_gather", chosen.values, chosen.indices).succeeds().out
        call = rt.call("runtime_gpu_unary", inside, op="KINA_UNARY_NEG")
        assert call.status(out=chosen.negated) == "SUCCESS"
        rt.call("runtime_free", tensor=inside).succeeds()
    other = rt.call("runtime_copy", rt.tensor("i64", (2,), [0, 1]), **CAPTURED).succeeds().out

    for bad in (True, False):
        chosen.choose(0, 4 if bad else 0)
        chosen.taken.replay(chosen.inputs, [chosen.negated])
        beside = rt.empty()
        assert rt.call("runtime_gpu_gather", chosen.values, other).status(out=beside) == "SUCCESS"
        assert (chosen.failure(chosen.negated) != 0, chosen.failure(beside)) == (bad, 0)
        chosen.clear()


@clause("KINA-STREAM-40", "52279429")
def test_a_recorded_call_repairs_nothing_and_is_nobodys_last_writer(rt: Executor) -> None:
    taken = Taken(rt)
    x, y = there(rt, [1.0] * 8), there(rt, [0.0] * 8)
    rt.call("runtime_failure_set", tensor=y, cause=0, status="DEVICE", message="set by a test").succeeds()

    with taken.recording():
        negated(rt, x, y)

    call = rt.call("runtime_copy_to_host", x)
    call.refuses("FAILED_INPUT", in_=y)
    rt.call("runtime_failure_clear", tensor=y).succeeds()
    assert back(rt, y) == [0.0] * 8


@clause("KINA-STREAM-41", "a2218c75")
@pytest.mark.parametrize("result", ["fresh", "given"])
def test_work_on_a_stream_that_captures_unannounced_is_refused(rt: Executor, result: str) -> None:
    stream = rt.call("runtime_stream_checkout", **CAPTURED).succeeds().out
    rt.call("runtime_stream_push", stream).succeeds()
    x, y = there(rt, [1.0] * 8), there(rt, [2.0] * 8)
    call = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG", **({"out": y} if result == "given" else {}))

    call.refuses("UNSUPPORTED", within=lambda: unannounced(rt, stream), clause="KINA-STREAM-41")

    if result == "fresh":
        assert back(rt, y) == [2.0] * 8


@clause("KINA-STREAM-41", "a2218c75")
def test_memory_use_and_exchange_on_a_stream_that_captures_unannounced_are_refused(rt: Executor) -> None:
    stream = rt.call("runtime_stream_checkout", **CAPTURED).succeeds().out
    resource = rt.call("runtime_resource_current", **CAPTURED).succeeds().out
    x = there(rt, [1.0] * 8)
    calls = [
        rt.call("runtime_memory_allocate", resource, bytes=64, alignment=0, stream=stream),
        rt.call("runtime_alloc", (3,), ndim=1, dtype="f32", **CAPTURED, stream=stream),
        rt.call("runtime_tensor_record_use", x, stream, access="KINA_ACCESS_READ"),
        rt.call("runtime_to_dlpack", tensor=lambda: there(rt, [1.0]), params={"stream": stream}),
    ]

    for call in calls:
        call.refuses("UNSUPPORTED", within=lambda: unannounced(rt, stream), clause="KINA-STREAM-41")


@clause("KINA-STREAM-41", "a2218c75")
def test_host_memory_takes_no_part_in_a_capture(rt: Executor) -> None:
    taken = Taken(rt)
    x, y = there(rt, [1.0] * 8), there(rt, [1.0] * 8)
    borrowed, scalar = rt.tensor("f32", (8,), 1), rt.tensor("f32", (), 2)
    rt.call("runtime_stream_push", taken.stream).succeeds()
    calls = [
        rt.call("runtime_copy_to_host", x),
        rt.call("runtime_copy", borrowed, **CAPTURED),
        rt.call("runtime_gpu_binary", x, scalar, op="KINA_BINARY_MUL"),
    ]

    for call in calls:
        call.refuses("UNSUPPORTED", within=taken.recording, clause="KINA-STREAM-41")
    with taken.recording():
        negated(rt, x, y)
    taken.replay([x], [y])

    assert back(rt, y) == [-1.0] * 8


@clause("KINA-STREAM-22", "9e71e898")
@pytest.mark.parametrize("announced", [True, False])
def test_nobody_waits_for_a_stream_that_captures(rt: Executor, announced: bool) -> None:
    taken = Taken(rt)
    x, y = there(rt, [1.0] * 8), there(rt, [0.0] * 8)
    main = rt.call("runtime_stream_main", **CAPTURED).succeeds().out
    within = taken.recording if announced else lambda: unannounced(rt, taken.stream)

    for call in [
        rt.call("runtime_stream_synchronize", taken.stream),
        rt.call("runtime_stream_query", taken.stream),
        rt.call("runtime_stream_wait", taken.stream, main),
        rt.call("runtime_stream_wait", main, taken.stream),
        rt.call("runtime_device_synchronize", **CAPTURED),
    ]:
        call.refuses("UNSUPPORTED", within=within, clause="KINA-STREAM-22")

    with taken.recording():
        negated(rt, x, y)
        assert rt.call("runtime_stream_synchronize", taken.stream).status() == "UNSUPPORTED"
    taken.replay([x], [y])
    assert back(rt, y) == [-1.0] * 8


@clause("KINA-STREAM-6", "6b6dcae5")
@clause("KINA-STREAM-50", "1406bc30")
def test_a_stream_that_captures_does_not_end(rt: Executor) -> None:
    taken = Taken(rt)
    native = Native.foreign(rt)
    imported = rt.call("runtime_stream_import", **CAPTURED, native=native.value).succeeds().out

    announced = rt.call("runtime_capture_push", taken.stream, taken.resource).succeeds().out
    assert rt.call("runtime_stream_checkin", taken.stream).status() == "BUSY"
    rt.call("runtime_scope_pop", announced).succeeds()
    with unannounced(rt, taken.stream), unannounced(rt, imported):
        assert rt.call("runtime_stream_checkin", taken.stream).status() == "BUSY"
        assert rt.call("runtime_stream_release", imported).status() == "BUSY"

    rt.call("runtime_stream_checkin", taken.stream).succeeds()
    rt.call("runtime_stream_release", imported).succeeds()


@clause("KINA-STREAM-33", "63f21257")
def test_work_from_before_a_capture_can_be_waited_for_during_it(rt: Executor) -> None:
    taken = Taken(rt)
    token = rt.call("runtime_stream_push", taken.stream).succeeds().out
    x = there(rt, [1.0] * 8)
    y = negated(rt, x)
    rt.call("runtime_scope_pop", token).succeeds()

    with taken.recording():
        main = rt.call("runtime_stream_main", **CAPTURED).succeeds().out
        bound = rt.call("runtime_stream_push", main).succeeds().out
        assert back(rt, negated(rt, y)) == [1.0] * 8
        rt.call("runtime_scope_pop", bound).succeeds()


@clause("KINA-STATUS-30", "03ebb98d")
@clause("KINA-STREAM-35", "d893505d")
def test_tensors_are_freed_while_a_stream_captures(rt: Executor) -> None:
    taken = Taken(rt)
    x, y = there(rt, [1.0] * 8), there(rt, [0.0] * 8)
    before = taken.live_blocks()

    with taken.recording():
        made = [negated(rt, x) for _ in range(5)]
        negated(rt, made[-1], y)
        for tensor in made:
            rt.call("runtime_free", tensor).succeeds()
        main = rt.call("runtime_stream_main", **CAPTURED).succeeds().out
        bound = rt.call("runtime_stream_push", main).succeeds().out
        rt.call("runtime_free", there(rt, [3.0] * 8)).succeeds()
        rt.call("runtime_scope_pop", bound).succeeds()
    taken.replay([x], [y])

    assert back(rt, y) == [1.0] * 8 and taken.live_blocks() == before


@clause("KINA-STREAM-49", "e3e9db1c")
@clause("KINA-STREAM-42", "48039cb2")
def test_a_capture_takes_memory_of_its_streams_device(rt: Executor) -> None:
    taken = Taken(rt)
    call = rt.call("runtime_capture_push", taken.stream, taken.resource)
    host = rt.call("runtime_resource_host").succeeds().out

    call.refuses("DEVICE_MISMATCH", resource=host, clause="KINA-STREAM-49", argument="resource")
    main = rt.call("runtime_stream_main", 1, 0).succeeds().out
    call.refuses("UNSUPPORTED", stream=main, resource=host, clause="KINA-STREAM-42", as_one="the host")
    call.refuses("INVALID_ARGUMENT", out=None, argument="out")
    call.refuses("INVALID_ARGUMENT", stream=None, argument="stream")
    call.refuses("INVALID_ARGUMENT", resource=None, argument="resource")


@clause("KINA-RESOURCE-4", "e02c4ee1")
def test_the_resource_of_a_capture_is_not_released(rt: Executor) -> None:
    taken = Taken(rt)
    token = rt.call("runtime_capture_push", taken.stream, taken.resource).succeeds().out

    assert rt.call("runtime_resource_release", taken.resource).status() == "BUSY"

    rt.call("runtime_scope_pop", token).succeeds()
    rt.call("runtime_resource_release", taken.resource).succeeds()
