"""How a call fails: the record, the strong guarantee, precedence, handles, silence, threads, life cycle, the log."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, Handle, clause
from kina_conformance.alone import alone
from kina_conformance.elf import is_elf, read
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import HOST, in_thread

RELEASES = [
    "runtime_free",
    "runtime_stream_checkin",
    "runtime_stream_release",
    "runtime_scope_pop",
    "runtime_resource_release",
    "runtime_weak_release",
    "runtime_peer_release",
    "runtime_memory_deallocate",
]


def fail(rt: Executor, number: int = 99) -> str:
    """A failing call that makes nothing and needs nothing; different numbers fail differently."""
    status: str = rt.call("runtime_device_synchronize", device_type=1, device_id=number).status()
    return status


def handle(rt: Executor, value: int) -> Handle:
    return rt.handle("KinaStream", value)


def clear(rt: Executor) -> None:
    rt.function("runtime_clear_last_error")()


def message(rt: Executor) -> str | None:
    return rt.string(rt.function("runtime_last_error_message")())


def failing(rt: Executor) -> list[tuple[str, dict[str, Any]]]:
    """Calls that fail, each for a reason of its own."""
    x = rt.tensor("f32", (2, 3))
    return [
        ("runtime_device_info", {"device_type": 1, "device_id": 5}),
        ("runtime_device_info", {"device_type": 99, "device_id": 0}),
        ("runtime_stream_query", {"stream": None}),
        ("runtime_stream_query", {"stream": rt.handle("KinaStream", 5)}),
        ("runtime_field_layout", {"type": "KinaNothing", "field": None}),
        ("runtime_gpu_unary", {"in": rt.empty(), "op": "KINA_UNARY_NEG"}),
        ("runtime_gpu_unary", {"in": x, "op": 0x1FF}),
        ("runtime_gpu_reduce", {"in": x, "axis": 7, "op": "KINA_REDUCE_SUM"}),
        ("runtime_gpu_cast", {"in": x, "target": 0x7777}),
        ("runtime_alloc", {"shape": (-1,), "ndim": 1, "dtype": "f32", **HOST, "stream": None}),
    ]


# ---- statuses and the record -----------------------------------------------------------------------------------------


@clause("KINA-STATUS-1", "1a3a081e")
def test_a_failing_call_answers_a_status_of_its_tag(rt: Executor) -> None:
    for name, given_ in failing(rt):
        tags = rt.contract.functions[name].tags
        status = rt.call(name, **given_).status()
        assert tags is not None and status in tags.errors, (name, status)


@clause("KINA-STATUS-2", "bb313cf8")
@given(number=st.integers(-(2**31), 2**31 - 1))
def test_a_status_has_its_word_and_every_other_number_is_unknown(rt: Executor, number: int) -> None:
    rows = {row["value"]: row["name"] for row in rt.contract.tables["statuses"]["status"]}

    for value in [*rows, number]:
        assert rt.string(rt.function("runtime_status_name")(value)) == rows.get(value, "UNKNOWN")


@clause("KINA-STATUS-3", "fe8f1f02")
@clause("KINA-STATUS-10", "af57bada")
def test_a_failing_call_leaves_what_it_refused_on_record(rt: Executor) -> None:
    for name, given_ in failing(rt):
        status = rt.call(name, **given_).status()
        record = rt.record()
        tags = rt.contract.functions[name].tags
        assert tags is not None
        assert (record.status, record.function, record.message) == (status, name, message(rt))
        assert record.clause in tags.errors[status].clauses, (name, record)


@clause("KINA-STATUS-4", "f37fb44f")
def test_a_success_leaves_the_record(rt: Executor) -> None:
    fail(rt)
    before = rt.record()

    rt.call("runtime_gpu_unary", rt.tensor("f32", (3,)), op="KINA_UNARY_NEG").succeeds()
    rt.call("runtime_device_count", device_type=1).succeeds()

    assert rt.record() == before and before.status == "INVALID_ARGUMENT"


@clause("KINA-STATUS-5", "50e62c66")
@clause("KINA-STATUS-23", "54af5684")
@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
def test_reading_the_record_never_sets_it(rt: Executor) -> None:
    fail(rt)
    before = rt.record()
    small = rt.ffi.new("KinaErrorInfo *")
    small.struct_size = 88
    odd = rt.ffi.new("KinaErrorInfo *")
    odd.struct_size = 97
    last_error = rt.call("runtime_last_error")

    assert last_error.status(out=None) == "INVALID_ARGUMENT"
    assert last_error.status(out=small) == last_error.status(out=odd) == "VERSION"
    message(rt)
    rt.function("runtime_status_name")(12345)

    assert rt.record() == before and bytes(rt.ffi.buffer(small))[4:] == bytes(92)
    clear(rt)
    assert last_error.status(out=None) == "INVALID_ARGUMENT" and rt.record().status == "SUCCESS"


@clause("KINA-STATUS-6", "08aa787e")
def test_without_a_record_all_is_zero_and_the_message_is_empty(rt: Executor) -> None:
    clear(rt)

    out = rt.call("runtime_last_error").succeeds().out

    assert message(rt) == rt.string(out.message) == ""
    held = bytes(rt.ffi.buffer(out))
    assert held[4:88] == bytes(84)


@clause("KINA-STATUS-7", "6b8b23e2")
@clause("KINA-STATUS-8", "fe1aca3a")
def test_a_record_belongs_to_its_thread(rt: Executor) -> None:
    fail(rt)
    mine = rt.record()

    def elsewhere() -> list[str]:
        seen = [rt.record().status]
        rt.call("runtime_stream_query", stream=None).status()
        seen.append(rt.record().function or "")
        clear(rt)
        seen.append(rt.record().status)
        return seen

    assert in_thread(elsewhere) == ["SUCCESS", "runtime_stream_query", "SUCCESS"]
    assert rt.record() == mine
    clear(rt)
    assert rt.record().status == "SUCCESS"


@clause("KINA-STATUS-9", "6658bedc")
def test_strings_stay_until_the_next_failing_call_of_the_thread(rt: Executor) -> None:
    fail(rt)
    out = rt.call("runtime_last_error").succeeds().out
    strings = [out.function, out.argument_name, out.clause, out.message, rt.function("runtime_last_error_message")()]
    before = [rt.string(text) for text in strings]

    rt.call("runtime_gpu_unary", rt.tensor("f32", (3,)), op="KINA_UNARY_NEG").succeeds()
    in_thread(lambda: [fail(rt, number) for number in range(7, 90)])
    clear_elsewhere = in_thread(lambda: clear(rt))

    assert clear_elsewhere is None and [rt.string(text) for text in strings] == before and all(before)


@clause("KINA-STATUS-11", "5605880d")
def test_the_refused_argument_is_named_and_counted_from_one(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 2))
    bias = rt.tensor("f32", (5,))
    product = rt.call("runtime_gpu_matmul", x, x, params=None)

    record = product.refuses("INVALID_SHAPE", params={"bias": bias})
    assert (record.argument, record.argument_name) == (4, "params.bias")
    record = rt.call("runtime_gpu_reduce", x, axis=0, op="KINA_REDUCE_SUM").refuses("INVALID_SHAPE", axis=9)
    assert (record.argument, record.argument_name) == (3, "axis")


@clause("KINA-STATUS-12", "9882d83f")
def test_category_and_retryable_follow_from_the_status(rt: Executor) -> None:
    rows = {row["name"]: row for row in rt.contract.tables["statuses"]["status"]}
    stream = rt.call("runtime_stream_checkout", **HOST).succeeds().out
    rt.call("runtime_stream_push", stream).succeeds()
    rt.call("runtime_stream_checkin", stream).status()
    seen = [rt.record()]
    for name, given_ in failing(rt):
        rt.call(name, **given_).status()
        seen.append(rt.record())

    for record in seen:
        row = rows[record.status]
        category = rt.constant(f"KINA_CATEGORY_{row['category'].upper()}")
        assert (record.category, record.retryable) == (category, int(row["retryable"])), record
    assert {"BUSY", "INVALID_ARGUMENT", "INVALID_HANDLE", "UNSUPPORTED", "INVALID_SHAPE"} <= {r.status for r in seen}


@clause("KINA-STATUS-13", "8077214e")
@clause("KINA-STATUS-44", "01bc6644")
@given(count=st.integers(1, 10**6))
def test_out_of_memory_says_how_much_was_asked_for(rt: Executor, count: int) -> None:
    call = rt.call("runtime_alloc", (count,), ndim=1, dtype="f64", **HOST, stream=None)

    record = call.refuses("OUT_OF_MEMORY", within=rt.limited, clause="KINA-STATUS-44")

    assert record.requested_bytes == 8 * count


@memory_case("P36")
@clause("KINA-STATUS-13", "8077214e")
@given(count=st.integers(2**29, 2**56))
def test_sizes_are_told_in_64_bits(rt: Executor, count: int) -> None:
    call = rt.call("runtime_alloc", (count,), ndim=1, dtype="f64", **HOST, stream=None)

    with rt.limited():
        assert call.status() == "OUT_OF_MEMORY"

    assert rt.record().requested_bytes == 8 * count


@clause("KINA-STATUS-14", "b492c6e7")
def test_different_failures_of_one_function_read_differently(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3), owned=True)
    reduce = rt.call("runtime_gpu_reduce", x, axis=0, op="KINA_REDUCE_SUM")
    changes: list[dict[str, Any]] = [
        {"in": None},
        {"in": rt.empty()},
        {"axis": 5},
        {"op": 0x3FF},
        {"out": None},
        {"out": rt.out("f32", (9,))},
        {"out": rt.out("f64", (3,))},
        {"out": rt.out("f32", (3,), read_only=True)},
    ]

    told = []
    for change in changes:
        assert reduce.status(**change) != "SUCCESS"
        told.append(message(rt))

    assert len(set(told)) == len(told) and all(told), told


@clause("KINA-STATUS-45", "292c0470")
def test_failures_inside_a_callback_leave_no_trace(rt: Executor) -> None:
    def hear(_level: int, _text: str) -> None:
        rt.call("runtime_stream_query", stream=None).status()

    with listening(rt, hear):
        fail(rt)
        record = rt.record()

    assert (record.function, record.argument_name) == ("runtime_device_synchronize", "device_id")


@clause("KINA-STATUS-46", "a21fea00")
def test_no_function_returns_a_null_string(rt: Executor) -> None:
    clear(rt)
    for _ in range(2):
        strings = [
            rt.function("runtime_version_string")(),
            rt.function("runtime_last_error_message")(),
            rt.function("runtime_status_name")(-1),
        ]
        assert rt.ffi.NULL not in strings
        fail(rt)


@clause("KINA-STATUS-47", "d9c55d6f")
def test_a_callers_failure_has_nothing_native(rt: Executor) -> None:
    for name, given_ in failing(rt):
        rt.call(name, **given_).status()
        out = rt.call("runtime_last_error").succeeds().out
        assert (out.native_domain, out.native_code) == (rt.constant("KINA_NATIVE_NONE"), 0)
        assert out.native_name == out.native_message == rt.ffi.NULL


@clause("KINA-STATUS-48", "0c07f68c")
def test_the_record_names_the_failure_that_the_input_carries(rt: Executor) -> None:
    x = rt.tensor("f32", (3,), owned=True)
    negate = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG")
    failure = rt.call("runtime_failure_set", tensor=x, cause=0, status="DEVICE", message="broken").succeeds().failure

    record = negate.refuses("FAILED_INPUT", control=False)
    assert record.failure == failure != 0
    assert fail(rt) and rt.record().failure == 0


@clause("KINA-STATUS-49", "c5187582")
def test_what_the_library_makes_good_itself_sets_no_record(rt: Executor) -> None:
    clear(rt)

    for dtype in ["f32", "f64", "f16", "i32"]:
        rt.call("runtime_gpu_matmul", rt.tensor(dtype, (3, 3)), rt.tensor(dtype, (3, 3)), params=None).succeeds()

    assert rt.record().status == "SUCCESS"


# ---- failure ---------------------------------------------------------------------------------------------------------


@clause("KINA-STATUS-15", "a38abc89")
@clause("KINA-STATUS-21", "e1246944")
def test_a_failure_leaves_answers_as_they_were(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3))
    out = rt.ffi.new("KinaStream *", rt.ffi.cast("KinaStream", 0x5A5A5A5A5A5A5A5A))

    assert rt.call("runtime_stream_main", **HOST).status(out=out, device_id=4) == "INVALID_ARGUMENT"

    assert int(rt.ffi.cast("uintptr_t", out[0])) == 0x5A5A5A5A5A5A5A5A
    empty = rt.empty()
    assert rt.call("runtime_gpu_reduce", x, axis=9, op="KINA_REDUCE_SUM").status(out=empty) == "INVALID_SHAPE"
    assert empty.is_empty


@clause("KINA-STATUS-16", "3459e8ad")
@pytest.mark.needs("dlpack")
def test_a_refused_export_consumes_nothing(rt: Executor) -> None:
    x = rt.tensor("f32", (3,), [1, 2, 3], owned=True)
    before = x.struct_bytes()

    assert rt.call("runtime_to_dlpack", x, params={"max_major": 9}).status() == "VERSION"

    assert x.struct_bytes() == before and x.numpy().tolist() == [1, 2, 3]
    rt.call("runtime_free", x).succeeds()


@clause("KINA-STATUS-17", "fee89868")
@clause("KINA-STATUS-18", "ea704573")
def test_failing_calls_hold_nothing_and_the_library_goes_on(rt: Executor) -> None:
    calls = failing(rt)
    before = rt.counters()

    for _ in range(50):
        for name, given_ in calls:
            assert rt.call(name, **given_).status() != "SUCCESS"

    assert rt.counters() == before
    y = rt.call("runtime_gpu_unary", rt.tensor("i32", (3,), [1, 2, 3]), op="KINA_UNARY_NEG").succeeds().out
    assert y.numpy().tolist() == [-1, -2, -3]


@clause("KINA-STATUS-19", "1f7d48d2")
def test_a_refused_operation_writes_no_byte(rt: Executor) -> None:
    x = rt.tensor("f32", (4,))
    out = rt.out("f32", (4,), owned=True)
    before = out.storage_bytes()
    negate = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG")

    assert negate.status(op=0x1FF, out=out) == "UNSUPPORTED"
    assert negate.status(out=out, **{"in": rt.tensor("f32", (5,))}) == "INVALID_SHAPE"

    assert out.storage_bytes() == before
    assert rt.call("runtime_failure_get", out).succeeds().out.status == 0


@clause("KINA-STATUS-20", "f6364a9f")
def test_a_failed_input_marks_the_result_and_out_of_memory_does_not(rt: Executor) -> None:
    x = rt.tensor("f32", (4,), owned=True)
    out = rt.tensor("f32", (4,), [5, 6, 7, 8], owned=True)
    before = out.storage_bytes()
    failure = rt.call("runtime_failure_set", tensor=x, cause=0, status="DEVICE", message=None).succeeds().failure

    assert rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").status(out=out) == "FAILED_INPUT"

    assert out.storage_bytes() == before
    assert rt.call("runtime_failure_get", out).succeeds().out.failure == failure


@clause("KINA-STATUS-20", "f6364a9f")
@pytest.mark.needs("sim")
@pytest.mark.parametrize(
    ("fault", "statuses"),
    [("lost:2", ["DEVICE_LOST", "DEVICE_LOST"]), ("launch:2", ["KERNEL_LAUNCH", "SUCCESS"])],
)
def test_what_the_device_answered_marks_the_result(rt: Executor, fault: str, statuses: list[str]) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        neg = rt.constants["KINA_UNARY_NEG"]
        x, later = tensor(rt, (4,), (12, 0)), tensor(rt, (4,), (12, 0))
        out, empty = ffi.new("KinaTensor *"), ffi.new("KinaTensor *")
        assert rt.runtime_gpu_unary(out, x, neg) == 0
        for result in (out, later):
            status = rt.runtime_gpu_unary(result, x, neg)
            said = status and ffi.string(rt.runtime_last_error_message())
            info = ffi.new("KinaFailureInfo *")
            info.struct_size = ffi.sizeof("KinaFailureInfo")
            assert rt.runtime_failure_get(info, result) == 0
            assert info.status == status, (word(rt, status), word(rt, info.status))
            if status:
                assert (info.range.start, info.range.end) == (0, 16)
                assert ffi.string(info.function) == b"runtime_gpu_unary" and ffi.string(info.message) in said
            print(word(rt, status))
        """,
        KINA_SIM_DEVICES="1",
        KINA_SIM_FAULT=fault,
    )

    assert told.split() == statuses


# ---- precedence ------------------------------------------------------------------------------------------------------


@clause("KINA-STATUS-22", "e6e68084")
def test_the_lowest_tier_answers(rt: Executor) -> None:
    stale = rt.handle("KinaStream", 99)
    main = rt.call("runtime_stream_main", **HOST).succeeds().out
    host = rt.call("runtime_resource_current", **HOST).succeeds().out
    x = rt.tensor("f32", (3,))
    small = rt.params("KinaMatmulParams", size=48)
    small.cdata.struct_size = 48

    def status(name: str, **given_: Any) -> str:
        return rt.call(name, **given_).status()

    # tier 1 before 2, 3 and 4
    assert status("runtime_stream_query", out=None, stream=stale) == "INVALID_ARGUMENT"
    assert status("runtime_capture_push", out=None, stream=stale, resource=host) == "INVALID_ARGUMENT"
    assert status("runtime_gpu_matmul", a=rt.tensor("f32", (3,)), b=x, params=small) == "VERSION"
    # tier 2 before 3 and 4
    assert status("runtime_capture_push", stream=stale, resource=host) == "INVALID_HANDLE"
    # tier 3 before 4
    assert status("runtime_stream_phase", device_type=99, device_id=0, phase=-1) == "INVALID_ARGUMENT"
    assert status("runtime_stream_import", device_type=1, device_id=3, native=0x1000) == "INVALID_ARGUMENT"
    # tiers 3 and 4 before 5
    with rt.limited():
        assert status("runtime_gpu_reduce", **{"in": x}, axis=4, op="KINA_REDUCE_SUM") == "INVALID_SHAPE"
        assert status("runtime_gpu_unary", **{"in": x}, op=0x1FE) == "UNSUPPORTED"
    assert main


@clause("KINA-STATUS-23", "54af5684")
@clause("KINA-STATUS-28", "649fc08b")
def test_null_is_refused_where_it_is_not_allowed(rt: Executor) -> None:
    calls = [
        (rt.call("runtime_stream_main", **HOST), "out", "KINA-STATUS-23"),
        (
            rt.call("runtime_stream_query", rt.call("runtime_stream_main", **HOST).succeeds().out),
            "stream",
            "KINA-STATUS-28",
        ),
        (rt.call("runtime_gpu_unary", rt.tensor("f32", (3,)), op="KINA_UNARY_NEG"), "in", "KINA-STATUS-23"),
    ]

    for call, name, broken in calls:
        change: dict[str, Any] = {name: None}
        call.refuses("INVALID_ARGUMENT", clause=broken, argument=name, **change)


@clause("KINA-STATUS-24", "b7c8e81b")
@given(number=st.integers(-(2**31), 2**31 - 1).filter(bool))
def test_a_device_that_is_not_there_is_refused(rt: Executor, number: int) -> None:
    call = rt.call("runtime_alloc", (2,), ndim=1, dtype="f32", **HOST, stream=None)

    call.refuses("INVALID_ARGUMENT", device_id=number, argument="device_id", clause="KINA-STATUS-24")
    call.refuses("UNSUPPORTED", device_type=1000, argument="device_type", clause="KINA-STATUS-24")


@memory_case("P34")
@clause("KINA-STATUS-25", "baced594")
@given(shape=st.lists(st.integers(2**16, 2**62), min_size=4, max_size=8))
def test_counts_that_overflow_are_refused_before_anything_is_allocated(rt: Executor, shape: list[int]) -> None:
    call = rt.call("runtime_alloc", (2,) * len(shape), ndim=len(shape), dtype="f64", **HOST, stream=None)

    call.refuses("INVALID_SHAPE", shape=tuple(shape), argument="shape")


# ---- handles ---------------------------------------------------------------------------------------------------------


@clause("KINA-STATUS-26", "4bd48c17")
@given(number=st.integers(1, 2**64 - 1), bit=st.integers(0, 63))
def test_a_number_that_names_nothing_is_no_handle(rt: Executor, number: int, bit: int) -> None:
    stream = rt.call("runtime_stream_main", **HOST).succeeds().out
    resource = rt.call("runtime_resource_current", **HOST).succeeds().out
    query = rt.call("runtime_stream_query", stream)
    flipped = stream.value ^ (1 << bit)  # may name another live stream
    wrong = {number, flipped, resource.value} - {stream.value, 0}
    wrong = {value for value in wrong if value != flipped or query.status(stream=handle(rt, value)) != "SUCCESS"}

    for value in wrong:
        query.refuses("INVALID_HANDLE", stream=handle(rt, value))


@clause("KINA-STATUS-27", "de50e079")
def test_no_handle_comes_twice(rt: Executor) -> None:
    seen: list[int] = []
    for _ in range(500):
        x = rt.tensor("f32", (2,), owned=True)
        stream: Handle = rt.call("runtime_stream_checkout", **HOST).succeeds().out
        scope: Handle = rt.call("runtime_phase_push", phase=0).succeeds().out
        seen += [x.handle, stream.value, scope.value]
        rt.call("runtime_scope_pop", scope).succeeds()
        rt.call("runtime_stream_checkin", stream).succeeds()
        rt.call("runtime_free", x).succeeds()

    assert len(set(seen)) == len(seen)


# ---- releases, silence, threads, life cycle --------------------------------------------------------------------------


@clause("KINA-STATUS-30", "03ebb98d")
@pytest.mark.parametrize("name", RELEASES)
def test_releases_fail_only_for_the_callers_faults(rt: Executor, name: str) -> None:
    tags = rt.contract.functions[name].tags

    assert tags is not None
    assert all(rt.contract.tier(status) <= 3 for status in tags.errors), sorted(tags.errors)


@clause("KINA-STATUS-30", "03ebb98d")
def test_releases_succeed_while_memory_is_out(rt: Executor) -> None:
    x = rt.tensor("f32", (100,), owned=True)
    stream = rt.call("runtime_stream_checkout", **HOST).succeeds().out
    weak = rt.call("runtime_weak_create", x).succeeds().out

    with rt.limited():
        rt.call("runtime_weak_release", weak).succeeds()
        rt.call("runtime_free", x).succeeds()
        rt.call("runtime_stream_checkin", stream).succeeds()


@clause("KINA-STATUS-31", "46050f31")
def test_calls_are_silent_and_leave_signals_alone(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        private = 3 << 31  # of the C library, taken when the first thread starts
        caught = lambda: [int(line.split()[1], 16) & ~private for line in open("/proc/self/status")
                          if line.startswith(("SigCgt", "SigIgn"))]
        before = caught()
        x = tensor(rt, (64, 64))
        out = ffi.new("KinaTensor *")
        slot = ffi.new("int32_t *")
        assert rt.runtime_gpu_matmul(out, x, x, ffi.NULL) == 0
        for number in range(200):
            rt.runtime_device_synchronize(1, number)
            rt.runtime_gpu_unary(ffi.NULL, x, number)
            rt.runtime_stream_query(slot, ffi.cast("KinaStream", number))
            rt.runtime_free(ffi.cast("KinaTensor *", 0))
        assert rt.runtime_free(out) == rt.runtime_free(x) == 0
        assert caught() == before
        """,
    )

    assert told == ""


@clause("KINA-STATUS-32", "6b61c460")
def test_calls_of_many_threads_do_not_disturb_each_other(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        shared = tensor(rt, (8,))
        value = ffi.new("float *", 3.0)
        assert rt.runtime_fill(shared, value, 4) == 0
        wrong = []

        def work(number):
            for i in range(300):
                x = tensor(rt, (8,))
                y, token = ffi.new("KinaTensor *"), ffi.new("KinaScope *")
                mine = ffi.new("float *", float(number))
                codes = [rt.runtime_fill(x, mine, 4), rt.runtime_phase_push(token, number),
                         rt.runtime_gpu_binary(y, x, shared, rt.constants["KINA_BINARY_ADD"])]
                total = ffi.cast("float *", y.dl.data)[7]
                refused = rt.runtime_device_synchronize(1, 100 + number)
                text = ffi.string(rt.runtime_last_error_message()).decode()
                codes += [rt.runtime_scope_pop(token[0]), rt.runtime_free(y), rt.runtime_free(x)]
                if any(codes) or total != number + 3 or not refused or str(100 + number) not in text:
                    wrong.append((codes, total, refused, text))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not wrong, wrong[:3]
        assert rt.runtime_free(shared) == 0
        """,
    )

    assert told == ""


@memory_case("P23")
@clause("KINA-STATUS-33", "395de07f")
def test_calls_work_from_exit_handlers_and_from_threads_that_outlive_main(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        address = libc.malloc(ctypes.c_size_t(96))
        made = ffi.cast("KinaTensor *", address)
        ffi.memmove(made, bytes(96), 96)
        shape = ffi.new("int64_t[1]", [1000])
        f32 = rt.constants["KINA_DTYPE_F32"]
        assert rt.runtime_alloc(made, shape, 1, f32, 1, 0, ffi.NULL) == 0
        # The handler is the library's own runtime_free, run by the C library after Python has ended.
        free = ctypes.CDLL(rt.path).runtime_free
        libc.__cxa_atexit(ctypes.cast(free, ctypes.c_void_p), ctypes.c_void_p(address), None)

        def forever():
            while True:
                x = tensor(rt)
                rt.runtime_free(x)

        for _ in range(3):
            threading.Thread(target=forever, daemon=True).start()
        """,
    )

    assert told == ""


@clause("KINA-STATUS-34", "91efe25b")
@pytest.mark.needs("dlpack")
def test_a_deleter_works_after_the_library_was_closed(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        x = tensor(rt, (1000,))
        out = ffi.new("struct DLManagedTensorVersioned **")
        assert rt.runtime_to_dlpack(out, x, ffi.NULL) == 0
        managed = out[0]
        ffi.dlclose(rt.library)
        managed.deleter(managed)
        """,
    )

    assert told == ""


@memory_case("P27")
@clause("KINA-STATUS-35", "1091675d")
def test_two_copies_live_side_by_side_and_refuse_each_others_handles(rt: Executor, tmp_path: Path) -> None:
    second = tmp_path / "second.so"
    shutil.copyfile(rt.lib.path, second)

    told = alone(
        rt,
        """
        first, second = opened(), opened(sys.argv[2])
        a, b = tensor(first), tensor(second)
        stream = ffi.new("KinaStream *")
        assert first.runtime_stream_checkout(stream, 1, 0) == 0
        out = ffi.new("KinaTensor *")
        answers = [second.runtime_free(a), first.runtime_free(b), second.runtime_stream_synchronize(stream[0]),
                   second.runtime_gpu_unary(out, a, first.constants["KINA_UNARY_NEG"])]
        assert [word(first, status) for status in answers] == ["INVALID_HANDLE"] * 4
        assert first.runtime_free(a) == second.runtime_free(b) == first.runtime_stream_checkin(stream[0]) == 0
        """,
        str(second),
    )

    assert told == ""


@memory_case("P24")
@clause("KINA-STATUS-36", "e8c468e2")
def test_a_fork_in_the_midst_of_other_threads_calls_leaves_a_working_child(rt: Executor) -> None:
    told = alone(
        rt,
        """
        import warnings
        warnings.simplefilter("ignore")
        rt = opened()
        stop = threading.Event()

        def cycle():
            x, y, token, stream = tensor(rt, (50,)), ffi.new(TENSOR), ffi.new(SCOPE), ffi.new(STREAM)
            codes = [rt.runtime_gpu_unary(y, x, rt.constants["KINA_UNARY_NEG"]), rt.runtime_phase_push(token, 1),
                     rt.runtime_stream_checkout(stream, 1, 0)]
            codes += [rt.runtime_stream_checkin(stream[0]), rt.runtime_scope_pop(token[0])]
            codes += [rt.runtime_free(y), rt.runtime_free(x)]
            assert not any(codes), codes

        def work():
            while not stop.is_set():
                cycle()

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads: thread.start()
        bad = 0
        for _ in range(15):
            child = os.fork()
            if child == 0:
                signal.alarm(PATIENCE)
                for _ in range(3): cycle()
                os._exit(0)
            bad += os.waitpid(child, 0)[1] != 0
            if bad: break
        stop.set()
        for thread in threads: thread.join()
        assert not bad, "a child hung or died"
        """,
    )

    assert told == ""


@clause("KINA-STATUS-36", "e8c468e2")
@pytest.mark.needs("sim")
def test_a_child_forked_amid_work_of_a_device_releases_what_that_work_uses(rt: Executor) -> None:
    told = alone(
        rt,
        """
        import warnings
        warnings.simplefilter("ignore")
        rt = opened()
        neg, both = rt.constants["KINA_UNARY_NEG"], rt.constants["KINA_ACCESS_READ_WRITE"]
        stop = threading.Event()
        xs = [tensor(rt, (4,), (12, 0)) for _ in range(3)]
        host, stream = tensor(rt), ffi.new("KinaStream *")
        assert rt.runtime_stream_checkout(stream, 12, 0) == 0

        def work(x):
            while not stop.is_set():
                y, z = ffi.new(TENSOR), ffi.new(TENSOR)
                codes = [rt.runtime_gpu_unary(y, x, neg), rt.runtime_copy(z, host, 12, 0)]
                codes += [rt.runtime_tensor_record_use(x, stream[0], both), rt.runtime_tensor_synchronize(x)]
                assert not any(codes + [rt.runtime_free(y), rt.runtime_free(z)]), codes

        threads = [threading.Thread(target=work, args=(x,)) for x in xs]
        for thread in threads: thread.start()
        bad = 0
        for _ in range(25):
            child = os.fork()
            if child == 0:
                signal.alarm(PATIENCE)
                y = ffi.new(TENSOR)
                codes = [rt.runtime_free(x) for x in xs] + [rt.runtime_gpu_unary(y, host, neg), rt.runtime_free(host)]
                os._exit(any(codes))
            bad += os.waitpid(child, 0)[1] != 0
            if bad: break
        stop.set()
        for thread in threads: thread.join()
        assert not bad, "a child hung or died"
        """,
        KINA_SIM_DEVICES="1",
    )

    assert told == ""


@clause("KINA-STATUS-37", "5bf5ab8e")
def test_no_function_reaches_another_through_its_public_symbol(rt: Executor) -> None:
    if is_elf(rt.lib.path):
        library = read(rt.lib.path)
        assert not library.bound & set(rt.contract.functions), "the library calls its own exported symbols"
    assert not rt.lib.missing


# ---- the log ---------------------------------------------------------------------------------------------------------


@contextmanager
def listening(rt: Executor, hear: Callable[[int, str], None], level: str = "KINA_LOG_DEBUG") -> Iterator[Any]:
    """Within it `hear` gets the messages; what it raises fails the test."""
    failures: list[BaseException] = []

    def heard(context: Any, number: int, text: Any) -> None:
        try:
            assert int(rt.ffi.cast("uintptr_t", context)) == 0x77
            hear(number, rt.string(text) or "")
        except BaseException as failure:
            failures.append(failure)

    callback = rt.ffi.callback("void(void *, int32_t, const char *)", heard)
    rt.call("runtime_set_log_callback", callback=callback, context=0x77, level=level).succeeds()
    try:
        yield callback
    finally:
        rt.call("runtime_set_log_callback", callback=None, context=None, level="KINA_LOG_OFF").succeeds()
    if failures:
        raise failures[0]


@clause("KINA-STATUS-39", "e0c14151")
@clause("KINA-STATUS-43", "8e77bb1e")
@clause("KINA-STATUS-50", "a05b14d8")
def test_a_failing_call_is_logged_once_at_debug(rt: Executor) -> None:
    heard: list[tuple[int, str]] = []

    with listening(rt, lambda level, text: heard.append((level, text))):
        fail(rt)
        rt.call("runtime_device_count", device_type=1).succeeds()
        words = ["runtime_device_synchronize", "INVALID_ARGUMENT", message(rt) or ""]
    fail(rt)

    known = range(rt.constant("KINA_LOG_ERROR"), rt.constant("KINA_LOG_TRACE") + 1)
    of_the_call = [level for level, text in heard if all(word in text for word in words)]
    assert of_the_call == [rt.constant("KINA_LOG_DEBUG")] and all(level in known for level, _ in heard)


@clause("KINA-STATUS-39", "e0c14151")
@pytest.mark.parametrize("level", ["KINA_LOG_OFF", "KINA_LOG_ERROR", "KINA_LOG_WARNING", "KINA_LOG_INFO"])
def test_a_lower_level_hears_no_failing_call(rt: Executor, level: str) -> None:
    heard: list[int] = []

    with listening(rt, lambda number, _text: heard.append(number), level):
        fail(rt)

    assert all(number <= rt.constant(level) for number in heard)


@clause("KINA-STATUS-39", "e0c14151")
def test_when_the_change_returns_no_other_thread_is_in_the_old_callback(rt: Executor) -> None:
    inside, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def hear(_level: int, _text: str) -> None:
        inside.set()
        go_on.wait(20)
        order.append("left")

    with listening(rt, hear):
        caller = threading.Thread(target=lambda: fail(rt))
        caller.start()
        assert inside.wait(20)
        changes = rt.call("runtime_set_log_callback", callback=None, context=None, level="KINA_LOG_OFF")

        def change() -> None:
            changes.status()
            order.append("changed")

        changer = threading.Thread(target=change)
        changer.start()
        changer.join(0.2)
        waited = changer.is_alive()
        go_on.set()
        changer.join()
        caller.join()

    assert waited and order == ["left", "changed"]


@clause("KINA-STATUS-40", "32be1a62")
@given(level=st.one_of(st.integers(-(2**31), -1), st.integers(6, 2**31 - 1)))
def test_an_unknown_level_is_refused_and_the_callback_stays(rt: Executor, level: int) -> None:
    heard: list[str] = []

    with listening(rt, lambda _level, text: heard.append(text)) as callback:
        call = rt.call("runtime_set_log_callback", callback=callback, context=0x77, level="KINA_LOG_DEBUG")
        call.refuses("UNSUPPORTED", level=level, argument="level")
        heard.clear()
        fail(rt)

    assert len(heard) == 1


@clause("KINA-STATUS-41", "d07df3ee")
def test_a_callback_does_not_change_the_callback(rt: Executor) -> None:
    answers: list[str] = []
    call = rt.call("runtime_set_log_callback", callback=None, context=None, level="KINA_LOG_OFF")

    with listening(rt, lambda _level, _text: answers.append(call.status())):
        fail(rt)
        fail(rt)

    assert answers == ["BUSY", "BUSY"]


@clause("KINA-STATUS-38", "187afefb")
@clause("KINA-STATUS-43", "8e77bb1e")
def test_a_callback_may_call_anything_else_and_is_not_logged_itself(rt: Executor) -> None:
    results: list[Any] = []

    def hear(_level: int, _text: str) -> None:
        x = rt.tensor("i32", (2,), [1, 2], owned=True)
        y = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").succeeds().out
        fail(rt)
        token = rt.call("runtime_phase_push", phase=1).succeeds().out
        rt.call("runtime_scope_pop", token).succeeds()
        results.append(y.numpy().tolist())

    with listening(rt, hear):
        fail(rt)

    assert results == [[-1, -2]]


@clause("KINA-STATUS-51", "2982cb6d")
def test_a_callback_hears_each_thread_on_itself_and_several_at_once(rt: Executor) -> None:
    meeting = threading.Barrier(3, timeout=20)
    heard: list[tuple[int, str]] = []

    def hear(_level: int, text: str) -> None:
        heard.append((threading.get_ident(), text))
        meeting.wait()

    threads: list[threading.Thread] = []
    with listening(rt, hear):
        threads = [threading.Thread(target=fail, args=(rt, 200 + n)) for n in range(3)]
        for thread in threads:
            thread.start()
        names = {thread.ident: 200 + n for n, thread in enumerate(threads)}
        for thread in threads:
            thread.join()

    assert len(heard) == 3 and all(str(names[ident]) in text for ident, text in heard)


@clause("KINA-STATUS-42", "4d3f569c")
def test_a_forked_child_starts_without_a_callback(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        heard = []
        hear = ffi.callback("void(void *, int32_t, const char *)", lambda context, level, text: heard.append(level))
        debug = rt.constants["KINA_LOG_DEBUG"]
        assert rt.runtime_set_log_callback(hear, ffi.NULL, debug) == 0
        rt.runtime_device_synchronize(1, 9)
        child = os.fork()
        if child == 0:
            rt.runtime_device_synchronize(1, 9)
            quiet = len(heard) == 1
            again = rt.runtime_set_log_callback(hear, ffi.NULL, debug)
            rt.runtime_device_synchronize(1, 9)
            os._exit(0 if quiet and again == 0 and len(heard) == 2 else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        rt.runtime_device_synchronize(1, 9)
        rt.runtime_set_log_callback(ffi.NULL, ffi.NULL, 0)
        os.write(1, f"{code} {len(heard)}".encode())
        """,
    )

    assert told == "0 2"
