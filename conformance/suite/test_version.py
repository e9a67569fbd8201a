"""Which contract a binary speaks, what it offers, and how structs grow."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina.header import load
from kina_conformance import Executor, clause
from kina_conformance.alone import alone
from kina_conformance.elf import is_elf, read

FIELDS = {"DLTensor", "KinaByteRange", "DLDevice", "DLDataType"}


def public_structs(rt: Executor) -> list[str]:
    return sorted(name for name in rt.ffi.list_types()[0] if name.startswith("Kina") and is_struct(rt, name))


def is_struct(rt: Executor, name: str) -> bool:
    return bool(rt.ffi.typeof(name).kind == "struct")


def layout(rt: Executor, name: str) -> Iterator[tuple[str, int, int]]:
    """(field, offset, bytes) of a struct as the header says, fields of inner structs included."""

    def walk(kind: Any, prefix: str, base: int) -> Iterator[tuple[str, int, int]]:
        for field, info in kind.fields:
            yield prefix + field, base + info.offset, rt.ffi.sizeof(info.type)
            if info.type.kind == "struct":
                yield from walk(info.type, f"{prefix}{field}.", base + info.offset)

    return walk(rt.ffi.typeof(name), "", 0)


def asked(rt: Executor, kind: str, field: str | None) -> tuple[int, int]:
    result = rt.call("runtime_field_layout", type=kind, field=field).succeeds()
    return result.offset, result.bytes


@clause("KINA-VERSION-1", "df7936c8")
def test_the_abi_version_is_that_of_the_header(rt: Executor) -> None:
    assert rt.function("runtime_abi_version")() == rt.constant("KINA_ABI_VERSION") == 0x10000


@clause("KINA-VERSION-2", "a6eabc4a")
def test_the_version_string_is_not_empty_and_stays(rt: Executor) -> None:
    first = rt.function("runtime_version_string")()
    text = rt.string(first)
    rt.call("runtime_device_count", device_type=1).refuses("INVALID_ARGUMENT", out=None)

    assert text and rt.function("runtime_version_string")() == first and rt.string(first) == text


@clause("KINA-VERSION-3", "893b7649")
@given(feature=st.integers(-(2**31), 0x3FFFFFFF))
def test_a_feature_is_offered_or_not_and_unknown_ones_are_not(rt: Executor, feature: int) -> None:
    known = {v for n, v in rt.lib.constants.items() if n.startswith("KINA_FEATURE_")}

    answer = rt.function("runtime_has_feature")(feature)

    assert answer in ({0, 1} if feature in known else {0})


@clause("KINA-VERSION-4", "623ac999")
def test_core_is_offered(rt: Executor) -> None:
    assert rt.function("runtime_has_feature")(rt.constant("KINA_FEATURE_CORE")) == 1


@clause("KINA-VERSION-23", "d5a05d8f")
def test_the_answers_stay_the_same(rt: Executor) -> None:
    def answers() -> list[Any]:
        features = [v for n, v in sorted(rt.lib.constants.items()) if n.startswith("KINA_FEATURE_")]
        return [
            rt.function("runtime_abi_version")(),
            [rt.function("runtime_has_feature")(feature) for feature in features],
            asked(rt, "KinaTensor", "dl.shape"),
        ]

    before = answers()
    rt.tensor("f32", (4,), owned=True)

    assert answers() == before


@clause("KINA-VERSION-6", "0e14238b")
@pytest.mark.parametrize("kind", ["KinaTensor", "KinaErrorInfo", "KinaMatmulParams", "KinaLogRow"])
def test_the_layout_is_in_bytes_and_null_asks_for_the_whole_struct(rt: Executor, kind: str) -> None:
    assert asked(rt, kind, None) == (0, rt.ffi.sizeof(kind))
    for field, offset, size in layout(rt, kind):
        assert asked(rt, kind, field) == (offset, size), field


@clause("KINA-VERSION-8", "3f0915c3")
def test_every_struct_and_field_of_the_header_is_known(rt: Executor) -> None:
    kinds = public_structs(rt)
    assert len(kinds) >= 13
    for kind in kinds:
        assert asked(rt, kind, None) == (0, rt.ffi.sizeof(kind))
        for field, offset, size in layout(rt, kind):
            assert asked(rt, kind, field) == (offset, size), f"{kind}.{field}"


@clause("KINA-VERSION-7", "eb49038b")
@pytest.mark.parametrize("kind", ["KinaTensors", "", "DLManagedTensor", "kinatensor"])
def test_an_unknown_type_has_no_layout(rt: Executor, kind: str) -> None:
    rt.call("runtime_field_layout", type="KinaTensor", field="flags").refuses("UNSUPPORTED", type=kind)


@clause("KINA-VERSION-7", "eb49038b")
@pytest.mark.parametrize("field", ["flag", "", "dl.", "dl.shapes", "DL"])
def test_an_unknown_field_has_no_layout(rt: Executor, field: str) -> None:
    rt.call("runtime_field_layout", type="KinaTensor", field="flags").refuses("UNSUPPORTED", field=field)


@clause("KINA-STATUS-23", "54af5684")
@pytest.mark.parametrize("missing", ["offset", "bytes", "type"])
def test_the_layout_needs_its_pointers(rt: Executor, missing: str) -> None:
    change: dict[str, Any] = {missing: None}

    call = rt.call("runtime_field_layout", type="KinaTensor", field="flags")

    call.refuses("INVALID_ARGUMENT", argument=missing, clause="KINA-STATUS-23", **change)


def product(rt: Executor, params: Any) -> Any:
    a = rt.tensor("f32", (2, 3), [[1, 2, 3], [4, 5, 6]])
    b = rt.tensor("f32", (3, 2), [[1, 2], [3, 4], [5, 6]])
    return rt.call("runtime_gpu_matmul", a, b, params=params)


@clause("KINA-VERSION-9", "3ea31a1f")
@clause("KINA-VERSION-10", "c9be635c")
def test_null_and_all_zero_options_mean_the_defaults(rt: Executor) -> None:
    defaults = product(rt, None).succeeds().out.numpy()
    zeroes = product(rt, rt.params("KinaMatmulParams")).succeeds().out.numpy()

    assert np.array_equal(defaults, zeroes) and defaults.tolist() == [[22, 28], [49, 64]]


@clause("KINA-VERSION-11", "40fda338")
@given(size=st.integers(0, 6).map(lambda n: 8 * n))
def test_an_option_struct_smaller_than_in_1_0_is_refused(rt: Executor, size: int) -> None:
    product(rt, None).refuses("VERSION", params=sized(rt, size), clause="KINA-VERSION-11")


def sized(rt: Executor, struct_size: int, room: int = 4096, tail: bytes = b"") -> Any:
    params = rt.params("KinaMatmulParams", size=room, tail=tail)
    params.cdata.struct_size = struct_size
    return params


@clause("KINA-VERSION-12", "e9bccee2")
@given(size=st.one_of(st.integers(57, 4096).filter(lambda n: n % 8), st.integers(4097, 2**32 - 1)))
def test_a_struct_size_above_the_limit_or_no_multiple_of_8_is_refused(rt: Executor, size: int) -> None:
    product(rt, None).refuses("VERSION", params=sized(rt, size), clause="KINA-VERSION-12")


class Edge:
    """Eight readable bytes right before a page that nobody may touch."""

    def __init__(self) -> None:
        page = mmap.PAGESIZE
        self.memory = mmap.mmap(-1, 2 * page)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory)) + page
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(self.address), ctypes.c_size_t(page), 0) == 0
        self.address -= 8


@clause("KINA-VERSION-12", "e9bccee2")
@pytest.mark.parametrize("struct_size", [4104, 2**32 - 8, 61, 2**32 - 1])
def test_nothing_behind_an_illegal_struct_size_is_touched(rt: Executor, struct_size: int) -> None:
    edge = Edge()
    first = rt.ffi.cast("uint32_t *", edge.address)
    first[0] = struct_size
    error = rt.ffi.cast("KinaErrorInfo *", edge.address)
    device = rt.ffi.cast("KinaDeviceInfo *", edge.address)
    params = rt.ffi.cast("KinaMatmulParams *", edge.address)

    answers = [
        rt.function("runtime_last_error")(error),
        rt.function("runtime_device_info")(device, 1, 0),
        rt.function("runtime_gpu_matmul")(
            rt.empty().struct, rt.tensor("f32", (2, 2)).struct, rt.tensor("f32", (2, 2)).struct, params
        ),
    ]

    assert [rt.lib.status_name(a) for a in answers] == ["VERSION"] * 3
    assert first[0] == struct_size and first[1] == 0


@clause("KINA-VERSION-13", "b43e0d18")
@given(words=st.integers(1, 500))
def test_a_longer_option_struct_of_zeroes_is_accepted(rt: Executor, words: int) -> None:
    size = min(4096, 56 + 8 * words)

    assert product(rt, sized(rt, size)).succeeds().out.numpy().tolist() == [[22, 28], [49, 64]]


@clause("KINA-VERSION-13", "b43e0d18")
@given(words=st.integers(1, 500), data=st.data())
def test_a_longer_option_struct_with_anything_in_its_tail_is_refused(
    rt: Executor, words: int, data: st.DataObject
) -> None:
    size = min(4096, 56 + 8 * words)
    at = data.draw(st.integers(0, size - 57))
    tail = bytes(at) + bytes([data.draw(st.integers(1, 255))])

    product(rt, sized(rt, size)).refuses("VERSION", params=sized(rt, size, tail=tail), clause="KINA-VERSION-13")


@clause("KINA-VERSION-14", "7da7fd1f")
@given(value=st.integers(1, 2**32 - 1))
def test_a_reserved_field_that_is_not_zero_is_refused(rt: Executor, value: int) -> None:
    product(rt, None).refuses("VERSION", params={"reserved": value}, clause="KINA-VERSION-14")


@clause("KINA-VERSION-15", "f66b297f")
@pytest.mark.parametrize("kind", ["KinaErrorInfo", "KinaDeviceInfo"])
@given(words=st.integers(0, 500))
def test_an_output_struct_keeps_its_size_and_is_zeroed_behind_what_is_known(
    rt: Executor, kind: str, words: int
) -> None:
    known = rt.ffi.sizeof(kind)
    size = min(4096, known + 8 * words)
    memory = rt.ffi.new("uint8_t[]", b"\xa5" * (size + 8))
    out = rt.ffi.cast(f"{kind} *", memory)
    out.struct_size = size

    if kind == "KinaErrorInfo":
        status = rt.function("runtime_last_error")(out)
    else:
        status = rt.function("runtime_device_info")(out, 1, 0)

    filled = bytes(rt.ffi.buffer(memory))
    assert status == 0 and out.struct_size == size
    assert filled[known:size] == bytes(size - known), "bytes behind the known part are not zero"
    assert filled[size : size + 8] == b"\xa5" * 8, "bytes behind struct_size were written"
    assert b"\xa5" * 8 not in filled[4:known]


@clause("KINA-VERSION-16", "e54fde4b")
@clause("KINA-VERSION-21", "55ef5540")
@given(op=st.integers(0x125, 0x1FF), bit=st.integers(2, 23))
def test_an_unknown_enumerator_or_flag_is_refused(rt: Executor, op: int, bit: int) -> None:
    x = rt.tensor("f32", (3,))

    rt.call("runtime_gpu_unary", x, op="KINA_UNARY_NEG").refuses("UNSUPPORTED", op=op)
    flag = 1 << bit
    if flag & ~rt.constant("KINA_FLAG_READ_ONLY"):
        call = rt.call("runtime_view", x, shape=(3,), strides=None, ndim=1, offset_elements=0, flags=0)
        call.refuses("UNSUPPORTED", flags=flag)


@clause("KINA-VERSION-24", "21146f74")
def test_bit_31_of_a_flag_word_is_refused(rt: Executor) -> None:
    x = rt.tensor("f32", (3,))

    call = rt.call("runtime_view", x, shape=(3,), strides=None, ndim=1, offset_elements=0, flags=0)

    call.refuses("UNSUPPORTED", flags=1 << 31)


@clause("KINA-VERSION-5", "295dca90")
def test_a_function_of_an_absent_feature_is_refused_after_its_arguments(rt: Executor) -> None:
    stream = rt.call("runtime_stream_main", device_type=1, device_id=0).succeeds().out
    host = rt.call("runtime_resource_current", device_type=1, device_id=0).succeeds().out
    call = rt.call("runtime_capture_push", stream, host)

    call.refuses("UNSUPPORTED", control=False)
    call.refuses("INVALID_ARGUMENT", control=False, out=None)
    call.refuses("INVALID_HANDLE", control=False, stream=rt.handle("KinaStream", 0x1234))


@clause("KINA-VERSION-17", "25b0a434")
def test_the_library_exports_the_functions_of_the_header_in_their_node(rt: Executor) -> None:
    assert not rt.lib.missing
    if not is_elf(rt.lib.path):
        return
    exported = {name: node for name, node in read(rt.lib.path).exported.items() if node != name}

    assert exported == {name: "KINA_1.0" for name in load().prototypes}


@clause("KINA-VERSION-19", "f4ef7374")
def test_the_library_has_the_name_that_programs_link(rt: Executor) -> None:
    if is_elf(rt.lib.path):
        assert read(rt.lib.path).soname == "libkina.so.1"
    else:
        with open(rt.lib.path, "rb") as file:
            assert b"@rpath/libkina.1.dylib\0" in file.read()


@clause("KINA-VERSION-18", "f96c8f82")
def test_loading_prints_nothing_starts_no_thread_and_opens_no_device(rt: Executor) -> None:
    told = alone(
        rt,
        """
        threads = lambda: len(os.listdir("/proc/self/task"))
        files = lambda: {os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                         if os.path.exists(f"/proc/self/fd/{n}")}
        before = threads(), files()
        opened()
        new = {name for name in files() - before[1] if name.startswith("/dev/")}
        os.write(1, f"{threads() - before[0]} {sorted(new)}".encode())
        """,
    )

    assert told == "0 []"
