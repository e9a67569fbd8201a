"""Failures that a device finds behind the call: gathers with a bad index on simulated devices, and where they go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kina_conformance import Executor, clause
from kina_conformance.alone import alone
from kina_conformance.devices import SECOND, SIMULATED, back, checkout, main, part, pushed, there
from kina_conformance.memory import Tensor
from kina_conformance.simulated import Native

pytestmark = pytest.mark.needs("sim")

GATHER, NEGATE = "runtime_gpu_gather", "runtime_gpu_unary"


def gathered(rt: Executor, indices: Sequence[int], out: Tensor | None = None) -> Tensor:
    """Elements of [10, 20, 30, 40], on the device; the call succeeds whatever the indices are."""
    call = rt.call(GATHER, there(rt, [10, 20, 30, 40]), there(rt, indices, dtype="i64"))
    if out is None:
        made: Tensor = call.succeeds().out
        return made
    assert call.status(out=out) == "SUCCESS"
    return out


def negated(rt: Executor, x: Tensor, out: Tensor | None = None) -> Tensor:
    call = rt.call(NEGATE, x, op="KINA_UNARY_NEG")
    if out is None:
        made: Tensor = call.succeeds().out
        return made
    assert call.status(out=out) == "SUCCESS"
    return out


def added(rt: Executor, a: Tensor, b: Tensor) -> Tensor:
    made: Tensor = rt.call("runtime_gpu_binary", a, b, op="KINA_BINARY_ADD").succeeds().out
    return made


def failure(rt: Executor, x: Tensor) -> int:
    """The failure that the bytes turn out to carry, 0 for none."""
    return int(rt.call("runtime_failure_get", x).succeeds().out.failure)


def report(rt: Executor, x: Tensor) -> tuple[str, str | None, list[str | None], int]:
    info = rt.call("runtime_failure_get", x).succeeds().out
    names = [rt.string(info.skipped[i]) for i in range(info.skipped_count)]
    return rt.lib.status_name(info.status), rt.string(info.function), names, int(info.skipped_total)


# ---- the way of a check ----------------------------------------------------------------------------------------------


@clause("KINA-INDEXING-11", "23edb095")
@clause("KINA-STORAGE-41", "d85f08e3")
@clause("KINA-STORAGE-61", "3a97cfb7")
def test_a_bad_index_reaches_the_host_through_ten_calls_on_other_streams(rt: Executor) -> None:
    bad = gathered(rt, [0, 4, 1])
    chain = [bad]
    for _ in range(10):
        with pushed(rt, checkout(rt)):
            chain.append(negated(rt, chain[-1]))

    call = rt.call("runtime_copy_to_host", chain[-1])

    assert call.status() == "FAILED_INPUT"
    root = rt.record().failure
    assert [failure(rt, x) for x in chain] == [root] * 11
    assert report(rt, bad) == ("INDEX_OUT_OF_RANGE", GATHER, [], 0)
    assert report(rt, chain[-1]) == ("INDEX_OUT_OF_RANGE", GATHER, [NEGATE] * 10, 10)


@clause("KINA-STORAGE-61", "3a97cfb7")
def test_of_a_long_way_the_newest_names_are_told(rt: Executor) -> None:
    x = gathered(rt, [-1])
    for _ in range(10):
        x = negated(rt, x)
    for _ in range(10):
        x = added(rt, x, there(rt, [1]))

    assert report(rt, x) == ("INDEX_OUT_OF_RANGE", GATHER, ["runtime_gpu_binary"] * 10 + [NEGATE] * 6, 20)


@clause("KINA-STORAGE-41", "d85f08e3")
def test_a_check_that_finds_nothing_is_gone(rt: Executor) -> None:
    x = negated(rt, gathered(rt, [3, 0]))

    assert back(rt, x) == [-40, -10]
    assert failure(rt, x) == 0


@clause("KINA-INDEXING-11", "23edb095")
@pytest.mark.parametrize("index", [-1, 4, 2**62, -(2**62)])
def test_the_elements_of_a_bad_index_are_zero(rt: Executor, index: int) -> None:
    x = gathered(rt, [1, index, 3])

    assert rt.call("runtime_failure_clear", tensor=x).succeeds().was_failed == 1

    assert back(rt, x) == [20, 0, 40]


@clause("KINA-STORAGE-41", "d85f08e3")
def test_what_does_not_read_the_bytes_is_not_touched(rt: Executor) -> None:
    base = there(rt, [1, 2, 3, 4])
    gathered(rt, [9, 9], out=part(rt, base, 2, stride=2))  # elements 0 and 2
    clean, doubtful = negated(rt, part(rt, base, 2, stride=2, offset=1)), negated(rt, part(rt, base, 2))

    assert back(rt, clean) == [-2, -4]
    assert failure(rt, part(rt, base, 2, stride=2, offset=1)) == 0
    assert failure(rt, doubtful) == failure(rt, base) != 0


# ---- where the host sees it ------------------------------------------------------------------------------------------


def is_refused(rt: Executor, name: str, *inputs: Any, out: Tensor | None = None, **named: Any) -> bool:
    """Whether bytes of an input turn out to be failed: whatever else happens is no answer."""
    status = rt.call(name, *inputs, **named).status(**({} if out is None else {"out": out}))
    assert status in {"SUCCESS", "FAILED_INPUT"}
    return status == "FAILED_INPUT"


def stops(rt: Executor, x: Tensor) -> bool:
    """Whether an operation on the device is refused: it looks at what was shown to the host, and shows nothing."""
    return is_refused(rt, NEGATE, x, op="KINA_UNARY_NEG", out=there(rt, [0]))


def is_exported(rt: Executor, x: Tensor) -> bool:
    managed = rt.ffi.new("DLManagedTensorVersioned **")
    if rt.function("runtime_to_dlpack")(managed, x.struct, rt.ffi.NULL) != 0:
        return False
    managed[0].deleter(managed[0])
    return True


def synchronised(rt: Executor, x: Tensor) -> bool:
    rt.call("runtime_stream_synchronize", main(rt)).succeeds()
    return stops(rt, x)


def device_synchronised(rt: Executor, x: Tensor) -> bool:
    rt.call("runtime_device_synchronize", SIMULATED, 0).succeeds()
    return stops(rt, x)


POINTS: dict[str, Callable[[Executor, Tensor], bool]] = {
    "copy_to_host": lambda rt, x: is_refused(rt, "runtime_copy_to_host", x, out=rt.tensor("f32", (1,))),
    "copy": lambda rt, x: is_refused(rt, "runtime_copy", x, 1, 0, out=rt.tensor("f32", (1,), owned=True)),
    "tensor_synchronize": lambda rt, x: is_refused(rt, "runtime_tensor_synchronize", tensor=x),
    "failure_get": lambda rt, x: failure(rt, x) != 0,
    "failure_clear": lambda rt, x: bool(rt.call("runtime_failure_clear", tensor=x).succeeds().was_failed),
    "to_dlpack": lambda rt, x: not is_exported(rt, x),
}
ORDERS = {"stream_synchronize": synchronised, "device_synchronize": device_synchronised}


@clause("KINA-STORAGE-59", "4c2685b7")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("index", [1, 4])
def test_a_point_at_which_the_host_looks_resolves_the_check(rt: Executor, point: str, index: int) -> None:
    x, beside = gathered(rt, [index]), gathered(rt, [4])

    assert POINTS[point](rt, x) == (index == 4)

    assert not stops(rt, beside), "another check was resolved too"


@clause("KINA-STORAGE-43", "8d1e9259")
@clause("KINA-STREAM-18", "c2a8d1ce")
@clause("KINA-DEVICE-12", "9092d90a")
@pytest.mark.parametrize("point", ORDERS)
@pytest.mark.parametrize("index", [1, 4])
def test_waiting_for_a_stream_or_a_device_resolves_all_checks_before_it(rt: Executor, point: str, index: int) -> None:
    with pushed(rt, checkout(rt)):
        bad = gathered(rt, [index])
    with pushed(rt, main(rt)):
        x = negated(rt, bad)

    assert ORDERS[point](rt, x) == (index == 4)

    assert stops(rt, bad) == (index == 4)


@clause("KINA-STORAGE-41", "d85f08e3")
def test_before_that_a_check_stops_nothing(rt: Executor) -> None:
    x = gathered(rt, [4])
    out = there(rt, [5])

    for _ in range(100):
        negated(rt, x, out)

    assert failure(rt, out) == failure(rt, x) != 0


@clause("KINA-STORAGE-62", "ff1a3ae6")
@clause("KINA-INDEXING-24", "438ce622")
def test_an_out_that_carries_no_check_has_its_answer_at_the_call(rt: Executor) -> None:
    bytes_ = there(rt, [0, 0])
    borrowed = rt.empty()
    source = rt.ffi.addressof(bytes_.struct.dl)
    bare = rt.function("runtime_wrap")
    assert bare(borrowed.struct, source, bytes_.size_bytes, rt.ffi.NULL, 0) == 0
    call = rt.call(GATHER, there(rt, [10, 20]), there(rt, [0, 2], dtype="i64"))
    assert call.status(out=borrowed) == "INDEX_OUT_OF_RANGE"
    assert rt.call(GATHER, there(rt, [10, 20]), there(rt, [0, 1], dtype="i64")).status(out=borrowed) == "SUCCESS"
    assert back(rt, bytes_) == [10, 20]
    assert rt.call(NEGATE, gathered(rt, [0, 4]), op="KINA_UNARY_NEG").status(out=borrowed) == "FAILED_INPUT"
    rt.call("runtime_device_synchronize", SIMULATED, 0).succeeds()
    assert back(rt, bytes_) == [10, 20]

    nothing = rt.call("runtime_copy", rt.tensor("f32", (2, 0)), SIMULATED, 0).succeeds().out
    assert rt.call(GATHER, nothing, there(rt, [2], dtype="i64")).status() == "INDEX_OUT_OF_RANGE"
    rt.call(GATHER, nothing, there(rt, [1], dtype="i64")).succeeds()


# ---- which one -------------------------------------------------------------------------------------------------------


@clause("KINA-STORAGE-42", "b542cf0e")
@pytest.mark.parametrize("seen_first", ["first", "second", "neither"])
@pytest.mark.parametrize("first_fails", [True, False])
def test_the_check_that_was_enqueued_first_is_the_root(rt: Executor, seen_first: str, first_fails: bool) -> None:
    with pushed(rt, checkout(rt)):
        first = gathered(rt, [4 if first_fails else 0])
    with pushed(rt, checkout(rt)):
        second = gathered(rt, [-7])
    both, turned = added(rt, first, second), added(rt, second, first)
    if seen_first != "neither":
        failure(rt, first if seen_first == "first" else second)

    root = failure(rt, first if first_fails else second)

    assert [failure(rt, both), failure(rt, turned)] == [root, root]


@clause("KINA-STORAGE-42", "b542cf0e")
def test_the_root_is_the_first_of_very_many(rt: Executor) -> None:
    total = there(rt, [0])
    bad = [gathered(rt, [4 if number in {7, 60, 150} else 1]) for number in range(200)]
    for x in reversed(bad):
        assert rt.call("runtime_gpu_binary", total, x, op="KINA_BINARY_ADD").status(out=total) == "SUCCESS"

    assert failure(rt, total) == failure(rt, bad[7])
    assert len({failure(rt, bad[i]) for i in (7, 60, 150)} - {0}) == 3


@clause("KINA-STORAGE-64", "ac02552d")
@clause("KINA-STORAGE-42", "b542cf0e")
def test_no_number_of_checks_is_waited_for(rt: Executor) -> None:
    total, values = there(rt, [0]), there(rt, [1])
    good, bad = there(rt, [0], dtype="i64"), there(rt, [1], dtype="i64")
    outs, driver = [rt.empty() for _ in range(300)], Native.of(rt, main(rt))
    waits = driver.counts().host_waits

    with pushed(rt, checkout(rt)):
        for number, out in enumerate(outs):
            call = rt.call(GATHER, values, bad if number in {150, 270} else good)
            assert call.status(out=out) == "SUCCESS"
        for out in reversed(outs):
            assert rt.call("runtime_gpu_binary", total, out, op="KINA_BINARY_ADD").status(out=total) == "SUCCESS"

    assert driver.counts().host_waits == waits
    assert failure(rt, total) == failure(rt, outs[150]) != 0


@clause("KINA-STORAGE-41", "d85f08e3")
@clause("KINA-STATUS-32", "6b61c460")
def test_threads_that_look_at_once_find_one_failure(rt: Executor) -> None:
    threads, rounds = 4, 25
    bad = [gathered(rt, [4]) for _ in range(rounds)]
    infos = [[rt.ffi.new("KinaFailureInfo *") for _ in range(rounds)] for _ in range(threads)]
    outs = [[rt.ffi.new("KinaTensor *") for _ in range(rounds)] for _ in range(threads)]
    negate, get, free = (rt.lib.functions[name] for name in (NEGATE, "runtime_failure_get", "runtime_free"))
    gate, op = threading.Barrier(threads), rt.constant("KINA_UNARY_NEG")
    statuses: list[int] = []

    def look(number: int) -> None:
        gate.wait()
        for x, info, out in zip(bad, infos[number], outs[number], strict=True):
            info.struct_size = rt.ffi.sizeof("KinaFailureInfo")
            # Another thread may have looked already: then the operation does not run.
            statuses.append(get(info, out if negate(out, x.struct, op) == 0 else x.struct))

    workers = [threading.Thread(target=look, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert set(statuses) == {0}
    roots = [{int(infos[number][i].failure) for number in range(threads)} for i in range(rounds)]
    assert roots == [{failure(rt, x)} for x in bad] and all(roots)
    assert all(free(out) == 0 for row in outs for out in row)


# ---- where it ends ---------------------------------------------------------------------------------------------------


@clause("KINA-STORAGE-60", "27a9783a")
@pytest.mark.parametrize("how", ["fill", "operation", "failure_clear", "failure_set"])
def test_bytes_that_are_written_again_lose_the_check(rt: Executor, how: str) -> None:
    x = gathered(rt, [4] * 6)
    middle = part(rt, x, 2, stride=2, offset=1)  # elements 1 and 3
    other = 0
    if how == "fill":
        rt.call("runtime_fill", tensor=middle, value=bytes(4), value_bytes=4).succeeds()
    elif how == "operation":
        negated(rt, there(rt, [0, 0]), middle)
    elif how == "failure_clear":
        assert rt.call("runtime_failure_clear", tensor=middle).succeeds().was_failed == 1
    else:
        call = rt.call("runtime_failure_set", tensor=middle, cause=0, status="DEVICE", message="mine")
        other = call.succeeds().failure

    late = failure(rt, part(rt, x, 1))

    assert [failure(rt, part(rt, x, 1, offset=i)) for i in range(6)] == [late, other, late, other, late, late]
    assert back(rt, negated(rt, there(rt, [1]))) == [-1]


@clause("KINA-STORAGE-60", "27a9783a")
def test_what_was_read_before_keeps_the_check(rt: Executor) -> None:
    x = gathered(rt, [4])
    y = negated(rt, x)
    rt.call("runtime_fill", tensor=x, value=bytes(4), value_bytes=4).succeeds()

    assert back(rt, x) == [0]
    assert rt.call("runtime_copy_to_host", y).status() == "FAILED_INPUT"


@clause("KINA-STORAGE-41", "d85f08e3")
def test_the_check_outlives_the_tensor_that_raised_it(rt: Executor) -> None:
    x = gathered(rt, [4])
    y = negated(rt, x)
    rt.call("runtime_free", tensor=x).succeeds()

    assert report(rt, y) == ("INDEX_OUT_OF_RANGE", GATHER, [NEGATE], 1)


# ---- two devices -----------------------------------------------------------------------------------------------------


def reach_each_other(rt: Executor) -> bool:
    return all(rt.call("runtime_device_can_access", SIMULATED, a, b).succeeds().out for a, b in [(0, 1), (1, 0)])


@clause("KINA-STORAGE-41", "d85f08e3")
@pytest.mark.needs("sim", devices=2)
def test_a_check_travels_to_another_device(rt: Executor) -> None:
    for index in (1, 4):
        x = gathered(rt, [index])
        y = rt.call("runtime_copy", x, SIMULATED, 1).succeeds().out
        z = negated(rt, y)

        assert is_refused(rt, "runtime_copy_to_host", z, out=rt.tensor("f32", (1,))) == (index == 4)
        assert failure(rt, z) == failure(rt, x)


@clause("KINA-STORAGE-58", "85a65d1c")
@pytest.mark.needs("sim", devices=2)
def test_a_late_failure_crosses_peers_both_ways(rt: Executor) -> None:
    if not reach_each_other(rt):
        return
    mine = there(rt, [1, 2, 3])
    peer = rt.call("runtime_peer_share", mine).succeeds().out
    theirs = rt.call("runtime_peer_open", peer, SIMULATED, 1).succeeds().out

    gathered(rt, [4, 4], out=part(rt, mine, 2))
    assert failure(rt, part(rt, theirs, 2)) == failure(rt, mine) != 0
    assert failure(rt, part(rt, theirs, 1, offset=2)) == 0
    rt.call("runtime_failure_clear", tensor=mine).succeeds()

    rt.call("runtime_device_synchronize", SIMULATED, 0).succeeds()
    source = there(rt, [10, 20], device=SECOND)
    indices = there(rt, [5], dtype="i64", device=SECOND)
    assert rt.call(GATHER, source, indices).status(out=part(rt, theirs, 1, offset=2)) == "SUCCESS"
    rt.call("runtime_device_synchronize", SIMULATED, 1).succeeds()
    assert stops(rt, part(rt, mine, 1, offset=2)) and not stops(rt, part(rt, mine, 1))
    assert failure(rt, part(rt, mine, 2)) == 0


# ---- a lost device ---------------------------------------------------------------------------------------------------


@clause("KINA-STORAGE-63", "c5ce5183")
def test_a_check_of_a_lost_device_is_a_failure(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        values, indices = tensor(rt, (4,), (12, 0)), ffi.new("KinaTensor *")
        assert rt.runtime_alloc(indices, [2], 1, rt.constants["KINA_DTYPE_I64"], 12, 0, ffi.NULL) == 0
        x, y = ffi.new("KinaTensor *"), ffi.new("KinaTensor *")
        assert rt.runtime_gpu_gather(x, values, indices) == 0
        assert rt.runtime_gpu_unary(y, x, rt.constants["KINA_UNARY_NEG"]) != 0
        info = ffi.new("KinaFailureInfo *", {"struct_size": ffi.sizeof("KinaFailureInfo")})
        assert rt.runtime_failure_get(info, x) == 0
        print(rt.status_name(info.status), ffi.string(info.function).decode())
        print(rt.status_name(rt.runtime_tensor_synchronize(x)), rt.runtime_free(x), rt.runtime_free(values))
        """,
        KINA_SIM_FAULT="lost:2",
    )

    assert told.split() == ["DEVICE_LOST", GATHER, "DEVICE_LOST", "0", "0"]


@clause("KINA-STATUS-54", "b50a509c")
@clause("KINA-DEVICE-21", "1a95b7fc")
def test_releases_on_a_lost_device_succeed_and_count_what_they_leave(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        neg, where, info = rt.constants["KINA_UNARY_NEG"], ffi.new("KinaResource *"), ffi.new("KinaResourceInfo *")
        info.struct_size = ffi.sizeof("KinaResourceInfo")
        x, y, kept, stream = tensor(rt, (64,), (12, 0)), tensor(rt, (64,), (12, 0)), tensor(rt), ffi.new("KinaStream *")
        assert rt.runtime_resource_current(where, 12, 0) == rt.runtime_stream_checkout(stream, 12, 0) == 0
        for _ in range(3):
            lost = rt.runtime_gpu_unary(y, x, neg)
        out = ffi.new("KinaTensor *")
        later = [
            rt.runtime_gpu_unary(y, x, neg), rt.runtime_copy_to_host(out, y), rt.runtime_copy_to_device(out, kept, 0),
            rt.runtime_tensor_synchronize(y), rt.runtime_device_synchronize(12, 0),
            rt.runtime_stream_synchronize(stream[0]),
            rt.runtime_alloc(out, [4], 1, rt.constants["KINA_DTYPE_F32"], 12, 0, ffi.NULL),
        ]
        print({word(rt, status) for status in [lost, *later]})
        assert rt.runtime_resource_info(info, where[0]) == 0
        live = info.live_bytes, info.live_blocks
        print([rt.runtime_free(x), rt.runtime_free(y), rt.runtime_stream_checkin(stream[0])])
        assert rt.runtime_resource_info(info, where[0]) == 0
        print(live == (info.leaked_bytes, info.leaked_blocks) != (0, 0), info.live_bytes)
        print(word(rt, rt.runtime_gpu_unary(out, kept, neg)))
        """,
        KINA_SIM_DEVICES="1",
        KINA_SIM_FAULT="lost:3",
    )

    assert told.splitlines() == ["{'DEVICE_LOST'}", "[0, 0, 0]", "True 0", "SUCCESS"]
