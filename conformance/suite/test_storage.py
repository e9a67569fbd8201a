"""Storages: overlap, exclusive use, byte ranges, failures by byte, weak references and peers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance.flaws import OPERATIONS, Blocks, Case, failed, geometry, inputs_of
from kina_conformance.memory import Tensor, compact, span
from kina_conformance.memory_cases import memory_case
from kina_conformance.strategies import layouts, shapes
from kina_conformance.tensors import free, made, peer_of, weak_of

COPIED = 2  # DLPack's flag bit IS_COPIED
SIM = 12  # device type of simulated devices


def view(rt: Executor, of: Tensor, shape: tuple[int, ...], strides: Any = None, offset: int = 0) -> Tensor:
    return made(rt, "runtime_view", in_=of, **geometry(shape, strides, offset))


def range_of(rt: Executor, tensor: Tensor) -> tuple[int, int, int]:
    key = rt.call("runtime_byte_range", tensor).succeeds().out
    return int(key.storage), int(key.start), int(key.end)


def fail(
    rt: Executor, tensor: Tensor, cause: int = 0, status: str | int = "DEVICE", message: str | None = "broken"
) -> int:
    call = rt.call("runtime_failure_set", tensor=tensor, cause=cause, status=status, message=message)
    return int(call.succeeds().failure)


def clear(rt: Executor, tensor: Tensor) -> int:
    return int(rt.call("runtime_failure_clear", tensor=tensor).succeeds().was_failed)


def report(rt: Executor, tensor: Tensor) -> dict[str, Any]:
    """What runtime_failure_get says, in Python's terms."""
    info = rt.call("runtime_failure_get", tensor).succeeds().out
    return {
        "status": rt.lib.status_name(info.status),
        "failure": int(info.failure),
        "range": (int(info.range.storage), int(info.range.start), int(info.range.end)),
        "function": rt.string(info.function),
        "message": rt.string(info.message),
        "skipped": [rt.string(info.skipped[i]) for i in range(info.skipped_count)],
        "skipped_total": int(info.skipped_total),
    }


def is_failed(rt: Executor, tensor: Tensor) -> bool:
    status = rt.call("runtime_tensor_synchronize", tensor).status()
    assert status in {"SUCCESS", "FAILED_INPUT"}
    return status == "FAILED_INPUT"


def fill(rt: Executor, tensor: Tensor, value: int = 0) -> None:
    item = {"u8": 1, "i8": 1, "i32": 4, "f32": 4}[tensor.dtype]
    rt.call("runtime_fill", tensor=tensor, value=value.to_bytes(item, "little"), value_bytes=item).succeeds()


def imported(rt: Executor, count: int, flags: int = 0) -> Tensor:
    """An import of memory that the library exported, stamped with DLPack flags."""
    managed = rt.call("runtime_to_dlpack", tensor=rt.alloc("u8", (count,)), params=None).succeeds().out
    managed.flags = flags
    tensor = made(rt, "runtime_from_dlpack", managed=managed, params=None)
    rt.forget([managed])
    return tensor


# ---- overlap ---------------------------------------------------------------------------------------------------------

# (shape, strides, offset) of two views of one storage of 24 elements, and what their hulls are to each other.
DISJOINT, SAME, PARTIAL = range(3)
OVERLAPS = [
    (((6,), None, 0), ((6,), None, 12), DISJOINT, "apart"),
    (((6,), None, 0), ((6,), None, 6), DISJOINT, "adjacent"),
    (((6,), None, 0), ((6,), None, 5), PARTIAL, "one element"),
    (((12,), None, 0), ((4,), None, 4), PARTIAL, "nested"),
    (((12,), None, 0), ((4,), None, 0), PARTIAL, "nested with one start"),
    (((12,), None, 0), ((4,), None, 8), PARTIAL, "nested with one end"),
    (((12,), None, 3), ((12,), None, 3), SAME, "equal"),
    (((12,), None, 3), ((3, 4), None, 3), SAME, "equal hulls of different shapes"),
    (((12,), None, 3), ((12,), (-1,), 14), SAME, "equal hulls, one read backwards"),
    (((6,), None, 0), ((6,), (-1,), 11), DISJOINT, "adjacent, one read backwards"),
    (((6,), None, 0), ((6,), (-1,), 10), PARTIAL, "one element, one read backwards"),
    (((4,), (3,), 0), ((4,), (3,), 1), PARTIAL, "interleaved without a common byte"),
    (((4,), (3,), 0), ((4,), (3,), 0), SAME, "equal and strided"),
    (((4,), (3,), 0), ((10,), None, 0), SAME, "a strided hull and a compact one"),
    (((5,), (0,), 2), ((1,), None, 2), SAME, "one element again and again"),
    (((5,), (0,), 2), ((1,), None, 3), DISJOINT, "stride 0 beside an element"),
    (((5,), (0,), 2), ((6,), None, 0), PARTIAL, "stride 0 inside"),
    (((0,), None, 2), ((6,), None, 0), DISJOINT, "an empty hull inside"),
    (((0,), None, 2), ((0,), None, 2), DISJOINT, "two empty hulls"),
    (((), None, 4), ((1, 1), (9, -9), 4), SAME, "one element of any rank"),
]


@clause("KINA-STORAGE-1", "7d5ce905")
@clause("KINA-STORAGE-2", "9b39e33b")
@clause("KINA-STORAGE-3", "83652abb")
@clause("KINA-STORAGE-5", "357fb1a3")
@pytest.mark.parametrize("row", OVERLAPS, ids=lambda row: row[3])
@pytest.mark.parametrize("owned", [True, False])
def test_overlap_answers_by_the_table(rt: Executor, row: Any, owned: bool) -> None:
    base = rt.tensor("i32", (24,), owned=owned)
    a, b = (view(rt, base, *place) for place in row[:2])

    assert rt.call("runtime_overlap", a, b).succeeds().out == row[2]
    assert rt.call("runtime_overlap", b, a).succeeds().out == row[2]


@clause("KINA-STORAGE-1", "7d5ce905")
def test_different_storages_are_disjoint(rt: Executor) -> None:
    a, b = rt.alloc("i32", (6,)), rt.alloc("i32", (6,))

    assert rt.call("runtime_overlap", a, b).succeeds().out == DISJOINT


@clause("KINA-STORAGE-1", "7d5ce905")
@given(data=st.data())
def test_overlap_is_what_the_hulls_say(rt: Executor, data: st.DataObject) -> None:
    base = rt.alloc("u8", (8192,))
    views = []
    for _ in range(2):
        shape = data.draw(shapes((0, 3), [0, 1, 2, 3, 5]))
        strides, gap = data.draw(layouts(shape))
        low, high = span(shape, strides or compact(shape)) if 0 not in shape else (0, 0)
        views.append(
            view(rt, base, shape, strides, gap - low + data.draw(st.integers(0, 40))) if high - low < 8000 else base
        )
    (a, b), (c, d) = (v.hull() for v in views)
    common = max(a, c) < min(b, d)

    answer = rt.call("runtime_overlap", *views).succeeds().out

    assert answer == (DISJOINT if not common else SAME if (a, b) == (c, d) else PARTIAL)


@clause("KINA-STORAGE-4", "aa695833")
def test_foreign_memory_is_seen_by_address(rt: Executor) -> None:
    owned = rt.alloc("i32", (8,))
    borrowed = rt.tensor("i32", (3,))
    borrowed.buffer = None
    borrowed.struct.dl.data = rt.ffi.cast("void *", owned.data + 8)
    again = borrowed.copy()
    whole = made(rt, "runtime_wrap", source=owned, size_bytes=32, stream=None, flags=0)
    whole.keep.append(owned)

    assert rt.call("runtime_overlap", owned, borrowed).succeeds().out == PARTIAL
    assert rt.call("runtime_overlap", borrowed, again).succeeds().out == SAME
    assert rt.call("runtime_overlap", whole, owned).succeeds().out == SAME
    assert rt.call("runtime_overlap", made(rt, "runtime_alias", in_=borrowed), owned).succeeds().out == PARTIAL


@clause("KINA-STORAGE-5", "357fb1a3")
def test_overlap_takes_one_tensor_twice(rt: Executor) -> None:
    tensor, empty = rt.alloc("i32", (8,)), rt.alloc("i32", (0,))

    assert rt.call("runtime_overlap", tensor, tensor).succeeds().out == SAME
    assert rt.call("runtime_overlap", empty, empty).succeeds().out == DISJOINT


# ---- exclusive -------------------------------------------------------------------------------------------------------


def exclusive(rt: Executor, tensor: Tensor) -> int:
    return int(rt.call("runtime_is_exclusive", tensor).succeeds().out)


@clause("KINA-STORAGE-6", "5e605a03")
@pytest.mark.parametrize("place", [((6,), None, 0), ((2,), None, 4), ((0,), None, 0)], ids=str)
def test_a_tensor_is_exclusive_while_it_is_the_only_one(rt: Executor, place: Any) -> None:
    tensor = rt.alloc("i32", (6,))
    assert exclusive(rt, tensor) == 1

    other = view(rt, tensor, *place)
    assert exclusive(rt, tensor) == 0 and exclusive(rt, other) == 0

    free(rt, tensor)
    assert exclusive(rt, other) == 1
    alias = made(rt, "runtime_alias", in_=other)
    assert exclusive(rt, other) == exclusive(rt, alias) == 0
    free(rt, alias)
    assert exclusive(rt, other) == 1


@clause("KINA-STORAGE-7", "d4007aab")
def test_weak_references_peers_and_copies_do_not_count(rt: Executor) -> None:
    tensor = rt.alloc("i32", (6,))
    copy = tensor.copy()
    rt.call("runtime_weak_create", tensor).succeeds()
    peer = rt.call("runtime_peer_share", tensor).succeeds().out

    assert exclusive(rt, tensor) == exclusive(rt, copy) == 1
    opened = made(rt, "runtime_peer_open", peer=peer, device_type=1, device_id=0)
    assert exclusive(rt, tensor) == exclusive(rt, opened) == 0
    free(rt, opened)
    assert exclusive(rt, tensor) == 1


@clause("KINA-STORAGE-8", "caf20e05")
@pytest.mark.parametrize("word", ["", "_legacy"])
def test_an_export_counts_until_its_deleter_runs(rt: Executor, word: str) -> None:
    tensor = rt.alloc("i32", (6,))
    alias = made(rt, "runtime_alias", in_=tensor)
    managed = rt.call(f"runtime_to_dlpack{word}", tensor=tensor, params=None).succeeds().out

    assert exclusive(rt, alias) == 0
    rt.forget([managed])
    managed.deleter(managed)
    assert exclusive(rt, alias) == 1


@clause("KINA-STORAGE-9", "90b76b52")
def test_foreign_memory_is_exclusive_only_as_a_copy(rt: Executor) -> None:
    borrowed, plain, copied = rt.tensor("i32", (6,)), imported(rt, 6), imported(rt, 6, COPIED)

    assert exclusive(rt, borrowed) == 0
    assert exclusive(rt, made(rt, "runtime_alias", in_=borrowed)) == 0
    assert exclusive(rt, plain) == 0 and exclusive(rt, copied) == 1
    other = view(rt, copied, (2,))
    assert exclusive(rt, copied) == exclusive(rt, other) == 0
    free(rt, copied)
    assert exclusive(rt, other) == 1


# ---- byte range ------------------------------------------------------------------------------------------------------


@clause("KINA-STORAGE-10", "ce46db9e")
def test_a_storage_has_one_id_that_no_other_has(rt: Executor) -> None:
    seen: set[int] = set()
    for _ in range(50):
        tensor = rt.alloc("i32", (6,))
        storage = range_of(rt, tensor)[0]
        alias = made(rt, "runtime_alias", in_=tensor)
        free(rt, tensor)
        assert storage != 0 and storage not in seen
        assert range_of(rt, alias)[0] == range_of(rt, view(rt, alias, (2,)))[0] == storage
        seen.add(storage)
        free(rt, alias)


@clause("KINA-STORAGE-11", "62545d14")
@given(shape=shapes((0, 4), [1, 2, 3, 5]), data=st.data())
def test_start_and_end_are_the_hull(rt: Executor, shape: tuple[int, ...], data: st.DataObject) -> None:
    base = rt.alloc("i32", (4096,))
    strides, gap = data.draw(layouts(shape))
    low, high = span(shape, strides or compact(shape))
    if high - low + gap >= 4096:
        return

    _, start, end = range_of(rt, view(rt, base, shape, strides, gap - low))

    assert (start, end) == (4 * gap, 4 * (gap + high - low + 1))


@clause("KINA-STORAGE-12", "e5fbd60f")
def test_a_tensor_without_elements_has_an_empty_range(rt: Executor) -> None:
    for tensor in (rt.alloc("i32", (0,)), view(rt, rt.alloc("i32", (6,)), (3, 0), None, 2), rt.tensor("i32", (0,))):
        _, start, end = range_of(rt, tensor)
        assert start == end


@clause("KINA-STORAGE-13", "02b9ede1")
@pytest.mark.parametrize("strides", [(3, 1), (-3, 1), (0, 2)], ids=str)
def test_foreign_memory_has_addresses(rt: Executor, strides: tuple[int, ...]) -> None:
    borrowed = rt.tensor("i32", (2, 3), strides=strides, offset=2)
    foreign = imported(rt, 6)

    assert range_of(rt, borrowed) == (0, *borrowed.hull())
    assert range_of(rt, made(rt, "runtime_alias", in_=borrowed)) == (0, *borrowed.hull())
    assert range_of(rt, foreign) == (0, *foreign.hull())
    assert range_of(rt, view(rt, foreign, (2,), None, 3)) == (0, foreign.data + 3, foreign.data + 5)


# ---- failure ---------------------------------------------------------------------------------------------------------

NONE = {
    "status": "SUCCESS",
    "failure": 0,
    "range": (0, 0, 0),
    "function": None,
    "message": None,
    "skipped": [],
    "skipped_total": 0,
}


@clause("KINA-STORAGE-14", "72e1e1e4")
@pytest.mark.parametrize("status", ["OUT_OF_MEMORY", "DEVICE", "INDEX_OUT_OF_RANGE", "VENDOR_LIBRARY", "BUSY"])
def test_a_failure_can_be_made(rt: Executor, status: str) -> None:
    tensor = rt.alloc("i32", (6,))

    failure = fail(rt, tensor, status=status, message="the disk is on fire")

    assert is_failed(rt, tensor)
    said = report(rt, tensor)
    assert (said["status"], said["failure"], said["message"]) == (status, failure, "the disk is on fire")


@clause("KINA-STORAGE-15", "c659b3d2")
def test_failure_ids_are_never_used_again(rt: Executor) -> None:
    seen: set[int] = set()
    for _ in range(100):
        tensor = rt.alloc("u8", (2,))
        failure = fail(rt, tensor)
        assert failure != 0 and failure not in seen
        seen.add(failure)
        free(rt, tensor)


@clause("KINA-STORAGE-16", "4ed43eba")
def test_a_cause_is_extended_to_other_bytes(rt: Executor) -> None:
    a, b = rt.alloc("u8", (4,)), rt.alloc("u8", (4,))
    failure = fail(rt, a, status="DEVICE", message="first")

    again = fail(rt, b, cause=failure, status=0, message="ignored")
    unknown = rt.call("runtime_failure_set", tensor=b, cause=failure, status=12345, message=None).succeeds().failure

    assert again == unknown == failure
    said = report(rt, b)
    assert (said["status"], said["failure"], said["message"]) == ("DEVICE", failure, "first")


@clause("KINA-STORAGE-17", "92070959")
def test_an_unknown_cause_is_refused(rt: Executor) -> None:
    tensor = rt.alloc("u8", (4,))
    failure = fail(rt, rt.alloc("u8", (1,)))
    call = rt.call("runtime_failure_set", tensor=tensor, cause=failure, status="DEVICE", message=None)

    for cause in (failure + 1000000, (1 << 64) - 1):
        call.refuses("INVALID_ARGUMENT", cause=cause, clause="KINA-STORAGE-17", argument="cause")


@clause("KINA-STORAGE-17", "92070959")
def test_a_failure_is_known_while_a_byte_carries_it(rt: Executor) -> None:
    first, second = rt.alloc("u8", (4,)), rt.alloc("u8", (4,))
    failure = fail(rt, first)
    fail(rt, second, cause=failure)
    free(rt, first)
    fill(rt, view(rt, second, (3,)))

    assert fail(rt, rt.alloc("u8", (1,)), cause=failure) == failure


@clause("KINA-STORAGE-18", "073887fd")
def test_a_failure_needs_a_status_that_is_one(rt: Executor) -> None:
    call = rt.call("runtime_failure_set", tensor=rt.alloc("u8", (4,)), cause=0, status="DEVICE", message=None)

    call.refuses("INVALID_ARGUMENT", status_=0, clause="KINA-STORAGE-18", argument="status")
    for number in (-1, 20, 1 << 30, -(1 << 31)):
        call.refuses("UNSUPPORTED", status_=number, clause="KINA-STORAGE-18", argument="status")


@clause("KINA-STORAGE-19", "36ce2b81")
@pytest.mark.parametrize("length", [0, 1, 63, 1000])
def test_the_message_is_copied(rt: Executor, length: int) -> None:
    tensor = rt.alloc("u8", (4,))
    text = rt.ffi.new("char[]", b"{}%s" * (length // 4) + b"x" * (length % 4))
    expected = rt.string(text)
    rt.call("runtime_failure_set", tensor=tensor, cause=0, status="DEVICE", message=text).succeeds()
    rt.ffi.memmove(text, b"\0" * (length + 1), length + 1)

    assert report(rt, tensor)["message"] == expected


@clause("KINA-STORAGE-19", "36ce2b81")
def test_a_null_message_is_an_empty_one(rt: Executor) -> None:
    tensor = rt.alloc("u8", (4,))
    fail(rt, tensor, message=None)

    assert report(rt, tensor)["message"] == ""


def marked(rt: Executor, base: Tensor) -> list[bool]:
    """Byte by byte: does it carry a failure? `base` is a u8 vector over the whole storage."""
    return [is_failed(rt, view(rt, base, (1,), None, i)) for i in range(base.shape[0])]


@clause("KINA-STORAGE-20", "d99b4001")
@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((4,), (3,), 1), ((3, 2), (5, 1), 0), ((4,), (-2,), 9), ((), None, 7), ((0,), None, 3), ((6,), (0,), 5)],
    ids=str,
)
def test_a_failure_marks_the_elements_and_at_most_the_hull(
    rt: Executor, shape: tuple[int, ...], strides: Any, offset: int
) -> None:
    base = rt.tensor("u8", (16,), list(range(16)), owned=True)
    part = view(rt, base, shape, strides, offset)
    elements = {int(value) for value in part.raw().reshape(-1)}

    fail(rt, part)

    found = {i for i, bad in enumerate(marked(rt, base)) if bad}
    assert elements <= found
    assert not found or (min(found), max(found)) == (min(elements), max(elements))


@clause("KINA-STORAGE-21", "ec01704b")
def test_a_newer_failure_takes_over_the_bytes_that_it_marks(rt: Executor) -> None:
    base = rt.alloc("u8", (12,))
    old = fail(rt, base, message="old")
    new = fail(rt, view(rt, base, (4,), None, 4), message="new")

    found = [report(rt, view(rt, base, (1,), None, i))["failure"] for i in range(12)]

    assert found == [old] * 4 + [new] * 4 + [old] * 4


@clause("KINA-STORAGE-22", "3ca08b4e")
def test_setting_a_failure_again_changes_nothing(rt: Executor) -> None:
    base = rt.alloc("u8", (12,))
    part = view(rt, base, (4,), None, 4)
    failure = fail(rt, part)
    before = report(rt, base)

    assert fail(rt, part, cause=failure) == failure
    assert report(rt, base) == before


@clause("KINA-STORAGE-23", "314bea6c")
@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((16,), None, 0),
        ((4,), (3,), 1),
        ((3, 2), (5, 1), 0),
        ((4,), (-2,), 9),
        ((0,), None, 3),
        ((2, 2, 2), (8, 1, 3), 1),
    ],
    ids=str,
)
def test_a_write_repairs_exactly_the_bytes_it_wrote(
    rt: Executor, shape: tuple[int, ...], strides: Any, offset: int
) -> None:
    base = rt.tensor("u8", (16,), list(range(16)), owned=True)
    part = view(rt, base, shape, strides, offset)
    elements = {int(value) for value in part.raw().reshape(-1)}
    fail(rt, base)

    fill(rt, part)

    assert {i for i, bad in enumerate(marked(rt, base)) if not bad} == elements


@clause("KINA-STORAGE-23", "314bea6c")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_every_operation_repairs_its_out(rt: Executor, case: Case) -> None:
    base = rt.tensor("f32", (64,), 0, owned=True)
    strides = tuple(2 * s for s in compact(case.shape))
    out = view(rt, base, case.shape, strides, 3)
    fail(rt, base)

    status = case.call(rt, out=out).status()

    assert status == "SUCCESS" and not is_failed(rt, out)
    assert is_failed(rt, view(rt, base, (3,))) and is_failed(rt, view(rt, base, (1,), None, 4))


@clause("KINA-STORAGE-24", "0c03eaad")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_a_refused_call_changes_no_failure(rt: Executor, case: Case) -> None:
    out = case.out(rt, owned=True)
    fail(rt, out)
    before = report(rt, out)
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
    name = inputs_of(case, rt)[0]

    assert rt.call(case.function, **{**arguments, name: rt.empty(), "out": out}).status() == "INVALID_ARGUMENT"
    assert report(rt, out) == before
    assert not is_failed(rt, arguments[name])


@clause("KINA-STORAGE-25", "7966cc5c")
@pytest.mark.parametrize(("shape", "strides", "offset"), [((4,), (3,), 1), ((5,), (-1,), 9), ((0,), None, 3)], ids=str)
def test_clear_repairs_exactly_the_bytes_of_the_elements(
    rt: Executor, shape: tuple[int, ...], strides: Any, offset: int
) -> None:
    base = rt.tensor("u8", (16,), list(range(16)), owned=True)
    part = view(rt, base, shape, strides, offset)
    elements = {int(value) for value in part.raw().reshape(-1)}
    assert clear(rt, part) == 0
    fail(rt, base)

    assert clear(rt, part) == (1 if elements else 0)
    assert {i for i, bad in enumerate(marked(rt, base)) if not bad} == elements
    assert clear(rt, part) == 0
    assert clear(rt, base) == 1 and not is_failed(rt, base)


@clause("KINA-STORAGE-26", "ba511005")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_reading_repairs_nothing(rt: Executor, case: Case) -> None:
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
    tensor = arguments[inputs_of(case, rt)[0]]
    arguments["out"] = case.out(rt, owned=True)  # a view would read nothing
    failure = fail(rt, tensor)
    before = report(rt, tensor)

    for _ in range(2):
        assert rt.call(case.function, **arguments).status() == "FAILED_INPUT"
        for name in ("runtime_byte_range", "runtime_is_exclusive", "runtime_failure_get"):
            rt.call(name, tensor).succeeds()

    assert report(rt, tensor) == before and before["failure"] == failure


@clause("KINA-STORAGE-27", "38fd4b16")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_failed_bytes_beside_the_elements_do_no_harm(rt: Executor, case: Case) -> None:
    expected = case.call(rt).succeeds().out.numpy()
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
    name = inputs_of(case, rt)[0]
    shape, values = arguments[name].shape, arguments[name].numpy()
    base = rt.tensor("f32", (64,), 0, owned=True)
    x = view(rt, base, shape, tuple(2 * s for s in compact(shape)), 2)
    x.write(values)
    fail(rt, view(rt, base, (31,), (2,), 1))

    out = made(rt, case.function, **{**arguments, name: x})

    assert np.array_equal(out.numpy(), expected)


@clause("KINA-STORAGE-28", "4911fa64")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_a_skipped_operation_hands_the_failure_on(rt: Executor, case: Case) -> None:
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
    tensor = arguments[inputs_of(case, rt)[0]]
    out = case.out(rt, owned=True)
    contents = out.storage_bytes()
    failure = fail(rt, tensor, status="VENDOR_LIBRARY", message="root")

    assert rt.call(case.function, **arguments, out=out).status() == "FAILED_INPUT"

    said = report(rt, out)
    assert (said["status"], said["failure"], said["message"]) == ("VENDOR_LIBRARY", failure, "root")
    assert said["function"] == "runtime_failure_set"
    assert said["skipped"] == [case.function] and said["skipped_total"] == 1
    assert out.storage_bytes() == contents
    assert report(rt, tensor)["skipped"] == []


@clause("KINA-STORAGE-29", "eebc3c8f")
def test_the_first_failed_input_and_its_lowest_byte_give_the_failure(rt: Executor) -> None:
    a, b, out = (rt.tensor("f32", (4,), owned=True) for _ in range(3))
    failures = {(which, i): fail(rt, view(rt, t, (1,), None, i)) for which, t in (("a", a), ("b", b)) for i in (3, 1)}
    back = view(rt, a, (4,), (-1,), 3)
    add = rt.call("runtime_gpu_binary", a=a, b=b, op="KINA_BINARY_ADD", out=out)

    assert add.status() == "FAILED_INPUT" and rt.record().failure == failures["a", 1]
    assert report(rt, out)["failure"] == failures["a", 1]
    assert add.status(a=back) == "FAILED_INPUT" and rt.record().failure == failures["a", 1]
    clear(rt, a)
    assert add.status() == "FAILED_INPUT" and rt.record().failure == failures["b", 1]


@clause("KINA-STORAGE-30", "275419f3")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_the_error_record_names_the_failure(rt: Executor, case: Case) -> None:
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
    failure = fail(rt, arguments[inputs_of(case, rt)[0]])

    assert rt.call(case.function, **arguments, out=case.out(rt)).status() == "FAILED_INPUT"
    assert rt.record().failure == failure


@clause("KINA-STORAGE-31", "c096171b")
def test_without_a_failure_the_report_is_empty(rt: Executor) -> None:
    tensor = rt.alloc("u8", (8,))
    assert report(rt, tensor) == NONE

    fail(rt, view(rt, tensor, (4,), (2,), 1))
    even = view(rt, tensor, (4,), (2,), 0)
    clear(rt, even)
    assert report(rt, even) == NONE
    assert report(rt, view(rt, tensor, (0,))) == NONE


@clause("KINA-STORAGE-31", "c096171b")
def test_the_lowest_failed_byte_is_reported(rt: Executor) -> None:
    base = rt.alloc("u8", (16,))
    high = fail(rt, view(rt, base, (2,), None, 12), status="DEVICE")
    low = fail(rt, view(rt, base, (2,), None, 4), status="BUSY")

    assert (report(rt, base)["status"], report(rt, base)["failure"]) == ("BUSY", low)
    assert report(rt, base)["function"] == "runtime_failure_set"
    assert report(rt, view(rt, base, (3,), (-6,), 13))["failure"] == high


@clause("KINA-STORAGE-32", "a08c839f")
def test_the_range_is_the_run_of_bytes_that_carry_the_failure(rt: Executor) -> None:
    base = rt.alloc("u8", (32,))
    storage = range_of(rt, base)[0]
    failure = fail(rt, view(rt, base, (4,), None, 8))
    fail(rt, view(rt, base, (4,), None, 12), cause=failure)
    fail(rt, view(rt, base, (4,), None, 4), cause=failure)
    fail(rt, view(rt, base, (2,), None, 16))

    assert report(rt, base)["range"] == (storage, 4, 16)
    assert report(rt, view(rt, base, (8,), None, 6))["range"] == (storage, 6, 14)
    assert report(rt, view(rt, base, (3,), (3,), 6))["range"] == (storage, 6, 13)
    alias = made(rt, "runtime_alias", in_=rt.tensor("u8", (8,)))
    fail(rt, view(rt, alias, (2,), None, 3))
    assert report(rt, alias)["range"] == (0, alias.data + 3, alias.data + 5)


@clause("KINA-STORAGE-33", "53f90d02")
def test_the_chain_of_skipped_functions_is_kept_newest_first(rt: Executor) -> None:
    x, y = rt.tensor("f32", (2, 2), owned=True), rt.tensor("f32", (2, 2), owned=True)
    failure = fail(rt, x, message="root")
    steps: list[tuple[str, dict[str, Any]]] = [
        ("runtime_gpu_unary", {"op": "KINA_UNARY_NEG"}),
        ("runtime_gpu_cast", {"target": "f32"}),
        ("runtime_gpu_softmax", {"axis": 0}),
        ("runtime_copy_to_host", {}),
    ]
    chain: list[str] = []
    for i in range(40):
        name, arguments = steps[i % 4]
        assert rt.call(name, in_=x, out=y, **arguments).status() == "FAILED_INPUT"
        chain.insert(0, name)
        said = report(rt, y)
        assert said["skipped"] == chain[:16] and said["skipped_total"] == len(chain)
        assert (said["failure"], said["message"], said["function"]) == (failure, "root", "runtime_failure_set")
        x, y = y, x


@clause("KINA-STORAGE-34", "7e8ea196")
def test_reported_strings_outlive_the_failure(rt: Executor) -> None:
    tensor = rt.alloc("u8", (8,))
    fail(rt, tensor, message="remember me")
    info = rt.call("runtime_failure_get", tensor).succeeds().out
    clear(rt, tensor)
    free(rt, tensor)
    for _ in range(20):
        other = rt.alloc("u8", (8,))
        fail(rt, other, message="something else altogether")
        free(rt, other)

    assert rt.string(info.message) == "remember me" and rt.string(info.function) == "runtime_failure_set"


@clause("KINA-STORAGE-35", "0340931e")
def test_a_thousand_failed_ranges_of_a_storage_are_exact(rt: Executor) -> None:
    base = rt.alloc("u8", (4096,))
    failures = [fail(rt, view(rt, base, (2,), None, 4 * i)) for i in range(1024)]
    whole = view(rt, base, (1024, 4))

    for i in range(0, 1024, 7):
        assert report(rt, view(rt, base, (2,), None, 4 * i))["failure"] == failures[i]
        assert report(rt, view(rt, base, (2,), None, 4 * i + 2)) == NONE
    assert is_failed(rt, view(rt, whole, (1024,), (4,), 1)) and not is_failed(rt, view(rt, whole, (1024, 2), (4, 1), 2))


@clause("KINA-STORAGE-35", "0340931e")
def test_holes_in_a_failed_range_are_exact_up_to_a_thousand(rt: Executor) -> None:
    base = rt.alloc("u8", (4096,))
    fail(rt, base)

    fill(rt, view(rt, base, (1023,), (4,), 1))

    assert not is_failed(rt, view(rt, base, (1023,), (4,), 1))
    for offset in (0, 2, 3):
        for i in range(0, 1023, 31):
            assert is_failed(rt, view(rt, base, (1,), None, 4 * i + offset))


@clause("KINA-STORAGE-35", "0340931e")
def test_beyond_that_no_byte_is_repaired_that_was_not_written(rt: Executor) -> None:
    base = rt.alloc("u8", (1 << 16,))
    fail(rt, base)

    fill(rt, view(rt, base, (1 << 15,), (2,), 1))

    for i in range(0, 1 << 16, 1022):
        assert is_failed(rt, view(rt, base, (1,), None, i))
    fill(rt, base)
    assert not is_failed(rt, base)


@clause("KINA-STORAGE-36", "48f69b1f")
def test_a_new_storage_is_clean(rt: Executor) -> None:
    for size in (1, 64, 4096):
        for _ in range(5):
            tensor = rt.alloc("u8", (size,))
            assert report(rt, tensor) == NONE
            fail(rt, tensor)
            free(rt, tensor)


@clause("KINA-STORAGE-37", "2ba69b49")
def test_every_tensor_on_the_bytes_sees_their_failure(rt: Executor) -> None:
    tensor = rt.alloc("u8", (8,))
    peer = rt.call("runtime_peer_share", tensor).succeeds().out
    weak = rt.call("runtime_weak_create", tensor).succeeds().out
    others = [
        view(rt, tensor, (4,), (-2,), 7),
        made(rt, "runtime_alias", in_=tensor),
        made(rt, "runtime_weak_upgrade", weak=weak),
        made(rt, "runtime_peer_open", peer=peer, device_type=1, device_id=0),
    ]
    for each in [tensor, *others]:
        failure = fail(rt, each)
        assert {report(rt, other)["failure"] for other in [tensor, *others]} == {failure}
        clear(rt, tensor)
        assert not any(is_failed(rt, other) for other in others)


@clause("KINA-STORAGE-38", "9e7c1897")
def test_marks_are_set_and_cleared_without_touching_contents(rt: Executor) -> None:
    tensor = rt.tensor("u8", (8,), list(range(8)), owned=True)
    read_only = made(rt, "runtime_view", in_=tensor, **{**geometry((8,)), "flags": rt.constant("KINA_FLAG_READ_ONLY")})

    fail(rt, read_only)
    assert is_failed(rt, tensor) and tensor.raw().tolist() == list(range(8))
    assert clear(rt, read_only) == 1
    assert not is_failed(rt, tensor) and tensor.raw().tolist() == list(range(8))


@clause("KINA-STORAGE-39", "0fdde6e9")
def test_a_borrowed_tensor_carries_no_failure(rt: Executor) -> None:
    borrowed = rt.tensor("u8", (8,))
    call = rt.call("runtime_failure_set", tensor=rt.alloc("u8", (8,)), cause=0, status="DEVICE", message=None)

    call.refuses("UNSUPPORTED", tensor=borrowed, clause="KINA-STORAGE-39", argument="tensor")
    assert report(rt, borrowed) == NONE and clear(rt, borrowed) == 0


@clause("KINA-STORAGE-40", "fe5f3951")
def test_views_of_one_borrowed_memory_share_their_failures(rt: Executor) -> None:
    borrowed = rt.tensor("u8", (8,))
    first, second = made(rt, "runtime_alias", in_=borrowed), view(rt, borrowed, (4,))

    failure = fail(rt, first)
    third = view(rt, borrowed, (2,), None, 3)

    assert report(rt, second)["failure"] == report(rt, third)["failure"] == failure
    assert report(rt, borrowed) == NONE
    for each in (first, second, third):
        free(rt, each)
    assert report(rt, made(rt, "runtime_alias", in_=borrowed)) == NONE


@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
@pytest.mark.parametrize(("size", "number"), [(0, 11), (184, 11), (8, 11), (190, 12), (4104, 12), (0xFFFFFFF8, 12)])
def test_a_report_of_a_wrong_size_is_refused(rt: Executor, size: int, number: int) -> None:
    call = rt.call("runtime_failure_get", tensor=rt.alloc("u8", (8,)))

    call.refuses("VERSION", out=rt.params("KinaFailureInfo", struct_size=size), clause=f"KINA-VERSION-{number}")


@clause("KINA-VERSION-15", "f66b297f")
def test_a_longer_report_is_zeroed_at_its_end(rt: Executor) -> None:
    tensor = rt.alloc("u8", (8,))
    fail(rt, tensor)
    longer = rt.params("KinaFailureInfo", tail=b"\xaa" * 16, struct_size=208)

    assert rt.call("runtime_failure_get", tensor=tensor, out=longer).status() == "SUCCESS"

    assert longer.cdata.struct_size == 208 and longer.buffer.data[192:208].tolist() == [0] * 16
    assert rt.lib.status_name(longer.cdata.status) == "DEVICE"


# ---- weak references -------------------------------------------------------------------------------------------------


@clause("KINA-STORAGE-44", "c9c75ee3")
def test_a_weak_reference_keeps_nothing(rt: Executor) -> None:
    blocks = Blocks(rt)
    with blocks.pushed():
        tensor = rt.alloc("u8", (100,))
    weak_of(rt, tensor)
    rt.call("runtime_resource_release", blocks.resource).succeeds()

    free(rt, tensor)

    assert blocks.returned == blocks.given and blocks.destroyed == 1


@clause("KINA-STORAGE-45", "624c7fec")
@given(shape=shapes((0, 4), [1, 2, 3, 5]), data=st.data(), read_only=st.booleans(), early=st.booleans())
def test_an_upgrade_restores_the_tensor(
    rt: Executor, shape: tuple[int, ...], data: st.DataObject, read_only: bool, early: bool
) -> None:
    strides, offset = data.draw(layouts(shape, writable=True))
    keeper = tensor = rt.tensor("i32", shape, strides=strides, offset=offset, owned=True, read_only=read_only)
    weak = weak_of(rt, tensor)
    shown = (tensor.shape, tensor.strides, tensor.address, tensor.flags, tensor.dtype, tensor.size_bytes)
    if early:
        keeper = made(rt, "runtime_alias", in_=tensor)
        free(rt, tensor)

    again = made(rt, "runtime_weak_upgrade", weak=weak)

    assert (again.shape, again.strides, again.address, again.flags, again.dtype, again.size_bytes) == shown
    assert again.handle != keeper.handle and again.struct.stream == keeper.struct.stream
    assert again.raw().tobytes() == keeper.raw().tobytes()


@clause("KINA-STORAGE-46", "d6a2457b")
@pytest.mark.parametrize("keeper", ["tensor", "view", "export", "peer", "upgrade"])
def test_an_upgrade_succeeds_while_somebody_keeps_the_storage(rt: Executor, keeper: str) -> None:
    tensor = rt.tensor("u8", (4,), [1, 2, 3, 4], owned=True)
    weak = weak_of(rt, tensor)
    call = rt.call("runtime_weak_upgrade", weak)
    made_by: dict[str, Callable[[], Any]] = {
        "tensor": lambda: tensor,
        "view": lambda: view(rt, tensor, (1,)),
        "export": lambda: (
            rt.call("runtime_to_dlpack", tensor=made(rt, "runtime_alias", in_=tensor), params=None).succeeds().out
        ),
        "peer": lambda: peer_of(rt, tensor),
        "upgrade": lambda: made(rt, "runtime_weak_upgrade", weak=weak),
    }
    kept = made_by[keeper]()
    if keeper != "tensor":
        free(rt, tensor)

    upgraded = call.succeeds().out
    assert upgraded.numpy().tolist() == [1, 2, 3, 4]
    free(rt, upgraded)
    if keeper == "export":
        rt.forget([kept])
        kept.deleter(kept)
    elif keeper == "peer":
        rt.call("runtime_peer_release", kept).succeeds()
    else:
        free(rt, kept)
    call.refuses("INVALID_HANDLE", control=False, clause="KINA-STORAGE-46", argument="weak")


@clause("KINA-STORAGE-46", "d6a2457b")
def test_an_upgrade_never_reaches_a_storage_that_took_the_place(rt: Executor) -> None:
    weaks = []
    for _ in range(20):
        tensor = rt.alloc("u8", (64,))
        weaks.append(weak_of(rt, tensor))
        free(rt, tensor)
    newer = [rt.alloc("u8", (64,)) for _ in range(20)]

    for weak in weaks:
        assert rt.call("runtime_weak_upgrade", weak).status() == "INVALID_HANDLE"
    assert len({t.data for t in newer}) == 20


@clause("KINA-STORAGE-47", "6ec67971")
def test_an_upgrade_races_the_last_free(rt: Executor) -> None:
    free_, upgrade = rt.lib.functions["runtime_free"], rt.lib.functions["runtime_weak_upgrade"]
    outcomes: set[int] = set()
    for _ in range(200):
        tensor = rt.alloc("u8", (256,), poison=0x11)
        weak = weak_of(rt, tensor)
        start = threading.Barrier(3)
        results: list[tuple[int, Any]] = []

        def upgrading(weak: Any = weak, start: Any = start, results: Any = results) -> None:
            out = rt.ffi.new("KinaTensor *")
            start.wait()
            results.append((int(upgrade(out, weak.cdata)), out))

        threads = [threading.Thread(target=upgrading) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        freed = int(free_(tensor.struct))
        for thread in threads:
            thread.join()
        assert freed == 0 and len(results) == 2
        for status, out in results:
            outcomes.add(status)
            assert rt.lib.status_name(status) in {"SUCCESS", "INVALID_HANDLE"}
            if status == 0:
                assert bytes(rt.ffi.buffer(rt.ffi.cast("char *", out.dl.data), 256)) == b"\x11" * 256
        for status, out in results:
            if status == 0:
                assert int(free_(out)) == 0
        assert rt.call("runtime_weak_upgrade", weak).status() == "INVALID_HANDLE"
        rt.call("runtime_weak_release", weak).succeeds()
    assert outcomes <= {0, rt.lib.status("INVALID_HANDLE")}


@clause("KINA-STORAGE-48", "a57561b1")
@pytest.mark.parametrize("dead", [True, False])
def test_releasing_a_weak_reference_ends_its_handle_alone(rt: Executor, dead: bool) -> None:
    tensor = rt.tensor("u8", (4,), [1, 2, 3, 4], owned=True)
    weak, other = weak_of(rt, tensor), weak_of(rt, tensor)
    if dead:
        free(rt, tensor)

    rt.call("runtime_weak_release", weak).succeeds()

    for name in ("runtime_weak_release", "runtime_weak_upgrade"):
        assert rt.call(name, weak).status() == "INVALID_HANDLE"
    if dead:
        assert rt.call("runtime_weak_upgrade", other).status() == "INVALID_HANDLE"
    else:
        assert made(rt, "runtime_weak_upgrade", weak=other).numpy().tolist() == [1, 2, 3, 4]


@clause("KINA-STORAGE-49", "0b965451")
def test_a_borrowed_tensor_has_no_weak_reference(rt: Executor) -> None:
    call = rt.call("runtime_weak_create", rt.alloc("u8", (4,)))

    call.refuses("UNSUPPORTED", tensor=rt.tensor("u8", (4,)), clause="KINA-STORAGE-49", argument="tensor")


@clause("KINA-STATUS-26", "4bd48c17")
@pytest.mark.parametrize("function", ["runtime_weak_upgrade", "runtime_weak_release"])
def test_what_is_no_weak_reference_is_refused(rt: Executor, function: str) -> None:
    tensor = rt.alloc("u8", (4,))
    call = rt.call(function, weak=lambda: weak_of(rt, tensor))

    for number in (1, 12345, (1 << 64) - 1, peer_of(rt, tensor).value, tensor.handle):
        call.refuses("INVALID_HANDLE", weak=rt.handle("KinaWeak", number), clause="KINA-STATUS-26", argument="weak")
    call.refuses("INVALID_ARGUMENT", weak=None, clause="KINA-STATUS-28", argument="weak")


# ---- peers -----------------------------------------------------------------------------------------------------------


@clause("KINA-STORAGE-50", "34d0feda")
def test_a_peer_handle_keeps_storage_and_contents(rt: Executor) -> None:
    blocks = Blocks(rt)
    with blocks.pushed():
        tensor = rt.tensor("u8", (64,), list(range(64)), owned=True)
        peer = peer_of(rt, tensor)
        free(rt, tensor)
        others = [rt.alloc("u8", (64,), poison=0xFF) for _ in range(4)]
    opened = made(rt, "runtime_peer_open", peer=peer, device_type=1, device_id=0)

    assert opened.raw().tolist() == list(range(64)) and opened.data not in {t.data for t in others}
    assert not blocks.returned
    for each in (opened, *others):
        free(rt, each)
    rt.call("runtime_peer_release", peer).succeeds()
    assert sorted(blocks.returned) == sorted(blocks.given)


@clause("KINA-STORAGE-51", "3704e45e")
@given(shape=shapes((0, 3), [1, 2, 3, 5]), data=st.data(), early=st.booleans())
def test_on_the_owners_device_a_peer_opens_to_an_alias(
    rt: Executor, shape: tuple[int, ...], data: st.DataObject, early: bool
) -> None:
    strides, offset = data.draw(layouts(shape, writable=True))
    tensor = rt.tensor("i32", shape, strides=strides, offset=offset, owned=True)
    shown = (tensor.shape, tensor.strides, tensor.address, tensor.flags, tensor.dtype, tensor.size_bytes)
    values = tensor.raw().copy()
    peer = peer_of(rt, tensor)
    if early:
        free(rt, tensor)

    opened = made(rt, "runtime_peer_open", peer=peer, device_type=1, device_id=0)

    assert (opened.shape, opened.strides, opened.address, opened.flags, opened.dtype, opened.size_bytes) == shown
    assert np.array_equal(opened.raw(), values)


@clause("KINA-STORAGE-52", "be8bc310")
@pytest.mark.needs("sim")
def test_on_another_device_a_peer_opens_to_the_owners_bytes(rt: Executor) -> None:
    owner, other = 0, 1
    if rt.call("runtime_device_count", SIM).succeeds().out < 2 or not can_access(rt, other, owner):
        return
    tensor = made(rt, "runtime_copy_to_device", in_=rt.tensor("i32", (2, 3), [[1, 2, 3], [4, 5, 6]]), device_id=owner)
    part = view(rt, tensor, (2, 2), (3, 1), 1)
    peer = peer_of(rt, part)

    opened = made(rt, "runtime_peer_open", peer=peer, device_type=SIM, device_id=other)

    assert opened.flags == rt.constant("KINA_FLAG_VIEW") | rt.constant("KINA_FLAG_PEER")
    assert opened.device == (SIM, other) and opened.shape == (2, 2) and opened.strides == (3, 1)
    assert range_of(rt, opened) == range_of(rt, part)
    assert rt.call("runtime_overlap", opened, tensor).succeeds().out == PARTIAL
    assert exclusive(rt, tensor) == 0
    failure = fail(rt, opened)
    assert report(rt, tensor)["failure"] == failure
    clear(rt, tensor)
    rt.call("runtime_stream_synchronize", rt.call("runtime_stream_main", SIM, owner).succeeds().out).succeeds()
    assert made(rt, "runtime_copy_to_host", in_=opened).numpy().tolist() == [[2, 3], [5, 6]]


@clause("KINA-STORAGE-56", "3c8ae16e")
@pytest.mark.needs("sim")
def test_a_peers_tensor_is_not_shared_again(rt: Executor) -> None:
    if rt.call("runtime_device_count", SIM).succeeds().out < 2 or not can_access(rt, 1, 0):
        return
    tensor = made(rt, "runtime_copy_to_device", in_=rt.tensor("i32", (2,)), device_id=0)
    opened = made(rt, "runtime_peer_open", peer=peer_of(rt, tensor), device_type=SIM, device_id=1)

    rt.call("runtime_peer_share", tensor).refuses("UNSUPPORTED", tensor=opened, clause="KINA-STORAGE-56")


@clause("KINA-STORAGE-57", "5a7fe6d2")
@pytest.mark.needs("sim")
def test_an_order_that_the_caller_left_out_is_no_failure(rt: Executor) -> None:
    if rt.call("runtime_device_count", SIM).succeeds().out < 2 or not can_access(rt, 1, 0):
        return
    tensor = made(rt, "runtime_copy_to_device", in_=rt.tensor("f32", (100,), 1), device_id=0)
    opened = made(rt, "runtime_peer_open", peer=peer_of(rt, tensor), device_type=SIM, device_id=1)
    for _ in range(20):
        assert rt.call("runtime_gpu_unary", tensor, op="KINA_UNARY_NEG").status(out=tensor) == "SUCCESS"
        assert rt.call("runtime_gpu_unary", opened, op="KINA_UNARY_ABS").status(out=opened) == "SUCCESS"
        made(rt, "runtime_gpu_unary", in_=opened, op="KINA_UNARY_NEG")
    exported, params = rt.ffi.new("DLManagedTensorVersioned **"), rt.params("KinaDlpackParams", flags=1)
    aliased = made(rt, "runtime_alias", in_=opened)
    assert rt.function("runtime_to_dlpack")(exported, aliased.struct, params.cdata) == 0
    exported[0].deleter(exported[0])
    for device_id in (0, 1):
        rt.call("runtime_device_synchronize", SIM, device_id).succeeds()

    assert set(np.abs(made(rt, "runtime_copy_to_host", in_=opened).numpy()).tolist()) == {1.0}


def can_access(rt: Executor, device_id: int, peer_id: int) -> bool:
    return bool(rt.call("runtime_device_can_access", SIM, device_id, peer_id).succeeds().out)


@clause("KINA-STORAGE-53", "c690babe")
def test_a_device_that_cannot_reach_the_owner_is_refused(rt: Executor) -> None:
    call = rt.call("runtime_peer_open", peer_of(rt, rt.alloc("u8", (4,))), device_type=1, device_id=0)

    for device_type in (0, 4, 99):
        call.refuses("UNSUPPORTED", device_type=device_type, argument="device_type")
    for device_type in (2, 12):
        if rt.call("runtime_device_count", device_type).succeeds().out == 0:
            call.refuses("UNSUPPORTED", device_type=device_type, argument="device_type")
        elif rt.call("runtime_device_can_access", device_type, 0, 0).status() == "SUCCESS":
            call.refuses("UNSUPPORTED", device_type=device_type, clause="KINA-STORAGE-53")


@clause("KINA-STATUS-24", "b7c8e81b")
def test_a_peer_is_not_opened_on_a_device_that_is_not_there(rt: Executor) -> None:
    call = rt.call("runtime_peer_open", peer_of(rt, rt.alloc("u8", (4,))), device_type=1, device_id=0)

    for device_id in (1, -1, 1 << 30):
        call.refuses("INVALID_ARGUMENT", device_id=device_id, clause="KINA-STATUS-24", argument="device_id")


@clause("KINA-STORAGE-54", "3d3c5f16")
def test_an_opened_tensor_outlives_the_handle(rt: Executor) -> None:
    tensor = rt.tensor("u8", (4,), [1, 2, 3, 4], owned=True)
    peer = peer_of(rt, tensor)
    opened = made(rt, "runtime_peer_open", peer=peer, device_type=1, device_id=0)

    free(rt, tensor)
    rt.call("runtime_peer_release", peer).succeeds()

    assert opened.numpy().tolist() == [1, 2, 3, 4] and exclusive(rt, opened) == 1


@memory_case("P62")
@clause("KINA-STATUS-4", "f37fb44f")
@clause("KINA-STORAGE-54", "3d3c5f16")
def test_a_peer_that_is_open_already_opens_again_without_a_trace(rt: Executor) -> None:
    tensor = rt.tensor("u8", (4,), [1, 2, 3, 4], owned=True)
    peer = peer_of(rt, tensor)
    rt.call("runtime_stream_query", stream=None).status()
    record = rt.record()

    opened = [made(rt, "runtime_peer_open", peer=peer, device_type=1, device_id=0) for _ in range(3)]

    assert rt.record() == record
    assert [one.numpy().tolist() for one in opened] == [[1, 2, 3, 4]] * 3


@clause("KINA-STORAGE-55", "4fb23503")
@given(order=st.permutations(["tensor", "export", "peer", "second peer"]))
def test_the_last_to_go_returns_the_bytes(rt: Executor, order: Sequence[str]) -> None:
    blocks = Blocks(rt)
    with blocks.pushed():
        tensor = rt.alloc("u8", (40,))
    peers = [peer_of(rt, tensor), peer_of(rt, tensor)]
    managed = rt.call("runtime_to_dlpack", tensor=made(rt, "runtime_alias", in_=tensor), params=None).succeeds().out
    rt.forget([managed])
    ends: dict[str, Callable[[], Any]] = {
        "tensor": lambda: free(rt, tensor),
        "export": lambda: managed.deleter(managed),
        "peer": lambda: rt.call("runtime_peer_release", peers[0]).succeeds(),
        "second peer": lambda: rt.call("runtime_peer_release", peers[1]).succeeds(),
    }

    for word in order:
        assert not blocks.returned
        ends[word]()

    assert blocks.returned == blocks.given
    for peer in peers:
        assert rt.call("runtime_peer_release", peer).status() == "INVALID_HANDLE"


@clause("KINA-STORAGE-56", "3c8ae16e")
def test_a_borrowed_tensor_is_not_shared(rt: Executor) -> None:
    call = rt.call("runtime_peer_share", rt.alloc("u8", (4,)))

    call.refuses("UNSUPPORTED", tensor=rt.tensor("u8", (4,)), clause="KINA-STORAGE-56", argument="tensor")


@clause("KINA-STORAGE-58", "85a65d1c")
def test_failures_are_seen_on_both_sides_of_a_peer(rt: Executor) -> None:
    tensor = rt.alloc("u8", (8,))
    peer = peer_of(rt, tensor)
    opened = made(rt, "runtime_peer_open", peer=peer, device_type=1, device_id=0)

    for one, other in ((tensor, opened), (opened, tensor)):
        failure = fail(rt, view(rt, one, (2,), None, 3))
        assert fail(rt, view(rt, one, (2,), None, 3), cause=failure) == failure
        assert report(rt, other)["range"] == (range_of(rt, tensor)[0], 3, 5)
        assert not is_failed(rt, view(rt, other, (3,)))
        fill(rt, other)
        assert not is_failed(rt, one)


@clause("KINA-STATUS-26", "4bd48c17")
@pytest.mark.parametrize("function", ["runtime_peer_open", "runtime_peer_release"])
def test_what_is_no_peer_handle_is_refused(rt: Executor, function: str) -> None:
    tensor = rt.alloc("u8", (4,))
    more = {"device_type": 1, "device_id": 0} if function == "runtime_peer_open" else {}
    call = rt.call(function, peer=lambda: peer_of(rt, tensor), **more)

    for number in (1, 12345, (1 << 64) - 1, weak_of(rt, tensor).value, tensor.handle):
        call.refuses("INVALID_HANDLE", peer=rt.handle("KinaPeer", number), clause="KINA-STATUS-26", argument="peer")
    call.refuses("INVALID_ARGUMENT", peer=None, clause="KINA-STATUS-28", argument="peer")


@clause("KINA-STATUS-26", "4bd48c17")
def test_a_released_peer_handle_is_refused(rt: Executor) -> None:
    tensor = rt.alloc("u8", (4,))
    peer = peer_of(rt, tensor)
    rt.call("runtime_peer_release", peer).succeeds()

    assert rt.call("runtime_peer_open", peer, device_type=1, device_id=0).status() == "INVALID_HANDLE"
    assert rt.call("runtime_peer_release", peer).status() == "INVALID_HANDLE"


@clause("KINA-STATUS-23", "54af5684")
@pytest.mark.parametrize(
    "function",
    [
        "overlap",
        "is_exclusive",
        "byte_range",
        "failure_set",
        "failure_get",
        "failure_clear",
        "weak_create",
        "peer_share",
    ],
)
def test_null_pointers_are_refused(rt: Executor, function: str) -> None:
    tensor = rt.alloc("u8", (4,))
    inputs: dict[str, Any] = {"a": tensor, "b": tensor} if function == "overlap" else {"tensor": tensor}
    more = {"cause": 0, "status": "DEVICE", "message": None} if function == "failure_set" else {}
    call = rt.call(f"runtime_{function}", **inputs, **more)
    result = {"failure_set": "failure", "failure_clear": "was_failed"}.get(function, "out")

    for name in [result, *inputs]:
        change: dict[str, Any] = {name: None}
        call.refuses("INVALID_ARGUMENT", clause="KINA-STATUS-23", argument=name, **change)


@clause("KINA-STATUS-23", "54af5684")
def test_makers_refuse_a_null_out(rt: Executor) -> None:
    tensor = rt.alloc("u8", (4,))

    rt.call("runtime_weak_upgrade", weak_of(rt, tensor)).refuses("INVALID_ARGUMENT", out=None, argument="out")
    rt.call("runtime_peer_open", peer_of(rt, tensor), device_type=1, device_id=0).refuses(
        "INVALID_ARGUMENT", out=None, argument="out"
    )


@clause("KINA-STORAGE-28", "4911fa64")
def test_a_failure_of_an_operation_lasts_for_its_out_alone(rt: Executor) -> None:
    x, out = rt.tensor("f32", (4,), owned=True), rt.tensor("f32", (8,), owned=True)

    with failed(rt, x):
        half = view(rt, out, (4,), None, 4)
        assert rt.call("runtime_gpu_unary", in_=x, out=half, op="KINA_UNARY_NEG").status() == "FAILED_INPUT"

    assert is_failed(rt, half) and not is_failed(rt, view(rt, out, (4,)))
    rt.call("runtime_gpu_unary", in_=x, out=half, op="KINA_UNARY_NEG").succeeds()
    assert not is_failed(rt, out)
