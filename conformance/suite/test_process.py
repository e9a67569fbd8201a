"""Ends and copies: a process that exits or forks, threads that end, a library that is closed, opened twice or loaded as
two copies, each while work, memory and handles are outstanding."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kina_conformance import Executor, clause
from kina_conformance.alone import alone
from kina_conformance.elf import is_elf
from kina_conformance.linked import write
from kina_conformance.memory_cases import memory_case

# A process in the middle of everything: pools installed, scopes pushed, streams out, work under way, threads calling.
BUSY = """
import warnings
warnings.simplefilter("ignore")
rt = opened()
neg = rt.constants["KINA_UNARY_NEG"]
null = ffi.NULL
devices = [(1, 0)] + [(12, i) for i in range(int(os.environ.get("KINA_SIM_DEVICES", "0")))]
kept = []

def new(kind):
    kept.append(ffi.new(kind + " *"))
    return kept[-1]

def ok(status):
    assert status == 0, (word(rt, status), ffi.string(rt.runtime_last_error_message()))

def begin(device):
    current, made, stream, scope = new("KinaResource"), new("KinaResource"), new("KinaStream"), new("KinaScope")
    ok(rt.runtime_resource_current(current, *device))
    ok(rt.runtime_resource_pool(made, current[0], null))
    ok(rt.runtime_resource_set_default(null, *device, made[0]))
    ok(rt.runtime_stream_checkout(stream, *device))
    ok(rt.runtime_stream_push(scope, stream[0]))
    ok(rt.runtime_device_push(new("KinaScope"), *device))
    return work(device)

def work(device):
    x = tensor(rt, (10_000,), device)
    weak, peer, managed = new("KinaWeak"), new("KinaPeer"), new("struct DLManagedTensorVersioned *")
    ok(rt.runtime_weak_create(weak, x))
    ok(rt.runtime_peer_share(peer, x))
    for _ in range(20):
        y = new("KinaTensor")
        ok(rt.runtime_gpu_unary(y, x, neg))
    export = new("KinaTensor")
    ok(rt.runtime_alias(export, y))
    ok(rt.runtime_to_dlpack(managed, export, null))
    return x, y, weak[0], peer[0], managed[0]

made = {device: begin(device) for device in devices}
"""
BOTH = pytest.mark.parametrize("devices", ["0", pytest.param("2", marks=pytest.mark.needs("sim"))])


@memory_case("P22")
@clause("KINA-STATUS-52", "fd8fb21d")
@BOTH
def test_a_process_ends_with_everything_outstanding(rt: Executor, devices: str) -> None:
    told = alone(rt, BUSY + "print('over')", KINA_SIM_DEVICES=devices)

    assert told == "over\n"


@clause("KINA-STATUS-52", "fd8fb21d")
@clause("KINA-STATUS-33", "395de07f")
@BOTH
def test_a_process_ends_amid_calls_of_its_threads(rt: Executor, devices: str) -> None:
    told = alone(
        rt,
        BUSY
        + """
def forever(device):
    while True:
        x, y, weak, peer, managed = work(device)
        rt.runtime_weak_release(weak), rt.runtime_peer_release(peer), managed.deleter(managed)
        rt.runtime_free(x), rt.runtime_free(y)
        kept.clear()

for device in devices * 2:
    threading.Thread(target=forever, args=(device,), daemon=True).start()
import time
time.sleep(0.05)
""",
        KINA_SIM_DEVICES=devices,
    )

    assert told == ""


@clause("KINA-STATUS-33", "395de07f")
@pytest.mark.needs("sim")
def test_exit_handlers_wait_for_a_device_and_free_what_it_uses(rt: Executor) -> None:
    told = alone(
        rt,
        BUSY
        + """
# Run by the C library after Python has ended, the last one first: synchronise, copy back, free.
libc, library = ctypes.CDLL(None), ctypes.CDLL(rt.path)
libc.malloc.restype = ctypes.c_void_p
def lasting(struct):
    address = libc.malloc(ctypes.c_size_t(96))
    ffi.memmove(ffi.cast("char *", address), struct, 96)
    return address
for device in devices:
    x, y, weak, peer, managed = made[device]
    for function, argument in [("free", lasting(y)), ("free", lasting(x)), ("tensor_synchronize", lasting(y)),
                               ("weak_release", int(ffi.cast("uintptr_t", weak))),
                               ("peer_release", int(ffi.cast("uintptr_t", peer)))]:
        address = ctypes.cast(getattr(library, "runtime_" + function), ctypes.c_void_p)
        assert libc.__cxa_atexit(address, ctypes.c_void_p(argument), None) == 0
""",
        KINA_SIM_DEVICES="2",
    )

    assert told == ""


@memory_case("P28")
@pytest.mark.needs("dlpack")
@clause("KINA-STATUS-34", "91efe25b")
@clause("KINA-STATUS-52", "fd8fb21d")
@BOTH
def test_a_closed_library_lets_go_of_everything_outstanding(rt: Executor, devices: str) -> None:
    told = alone(
        rt,
        BUSY
        + """
managed = [things[-1] for things in made.values()]
ffi.dlclose(rt.library)
for one in managed:
    one.deleter(one)
print("over")
""",
        KINA_SIM_DEVICES=devices,
    )

    assert told == "over\n"


@memory_case("P26")
@clause("KINA-STATUS-53", "f447cb08")
def test_threads_end_after_the_library_was_closed(rt: Executor) -> None:
    told = alone(
        rt,
        """
rt = opened()
called, closed = threading.Barrier(4), threading.Event()

def body():
    out, scope = ffi.new("KinaTensor *"), ffi.new("KinaScope *")
    assert rt.runtime_phase_push(scope, 1) == 0
    assert rt.runtime_free(tensor(rt)) == 0
    assert rt.runtime_gpu_unary(out, ffi.NULL, 0) != 0
    called.wait()
    closed.wait()

threads = [threading.Thread(target=body) for _ in range(3)]
for thread in threads: thread.start()
called.wait()
ffi.dlclose(rt.library)
closed.set()
for thread in threads: thread.join()
print("over")
""",
    )

    assert told == "over\n"


@memory_case("P21")
@clause("KINA-RESOURCE-13", "8168f4f4")
def test_two_openings_of_the_library_have_one_default(rt: Executor, tmp_path: Path) -> None:
    link = tmp_path / "link.so"
    link.symlink_to(os.path.abspath(rt.lib.path))

    told = alone(
        rt,
        """
rt, link = opened(), ffi.dlopen(sys.argv[2], ffi.RTLD_NOW | ffi.RTLD_LOCAL)
made, seen, x = ffi.new("KinaResource *"), ffi.new("KinaResource *"), ffi.new("KinaTensor *")
assert rt.runtime_resource_host(made) == 0
assert rt.runtime_resource_set_default(ffi.NULL, 1, 0, made[0]) == 0
f32 = rt.constants["KINA_DTYPE_F32"]
assert link.runtime_resource_current(seen, 1, 0) == 0
assert link.runtime_alloc(x, [4], 1, f32, 1, 0, ffi.NULL) == 0
assert x.allocator == seen[0] != ffi.NULL
info = ffi.new("KinaResourceInfo *")
info.struct_size = ffi.sizeof("KinaResourceInfo")
assert rt.runtime_resource_info(info, made[0]) == 0
assert info.live_blocks == 1
""",
        str(link),
    )

    assert told == ""


@memory_case("P21")
@clause("KINA-RESOURCE-13", "8168f4f4")
@clause("KINA-VERSION-19", "f4ef7374")
def test_two_libraries_that_are_linked_against_the_runtime_have_one_default(rt: Executor, tmp_path: Path) -> None:
    if not is_elf(rt.lib.path):
        return
    functions = [f"runtime_{name}" for name in ("resource_host", "resource_set_default", "resource_current", "alloc")]
    libraries = [write(tmp_path, f"lib{name}.so", rt.lib.path, functions) for name in ("first", "second")]

    told = alone(
        rt,
        """
def linked(path):
    table = (ctypes.c_void_p * 4).in_dll(ctypes.CDLL(path), "functions")
    kinds = ("KinaResource *", "KinaResource *, int32_t, int32_t, KinaResource", "KinaResource *, int32_t, int32_t",
             "KinaTensor *, const int64_t *, int32_t, KinaDtype, int32_t, int32_t, KinaStream")
    return [ffi.cast(f"KinaStatus (*)({kind})", address) for kind, address in zip(kinds, table)]

(host, set_default, *_), (*_, current, alloc) = linked(sys.argv[2]), linked(sys.argv[3])
rt, made, seen = opened(), ffi.new("KinaResource *"), ffi.new("KinaResource *")
x, info = ffi.new("KinaTensor *"), ffi.new("KinaResourceInfo *")
assert host(made) == set_default(ffi.NULL, 1, 0, made[0]) == current(seen, 1, 0) == 0
assert alloc(x, [4], 1, rt.constants["KINA_DTYPE_F32"], 1, 0, ffi.NULL) == 0
assert x.allocator == seen[0] != ffi.NULL
info.struct_size = ffi.sizeof("KinaResourceInfo")
assert rt.runtime_resource_info(info, made[0]) == 0
print(info.live_blocks, rt.runtime_free(x))
""",
        *map(str, libraries),
    )

    assert told.split() == ["1", "0"]


@clause("KINA-STATUS-35", "1091675d")
@pytest.mark.needs("sim")
def test_two_copies_have_devices_of_their_own(rt: Executor, tmp_path: Path) -> None:
    second = tmp_path / "second.so"
    shutil.copyfile(rt.lib.path, second)

    told = alone(
        rt,
        """
first, second = opened(), opened(sys.argv[2])
neg = first.constants["KINA_UNARY_NEG"]
made = []
for rt, other in ((first, second), (second, first)):
    stream, resource, peer, weak = (ffi.new(f"Kina{kind} *") for kind in ("Stream", "Resource", "Peer", "Weak"))
    scope, x, y = ffi.new("KinaScope *"), tensor(rt, (1000,), (12, 0)), ffi.new("KinaTensor *")
    assert rt.runtime_stream_checkout(stream, 12, 0) == rt.runtime_resource_host(resource) == 0
    assert rt.runtime_peer_share(peer, x) == rt.runtime_weak_create(weak, x) == 0
    assert rt.runtime_stream_push(scope, stream[0]) == rt.runtime_gpu_unary(y, x, neg) == 0
    answers = [other.runtime_stream_synchronize(stream[0]), other.runtime_resource_release(resource[0]),
               other.runtime_peer_release(peer[0]), other.runtime_weak_release(weak[0]),
               other.runtime_scope_pop(scope[0]), other.runtime_free(x), other.runtime_tensor_synchronize(y)]
    assert [word(rt, status) for status in answers] == ["INVALID_HANDLE"] * len(answers)
    made.append((rt, stream, resource, peer, weak, scope, x, y))
for rt, stream, resource, peer, weak, scope, x, y in made:
    codes = [rt.runtime_scope_pop(scope[0]), rt.runtime_stream_synchronize(stream[0]), rt.runtime_free(y),
             rt.runtime_free(x), rt.runtime_peer_release(peer[0]), rt.runtime_weak_release(weak[0]),
             rt.runtime_resource_release(resource[0]), rt.runtime_stream_checkin(stream[0]),
             rt.runtime_device_synchronize(12, 0)]
    assert not any(codes), codes
""",
        str(second),
        KINA_SIM_DEVICES="1",
    )

    assert told == ""


@clause("KINA-STATUS-36", "e8c468e2")
@clause("KINA-STATUS-54", "b50a509c")
@pytest.mark.needs("sim")
def test_a_forked_child_has_lost_its_devices_and_lets_everything_go(rt: Executor) -> None:
    told = alone(
        rt,
        BUSY
        + """
def info_of(resource):
    info = ffi.new("KinaResourceInfo *")
    info.struct_size = ffi.sizeof("KinaResourceInfo")
    ok(rt.runtime_resource_info(info, resource))
    return info

def in_child():
    device = (12, 1)
    x, y, weak, peer, managed = made[device]
    resource, stream, scope, out = new("KinaResource"), new("KinaStream"), new("KinaScope"), new("KinaTensor")
    ok(rt.runtime_resource_current(resource, *device))
    ok(rt.runtime_stream_main(stream, *device))
    f32 = rt.constants["KINA_DTYPE_F32"]
    data, handle = new("void *"), new("KinaStream")
    lost = [
        rt.runtime_device_synchronize(*device), rt.runtime_stream_synchronize(stream[0]),
        rt.runtime_stream_query(new("int32_t"), stream[0]), rt.runtime_stream_checkout(handle, *device),
        rt.runtime_gpu_unary(out, x, neg), rt.runtime_copy_to_host(out, x), rt.runtime_tensor_synchronize(y),
        rt.runtime_alloc(out, [4], 1, f32, *device, null),
        rt.runtime_memory_allocate(data, resource[0], 1000, 0, null),
    ]
    assert [word(rt, status) for status in lost] == ["DEVICE_LOST"] * len(lost), [word(rt, s) for s in lost]
    before = info_of(resource[0])
    assert before.leaked_bytes == 0
    ok(rt.runtime_weak_release(weak)), ok(rt.runtime_peer_release(peer))
    managed.deleter(managed)
    for struct in kept:
        if ffi.typeof(struct) is ffi.typeof("KinaTensor *") and struct.dl.device.device_id == 1:
            ok(rt.runtime_free(struct))
    ok(rt.runtime_free(x))
    after = info_of(resource[0])
    assert after.live_bytes == 0 and after.leaked_bytes == before.live_bytes > 0, (after.live_bytes, after.leaked_bytes)
    assert after.leaked_blocks == before.live_blocks
    host = tensor(rt)
    ok(rt.runtime_gpu_unary(out, host, neg)), ok(rt.runtime_free(host)), ok(rt.runtime_free(out))

child = os.fork()
if child == 0:
    signal.alarm(PATIENCE)
    try:
        in_child()
        os._exit(0)
    except BaseException as failure:
        print(repr(failure), file=sys.stderr, flush=True)
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
for device in devices:
    ok(rt.runtime_device_synchronize(*device))
""",
        KINA_SIM_DEVICES="2",
    )

    assert told == ""


@clause("KINA-STATUS-54", "b50a509c")
@clause("KINA-STATUS-30", "03ebb98d")
@pytest.mark.needs("sim")
def test_what_a_lost_device_keeps_is_counted_as_leaked(rt: Executor) -> None:
    told = alone(
        rt,
        """
        rt = opened()
        xs, y, neg = [tensor(rt, (1000,), (12, 0)) for _ in range(3)], ffi.new(TENSOR), rt.constants["KINA_UNARY_NEG"]
        resource, info = ffi.new("KinaResource *"), ffi.new("KinaResourceInfo *")
        assert rt.runtime_resource_current(resource, 12, 0) == 0
        assert rt.runtime_gpu_unary(y, xs[0], neg) == 0
        assert word(rt, rt.runtime_gpu_unary(y, xs[1], neg)) == "DEVICE_LOST"
        assert [rt.runtime_free(x) for x in xs] == [0, 0, 0] and rt.runtime_free(y) == 0
        info.struct_size = ffi.sizeof("KinaResourceInfo")
        assert rt.runtime_resource_info(info, resource[0]) == 0
        print(info.live_bytes, info.leaked_bytes, info.leaked_blocks)
        """,
        KINA_SIM_DEVICES="1",
        KINA_SIM_FAULT="lost:2",
    )

    assert told == "0 16000 4\n"


@clause("KINA-STATUS-54", "b50a509c")
@pytest.mark.needs("sim")
@pytest.mark.parametrize("is_limited", [False, True])
def test_a_pool_that_ends_leaves_the_memory_of_a_lost_device_as_leaked(rt: Executor, is_limited: bool) -> None:
    told = alone(
        rt,
        f"""
        is_limited = {is_limited}
        """
        """
        rt = opened()
        base, pool, scope = (ffi.new(f"Kina{kind} *") for kind in ("Resource", "Resource", "Scope"))
        info = ffi.new("KinaResourceInfo *", {"struct_size": ffi.sizeof("KinaResourceInfo")})
        params = ffi.new("KinaPoolParams *", {"struct_size": ffi.sizeof("KinaPoolParams"), "initial_bytes": 1 << 20})
        assert rt.runtime_resource_current(base, 12, 0) == rt.runtime_resource_pool(pool, base[0], params) == 0
        if is_limited:
            below = pool[0]
            assert rt.runtime_resource_limit(pool, below, 1 << 20) == rt.runtime_resource_release(below) == 0
        assert rt.runtime_resource_push(scope, pool[0]) == 0
        x, y, neg = tensor(rt, (1000,), (12, 0)), ffi.new(TENSOR), rt.constants["KINA_UNARY_NEG"]
        assert rt.runtime_gpu_unary(y, x, neg) == 0
        assert word(rt, rt.runtime_gpu_unary(y, x, neg)) == "DEVICE_LOST"
        assert [rt.runtime_free(x), rt.runtime_free(y), rt.runtime_scope_pop(scope[0])] == [0, 0, 0]
        assert rt.runtime_resource_release(pool[0]) == 0
        assert rt.runtime_resource_info(info, base[0]) == 0
        print(info.live_bytes, info.live_blocks, info.leaked_bytes, info.leaked_blocks)
        """,
        KINA_SIM_DEVICES="1",
        KINA_SIM_FAULT="lost:2",
    )

    assert told == "0 0 1048576 1\n"


@clause("KINA-STATUS-36", "e8c468e2")
@pytest.mark.needs("sim")
def test_a_child_forked_amid_device_work_ends_as_it_would_without_the_library(rt: Executor) -> None:
    told = alone(
        rt,
        BUSY
        + """
for _ in range(2):
    for device in devices: work(device)
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
""",
        KINA_SIM_DEVICES="2",
    )

    assert told == ""


@memory_case("P24")
@clause("KINA-STATUS-36", "e8c468e2")
@BOTH
def test_a_child_forked_amid_the_first_calls_of_all_has_a_working_library(
    rt: Executor, tmp_path: Path, devices: str
) -> None:
    told = alone(
        rt,
        """
import shutil, warnings
warnings.simplefilter("ignore")
bad = 0
for i in range(12):
    copy = f"{sys.argv[2]}/copy{i}.so"  # one that nobody has called yet
    shutil.copyfile(sys.argv[1], copy)
    rt, called = opened(copy), threading.Event()
    os.unlink(copy)

    def first():
        made = ffi.new(TENSOR)
        called.set()
        rt.runtime_alloc(made, [4], 1, rt.constants["KINA_DTYPE_F32"], 1, 0, ffi.NULL)

    thread = threading.Thread(target=first)
    thread.start()
    called.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE)
        first()
        os._exit(0)
    bad += os.waitpid(child, 0)[1] != 0
    thread.join()
    if bad: break
assert not bad, "a child hung or died"
""",
        str(tmp_path),
        KINA_SIM_DEVICES=devices,
    )

    assert told == ""
