"""Which devices there are, what they are, and work on one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance.alone import alone
from kina_conformance.devices import back, there
from kina_conformance.memory_cases import memory_case

CPU, CUDA, PINNED, SIMULATED, MANAGED = 1, 2, 3, 12, 13
TYPES = [CPU, CUDA, PINNED, SIMULATED, MANAGED]
BOOLEANS = ["is_lost", "has_memory_pools", "has_unified_addressing"]


def count(rt: Executor, device_type: int) -> int:
    return int(rt.call("runtime_device_count", device_type=device_type).succeeds().out)


def devices(rt: Executor) -> list[tuple[int, int]]:
    return [(kind, number) for kind in TYPES for number in range(count(rt, kind))]


def absent(rt: Executor) -> list[int]:
    return [kind for kind in [*TYPES, 0, -1, 99, 2**31 - 1] if count(rt, kind) == 0]


def info(rt: Executor, device_type: int, device_id: int) -> Any:
    return rt.call("runtime_device_info", device_type=device_type, device_id=device_id).succeeds().out


def current(rt: Executor, device: tuple[int, int] = (CPU, 0)) -> int:
    result = rt.call("runtime_stream_current", device_type=device[0], device_id=device[1]).succeeds()
    return int(result.out.value)


@clause("KINA-DEVICE-1", "2f1c4cb2")
@given(device_type=st.integers(-(2**31), 2**31 - 1))
def test_every_number_of_a_type_has_a_count(rt: Executor, device_type: int) -> None:
    assert count(rt, device_type) >= 0


@clause("KINA-DEVICE-1", "2f1c4cb2")
def test_a_type_that_dlpack_does_not_have_has_no_devices(rt: Executor) -> None:
    assert [count(rt, kind) for kind in [0, -1, 5, 99, 2**31 - 1]] == [0] * 5


@clause("KINA-STATUS-23", "54af5684")
def test_a_count_needs_somewhere_to_go(rt: Executor) -> None:
    rt.call("runtime_device_count", device_type=CPU).refuses("INVALID_ARGUMENT", out=None, argument="out")


@clause("KINA-DEVICE-2", "a7d86f46")
def test_the_host_is_one_device(rt: Executor) -> None:
    assert count(rt, CPU) == 1


@clause("KINA-DEVICE-3", "c329d229")
def test_accelerators_come_with_their_feature_alone(rt: Executor) -> None:
    assert count(rt, CUDA) == 0 or rt.offers("cuda")
    assert count(rt, SIMULATED) == 0 or rt.offers("sim")


@clause("KINA-DEVICE-4", "6d13dd48")
def test_pinned_and_managed_memory_come_with_cuda_devices(rt: Executor) -> None:
    cuda = count(rt, CUDA)

    assert count(rt, PINNED) == min(cuda, 1) and count(rt, MANAGED) == cuda


@clause("KINA-DEVICE-5", "03227b1b")
def test_counts_stay(rt: Executor) -> None:
    before = [count(rt, kind) for kind in TYPES]
    rt.tensor("f32", (3,), owned=True)

    assert [count(rt, kind) for kind in TYPES] == before


@clause("KINA-DEVICE-6", "d2a39f76")
def test_a_device_has_a_lasting_name_and_memory(rt: Executor) -> None:
    for kind, number in devices(rt):
        first, second = info(rt, kind, number), info(rt, kind, number)
        assert (first.device_type, first.device_id) == (kind, number)
        assert rt.string(first.name) and first.name == second.name
        assert first.total_bytes > 0 and first.free_bytes <= first.total_bytes


@clause("KINA-DEVICE-7", "ccce1e18")
def test_a_device_is_described_within_its_ranges(rt: Executor) -> None:
    for kind, number in devices(rt):
        told = info(rt, kind, number)
        assert told.multiprocessor_count >= 1 and told.numa_node >= -1 and told.reserved == 0
        assert {getattr(told, name) for name in BOOLEANS} <= {0, 1}


@clause("KINA-DEVICE-8", "760b0da4")
def test_the_host_has_nothing_of_an_accelerator(rt: Executor) -> None:
    told = info(rt, CPU, 0)

    assert (told.is_lost, told.compute_capability_major, told.compute_capability_minor, told.warp_size) == (0, 0, 0, 0)
    assert (told.driver_version, told.runtime_version, told.has_memory_pools) == (0, 0, 0)
    assert bytes(told.uuid) == bytes(16)


@clause("KINA-STATUS-23", "54af5684")
@clause("KINA-VERSION-11", "40fda338")
@clause("KINA-VERSION-12", "e9bccee2")
@pytest.mark.parametrize("size", [0, 8, 88, 97, 4104, 2**32 - 8])
def test_a_description_needs_a_struct_of_a_legal_size(rt: Executor, size: int) -> None:
    call = rt.call("runtime_device_info", device_type=CPU, device_id=0)
    out = rt.ffi.new("KinaDeviceInfo *")
    out.struct_size = size

    call.refuses("VERSION", out=out)
    call.refuses("INVALID_ARGUMENT", out=None)


@clause("KINA-STATUS-24", "b7c8e81b")
@given(device_id=st.integers(-(2**31), 2**31 - 1).filter(bool))
def test_an_id_that_the_host_has_not_is_refused(rt: Executor, device_id: int) -> None:
    for name in ["runtime_device_info", "runtime_device_synchronize", "runtime_device_push"]:
        rt.call(name, device_type=CPU, device_id=0).refuses(
            "INVALID_ARGUMENT", device_id=device_id, argument="device_id"
        )
    call = rt.call("runtime_device_can_access", device_type=CPU, device_id=0, peer_id=0)
    call.refuses("INVALID_ARGUMENT", device_id=device_id, argument="device_id")
    call.refuses("INVALID_ARGUMENT", peer_id=device_id, argument="peer_id")


@clause("KINA-STATUS-24", "b7c8e81b")
@pytest.mark.parametrize(
    "name", ["runtime_device_info", "runtime_device_synchronize", "runtime_device_push", "runtime_device_can_access"]
)
def test_a_type_without_devices_is_refused(rt: Executor, name: str) -> None:
    more = {"peer_id": 0} if name.endswith("access") else {}
    for kind in absent(rt):
        rt.call(name, device_type=CPU, device_id=0, **more).refuses(
            "UNSUPPORTED", device_type=kind, argument="device_type"
        )


@clause("KINA-STATUS-23", "54af5684")
@pytest.mark.parametrize("name", ["runtime_device_can_access", "runtime_device_push"])
def test_an_answer_about_a_device_needs_somewhere_to_go(rt: Executor, name: str) -> None:
    more = {"peer_id": 0} if name.endswith("access") else {}

    rt.call(name, device_type=CPU, device_id=0, **more).refuses("INVALID_ARGUMENT", out=None, argument="out")


@memory_case("P61")
@clause("KINA-DEVICE-9", "67e06860")
def test_a_device_can_access_itself_and_pairs_have_an_answer(rt: Executor) -> None:
    for kind, number in devices(rt):
        for peer in range(count(rt, kind)):
            call = rt.call("runtime_device_can_access", device_type=kind, device_id=number, peer_id=peer)
            answer = call.succeeds().out
            assert answer in {0, 1} and (answer == 1 or peer != number)


@clause("KINA-DEVICE-10", "6a3b3cb7")
@pytest.mark.needs("peer")
def test_an_accessible_device_opens_a_peer(rt: Executor) -> None:
    shared = rt.call("runtime_peer_share", rt.tensor("f32", (3,), owned=True)).succeeds().out

    assert rt.call("runtime_peer_open", shared, device_type=CPU, device_id=0).succeeds().out.shape == (3,)


@clause("KINA-DEVICE-11", "c4ca50fc")
@clause("KINA-DEVICE-13", "37a48436")
def test_a_device_can_be_waited_for(rt: Executor) -> None:
    x = rt.tensor("f32", (1000,), owned=True)
    y = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").succeeds().out

    for kind, number in devices(rt):
        rt.call("runtime_device_synchronize", device_type=kind, device_id=number).succeeds()

    assert (y.numpy() == -x.numpy()).all()


@clause("KINA-DEVICE-14", "4cd4750d")
def test_a_device_scope_binds_until_it_is_popped(rt: Executor) -> None:
    other = rt.call("runtime_stream_checkout", device_type=CPU, device_id=0).succeeds().out
    main = current(rt)
    redirect = rt.call("runtime_redirect_push", other).succeeds().out
    assert current(rt) == main

    scope = rt.call("runtime_device_push", device_type=CPU, device_id=0).succeeds().out
    inside = current(rt)
    rt.call("runtime_scope_pop", scope).succeeds()

    assert inside == other.value and current(rt) == main
    rt.call("runtime_scope_pop", redirect).succeeds()


@clause("KINA-DEVICE-14", "4cd4750d")
def test_a_stream_push_stays_in_force_in_a_device_scope(rt: Executor) -> None:
    pushed = rt.call("runtime_stream_checkout", device_type=CPU, device_id=0).succeeds().out
    rt.call("runtime_stream_push", pushed).succeeds()

    rt.call("runtime_device_push", device_type=CPU, device_id=0).succeeds()

    assert current(rt) == pushed.value


@clause("KINA-DEVICE-15", "7afe3b13")
@given(kinds=st.lists(st.sampled_from(["redirect", "phase", "device"]), max_size=8), data=st.data())
def test_a_scope_binds_redirect_before_phase_before_main(rt: Executor, kinds: list[str], data: st.DataObject) -> None:
    main = rt.call("runtime_stream_main", device_type=CPU, device_id=0).succeeds().out.value
    redirects: list[int] = []
    phases: list[int] = []
    bound = [main]
    for kind in kinds:
        if kind == "redirect":
            stream = rt.call("runtime_stream_checkout", device_type=CPU, device_id=0).succeeds().out
            rt.call("runtime_redirect_push", stream).succeeds()
            redirects.append(stream.value)
        elif kind == "phase":
            phase = data.draw(st.integers(0, 3))
            rt.call("runtime_phase_push", phase=phase).succeeds()
            phases.append(
                rt.call("runtime_stream_phase", device_type=CPU, device_id=0, phase=phase).succeeds().out.value
            )
        else:
            rt.call("runtime_device_push", device_type=CPU, device_id=0).succeeds()
            bound.append((redirects or phases or [main])[-1])
        assert current(rt) == bound[-1]


@clause("KINA-DEVICE-16", "89ea86bf")
def test_a_refused_entry_changes_nothing(rt: Executor) -> None:
    before = current(rt)
    call = rt.call("runtime_device_push", device_type=CPU, device_id=0)

    call.refuses("INVALID_ARGUMENT", device_id=7)

    assert current(rt) == before
    token = call.succeeds().out
    rt.call("runtime_scope_pop", token).succeeds()


@clause("KINA-STATUS-36", "e8c468e2")
def test_a_forked_child_still_has_the_host(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        slot = ffi.new("int32_t *")
        token = ffi.new("KinaScope *")
        kept = tensor(rt)
        assert rt.runtime_device_push(token, 1, 0) == 0
        child = os.fork()
        if child == 0:
            failed = [rt.runtime_device_count(slot, 1), rt.runtime_device_synchronize(1, 0)]
            failed += [rt.runtime_scope_pop(token[0]), rt.runtime_free(kept), rt.runtime_free(tensor(rt, (100, 100)))]
            for kind in (2, 12):
                rt.runtime_device_count(slot, kind)
                if slot[0]:
                    failed.append(word(rt, rt.runtime_device_synchronize(kind, 0)) != "DEVICE_LOST")
            os._exit(any(failed))
        os.write(1, str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        """,
    )

    assert told == "0"


# ---- devices that run behind the call --------------------------------------------------------------------------------


@clause("KINA-DEVICE-11", "c4ca50fc")
@pytest.mark.needs("sim")
def test_after_waiting_for_a_device_its_streams_are_idle(rt: Executor) -> None:
    x = there(rt, [1, 2, 3])
    streams = [rt.call("runtime_stream_checkout", SIMULATED, 0).succeeds().out for _ in range(3)]
    for stream in streams:
        rt.call("runtime_stream_push", stream).succeeds()
        x = rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").succeeds().out

    rt.call("runtime_device_synchronize", device_type=SIMULATED, device_id=0).succeeds()

    assert [rt.call("runtime_stream_query", stream).succeeds().out for stream in streams] == [1, 1, 1]
    assert back(rt, x) == [-1, -2, -3]


@clause("KINA-DEVICE-17", "6eb1b3d6")
@pytest.mark.needs("sim")
def test_a_scope_of_one_device_leaves_the_others(rt: Executor) -> None:
    for first, second in [((CPU, 0), (SIMULATED, 0)), ((SIMULATED, 0), (CPU, 0))]:
        stream = rt.call("runtime_stream_checkout", *first).succeeds().out
        redirect = rt.call("runtime_redirect_push", stream).succeeds().out
        before = current(rt, second)

        scope = rt.call("runtime_device_push", *first).succeeds().out
        assert (current(rt, first), current(rt, second)) == (stream.value, before)

        inner = rt.call("runtime_device_push", *second).succeeds().out
        assert (current(rt, first), current(rt, second)) == (stream.value, before)
        for token in [inner, scope, redirect]:
            rt.call("runtime_scope_pop", token).succeeds()


@clause("KINA-DEVICE-24", "05363c56")
@pytest.mark.needs("sim")
@given(values=st.lists(st.floats(-50, 50, width=32), min_size=4, max_size=4))
def test_a_simulated_device_gives_the_bits_of_the_host(rt: Executor, values: list[float]) -> None:
    """As `succeeds` sees to in the tests of every operation."""
    rt.device_looks = 3
    x = rt.tensor("f32", (2, 2), np.reshape(values, (2, 2)), strides=(-1, 3))

    rt.call("runtime_gpu_softmax", x, axis=0).succeeds()
    rt.call("runtime_gpu_matmul", x, x, params={"activation": "KINA_UNARY_GELU"}).succeeds()
    rt.call("runtime_gpu_reduce", x, axis=1, op="KINA_REDUCE_MEAN").succeeds()

    assert rt.device_looks == 0


@memory_case("P13")
@clause("KINA-DEVICE-21", "1a95b7fc")
@clause("KINA-DEVICE-22", "229b1162")
@pytest.mark.needs("sim")
def test_a_lost_device_says_so_from_then_on_and_the_others_work(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        neg = rt.constants["KINA_UNARY_NEG"]
        x, kept = tensor(rt, (4,), (12, 0)), tensor(rt, (4,), (12, 0))
        other = tensor(rt, (4,), (12, 1))
        out, stream, count = ffi.new("KinaTensor *"), ffi.new("KinaStream *"), ffi.new("int32_t *")
        assert rt.runtime_stream_checkout(stream, 12, 0) == 0
        base, pool, block = ffi.new("KinaResource *"), ffi.new("KinaResource *"), ffi.new("void **")
        assert rt.runtime_resource_current(base, 12, 0) == rt.runtime_resource_pool(pool, base[0], ffi.NULL) == 0
        def take(): return rt.runtime_memory_allocate(block, pool[0], 1000, 0, stream[0])
        def give(): return rt.runtime_memory_deallocate(pool[0], block[0], 1000, 0, stream[0])
        assert [call() for _ in range(20) for call in (take, give)] == [0] * 40
        for _ in range(20):
            y = ffi.new("KinaTensor *")
            if rt.runtime_gpu_unary(y, x, neg) or rt.runtime_device_synchronize(12, 0):
                break
        lost = [rt.runtime_gpu_unary(out, x, neg), rt.runtime_device_synchronize(12, 0),
                rt.runtime_stream_synchronize(stream[0])]
        lost += [take() for _ in range(3)]  # of which the thread has some at hand
        assert [word(rt, status) for status in lost] == ["DEVICE_LOST"] * 6, lost
        info = ffi.new("KinaDeviceInfo *")
        info.struct_size = ffi.sizeof("KinaDeviceInfo")
        assert rt.runtime_device_info(info, 12, 0) == 0 and info.is_lost == 1
        assert rt.runtime_device_count(count, 12) == 0 and count[0] == 2
        y = ffi.new("KinaTensor *")
        assert rt.runtime_gpu_unary(y, other, neg) == rt.runtime_device_synchronize(12, 1) == 0
        assert [rt.runtime_free(t) for t in (x, kept, other, y)] == [0] * 4
        assert rt.runtime_stream_checkin(stream[0]) == 0
        """,
        KINA_SIM_DEVICES="2",
        KINA_SIM_FAULT="lost:3",
    )

    assert told == ""
