"""The logging resource: rows, their order, the ring, files."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kina_conformance import Executor, clause
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import (
    Custom,
    Info,
    Rows,
    address,
    allocate,
    borrowed,
    child,
    deallocate,
    host,
    limit,
    pool,
    release,
)

SUCCESS, OUT_OF_MEMORY, INVALID_ARGUMENT = 0, 1, 7
KEYS = ["order", "time_nanoseconds", "thread", "event", "status", "bytes", "alignment", "data", "stream", "resource"]


def logged(rt: Executor, path: Path, **params: Any) -> Any:
    """A logging resource over a host resource that writes to a file."""
    options = rt.params("KinaLoggingParams", path=str(path), **params)
    return rt.call("runtime_resource_logging", host(rt), options).succeeds().out


@clause("KINA-RESOURCE-50", "4e1c040b")
def test_each_request_makes_one_row_with_its_numbers(rt: Executor) -> None:
    rows = Rows(rt)
    resource = rows.make(pool(rt))
    stream = rt.call("runtime_stream_checkout", device_type=1, device_id=0).succeeds().out
    block = rt.call("runtime_memory_allocate", resource, 1000, 512, stream).succeeds().out
    rt.call("runtime_memory_deallocate", resource, block, 1000, 512, stream).succeeds()
    rows.wait(2)

    for event, row in zip((1, 2), rows.rows, strict=True):
        assert row["struct_size"] == rt.ffi.sizeof("KinaLogRow")
        assert (row["event"], row["status"], row["bytes"], row["alignment"]) == (event, SUCCESS, 1000, 512)
        assert (row["data"], row["stream"]) == (address(rt, block), stream.value)
        assert row["resource"] == borrowed(rt, resource).value
        assert row["resource_name"] == "logging(pool(host))" and row["context"] == 0xC0FFEE
    assert rows.rows[0]["thread"] == rows.rows[1]["thread"]
    assert rows.rows[0]["time_nanoseconds"] <= rows.rows[1]["time_nanoseconds"]


@clause("KINA-RESOURCE-78", "4b37456f")
def test_a_row_has_the_time_of_its_call(rt: Executor) -> None:
    rows = Rows(rt)
    resource = rows.make(pool(rt))
    take, give = rt.function("runtime_memory_allocate"), rt.function("runtime_memory_deallocate")
    slot, stream = rt.ffi.new("void **"), rt.ffi.NULL

    def now() -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    moments = [now()]  # before and after each call
    for _burst in range(8):
        for _ in range(50):
            assert take(slot, resource.cdata, 256, 0, stream) == SUCCESS
            moments.append(now())
            assert give(resource.cdata, slot[0], 256, 0, stream) == SUCCESS
            moments.append(now())
        time.sleep(0.03)
        moments[-1] = now()
    rows.wait(len(moments) - 1)

    times = [row["time_nanoseconds"] for row in rows.rows]
    assert times == sorted(times)
    for (began, ended), said in zip(pairwise(moments), times, strict=True):
        assert began - 20_000_000 <= said <= ended


@clause("KINA-RESOURCE-50", "4e1c040b")
@pytest.mark.parametrize("status", ["OUT_OF_MEMORY", "DEVICE", "DEVICE_LOST"])
def test_refused_allocations_are_rows_too(rt: Executor, status: str) -> None:
    custom, rows = Custom(rt), Rows(rt)
    resource = rows.make(custom.make())
    custom.answer = lambda _size, _alignment: (status, 0)

    rt.call("runtime_memory_allocate", resource, 123, 0, None).refuses(status, control=False)
    rows.wait(1)

    (row,) = rows.rows
    assert (row["event"], row["status"], row["bytes"], row["data"]) == (1, rt.lib.status(status), 123, 0)


@clause("KINA-RESOURCE-50", "4e1c040b")
def test_refused_deallocations_are_rows_too(rt: Executor) -> None:
    rows = Rows(rt)
    resource = rows.make(host(rt))
    block = allocate(rt, resource, 64)
    call = rt.call("runtime_memory_deallocate", resource, block, 64, 0, None)

    call.refuses("INVALID_ARGUMENT", bytes=65, control=False)
    call.refuses("INVALID_ARGUMENT", data=rt.ffi.cast("void *", 4096), control=False)
    call.succeeds()
    rows.wait(4)

    assert [(row["event"], row["status"]) for row in rows.rows] == [
        (1, SUCCESS),
        (2, INVALID_ARGUMENT),
        (2, INVALID_ARGUMENT),
        (2, SUCCESS),
    ]
    assert rows.rows[1]["bytes"] == 65 and rows.rows[2]["data"] == 4096


@clause("KINA-RESOURCE-50", "4e1c040b")
@clause("KINA-RESOURCE-17", "2ef29faa")
def test_zero_bytes_and_wrong_arguments_make_no_row(rt: Executor) -> None:
    rows = Rows(rt)
    resource = rows.make(host(rt))
    call = rt.call("runtime_memory_allocate", resource, 0, 0, None)

    call.refuses("INVALID_ARGUMENT", alignment=3)
    call.refuses("INVALID_ARGUMENT", bytes=2**64 - 1)
    deallocate(rt, resource, rt.ffi.NULL, 0)
    deallocate(rt, resource, allocate(rt, resource, 7), 7)
    rows.wait(2)

    assert [row["bytes"] for row in rows.rows] == [7, 7]


@memory_case("P14")
@clause("KINA-RESOURCE-51", "324de370")
def test_rows_are_numbered_and_delivered_in_order(rt: Executor) -> None:
    rows, others = Rows(rt), Rows(rt)
    resource, other = rows.make(pool(rt)), others.make(host(rt))
    library, null = rt.lib.library, rt.ffi.NULL

    def work() -> None:
        slot = rt.ffi.new("void **")
        for _ in range(200):
            library.runtime_memory_allocate(slot, resource.cdata, 256, 0, null)
            library.runtime_memory_deallocate(resource.cdata, slot[0], 256, 0, null)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deallocate(rt, other, allocate(rt, other, 8), 8)
    rows.wait(1600)
    others.wait(2)

    assert [row["order"] for row in rows.rows] == list(range(1, 1601))
    assert [row["order"] for row in others.rows] == [1, 2]
    live: set[int] = set()
    for row in rows.rows:
        assert (row["data"] in live) == (row["event"] == 2), "a block was given out again before its deallocation's row"
        live ^= {row["data"]}
    assert len({row["thread"] for row in rows.rows}) >= 1


@clause("KINA-RESOURCE-52", "c33716ce")
def test_the_callback_runs_on_another_thread_and_may_call_the_library(rt: Executor) -> None:
    rows = Rows(rt)
    resource, other = rows.make(host(rt)), host(rt)
    answers: list[int] = []

    def call_back() -> None:
        slot = rt.ffi.new("void **")
        answers.append(rt.lib.library.runtime_memory_allocate(slot, other.cdata, 64, 0, rt.ffi.NULL))
        answers.append(rt.lib.library.runtime_memory_deallocate(other.cdata, slot[0], 64, 0, rt.ffi.NULL))

    rows.before_row = call_back
    for _ in range(5):
        deallocate(rt, resource, allocate(rt, resource, 8), 8)
    rows.wait(10)

    assert threading.get_ident() not in rows.threads and len(rows.threads) == 1
    assert answers == [0] * 20


@clause("KINA-RESOURCE-53", "df0d9717")
@pytest.mark.parametrize("ring", [1, 3, 10])
def test_rows_beyond_the_ring_are_dropped_and_counted(rt: Executor, ring: int) -> None:
    rows = Rows(rt)
    entered, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        entered.set()
        go_on.wait(20)

    rows.before_row = stop
    resource = rows.make(host(rt), ring_rows=ring)
    first = allocate(rt, resource, 8)
    entered.wait(20)
    for _ in range(10):
        deallocate(rt, resource, allocate(rt, resource, 8), 8)

    assert Info(rt, resource).dropped_rows == 21 - ring
    go_on.set()
    rows.wait(ring)
    deallocate(rt, resource, first, 8)
    rows.wait(ring + 1)
    assert [row["order"] for row in rows.rows] == [*range(1, ring + 1), 22]


@clause("KINA-RESOURCE-54", "7b3da26d")
def test_the_end_of_the_resource_delivers_what_waits_and_nothing_after(rt: Executor) -> None:
    rows = Rows(rt)
    resource = rows.make(host(rt))
    for _ in range(500):
        deallocate(rt, resource, allocate(rt, resource, 8), 8)

    release(rt, resource)

    assert [row["order"] for row in rows.rows] == list(range(1, 1001))


@clause("KINA-RESOURCE-76", "cbeba191")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_callbacks_release_their_own_resource_and_one_another(rt: Executor, count: int) -> None:
    all_rows = [Rows(rt) for _ in range(count)]
    # Handles of no test: the callbacks release them.
    made = [rt.ffi.new("KinaResource *") for _ in range(count)]
    together, answers = threading.Barrier(count), []

    def ending(at: int) -> Any:
        def once() -> None:
            all_rows[at].before_row = lambda: None
            together.wait(20)
            answers.append(rt.function("runtime_resource_release")(made[(at + 1) % count][0]))

        return once

    source = host(rt)
    for at, rows in enumerate(all_rows):
        options = rt.params("KinaLoggingParams", callback=rows.callback)
        assert rt.function("runtime_resource_logging")(made[at], source.cdata, options.cdata) == SUCCESS
        rows.before_row = ending(at)
    slot, null = rt.ffi.new("void **"), rt.ffi.NULL
    names = [at[0] for at in made]
    blocks = []
    for name in names:
        assert rt.function("runtime_memory_allocate")(slot, name, 100, 0, null) == SUCCESS
        blocks.append(slot[0])
    for name, block in zip(names, blocks, strict=True):
        rt.function("runtime_memory_deallocate")(name, block, 100, 0, null)

    for rows in all_rows:
        rows.wait(2)
    assert answers == [SUCCESS] * count


@memory_case("P57")
@clause("KINA-RESOURCE-50", "4e1c040b")
def test_the_rows_of_a_resource_tell_of_every_request_that_failed(rt: Executor) -> None:
    custom, rows = Custom(rt), Rows(rt)
    resource = rows.make(custom.make())
    block = allocate(rt, resource, 8)
    custom.answer = lambda _size, _alignment: ("OUT_OF_MEMORY", 0)
    rt.call("runtime_memory_allocate", resource, 123, 0, None).refuses("OUT_OF_MEMORY", control=False)
    deallocate(rt, resource, block, 8)

    release(rt, resource)

    out_of_memory = rt.lib.status("OUT_OF_MEMORY")
    assert [(row["bytes"], row["status"]) for row in rows.rows] == [(8, SUCCESS), (123, out_of_memory), (8, SUCCESS)]


@clause("KINA-RESOURCE-54", "7b3da26d")
def test_a_deferred_end_delivers_the_last_row(rt: Executor) -> None:
    rows = Rows(rt)
    resource = rows.make(host(rt))
    name = borrowed(rt, resource)
    block = allocate(rt, resource, 8)
    release(rt, resource)

    deallocate(rt, name, block, 8)

    assert [row["event"] for row in rows.rows] == [1, 2]


@clause("KINA-RESOURCE-55", "70e2f3f9")
@clause("KINA-RESOURCE-56", "6fa04aa2")
def test_text_rows_go_to_the_file_which_is_emptied(rt: Executor, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("what was here before\n")
    resource = logged(rt, path)
    name = borrowed(rt, resource).value
    block = allocate(rt, resource, 100)
    rt.call("runtime_memory_allocate", resource, 8, 0, None).status(bytes=2**62)
    deallocate(rt, resource, block, 100)
    main = rt.call("runtime_stream_main", device_type=1, device_id=0).succeeds().out.value

    release(rt, resource)

    lines = path.read_text().splitlines()
    found = [dict(pair.split("=", 1) for pair in line.split(" ")) for line in lines]
    assert [list(row) for row in found] == [[*KEYS, "resource_name"]] * 3
    assert [row["order"] for row in found] == ["1", "2", "3"]
    assert [row["event"] for row in found] == ["allocate", "allocate", "deallocate"]
    assert [row["status"] for row in found] == ["SUCCESS", "OUT_OF_MEMORY", "SUCCESS"]
    assert [row["bytes"] for row in found] == ["100", str(2**62), "100"]
    assert [row["data"] for row in found] == [hex(address(rt, block)), "0x0", hex(address(rt, block))]
    assert {row["alignment"] for row in found} == {"256"}
    assert {row["stream"] for row in found} == {hex(main)} and {row["resource"] for row in found} == {hex(name)}
    assert {row["resource_name"] for row in found} == {"logging(host)"}
    assert all(re.fullmatch(r"\d+", row[key]) for row in found for key in ("time_nanoseconds", "thread"))


@clause("KINA-RESOURCE-56", "6fa04aa2")
@clause("KINA-RESOURCE-57", "39fe2b7b")
@pytest.mark.parametrize("format_", ["KINA_LOG_FORMAT_TEXT", "KINA_LOG_FORMAT_JSON_LINES"])
def test_names_cannot_break_a_line(rt: Executor, tmp_path: Path, format_: str) -> None:
    custom = Custom(rt, 'a "b" \\ c\nd\x01 \u00e9')
    options = rt.params("KinaLoggingParams", path=str(tmp_path / "log"), format=format_)
    resource = rt.call("runtime_resource_logging", custom.make(), options).succeeds().out
    deallocate(rt, resource, allocate(rt, resource, 8), 8)

    release(rt, resource)

    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 2
    if format_ == "KINA_LOG_FORMAT_TEXT":
        assert lines[0].endswith(' resource_name=logging(a "b" \\ c?d? \u00e9)')
    else:
        assert json.loads(lines[0])["resource_name"] == 'logging(a "b" \\ c\nd\x01 \u00e9)'


@clause("KINA-RESOURCE-57", "39fe2b7b")
@pytest.mark.parametrize("flags", [0, "KINA_LOGGING_FRAMES"])
def test_json_rows_carry_the_same_keys(rt: Executor, tmp_path: Path, flags: Any) -> None:
    resource = logged(rt, tmp_path / "log.jsonl", format="KINA_LOG_FORMAT_JSON_LINES", flags=flags)
    block = allocate(rt, resource, 2**20)
    deallocate(rt, resource, block, 2**20)

    release(rt, resource)

    found = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [list(row) for row in found] == [[*KEYS, "resource_name", *(["frames"] if flags else [])]] * 2
    assert found[0]["order"] == 1 and found[1]["order"] == 2 and found[0]["bytes"] == 2**20
    assert (found[0]["event"], found[0]["status"]) == ("allocate", "SUCCESS")
    assert int(found[0]["data"], 16) == address(rt, block)
    assert all(isinstance(row[key], int) for row in found for key in ("time_nanoseconds", "thread", "alignment"))
    assert all(re.fullmatch("0x[0-9a-f]+", row[key]) for row in found for key in ("data", "stream", "resource"))
    for row in found if flags else []:
        assert all(re.fullmatch("0x[0-9a-f]+", frame) for frame in row["frames"]) and len(row["frames"]) <= 16


@memory_case("P59")
@clause("KINA-RESOURCE-58", "74b40aaa")
def test_frames_come_only_when_they_are_asked_for(rt: Executor) -> None:
    plain, framed = Rows(rt), Rows(rt)
    for rows, flags in ((plain, 0), (framed, "KINA_LOGGING_FRAMES")):
        resource = rows.make(host(rt), flags=flags)
        deallocate(rt, resource, allocate(rt, resource, 8), 8)
        release(rt, resource)

    assert all(row["frame_count"] == 0 and not row["frames"] for row in plain.rows)
    assert all(row["frame_count"] <= 16 and all(row["frames"]) for row in framed.rows)


@clause("KINA-RESOURCE-55", "70e2f3f9")
def test_logging_refuses_a_path_that_cannot_be_opened_and_two_targets(rt: Executor, tmp_path: Path) -> None:
    rows = Rows(rt)
    good = rt.params("KinaLoggingParams", path=str(tmp_path / "log"))
    call = rt.call("runtime_resource_logging", host(rt), good)

    for path in (str(tmp_path / "none" / "log"), str(tmp_path), ""):
        call.refuses(
            "INVALID_ARGUMENT",
            params=rt.params("KinaLoggingParams", path=path),
            clause="KINA-RESOURCE-55",
            argument="params.path",
        )
    both = rt.params("KinaLoggingParams", path=str(tmp_path / "log"), callback=rows.callback)
    call.refuses("INVALID_ARGUMENT", params=both, clause="KINA-RESOURCE-55")


@clause("KINA-RESOURCE-55", "70e2f3f9")
def test_with_neither_path_nor_callback_rows_go_to_stderr(rt: Executor) -> None:
    code = """
resource = rt.call("runtime_resource_logging", host(rt), None).succeeds().out
deallocate(rt, resource, allocate(rt, resource, 77), 77)
release(rt, resource)
"""
    done = child(rt, code)

    assert done.returncode == 0 and done.stdout == ""
    assert [line.split(" ")[5] for line in done.stderr.splitlines()] == ["bytes=77", "bytes=77"]


@clause("KINA-RESOURCE-60", "e12725cd")
def test_rows_still_waiting_at_exit_are_written(rt: Executor, tmp_path: Path) -> None:
    code = f"""
options = rt.params("KinaLoggingParams", path={str(tmp_path / "log")!r})
resource = rt.call("runtime_resource_logging", host(rt), options).succeeds().out
slot = rt.ffi.new("void **")
for _ in range(3000):
    rt.lib.library.runtime_memory_allocate(slot, resource.cdata, 8, 0, rt.ffi.NULL)
"""
    done = child(rt, code)

    assert done.returncode == 0 and done.stderr == ""
    assert len((tmp_path / "log").read_text().splitlines()) == 3000


@clause("KINA-RESOURCE-59", "e575eb8c")
def test_unknown_formats_and_flags_are_unsupported(rt: Executor) -> None:
    rows = Rows(rt)
    call = rt.call("runtime_resource_logging", host(rt), rt.params("KinaLoggingParams", callback=rows.callback))

    wrong: list[dict[str, Any]] = [{"format": 2}, {"format": -1}, {"flags": 2}, {"flags": 1 << 30}]
    for fields in wrong:
        params = rt.params("KinaLoggingParams", callback=rows.callback, **fields)
        call.refuses("UNSUPPORTED", params=params, clause="KINA-RESOURCE-59")


@clause("KINA-STATUS-44", "01bc6644")
def test_a_ring_that_memory_does_not_hold_is_out_of_memory(rt: Executor) -> None:
    rows = Rows(rt)
    call = rt.call("runtime_resource_logging", host(rt), rt.params("KinaLoggingParams", callback=rows.callback))

    call.refuses("OUT_OF_MEMORY", params=rt.params("KinaLoggingParams", callback=rows.callback, ring_rows=2**50))


@clause("KINA-STATUS-25", "baced594")
def test_a_ring_that_overflows_is_refused(rt: Executor) -> None:
    rows = Rows(rt)
    call = rt.call("runtime_resource_logging", host(rt), rt.params("KinaLoggingParams", callback=rows.callback))

    call.refuses(
        "INVALID_ARGUMENT",
        params=rt.params("KinaLoggingParams", callback=rows.callback, ring_rows=2**62),
        clause="KINA-STATUS-25",
        argument="params.ring_rows",
    )


@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
@clause("KINA-VERSION-13", "b43e0d18")
@clause("KINA-VERSION-14", "7da7fd1f")
def test_params_of_logging_keep_the_rules_of_option_structs(rt: Executor) -> None:
    rows = Rows(rt)
    good = rt.params("KinaLoggingParams", callback=rows.callback, tail=bytes(16), struct_size=64)
    call = rt.call("runtime_resource_logging", host(rt), good)

    for fields in (
        {"struct_size": 40},
        {"struct_size": 52},
        {"struct_size": 8192},
        {"tail": b"\1" + bytes(7), "struct_size": 56},
        {"reserved": 7},
    ):
        call.refuses("VERSION", params=rt.params("KinaLoggingParams", callback=rows.callback, **fields))


@memory_case("P25")
@clause("KINA-RESOURCE-53", "df0d9717")
def test_a_forked_child_allocates_through_a_logging_resource(rt: Executor, tmp_path: Path) -> None:
    resource = logged(rt, tmp_path / "log")
    library, null, slot = rt.lib.library, rt.ffi.NULL, rt.ffi.new("void **")

    forked = os.fork()
    if forked == 0:
        answer = library.runtime_memory_allocate(slot, resource.cdata, 64, 0, null)
        answer |= library.runtime_memory_deallocate(resource.cdata, slot[0], 64, 0, null)
        answer |= library.runtime_resource_release(resource.cdata)
        os._exit(answer)

    assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
    deallocate(rt, resource, allocate(rt, resource, 32), 32)
    release(rt, resource)
    assert len((tmp_path / "log").read_text().splitlines()) == 2


@clause("KINA-RESOURCE-5", "79d16bb7")
def test_adaptors_of_adaptors_log_their_own_rows(rt: Executor) -> None:
    outer, inner = Rows(rt), Rows(rt)
    cached = pool(rt, inner.make(host(rt)), growth="KINA_GROWTH_FIXED", growth_bytes=4096)
    resource = outer.make(limit(rt, cached))

    for _ in range(3):
        deallocate(rt, resource, allocate(rt, resource, 100), 100)
    outer.wait(6)
    inner.wait(1)

    assert [row["bytes"] for row in outer.rows] == [100] * 6
    assert [row["bytes"] for row in inner.rows] == [4096]
