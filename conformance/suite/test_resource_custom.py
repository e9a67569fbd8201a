"""Custom resources: what callbacks get, what their answers count as, when they are called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance.devices import FIRST, pushed
from kina_conformance.memory_cases import memory_case
from kina_conformance.resources import (
    HOST,
    Custom,
    Info,
    allocate,
    borrowed,
    deallocate,
    host,
    in_thread,
    limit,
    pool,
    release,
)
from kina_conformance.simulated import Native


def custom_call(rt: Executor, custom: Custom) -> Any:
    return rt.call("runtime_resource_custom", **HOST, vtable=custom.vtable, context=0x5EED)


@clause("KINA-RESOURCE-61", "649075e5")
def test_the_vtable_and_its_name_are_copied(rt: Executor) -> None:
    custom = Custom(rt, "mine")
    resource = custom.make()
    rt.ffi.memmove(custom.vtable.keep[0], b"XXXX", 4)
    custom.vtable.buffer.data[:] = 0xFF

    deallocate(rt, resource, allocate(rt, resource, 100), 100)

    assert Info(rt, resource).name == "mine"
    assert len(custom.asked) == 1 and not custom.wrong


@clause("KINA-RESOURCE-61", "649075e5")
def test_a_vtable_without_its_callbacks_is_refused(rt: Executor) -> None:
    custom = Custom(rt)
    call = custom_call(rt, custom)
    allocating, deallocating = custom.keep[0], custom.keep[1]

    call.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out")
    call.refuses("INVALID_ARGUMENT", vtable=None, clause="KINA-STATUS-23", argument="vtable")
    for fields, name in (({"deallocate": deallocating}, "allocate"), ({"allocate": allocating}, "deallocate")):
        params = rt.params("KinaResourceVtable", **fields)
        call.refuses("INVALID_ARGUMENT", vtable=params, clause="KINA-RESOURCE-61", argument=f"vtable.{name}")


@clause("KINA-RESOURCE-61", "649075e5")
def test_custom_refuses_what_is_no_device_of_this_machine(rt: Executor) -> None:
    call = custom_call(rt, Custom(rt))

    call.refuses("INVALID_ARGUMENT", device_id=1, clause="KINA-STATUS-24", argument="device_id")
    call.refuses("INVALID_ARGUMENT", device_id=-1, clause="KINA-STATUS-24")
    call.refuses("UNSUPPORTED", device_type=5, clause="KINA-STATUS-24", argument="device_type")


@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
@clause("KINA-VERSION-13", "b43e0d18")
def test_a_vtable_keeps_the_rules_of_option_structs(rt: Executor) -> None:
    custom = Custom(rt)
    fields = {"allocate": custom.keep[0], "deallocate": custom.keep[1]}
    call = rt.call(
        "runtime_resource_custom",
        **HOST,
        vtable=rt.params("KinaResourceVtable", tail=bytes(8), struct_size=48, **fields),
        context=0x5EED,
    )

    tail = {"tail": b"\1" * 8, "struct_size": 48}
    for wrong in ({"struct_size": 32}, {"struct_size": 44}, {"struct_size": 4104}, tail):
        call.refuses("VERSION", vtable=rt.params("KinaResourceVtable", **fields, **wrong))


@clause("KINA-RESOURCE-62", "925ecc55")
@given(size=st.integers(1, 100_000), power=st.integers(0, 16))
def test_callbacks_get_the_numbers_of_the_request(rt: Executor, size: int, power: int) -> None:
    custom = Custom(rt)
    resource = custom.make()
    main = rt.call("runtime_stream_main", **HOST).succeeds().out.value
    alignment = 1 << power if power else 0

    deallocate(rt, resource, allocate(rt, resource, size, alignment), size, alignment)

    assert custom.asked == [(size, max(256, alignment), main)]
    assert custom.returned[0][1:] == (size, max(256, alignment), main) and not custom.wrong


@clause("KINA-RESOURCE-74", "7436e80a")
@pytest.mark.parametrize("supports", [0, 1])
def test_a_block_comes_back_on_the_main_stream_when_its_own_has_ended(rt: Executor, supports: int) -> None:
    custom = Custom(rt, supports_streams=supports)
    resource = custom.make()
    main = rt.call("runtime_stream_main", **HOST).succeeds().out
    stream = rt.call("runtime_stream_checkout", **HOST).succeeds().out
    with pushed(rt, resource), pushed(rt, stream):
        ended, live = rt.tensor("f32", (4,), owned=True), rt.tensor("f32", (4,), owned=True)

    rt.call("runtime_free", live).succeeds()
    rt.call("runtime_stream_checkin", stream).succeeds()
    rt.call("runtime_free", ended).succeeds()

    assert [asked[2] for asked in custom.asked] == [stream.value] * 2
    assert [returned[3] for returned in custom.returned] == [stream.value, main.value]


@clause("KINA-RESOURCE-74", "7436e80a")
@pytest.mark.needs("sim")
@pytest.mark.parametrize("supports", [0, 1])
def test_a_block_of_a_released_import_comes_back_on_the_main_stream(rt: Executor, supports: int) -> None:
    custom = Custom(rt, supports_streams=supports)
    resource = custom.make(FIRST)
    native = Native.foreign(rt)
    stream = rt.call("runtime_stream_import", *FIRST, native=native.value).succeeds().out
    with pushed(rt, resource), pushed(rt, stream):
        x = rt.call("runtime_alloc", (4,), 1, "f32", *FIRST, stream).succeeds().out
    rt.call("runtime_stream_release", stream).succeeds()
    native.end()

    rt.call("runtime_free", x).succeeds()

    assert custom.returned[-1][3] == rt.call("runtime_stream_main", *FIRST).succeeds().out.value
    rt.call("runtime_device_synchronize", *FIRST).succeeds()


@clause("KINA-RESOURCE-63", "b6cf1ad0")
@pytest.mark.parametrize("status", ["OUT_OF_MEMORY", "DEVICE", "DEVICE_LOST"])
def test_known_failures_are_answered_as_they_are(rt: Executor, status: str) -> None:
    custom = Custom(rt)
    call = rt.call("runtime_memory_allocate", custom.make(), 100, 0, None)

    custom.answer = lambda _size, _alignment: (status, 0xBAD00)

    call.refuses(status, control=False)
    assert not custom.returned, "what came with a known failure is not the library's to give back"
    custom.answer = None
    call.succeeds()


@clause("KINA-RESOURCE-63", "b6cf1ad0")
@pytest.mark.parametrize("status", ["INVALID_ARGUMENT", "INTERNAL", "UNSUPPORTED", "BUSY", "FAILED_INPUT"])
@pytest.mark.parametrize("has_block", [True, False])
def test_other_failures_count_as_device_and_the_block_goes_back(rt: Executor, status: str, has_block: bool) -> None:
    custom = Custom(rt)
    resource = custom.make()
    custom.answer = lambda size, alignment: (status, custom.block(size, alignment) if has_block else 0)

    rt.call("runtime_memory_allocate", resource, 100, 0, None).refuses("DEVICE", control=False)

    assert not custom.blocks and len(custom.returned) == int(has_block)
    assert Info(rt, resource).failures == 1 and Info(rt, resource).live_blocks == 0


@clause("KINA-RESOURCE-63", "b6cf1ad0")
def test_success_without_a_block_is_device(rt: Executor) -> None:
    custom = Custom(rt)
    custom.answer = lambda _size, _alignment: ("SUCCESS", 0)

    rt.call("runtime_memory_allocate", custom.make(), 100, 0, None).refuses("DEVICE", control=False)

    assert not custom.returned


@clause("KINA-RESOURCE-63", "b6cf1ad0")
@pytest.mark.parametrize("off", [1, 64, 128])
def test_a_misaligned_block_is_device_and_goes_back(rt: Executor, off: int) -> None:
    custom = Custom(rt)
    places: list[int] = []

    def answer(size: int, alignment: int) -> tuple[str, int]:
        places.append(custom.block(size + off, alignment) + off)
        return "SUCCESS", places[-1]

    custom.answer = answer
    resource = custom.make()
    rt.call("runtime_memory_allocate", resource, 100, 0, None).refuses("DEVICE", control=False)

    assert [row[:3] for row in custom.returned] == [(places[0], 100, 256)]


@clause("KINA-RESOURCE-63", "b6cf1ad0")
def test_a_block_that_is_live_already_is_device_and_stays_live(rt: Executor) -> None:
    custom = Custom(rt)
    resource = custom.make()
    block = allocate(rt, resource, 100)
    custom.answer = lambda _size, _alignment: ("SUCCESS", next(iter(custom.blocks)))

    rt.call("runtime_memory_allocate", resource, 100, 0, None).refuses("DEVICE", control=False)

    assert not custom.returned
    deallocate(rt, resource, block, 100)
    assert len(custom.returned) == 1 and not custom.wrong


@clause("KINA-RESOURCE-29", "93f6d75e")
@clause("KINA-RESOURCE-32", "bceb7fc8")
@clause("KINA-RESOURCE-64", "2410ca94")
@pytest.mark.parametrize("status", ["DEVICE", "INVALID_ARGUMENT", "INTERNAL"])
@pytest.mark.parametrize("adaptor", ["none", "limit"])
def test_a_failing_deallocate_counts_as_leaked_and_succeeds(rt: Executor, status: str, adaptor: str) -> None:
    custom = Custom(rt)
    source = custom.make()
    resource = source if adaptor == "none" else limit(rt, source, 4096)
    kept, gone = allocate(rt, resource, 100), allocate(rt, resource, 1000)
    custom.return_status = status

    deallocate(rt, resource, gone, 1000)

    info = Info(rt, source)
    assert (info.leaked_bytes, info.leaked_blocks, info.live_bytes, info.live_blocks) == (1000, 1, 100, 1)
    assert info.reserved_bytes == 1100 and info.deallocations == 1
    rt.call("runtime_memory_deallocate", resource, gone, 1000, 0, None).refuses("INVALID_ARGUMENT", control=False)
    custom.return_status = "SUCCESS"
    deallocate(rt, resource, kept, 100)
    assert Info(rt, source).reserved_bytes == 1000


@clause("KINA-RESOURCE-29", "93f6d75e")
def test_tensors_are_freed_though_deallocate_fails(rt: Executor) -> None:
    custom = Custom(rt)
    resource = custom.make()
    scope = rt.call("runtime_resource_push", resource).succeeds().out
    tensor = rt.tensor("f32", (25,), owned=True)
    rt.call("runtime_scope_pop", scope).succeeds()
    custom.return_status = "DEVICE"

    rt.call("runtime_free", tensor).succeeds()

    assert Info(rt, resource).leaked_bytes == 100


@clause("KINA-RESOURCE-65", "60dd9f1c")
def test_destroy_runs_once_after_the_release_and_the_last_block(rt: Executor) -> None:
    custom = Custom(rt)
    resource = custom.make()
    name = borrowed(rt, resource)
    blocks = [allocate(rt, resource, 64) for _ in range(3)]

    release(rt, resource)
    for block in blocks:
        assert custom.destroyed == 0
        deallocate(rt, name, block, 64)

    assert custom.destroyed == 1
    rt.call("runtime_resource_info", host(rt)).refuses("INVALID_HANDLE", resource=name)
    assert custom.destroyed == 1


@clause("KINA-RESOURCE-65", "60dd9f1c")
def test_a_maker_that_fails_destroys_nothing(rt: Executor) -> None:
    custom = Custom(rt)

    custom_call(rt, custom).status(device_id=7)
    custom_call(rt, custom).status(out=None)

    assert custom.destroyed == 0


@clause("KINA-RESOURCE-65", "60dd9f1c")
def test_destroy_may_be_left_out_and_is_not_needed_on_the_releasing_thread(rt: Executor) -> None:
    custom = Custom(rt)
    resource = custom.make()

    in_thread(lambda: release(rt, resource))
    without = rt.params("KinaResourceVtable", allocate=custom.keep[0], deallocate=custom.keep[1])
    made = rt.call("runtime_resource_custom", **HOST, vtable=without, context=0x5EED).succeeds().out
    release(rt, made)

    assert custom.destroyed == 1


@memory_case("P52")
@clause("KINA-RESOURCE-66", "138e10e0")
@clause("KINA-STATUS-38", "187afefb")
@pytest.mark.parametrize("kind", ["custom", "pool(custom)", "limit(custom)"])
def test_callbacks_may_call_the_library_and_their_failures_stay_theirs(rt: Executor, kind: str) -> None:
    custom, other = Custom(rt), host(rt)
    source = custom.make()
    resource = source if kind == "custom" else (pool if kind == "pool(custom)" else limit)(rt, source)
    library, null = rt.lib.library, rt.ffi.NULL
    answers: list[int] = []

    def call_back() -> None:
        slot, info = rt.ffi.new("void **"), rt.ffi.new("KinaErrorInfo *")
        info.struct_size = rt.ffi.sizeof("KinaErrorInfo")
        answers.append(library.runtime_memory_allocate(slot, other.cdata, 64, 0, null))
        answers.append(library.runtime_memory_deallocate(other.cdata, slot[0], 64, 0, null))
        answers.append(library.runtime_memory_allocate(slot, other.cdata, 64, 3, null))
        library.runtime_last_error(info)
        answers.append(info.status)

    custom.during_allocate = call_back
    library.runtime_clear_last_error()
    block = rt.call("runtime_memory_allocate", resource, 100, 0, None).succeeds().out

    refused = rt.lib.status("INVALID_ARGUMENT")
    assert answers == [0, 0, refused, refused]
    assert rt.record().status == "SUCCESS"
    deallocate(rt, resource, block, 100)


@clause("KINA-RESOURCE-66", "138e10e0")
def test_the_record_of_a_refused_call_is_its_own(rt: Executor) -> None:
    custom, other = Custom(rt), host(rt)
    resource = custom.make()
    custom.answer = lambda _size, _alignment: ("OUT_OF_MEMORY", 0)
    custom.during_allocate = lambda: rt.lib.library.runtime_resource_info(rt.ffi.NULL, other.cdata)

    record = rt.call("runtime_memory_allocate", resource, 100, 0, None).refuses("OUT_OF_MEMORY", control=False)

    assert not record.readable or record.requested_bytes == 100


@clause("KINA-RESOURCE-10", "aedf1891")
def test_tensors_live_in_custom_memory_and_stay_inside_it(rt: Executor) -> None:
    custom = Custom(rt)
    scope = rt.call("runtime_resource_push", custom.make()).succeeds().out
    x = rt.tensor("f32", (7, 5), owned=True)

    y = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_SQUARE").succeeds().out
    z = rt.call("runtime_gpu_matmul", y, lambda: rt.tensor("f32", (5, 3), owned=True), params=None).succeeds().out

    assert y.data in custom.blocks and z.data in custom.blocks
    rt.call("runtime_scope_pop", scope).succeeds()
    for tensor in (x, y, z):
        rt.call("runtime_free", tensor).succeeds()
    assert not custom.wrong


@clause("KINA-RESOURCE-35", "4adadc2c")
@pytest.mark.parametrize("supports", [0, 1])
def test_supports_streams_is_what_the_vtable_says(rt: Executor, supports: int) -> None:
    resource = Custom(rt, supports_streams=supports).make()

    assert Info(rt, resource).supports_streams == supports
    assert Info(rt, limit(rt, resource)).supports_streams == supports
    assert Info(rt, pool(rt, resource)).supports_streams == 1
