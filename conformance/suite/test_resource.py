"""The chapter resource: handles and lives, the current resource, raw blocks, counters."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance.memory import Handle
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import (
    HOST,
    KINDS,
    Custom,
    Info,
    Made,
    Rows,
    allocate,
    borrowed,
    current,
    deallocate,
    host,
    in_thread,
    limit,
    pool,
    pop,
    push,
    release,
    release_after_thread,
)


def set_default(rt: Executor, resource: Handle | None) -> Handle:
    previous: Handle = rt.call("runtime_resource_set_default", **HOST, resource=resource).succeeds().previous
    return previous


# ---- handles and lives ---------------------------------------------------------------------------------------------


@clause("KINA-RESOURCE-1", "c30b23c7")
@pytest.mark.parametrize("kind", KINDS)
def test_every_maker_makes_a_new_resource_with_counters_of_its_own(rt: Executor, kind: str) -> None:
    one, other = Made(rt, kind), Made(rt, kind)

    block = allocate(rt, one.handle, 1000)

    assert one.handle != other.handle
    assert (Info(rt, one.handle).live_blocks, Info(rt, other.handle).live_blocks) == (1, 0)
    deallocate(rt, one.handle, block, 1000)


@clause("KINA-RESOURCE-1", "c30b23c7")
@pytest.mark.parametrize(
    "maker",
    [
        "runtime_resource_host",
        "runtime_resource_pool",
        "runtime_resource_limit",
        "runtime_resource_logging",
        "runtime_resource_custom",
    ],
)
def test_makers_refuse_a_null_answer(rt: Executor, maker: str) -> None:
    base, rows, custom = host(rt), Rows(rt), Custom(rt)
    given: dict[str, dict[str, Any]] = {
        "pool": {"upstream": base, "params": None},
        "limit": {"upstream": base, "maximum_bytes": 1},
        "logging": {"upstream": base, "params": rt.params("KinaLoggingParams", callback=rows.callback)},
        "custom": {**HOST, "vtable": custom.vtable, "context": 0x5EED},
    }

    rt.call(maker, **given.get(maker.rpartition("_")[2], {})).refuses(
        "INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out"
    )


@clause("KINA-RESOURCE-1", "c30b23c7")
@pytest.mark.parametrize("maker", ["runtime_resource_pool", "runtime_resource_limit", "runtime_resource_logging"])
def test_adaptors_refuse_what_is_no_live_upstream(rt: Executor, maker: str) -> None:
    base, rows = host(rt), Rows(rt)
    given: dict[str, dict[str, Any]] = {
        "runtime_resource_pool": {"params": None},
        "runtime_resource_limit": {"maximum_bytes": 1},
        "runtime_resource_logging": {"params": rt.params("KinaLoggingParams", callback=rows.callback)},
    }
    call = rt.call(maker, base, **given[maker])
    gone = host(rt)
    release(rt, gone)

    call.refuses("INVALID_ARGUMENT", upstream=None, clause="KINA-STATUS-28", argument="upstream")
    call.refuses("INVALID_HANDLE", upstream=gone, clause="KINA-STATUS-26", argument="upstream")
    call.refuses("INVALID_HANDLE", upstream=rt.handle("KinaResource", 0x7777), clause="KINA-STATUS-26")


@clause("KINA-RESOURCE-2", "01be4562")
@pytest.mark.parametrize("kind", KINDS)
def test_a_borrowed_handle_is_one_value_and_not_the_counted_one(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    adaptor = limit(rt, made.handle)

    name = borrowed(rt, made.handle)
    scope = push(rt, made.handle)
    tensor = rt.tensor("f32", (3,), owned=True)
    pop(rt, scope)

    assert name != made.handle
    assert borrowed(rt, made.handle) == name
    assert Info(rt, adaptor).upstream == name
    assert Handle(rt, "KinaResource", tensor.struct.allocator) == name


@clause("KINA-RESOURCE-2", "01be4562")
def test_previous_and_log_rows_carry_the_borrowed_handle(rt: Executor) -> None:
    rows = Rows(rt)
    logging = rows.make(host(rt))
    name = borrowed(rt, logging)

    before = set_default(rt, logging)
    previous = set_default(rt, before)
    deallocate(rt, logging, allocate(rt, logging, 8), 8)
    rows.wait(2)
    rt.call("runtime_resource_set_default", None, **HOST, resource=None).succeeds()

    assert previous == name
    assert {row["resource"] for row in rows.rows} == {name.value}


@clause("KINA-RESOURCE-3", "2785089e")
@pytest.mark.parametrize("kind", KINDS)
def test_a_borrowed_handle_serves_wherever_a_counted_one_does(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    name = borrowed(rt, made.handle)

    block = allocate(rt, name, 300)
    deallocate(rt, made.handle, block, 300)
    adaptor = limit(rt, name)
    assert Info(rt, adaptor).upstream == name
    assert Info(rt, name).counters == Info(rt, made.handle).counters
    assert borrowed(rt, name) == name
    rt.call("runtime_resource_trim", resource=name, keep_bytes=0).succeeds()


@clause("KINA-RESOURCE-3", "2785089e")
@pytest.mark.parametrize("kind", KINDS)
def test_a_borrowed_handle_cannot_be_released(rt: Executor, kind: str) -> None:
    made = Made(rt, kind)
    name = borrowed(rt, made.handle)

    rt.call("runtime_resource_release", lambda: host(rt)).refuses(
        "INVALID_ARGUMENT", resource=name, clause="KINA-RESOURCE-3", argument="resource"
    )

    deallocate(rt, made.handle, allocate(rt, made.handle, 8), 8)


@clause("KINA-RESOURCE-3", "2785089e")
def test_the_default_has_no_counted_handle(rt: Executor) -> None:
    rt.call("runtime_resource_release", lambda: host(rt)).refuses(
        "INVALID_ARGUMENT", resource=current(rt), clause="KINA-RESOURCE-3"
    )


@clause("KINA-STATUS-26", "4bd48c17")
def test_a_resource_is_released_once(rt: Executor) -> None:
    gone = host(rt)
    release(rt, gone)
    call = rt.call("runtime_resource_release", lambda: host(rt))

    call.refuses("INVALID_HANDLE", resource=gone, argument="resource")
    call.refuses("INVALID_HANDLE", resource=rt.handle("KinaResource", 0xDEAD0000))
    call.refuses("INVALID_ARGUMENT", resource=None, clause="KINA-STATUS-28")


@clause("KINA-RESOURCE-4", "e02c4ee1")
def test_a_pushed_resource_is_busy_until_it_is_popped(rt: Executor) -> None:
    resource = host(rt)
    call = rt.call("runtime_resource_release", lambda: host(rt))
    outer, inner = push(rt, resource), push(rt, resource)

    call.refuses("BUSY", resource=resource, clause="KINA-RESOURCE-4", argument="resource")
    pop(rt, inner)
    call.refuses("BUSY", resource=resource)
    pop(rt, outer)

    release(rt, resource)


@clause("KINA-RESOURCE-4", "e02c4ee1")
def test_a_resource_pushed_by_another_thread_is_busy_until_that_thread_ends(rt: Executor) -> None:
    resource = host(rt)
    pushed, go_on = threading.Event(), threading.Event()

    def work() -> None:
        rt.function("runtime_resource_push")(rt.ffi.new("KinaScope *"), resource.cdata)
        pushed.set()
        go_on.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    pushed.wait(20)
    try:
        rt.call("runtime_resource_release", lambda: host(rt)).refuses("BUSY", resource=resource)
    finally:
        go_on.set()
        thread.join()

    release_after_thread(rt, resource)


@clause("KINA-RESOURCE-4", "e02c4ee1")
def test_the_default_is_busy_until_another_takes_its_place(rt: Executor) -> None:
    resource = host(rt)
    before = set_default(rt, resource)

    rt.call("runtime_resource_release", lambda: host(rt)).refuses("BUSY", resource=resource, clause="KINA-RESOURCE-4")
    set_default(rt, before)
    rt.call("runtime_resource_set_default", None, **HOST, resource=None).succeeds()

    release(rt, resource)


@clause("KINA-RESOURCE-5", "79d16bb7")
@pytest.mark.parametrize("adaptor", ["pool", "limit", "logging"])
def test_an_adaptor_keeps_its_upstream(rt: Executor, adaptor: str) -> None:
    custom, rows = Custom(rt), Rows(rt)
    source = custom.make()
    makers: dict[str, Any] = {"pool": pool, "limit": limit, "logging": lambda rt, upstream: rows.make(upstream)}
    resource = makers[adaptor](rt, source)

    release(rt, source)
    block = allocate(rt, resource, 5000)

    assert len(custom.blocks) == 1 and custom.destroyed == 0
    deallocate(rt, resource, block, 5000)
    release(rt, resource)
    assert custom.destroyed == 1 and not custom.blocks and not custom.wrong


@clause("KINA-RESOURCE-75", "ee4f0d44")
def test_adaptors_stand_on_one_another_up_to_a_bound(rt: Executor) -> None:
    rows = Rows(rt)
    chain = [limit(rt)]
    while len(chain) < 64:
        chain.append(limit(rt, chain[-1]))
    block = allocate(rt, chain[-1], 1000)

    for maker, more in (
        ("runtime_resource_limit", {"maximum_bytes": 1}),
        ("runtime_resource_pool", {"params": None}),
        ("runtime_resource_logging", {"params": rt.params("KinaLoggingParams", callback=rows.callback)}),
    ):
        call = rt.call(maker, chain[-2], **more)
        call.refuses("INVALID_ARGUMENT", upstream=chain[-1], clause="KINA-RESOURCE-75", argument="upstream")

    deallocate(rt, chain[-1], block, 1000)
    assert [Info(rt, resource).live_bytes for resource in chain] == [0] * 64


@clause("KINA-RESOURCE-6", "a4856ec5")
@pytest.mark.parametrize("adaptor", ["none", "pool", "limit"])
def test_release_with_a_live_raw_block_defers_destruction(rt: Executor, adaptor: str) -> None:
    custom = Custom(rt)
    resource = custom.make()
    if adaptor != "none":
        makers: dict[str, Any] = {"pool": pool, "limit": limit}
        source, resource = resource, makers[adaptor](rt, resource)
        release(rt, source)
    name = borrowed(rt, resource)
    block = allocate(rt, resource, 100)

    release(rt, resource)

    assert custom.destroyed == 0 and Info(rt, name).live_blocks == 1
    deallocate(rt, name, block, 100)
    assert custom.destroyed == 1 and not custom.blocks and not custom.wrong


@memory_case("P17")
@clause("KINA-RESOURCE-6", "a4856ec5")
def test_release_with_a_live_tensor_defers_destruction(rt: Executor) -> None:
    custom = Custom(rt)
    resource = custom.make()
    scope = push(rt, resource)
    tensor = rt.tensor("f32", (4, 4), owned=True)
    view = (
        rt.call("runtime_view", tensor, shape=(2, 8), strides=(8, 1), ndim=2, offset_elements=0, flags=0).succeeds().out
    )
    pop(rt, scope)

    release(rt, resource)
    rt.call("runtime_free", tensor).succeeds()

    assert custom.destroyed == 0
    rt.call("runtime_free", view).succeeds()
    assert custom.destroyed == 1 and not custom.wrong


@clause("KINA-RESOURCE-6", "a4856ec5")
def test_an_installed_resource_that_only_an_adaptor_kept_outlives_the_adaptor(rt: Executor) -> None:
    custom = Custom(rt)
    source = custom.make()
    adaptor = limit(rt, source)
    release(rt, source)
    scope = push(rt, Info(rt, adaptor).upstream)

    release(rt, adaptor)

    assert custom.destroyed == 0 and Info(rt, current(rt)).name == "custom"
    pop(rt, scope)
    assert custom.destroyed == 1


@clause("KINA-RESOURCE-7", "4fe73b7e")
def test_a_released_handle_is_dead_for_every_function(rt: Executor) -> None:
    gone, other, rows = host(rt), host(rt), Rows(rt)
    name = borrowed(rt, gone)
    block = allocate(rt, gone, 64)
    release(rt, gone)
    spare = allocate(rt, other, 64)
    options = rt.params("KinaLoggingParams", callback=rows.callback)

    for call in (
        rt.call("runtime_resource_info", other),
        rt.call("runtime_resource_trim", resource=other, keep_bytes=0),
        rt.call("runtime_resource_release", lambda: host(rt)),
        rt.call("runtime_memory_allocate", other, 8, 0, None),
        rt.call("runtime_resource_push", other),
    ):
        call.refuses("INVALID_HANDLE", resource=gone, clause="KINA-STATUS-26", argument="resource")
    for call in (
        rt.call("runtime_resource_limit", other, 5),
        rt.call("runtime_resource_pool", other, None),
        rt.call("runtime_resource_logging", other, options),
    ):
        call.refuses("INVALID_HANDLE", upstream=gone, clause="KINA-STATUS-26", argument="upstream")
    rt.call("runtime_resource_set_default", None, **HOST, resource=None).refuses("INVALID_HANDLE", resource=gone)
    rt.call("runtime_memory_deallocate", gone, block, 64, 0, None).refuses("INVALID_HANDLE", control=False)

    deallocate(rt, name, block, 64)
    deallocate(rt, other, spare, 64)


@clause("KINA-RESOURCE-8", "d405a8f2")
def test_memory_goes_back_to_the_resource_that_allocated_it(rt: Executor) -> None:
    first, second = host(rt), host(rt)
    outer = push(rt, first)
    tensor = rt.tensor("f32", (10,), owned=True)
    inner = push(rt, second)

    rt.call("runtime_free", tensor).succeeds()

    assert Info(rt, first).deallocations == 1 and Info(rt, second).deallocations == 0
    pop(rt, inner)
    pop(rt, outer)


@clause("KINA-VERSION-16", "e54fde4b")
@clause("KINA-VERSION-11", "40fda338")
def test_resources_of_cuda_check_their_arguments_before_the_feature(rt: Executor) -> None:
    plain = rt.call("runtime_resource_cuda", device_id=0)
    pooled = rt.call("runtime_resource_cuda_async", device_id=0, params=rt.params("KinaCudaAsyncParams"))
    if rt.offers("cuda"):
        plain.succeeds()
        pooled.succeeds()

    plain.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out", control=False)
    pooled.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out", control=False)
    for size in (24, 36, 5000):
        pooled.refuses("VERSION", params=rt.params("KinaCudaAsyncParams", struct_size=size), control=False)
    above = rt.params("KinaCudaAsyncParams", initial_bytes=2, maximum_bytes=1)
    pooled.refuses("INVALID_ARGUMENT", params=above, clause="KINA-RESOURCE-39", control=False)
    pooled.refuses("UNSUPPORTED", params=rt.params("KinaCudaAsyncParams", flags=2), control=False)


# ---- current resource ----------------------------------------------------------------------------------------------


@clause("KINA-RESOURCE-9", "970f60fc")
@clause("KINA-RESOURCE-11", "8019afcc")
@given(choices=st.lists(st.integers(0, 2), max_size=6))
def test_the_newest_push_is_current_and_pops_bring_back_what_was(rt: Executor, choices: list[int]) -> None:
    resources = [host(rt), pool(rt), limit(rt)]
    seen, scopes = [current(rt)], []

    for choice in choices:
        scopes.append(push(rt, resources[choice]))
        assert current(rt) == borrowed(rt, resources[choice])
        seen.append(current(rt))
    for scope in reversed(scopes):
        assert current(rt) == seen.pop()
        pop(rt, scope)

    assert current(rt) == seen.pop()


@clause("KINA-RESOURCE-9", "970f60fc")
def test_current_refuses_what_is_no_device_of_this_machine(rt: Executor) -> None:
    call = rt.call("runtime_resource_current", **HOST)

    call.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out")
    call.refuses("INVALID_ARGUMENT", device_id=-1, clause="KINA-STATUS-24", argument="device_id")
    call.refuses("INVALID_ARGUMENT", device_id=1, clause="KINA-STATUS-24")
    call.refuses("UNSUPPORTED", device_type=7, clause="KINA-STATUS-24", argument="device_type")


@clause("KINA-RESOURCE-10", "aedf1891")
def test_storages_and_results_come_from_the_current_resource(rt: Executor) -> None:
    resource = host(rt)
    scope = push(rt, resource)
    name = current(rt)

    tensor = rt.tensor("f32", (4, 4), owned=True)
    result = rt.call("runtime_gpu_unary", tensor, op="KINA_UNARY_NEG").succeeds().out

    assert Handle(rt, "KinaResource", tensor.struct.allocator) == name
    assert Handle(rt, "KinaResource", result.struct.allocator) == name
    assert Info(rt, resource).live_bytes == 2 * 64
    pop(rt, scope)


@clause("KINA-RESOURCE-11", "8019afcc")
def test_a_push_is_not_seen_by_other_threads(rt: Executor) -> None:
    default = current(rt)
    scope = push(rt, host(rt))

    seen = in_thread(lambda: current(rt))

    assert seen == default != current(rt)
    pop(rt, scope)


@clause("KINA-RESOURCE-11", "8019afcc")
def test_push_refuses_null_and_dead_resources(rt: Executor) -> None:
    resource, gone = host(rt), host(rt)
    release(rt, gone)
    call = rt.call("runtime_resource_push", resource)

    call.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out")
    call.refuses("INVALID_ARGUMENT", resource=None, clause="KINA-STATUS-28", argument="resource")
    call.refuses("INVALID_HANDLE", resource=gone, clause="KINA-STATUS-26", argument="resource")


@clause("KINA-RESOURCE-12", "57537804")
def test_a_new_thread_starts_with_the_default_and_its_pushes_end_with_it(rt: Executor) -> None:
    default, mine, theirs = current(rt), host(rt), host(rt)
    scope = push(rt, mine)

    def work() -> Handle:
        first = current(rt)
        rt.function("runtime_resource_push")(rt.ffi.new("KinaScope *"), theirs.cdata)
        return first

    assert in_thread(work) == default
    assert current(rt) == borrowed(rt, mine)
    pop(rt, scope)
    release_after_thread(rt, theirs)


@memory_case("P20")
@clause("KINA-RESOURCE-13", "8168f4f4")
def test_a_default_is_seen_by_every_thread_and_previous_restores_it_exactly(rt: Executor) -> None:
    start = current(rt)
    first, second = host(rt), pool(rt)

    assert set_default(rt, first) == start
    one = current(rt)
    assert in_thread(lambda: current(rt)) == one == borrowed(rt, first)
    assert set_default(rt, second) == one
    assert set_default(rt, one) == borrowed(rt, second)
    assert current(rt) == one
    set_default(rt, start)

    assert current(rt) == start
    rt.call("runtime_resource_set_default", None, **HOST, resource=None).succeeds()


@clause("KINA-RESOURCE-13", "8168f4f4")
def test_a_push_stands_before_the_default(rt: Executor) -> None:
    pushed, default = host(rt), host(rt)
    scope = push(rt, pushed)
    before = current(rt)

    set_default(rt, default)
    during = current(rt)
    rt.call("runtime_resource_set_default", None, **HOST, resource=None).succeeds()

    assert during == before
    pop(rt, scope)


@memory_case("P16")
@clause("KINA-RESOURCE-14", "cf445a91")
def test_null_restores_the_built_in_default(rt: Executor) -> None:
    rt.call("runtime_resource_set_default", None, **HOST, resource=None).succeeds()
    built_in = current(rt)
    resource = host(rt)

    set_default(rt, resource)
    previous = set_default(rt, None)

    assert previous == borrowed(rt, resource)
    assert current(rt) == built_in


@clause("KINA-RESOURCE-15", "8bdf1db6")
def test_set_default_refuses_wrong_devices(rt: Executor) -> None:
    resource = host(rt)
    call = rt.call("runtime_resource_set_default", None, **HOST, resource=None)
    with_resource = rt.call("runtime_resource_set_default", None, **HOST, resource=resource)

    with_resource.refuses("DEVICE_MISMATCH", device_type=2, clause="KINA-RESOURCE-15", argument="resource")
    call.refuses("INVALID_ARGUMENT", device_id=1, clause="KINA-STATUS-24", argument="device_id")
    call.refuses("INVALID_ARGUMENT", device_id=-1, clause="KINA-STATUS-24")
    call.refuses("UNSUPPORTED", device_type=4, clause="KINA-STATUS-24", argument="device_type")
    call.refuses("INVALID_HANDLE", resource=rt.handle("KinaResource", 77), clause="KINA-STATUS-26")
    rt.call("runtime_resource_set_default", None, **HOST, resource=None).succeeds()


@clause("KINA-RESOURCE-71", "80de9da4")
@pytest.mark.needs("sim")
def test_a_pool_that_nobody_sized_is_made_where_the_default_does_not_fit(rt: Executor) -> None:
    """A simulated device has less memory than the initial gibibyte."""
    base = rt.call("runtime_resource_current", 12, 0).succeeds().out

    pool = rt.call("runtime_resource_pool", base, params={}).succeeds().out

    rt.call("runtime_memory_allocate", pool, bytes=1000, alignment=0, stream=None).succeeds()
    info = rt.call("runtime_resource_info", pool).succeeds().out
    assert 1000 <= info.reserved_bytes < 2**30
    rt.call("runtime_resource_pool", base, params={}).refuses("OUT_OF_MEMORY", params={"initial_bytes": 2**30})
