"""Faults of simulated devices, each in its own process: what the call that meets one says, and what stands after."""

from __future__ import annotations

from typing import Any

import pytest

from kina_conformance import Executor, clause
from kina_conformance.alone import alone

pytestmark = pytest.mark.needs("sim")

CALLS = """
rt = opened()
def constant(name): return rt.constants[name]
def new(kind="KinaTensor *"):
    made = ffi.new(kind)
    if "Info" in kind: made.struct_size = ffi.sizeof(kind.removesuffix(" *"))
    return made
def stream(device=0):
    made = ffi.new("KinaStream *")
    assert rt.runtime_stream_checkout(made, 12, device) == 0
    return made[0]
def negated(x, out=None):
    return rt.runtime_gpu_unary(out or new(), x, constant("KINA_UNARY_NEG"))
def counts():
    where, info = ffi.new("KinaResource *"), new("KinaResourceInfo *")
    assert rt.runtime_resource_current(where, 12, 0) == rt.runtime_resource_info(info, where[0]) == 0
    return info
host = tensor(rt)
x, y, far = tensor(rt, (4,), (12, 0)), tensor(rt, (4,), (12, 0)), tensor(rt, (4,), (12, 1))
half = new()
assert rt.runtime_view(half, x, [2], ffi.NULL, 1, 0, 0) == 0
first, second = stream(), stream()
float_one = ffi.new("float *", 1)
"""

# The call that the n-th such driver call fails, its status, and whether it marks `y`.
FAULTS = {
    "allocate:4": ("rt.runtime_alloc(new(), [4], 1, constant('KINA_DTYPE_F32'), 12, 0, ffi.NULL)", "OUT_OF_MEMORY", 0),
    "allocate:4,seldom:": ("negated(x)", "OUT_OF_MEMORY", 0),
    "launch:1": ("negated(x, y)", "KERNEL_LAUNCH", 1),
    "launch:2,pieces:": ("rt.runtime_gpu_concat(y, half, half, 0)", "KERNEL_LAUNCH", 1),
    "launch:1,fill:": ("rt.runtime_fill(y, float_one, 4)", "KERNEL_LAUNCH", 1),
    "copy:1": ("rt.runtime_copy_to_device(y, host, 0)", "DEVICE", 1),
    "copy:1,fresh:": ("rt.runtime_copy_to_host(new(), x)", "DEVICE", 0),
    "copy:1,peer:": ("rt.runtime_copy(y, far, 12, 0)", "DEVICE", 1),
    "event:1": ("rt.runtime_copy_to_host(host, x)", "DEVICE", 0),
    "wait:1": ("rt.runtime_stream_wait(second, first) if negated_on(first) else 0", "DEVICE", 0),
    "lost:1": ("negated(x, y)", "DEVICE_LOST", 1),
    "lost:1,copy:": ("rt.runtime_copy_to_host(new(), x)", "DEVICE_LOST", 0),
}


@clause("KINA-DEVICE-23", "0a49391b")
@clause("KINA-STATUS-18", "ea704573")
@clause("KINA-STATUS-20", "f6364a9f")
@pytest.mark.parametrize("fault", FAULTS)
def test_the_call_that_meets_a_fault_says_so_and_the_next_one_works(rt: Executor, fault: str) -> None:
    call, status, marks = FAULTS[fault]
    told = alone(
        rt,
        CALLS
        + f"""
def negated_on(s):
    token = ffi.new("KinaScope *")
    return rt.runtime_stream_push(token, s) == negated(x) == rt.runtime_scope_pop(token[0]) == 0
held = counts().live_bytes
status = {call}
assert word(rt, status) == {status!r}, (word(rt, status), ffi.string(rt.runtime_last_error_message()))
record, failure = new("KinaErrorInfo *"), new("KinaFailureInfo *")
assert rt.runtime_last_error(record) == 0 and record.status == status and record.message[0] != b"\\0"
assert word(rt, status) != "OUT_OF_MEMORY" or record.requested_bytes == 16
assert rt.runtime_failure_get(failure, y) == 0
assert failure.status == (status if {marks} else 0), word(rt, failure.status)
assert counts().live_bytes == held or {status!r} == "DEVICE"
lost = word(rt, status) == "DEVICE_LOST"
again = {call}
assert word(rt, again) == ("DEVICE_LOST" if lost else "SUCCESS"), word(rt, again)
assert rt.runtime_failure_get(failure, y) == 0 and (failure.status != 0) == (lost and {marks})
assert negated(far) == rt.runtime_device_synchronize(12, 1) == negated(host) == 0
assert word(rt, rt.runtime_device_synchronize(12, 0)) == ("DEVICE_LOST" if lost else "SUCCESS")
assert [rt.runtime_free(t) for t in (x, y, half, far, host)] == [0] * 5
assert [rt.runtime_stream_checkin(s) for s in (first, second)] == [0, 0]
""",
        KINA_SIM_DEVICES="2",
        KINA_SIM_FAULT=fault.split(",")[0],
        KINA_RESOURCE="sim=sim",  # each block is an allocation of the driver
    )

    assert told == ""


@clause("KINA-INDEXING-25", "2564a613")
@clause("KINA-DEVICE-23", "0a49391b")
def test_a_launch_that_fails_while_replays_are_declared_loses_no_check(rt: Executor) -> None:
    told = alone(
        rt,
        CALLS
        + """
from kina_conformance.simulated import Native
resource, native, scope, bound = new("KinaResource *"), ffi.new("void **"), new("KinaScope *"), new("KinaScope *")
index, halves, info = new(), (new(), new()), new("KinaFailureInfo *")
assert rt.runtime_alloc(index, [2], 1, constant("KINA_DTYPE_I64"), 12, 0, ffi.NULL) == 0
assert rt.runtime_fill(index, ffi.new("int64_t *", 7), 8) == rt.runtime_device_synchronize(12, 0) == 0
for i, half in enumerate(halves):
    assert rt.runtime_view(half, y, [2], ffi.NULL, 1, 2 * i, 0) == 0
assert rt.runtime_resource_current(resource, 12, 0) == rt.runtime_stream_native(native, first) == 0
assert rt.runtime_capture_push(scope, first, resource[0]) == rt.runtime_stream_push(bound, first) == 0
driver = Native(int(ffi.cast("uintptr_t", native[0])))
driver.begin_capture()
assert [rt.runtime_gpu_gather(half, x, index) for half in halves] == [0, 0]
graph = driver.end_capture()
assert rt.runtime_scope_pop(bound[0]) == rt.runtime_scope_pop(scope[0]) == 0
graph.replay(driver)
for _ in range(2):
    print(word(rt, rt.runtime_tensor_record_use(y, first, constant("KINA_ACCESS_WRITE"))))
    assert rt.runtime_device_synchronize(12, 0) == 0
for half in halves:
    assert rt.runtime_failure_get(info, half) == 0
    print(word(rt, info.status))
clean, late = new(), new()
assert rt.runtime_fill(index, ffi.new("int64_t *", 1), 8) == rt.runtime_gpu_gather(late, x, index) == 0
assert rt.runtime_failure_get(info, late) == 0 == info.failure
""",
        KINA_SIM_DEVICES="2",
        KINA_SIM_FAULT="launch:5",
    )

    assert told.splitlines() == ["KERNEL_LAUNCH", "SUCCESS"] + ["INDEX_OUT_OF_RANGE"] * 2


@clause("KINA-DEVICE-11", "c4ca50fc")
@clause("KINA-STREAM-52", "0bf4535f")
def test_an_import_whose_last_event_is_refused_ends_when_its_work_is_over(rt: Executor) -> None:
    told = alone(
        rt,
        CALLS
        + """
native, imported, scope, seen = ffi.new("void **"), new("KinaStream *"), new("KinaScope *"), new()
assert rt.runtime_stream_native(native, first) == rt.runtime_stream_import(imported, 12, 0, native[0]) == 0
assert rt.runtime_stream_push(scope, imported[0]) == rt.runtime_fill(x, float_one, 4) == negated(x, y) == 0
assert rt.runtime_scope_pop(scope[0]) == rt.runtime_stream_release(imported[0]) == 0
for _ in range(2):
    assert rt.runtime_device_synchronize(12, 0) == 0, ffi.string(rt.runtime_last_error_message())
assert rt.runtime_copy_to_host(seen, y) == 0
assert list(ffi.unpack(ffi.cast("float *", seen.dl.data), 4)) == [-1.0] * 4
""",
        KINA_SIM_DEVICES="2",
        KINA_SIM_FAULT="event:1",
    )

    assert told == ""


@clause("KINA-STATUS-44", "01bc6644")
@pytest.mark.parametrize(("memory", "bytes_"), [("1048576", 2**20 + 1), ("65536", 2**40)])
def test_a_device_whose_memory_is_out_says_how_much_was_asked_for(rt: Executor, memory: str, bytes_: int) -> None:
    told = alone(
        rt,
        f"""
        rt = opened()
        out, record, info = ffi.new("KinaTensor *"), ffi.new("KinaErrorInfo *"), ffi.new("KinaDeviceInfo *")
        record.struct_size, info.struct_size = ffi.sizeof("KinaErrorInfo"), ffi.sizeof("KinaDeviceInfo")
        assert rt.runtime_device_info(info, 12, 0) == 0 and info.total_bytes == {memory}
        print(word(rt, rt.runtime_alloc(out, [{bytes_}], 1, rt.constants["KINA_DTYPE_U8"], 12, 0, ffi.NULL)))
        assert rt.runtime_last_error(record) == 0
        print(record.requested_bytes)
        assert rt.runtime_free(tensor(rt, (4,), (12, 0))) == 0
        """,
        KINA_SIM_DEVICES="1",
        KINA_SIM_MEMORY=memory,
    )

    assert told.split() == ["OUT_OF_MEMORY", str(bytes_)]


@clause("KINA-DEVICE-9", "67e06860")
def test_a_denied_pair_is_out_of_reach_one_way(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        slot, x, opened_ = ffi.new("int32_t *"), tensor(rt, (4,), (12, 1)), ffi.new("KinaTensor *")
        for pair in [(0, 0), (0, 1), (1, 0), (1, 1)]:
            assert rt.runtime_device_can_access(slot, 12, *pair) == 0
            print(slot[0])
        peer = ffi.new("KinaPeer *")
        assert rt.runtime_peer_share(peer, x) == 0
        print(word(rt, rt.runtime_peer_open(opened_, peer[0], 12, 0)))
        copy = ffi.new("KinaTensor *")
        print(word(rt, rt.runtime_copy(copy, x, 12, 0)))
        """,
        KINA_SIM_DEVICES="2",
        KINA_SIM_DENY="0-1",
    )

    assert told.split() == ["1", "0", "1", "1", "UNSUPPORTED", "SUCCESS"]


@clause("KINA-STATUS-24", "b7c8e81b")
@pytest.mark.parametrize(
    ("variable", "value", "place"),
    [
        ("KINA_SIM_DEVICES", "two", 1),
        ("KINA_SIM_SEED", "7x", 2),
        ("KINA_SIM_MEMORY", "1G", 2),
        ("KINA_SIM_DENY", "0-5", 3),
        ("KINA_SIM_FAULT", "lunch:3", 1),
    ],
)
def test_a_variable_that_cannot_be_read_leaves_no_devices_and_says_why(
    rt: Executor, variable: str, value: str, place: int
) -> None:
    variables: dict[str, Any] = {"KINA_SIM_DEVICES": "2", variable: value}

    told = alone(
        rt,
        """
        rt = opened()
        slot, stream = ffi.new("int32_t *"), ffi.new("KinaStream *")
        assert rt.runtime_device_count(slot, 12) == 0 == slot[0]
        print(word(rt, rt.runtime_stream_main(stream, 12, 0)))
        print(ffi.string(rt.runtime_last_error_message()).decode())
        assert rt.runtime_free(tensor(rt)) == 0
        """,
        **variables,
    )

    status, message = told.splitlines()
    assert status == "UNSUPPORTED" and f"{variable} is bad at character {place}:" in message
