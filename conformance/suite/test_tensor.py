"""Tensors: the struct, empty and borrowed ones, the out convention, alloc, free, view, alias, wrap, stream calls."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kina_conformance import Executor, clause
from kina_conformance.dtypes import DTYPES
from kina_conformance.flaws import CASES, FLAWS, Blocks, Case, Flaw, failed, geometry, inputs_of
from kina_conformance.memory import Tensor, compact, span
from kina_conformance.memory_cases import memory_case
from kina_conformance.strategies import all_dtypes, layouts, shapes
from kina_conformance.tensors import made

ALLOC: dict[str, Any] = {
    "shape": (2, 3),
    "ndim": 2,
    "dtype": "f32",
    "device_type": 1,
    "device_id": 0,
    "stream": None,
}
OPERATIONS = [
    CASES[name]
    for name in (
        "runtime_copy_to_host",
        "runtime_copy",
        "runtime_gpu_unary",
        "runtime_gpu_binary",
        "runtime_gpu_cast",
        "runtime_gpu_reduce",
        "runtime_gpu_softmax",
        "runtime_gpu_log_softmax",
        "runtime_gpu_matmul",
        "runtime_gpu_gather",
        "runtime_gpu_gather_axis",
        "runtime_gpu_repeat_interleave",
        "runtime_gpu_transpose",
        "runtime_gpu_reshape",
        "runtime_gpu_broadcast",
        "runtime_gpu_slice",
        "runtime_gpu_concat",
    )
]
READERS = [
    *OPERATIONS,
    *(
        CASES[name]
        for name in (
            "runtime_view",
            "runtime_alias",
            "runtime_tensor_synchronize",
            "runtime_tensor_record_use",
            "runtime_overlap",
            "runtime_is_exclusive",
            "runtime_byte_range",
            "runtime_failure_set",
            "runtime_failure_get",
            "runtime_failure_clear",
            "runtime_weak_create",
            "runtime_peer_share",
            "runtime_fill",
        )
    ),
]
FLAWED_INPUTS = [(case, flaw) for case in READERS for flaw in FLAWS]
BORROWED_FLAWS = [flaw for flaw in FLAWS if flaw.clause in {f"KINA-TENSOR-{n}" for n in (19, 20, 21, 22)}]


def wrapped(rt: Executor, source: Tensor, size_bytes: int | None = None, stream: Any = None, flags: int = 0) -> Tensor:
    """What runtime_wrap makes of a borrowed tensor's DLTensor; keeps the arrays that it points to."""
    size = source.size_bytes if size_bytes is None else size_bytes
    tensor = made(rt, "runtime_wrap", source=source, size_bytes=size, stream=stream, flags=flags)
    tensor.keep.append(source)
    return tensor


def main_stream(rt: Executor) -> Any:
    return rt.call("runtime_stream_main", 1, 0).succeeds().out


def named(case: tuple[Case, Any]) -> str:
    return f"{case[0]}-{case[1]}"


# ---- the struct ------------------------------------------------------------------------------------------------------


@clause("KINA-TENSOR-1", "51fec82c")
def test_freeing_the_empty_tensor_succeeds_and_changes_nothing(rt: Executor) -> None:
    empty = rt.empty()

    rt.call("runtime_free", tensor=empty).succeeds()

    assert empty.is_empty


def flawed(rt: Executor, case: Case, flaw: Flaw, status: str) -> None:
    """Each tensor that the call reads, replaced by one with this flaw, is refused with that status."""
    assert flaw.status == status
    call = case.call(rt)
    for name in inputs_of(case, rt) or ["tensor"]:
        change: dict[str, Any] = {name: flaw.on(rt)}
        call.refuses(status, clause=flaw.clause, argument=name, **change)


@clause("KINA-TENSOR-2", "9d825a0c")
@pytest.mark.parametrize("case", READERS, ids=str)
def test_an_empty_input_is_refused(rt: Executor, case: Case) -> None:
    flawed(rt, case, FLAWS[0], "INVALID_ARGUMENT")


def _with_clause(*numbers: int) -> list[tuple[Case, Flaw]]:
    wanted = {f"KINA-TENSOR-{n}" for n in numbers}
    return [(case, flaw) for case, flaw in FLAWED_INPUTS if flaw.clause in wanted]


@clause("KINA-TENSOR-3", "4dda0318")
@pytest.mark.parametrize("pair", _with_clause(3), ids=named)
def test_a_struct_with_a_wrong_magic_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "INVALID_HANDLE")


@clause("KINA-TENSOR-4", "d3e0cbf9")
@pytest.mark.parametrize("pair", _with_clause(4), ids=named)
def test_a_struct_whose_handle_is_not_live_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "INVALID_HANDLE")


@clause("KINA-TENSOR-4", "d3e0cbf9")
@pytest.mark.parametrize("flaw", [f for f in FLAWS if f.clause in {"KINA-TENSOR-3", "KINA-TENSOR-4"}], ids=str)
def test_what_is_no_live_tensor_is_not_freed(rt: Executor, flaw: Flaw) -> None:
    call = rt.call("runtime_free", tensor=lambda: rt.alloc("f32", (2,)))

    call.refuses("INVALID_HANDLE", tensor=flaw.on(rt), clause=flaw.clause, argument="tensor")


@clause("KINA-TENSOR-4", "d3e0cbf9")
def test_a_copy_of_a_freed_tensor_is_not_freed_again(rt: Executor) -> None:
    tensor = rt.alloc("f32", (4,))
    copy = tensor.copy()
    rt.call("runtime_free", tensor=tensor).succeeds()

    status = rt.function("runtime_free")(copy.struct)

    assert rt.lib.status_name(status) == "INVALID_HANDLE"


@clause("KINA-TENSOR-5", "d4e8105c")
def test_a_copied_struct_names_the_same_tensor(rt: Executor) -> None:
    tensor = rt.tensor("f32", (2, 3), owned=True)

    overlap = rt.call("runtime_overlap", tensor, tensor.copy()).succeeds().out
    exclusive = rt.call("runtime_is_exclusive", tensor.copy()).succeeds().out

    assert overlap == rt.constant("KINA_OVERLAP_SAME") and exclusive == 1


FIELDS = ["dl.data", "dl.byte_offset", "dl.ndim", "size_bytes", "flags", "allocator", "stream", "dl.dtype.bits"]


@clause("KINA-TENSOR-6", "4046082b")
@pytest.mark.parametrize("field", [*FIELDS, "shape[0]", "strides[0]"])
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_changed_fields_of_a_struct_with_a_handle_are_not_acted_on(rt: Executor, case: Case, field: str) -> None:
    expected = case.call(rt).succeeds().out
    arguments = case.make(rt)
    name = inputs_of(case, rt)[0]
    tensor = next(value for key, value in arguments.items() if key.rstrip("_") == name)
    lie = tensor.copy()
    _lie(rt, lie, field)
    out = rt.empty()
    arguments[next(key for key in arguments if key.rstrip("_") == name)] = lie

    status = rt.call(case.function, out=out, **arguments).status()

    assert status in {"SUCCESS", "INVALID_HANDLE"}
    if status == "SUCCESS":
        rt.own(out)
        assert np.array_equal(out.numpy(), expected.numpy())


def _lie(rt: Executor, tensor: Tensor, field: str) -> None:
    """Changes one field, or what one of the two arrays holds, to something harmful."""
    if field.endswith("[0]"):
        array = getattr(tensor.struct.dl, field[:-3])
        array[0] = 1 << 40
        return
    place = tensor.struct
    *way, last = field.split(".")
    for word in way:
        place = getattr(place, word)
    value: Any = {"dl.data": 8, "allocator": 99, "stream": 77}.get(field, 31)
    old = getattr(place, last)
    setattr(place, last, rt.ffi.cast(rt.ffi.typeof(old), value) if isinstance(old, rt.ffi.CData) else value)


@clause("KINA-TENSOR-7", "f9fbd2b0")
@given(dtype=all_dtypes, shape=shapes((0, 6)))
def test_a_produced_struct_is_complete(rt: Executor, dtype: str, shape: tuple[int, ...]) -> None:
    tensor = rt.alloc(dtype, shape)

    struct = tensor.struct
    assert struct.magic == 0x414E494B and struct.reserved == 0 and struct.handle != 0
    assert tensor.shape == shape and tensor.dtype == dtype and tensor.device == (1, 0)
    assert not shape or (struct.dl.shape != rt.ffi.NULL and struct.dl.strides != rt.ffi.NULL)


@clause("KINA-TENSOR-8", "d39c4034")
@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), (0, 1 << 40)])
def test_a_tensor_of_zero_bytes_has_null_data(rt: Executor, shape: tuple[int, ...]) -> None:
    assert rt.alloc("f32", shape).data == 0
    assert rt.tensor("f32", shape, owned=True, strides=(7,) * len(shape)).data == 0


@clause("KINA-TENSOR-8", "d39c4034")
@given(shape=shapes((1, 4), [1, 2, 3, 5]), data=st.data())
def test_data_is_the_first_byte_of_the_storage(rt: Executor, shape: tuple[int, ...], data: st.DataObject) -> None:
    strides, offset = data.draw(layouts(shape, writable=True))
    base = rt.tensor("i32", 4096, owned=True)
    low, high = span(shape, strides or compact(shape))

    if high - low + offset >= 4096:
        return

    view = made(rt, "runtime_view", in_=base, **geometry(shape, strides, offset - low))

    assert view.data == base.data and view.struct.dl.byte_offset == 4 * (offset - low)


@clause("KINA-TENSOR-9", "0c76f7cf")
def test_size_bytes_is_the_size_of_the_storage(rt: Executor) -> None:
    base = rt.alloc("f64", (10,))

    view = made(rt, "runtime_view", in_=base, **geometry((2,), None, 3))

    assert base.size_bytes == 80 and view.size_bytes == 80


@clause("KINA-TENSOR-10", "4969aa54")
def test_allocator_names_the_resource_that_gave_the_bytes(rt: Executor) -> None:
    current = rt.call("runtime_resource_current", 1, 0).succeeds().out
    tensor = rt.alloc("f32", (3,))
    view = made(rt, "runtime_view", in_=tensor, **geometry((1,)))
    alias = made(rt, "runtime_alias", in_=rt.tensor("f32", (3,)))

    assert int(rt.ffi.cast("uintptr_t", tensor.struct.allocator)) == current.value
    assert view.struct.allocator == tensor.struct.allocator
    assert alias.struct.allocator == rt.ffi.NULL


@clause("KINA-TENSOR-11", "bfe1b03f")
def test_stream_is_the_one_of_creation_and_stays(rt: Executor) -> None:
    stream = rt.call("runtime_stream_checkout", 1, 0).succeeds().out
    tensor = made(rt, "runtime_alloc", **{**ALLOC, "stream": stream})
    rt.call("runtime_tensor_record_use", tensor, stream=None, access="KINA_ACCESS_READ").succeeds()
    rt.call("runtime_fill", tensor, value=b"\0\0\0\0", value_bytes=4).succeeds()
    view = made(rt, "runtime_view", in_=tensor, **geometry((1,)))
    alias = made(rt, "runtime_alias", in_=tensor)

    for each in (tensor, view, alias):
        assert int(rt.ffi.cast("uintptr_t", each.struct.stream)) == stream.value


@clause("KINA-TENSOR-12", "1bab7422")
def test_flags_say_where_a_tensor_comes_from(rt: Executor) -> None:
    owned, view = rt.constant("KINA_FLAG_OWNED"), rt.constant("KINA_FLAG_VIEW")
    tensor = rt.alloc("f32", (2, 3))
    peer = rt.call("runtime_peer_share", tensor).succeeds().out
    weak = rt.call("runtime_weak_create", tensor).succeeds().out

    assert tensor.flags == owned
    assert made(rt, "runtime_gpu_unary", in_=tensor, op="KINA_UNARY_NEG").flags == owned
    assert made(rt, "runtime_view", in_=tensor, **geometry((2,))).flags == view
    assert made(rt, "runtime_gpu_transpose", in_=tensor, permutation=(1, 0)).flags == view
    assert made(rt, "runtime_alias", in_=tensor).flags == owned
    assert made(rt, "runtime_weak_upgrade", weak=weak).flags == owned
    assert made(rt, "runtime_peer_open", peer=peer, device_type=1, device_id=0).flags == owned


@clause("KINA-TENSOR-12", "1bab7422")
def test_an_import_is_flagged_and_so_are_its_aliases(rt: Executor) -> None:
    imported = rt.constant("KINA_FLAG_IMPORTED")
    exported = rt.call("runtime_to_dlpack", tensor=rt.alloc("f32", (2,)), params=None).succeeds().out
    tensor = made(rt, "runtime_from_dlpack", managed=exported, params=None)
    rt.forget([exported])

    assert tensor.flags == imported
    assert made(rt, "runtime_alias", in_=tensor).flags == imported


@clause("KINA-TENSOR-13", "2ddca600")
@pytest.mark.parametrize("owned", [True, False])
def test_read_only_is_inherited(rt: Executor, owned: bool) -> None:
    flag = rt.constant("KINA_FLAG_READ_ONLY")
    tensor = rt.tensor("f32", (2, 3), owned=owned, read_only=True)

    assert made(rt, "runtime_view", in_=tensor, **geometry((2,))).flags & flag
    alias = made(rt, "runtime_alias", in_=tensor)
    assert alias.flags & flag
    weak = rt.call("runtime_weak_create", alias).succeeds().out
    assert made(rt, "runtime_weak_upgrade", weak=weak).flags & flag
    assert made(rt, "runtime_gpu_transpose", in_=tensor, permutation=(1, 0)).flags & flag


@clause("KINA-TENSOR-13", "2ddca600")
@pytest.mark.parametrize(
    ("shape", "strides"), [((3,), (0,)), ((2, 3), (0, 1)), ((2, 2), (1, 1)), ((4, 3), (2, 1)), ((3, 3), (1, -1))]
)
def test_a_tensor_in_which_two_indices_share_a_byte_is_read_only(
    rt: Executor, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    flag = rt.constant("KINA_FLAG_READ_ONLY")
    base = rt.alloc("f32", (32,))
    source = rt.tensor("f32", shape, strides=strides)

    assert made(rt, "runtime_view", in_=base, **geometry(shape, strides, 8)).flags & flag
    assert wrapped(rt, source).flags & flag
    rt.call("runtime_fill", tensor=rt.out("f32", (2,)), value=b"\0\0\0\0", value_bytes=4).refuses(
        "READ_ONLY", tensor=source
    )


@clause("KINA-TENSOR-14", "9c559134")
@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_a_read_only_out_is_refused(rt: Executor, case: Case, owned: bool) -> None:
    call = case.call(rt, out=case.out(rt))

    call.refuses("READ_ONLY", out=case.out(rt, owned=owned, read_only=True), clause="KINA-TENSOR-14", argument="out")


@clause("KINA-TENSOR-14", "9c559134")
def test_a_read_only_tensor_is_not_filled(rt: Executor) -> None:
    call = rt.call("runtime_fill", tensor=rt.out("f32", (2,)), value=b"\0\0\0\0", value_bytes=4)

    call.refuses("READ_ONLY", tensor=rt.tensor("f32", (2,), owned=True, read_only=True))


@clause("KINA-TENSOR-15", "7e378526")
@pytest.mark.parametrize("pair", _with_clause(15), ids=named)
def test_a_rank_or_an_extent_out_of_range_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "INVALID_SHAPE")


@clause("KINA-TENSOR-15", "7e378526")
@pytest.mark.parametrize(("shape", "ndim"), [((1,) * 33, 33), ((1,), -1), ((1,), -(1 << 31)), ((2, -1), 2)])
def test_makers_refuse_a_rank_or_an_extent_out_of_range(rt: Executor, shape: tuple[int, ...], ndim: int) -> None:
    view = rt.call("runtime_view", rt.alloc("f32", (2, 3)), **geometry((2, 3)))

    rt.call("runtime_alloc", **ALLOC).refuses(
        "INVALID_SHAPE", shape=shape, ndim=ndim, as_one="a shape with its rank", clause="KINA-TENSOR-15"
    )
    view.refuses("INVALID_SHAPE", shape=shape, ndim=ndim, as_one="a shape with its rank", clause="KINA-TENSOR-15")


@clause("KINA-TENSOR-16", "91657c62")
@pytest.mark.parametrize("shape", [(), (1,) * 32, (0,), (2, 0, 3), (1,) * 31 + (5,)], ids=str)
@pytest.mark.parametrize("owned", [True, False])
def test_every_rank_and_empty_extents_are_ordinary(rt: Executor, shape: tuple[int, ...], owned: bool) -> None:
    strides = tuple(-(1 << 40) if n == 1 else s for n, s in zip(shape, compact(shape), strict=True))
    x = rt.tensor("f32", shape, owned=owned, strides=strides)

    y = made(rt, "runtime_gpu_unary", in_=x, op="KINA_UNARY_NEG")
    alias = made(rt, "runtime_alias", in_=x)
    rt.call("runtime_byte_range", x).succeeds()
    rt.call("runtime_tensor_synchronize", alias).succeeds()

    assert y.shape == shape and np.array_equal(y.numpy(), -x.numpy())
    assert alias.shape == shape and np.array_equal(alias.numpy(), x.numpy())


@clause("KINA-TENSOR-16", "91657c62")
@pytest.mark.parametrize("place", [0, 31])
@pytest.mark.parametrize("owned", [True, False])
def test_the_highest_rank_without_elements_is_ordinary_whatever_its_strides(
    rt: Executor, place: int, owned: bool
) -> None:
    shape = tuple(0 if axis == place else 2 for axis in range(32))
    x = rt.tensor("f32", shape, owned=owned, strides=(1,) * 32)

    y = made(rt, "runtime_gpu_unary", in_=x, op="KINA_UNARY_NEG")
    z = made(rt, "runtime_gpu_cast", in_=x, target="i32")
    copy = made(rt, "runtime_copy", in_=x, device_type=1, device_id=0)

    assert x.shape == y.shape == z.shape == copy.shape == shape
    rt.call("runtime_fill", tensor=x, value=bytes(4), value_bytes=4).succeeds()


@clause("KINA-TENSOR-17", "5471aba4")
@pytest.mark.parametrize("pair", _with_clause(17), ids=named)
def test_a_dtype_outside_the_table_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "UNSUPPORTED")


@clause("KINA-TENSOR-17", "5471aba4")
@pytest.mark.parametrize("dtype", [0, 0x00010802 + 0x100, 0x00020802, 0x00010406, 0x00011006, 0xFFFFFFFF, 0x00018002])
def test_makers_refuse_a_dtype_outside_the_table(rt: Executor, dtype: int) -> None:
    rt.call("runtime_alloc", **ALLOC).refuses("UNSUPPORTED", dtype=dtype, clause="KINA-TENSOR-17", argument="dtype")


# ---- borrowed tensors ------------------------------------------------------------------------------------------------


@clause("KINA-TENSOR-18", "4ec721ee")
def test_a_borrowed_tensor_costs_the_library_nothing(rt: Executor) -> None:
    before = rt.counters()
    tensor = rt.tensor("f32", (2, 3))

    y = made(rt, "runtime_gpu_unary", in_=tensor, op="KINA_UNARY_NEG")
    rt.call("runtime_free", tensor=y).succeeds()
    rt.call("runtime_free", tensor=tensor).succeeds()

    assert tensor.is_empty and rt.counters() == before


@clause("KINA-TENSOR-19", "4c70d6ea")
@pytest.mark.parametrize("pair", _with_clause(19), ids=named)
def test_a_borrowed_tensor_without_a_shape_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "INVALID_ARGUMENT")


@clause("KINA-TENSOR-19", "4c70d6ea")
def test_null_strides_of_a_borrowed_tensor_are_compact(rt: Executor) -> None:
    tensor = rt.tensor("f32", (2, 3), [[1, 2, 3], [4, 5, 6]])
    tensor.struct.dl.strides = rt.ffi.NULL
    scalar = rt.tensor("f32", (), 7)
    scalar.struct.dl.shape = scalar.struct.dl.strides = rt.ffi.NULL

    y = made(rt, "runtime_gpu_unary", in_=tensor, op="KINA_UNARY_NEG")

    assert y.numpy().tolist() == [[-1, -2, -3], [-4, -5, -6]]
    assert made(rt, "runtime_gpu_unary", in_=scalar, op="KINA_UNARY_NEG").numpy() == -7
    assert made(rt, "runtime_alias", in_=tensor).strides == (3, 1)


@clause("KINA-TENSOR-20", "1bdd115d")
@pytest.mark.parametrize("pair", _with_clause(20), ids=named)
def test_a_borrowed_tensor_with_elements_but_no_data_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "INVALID_ARGUMENT")


@clause("KINA-TENSOR-21", "8dec1558")
@pytest.mark.parametrize("pair", _with_clause(21), ids=named)
def test_a_borrowed_tensor_that_leaves_its_bytes_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "INVALID_SHAPE")


@clause("KINA-TENSOR-22", "95624966")
@pytest.mark.parametrize("pair", _with_clause(22), ids=named)
def test_misaligned_borrowed_data_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "INVALID_ARGUMENT")


@memory_case("P32")
@clause("KINA-TENSOR-22", "95624966")
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_data_is_aligned_to_the_element_or_to_half_of_a_complex_one(rt: Executor, dtype: str) -> None:
    half = DTYPES[dtype].bytes // (2 if DTYPES[dtype].kind == "c" else 1)

    for shift in range(DTYPES[dtype].bytes):
        tensor = rt.tensor(dtype, (1,), tail=16)
        tensor.struct.dl.byte_offset += shift
        status = rt.call("runtime_alias", tensor).status()
        assert (status == "SUCCESS") == (shift % half == 0), shift
        if status == "SUCCESS":
            made(rt, "runtime_alias", in_=tensor)


@clause("KINA-TENSOR-23", "edd0a1c2")
@pytest.mark.parametrize("pair", _with_clause(23), ids=named)
def test_a_struct_without_handle_that_is_no_borrowed_tensor_is_refused(rt: Executor, pair: tuple[Case, Flaw]) -> None:
    flawed(rt, *pair, "INVALID_HANDLE")


@clause("KINA-TENSOR-23", "edd0a1c2")
@pytest.mark.parametrize("flaw", [f for f in FLAWS if f.clause == "KINA-TENSOR-23"], ids=str)
def test_a_struct_that_is_no_borrowed_tensor_is_not_freed(rt: Executor, flaw: Flaw) -> None:
    call = rt.call("runtime_free", tensor=lambda: rt.tensor("f32", (2,)))

    call.refuses("INVALID_HANDLE", tensor=flaw.on(rt), clause="KINA-TENSOR-23")


@clause("KINA-TENSOR-24", "1b907516")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_borrowed_host_input_has_been_read_when_the_call_returns(rt: Executor, case: Case) -> None:
    expected = case.call(rt).succeeds().out.numpy()
    arguments = {k: borrowed_like(rt, v) if isinstance(v, Tensor) else v for k, v in case.make(rt).items()}
    out = case.out(rt)

    rt.call(case.function, out=out, **arguments).succeeds()
    for value in arguments.values():
        if isinstance(value, Tensor) and value.buffer is not None:
            value.buffer.data[:] = 0xEE

    assert np.array_equal(out.numpy(), expected)


def borrowed_like(rt: Executor, tensor: Tensor) -> Tensor:
    """The same values in memory of the suite."""
    copy = rt.tensor(tensor.dtype, tensor.shape, 0)
    copy.raw()[...] = tensor.raw()
    return copy


# ---- the out convention ----------------------------------------------------------------------------------------------


@clause("KINA-TENSOR-25", "241de9d5")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_an_empty_out_is_produced(rt: Executor, case: Case) -> None:
    stream = rt.call("runtime_stream_checkout", 1, 0).succeeds().out
    blocks = Blocks(rt)
    arguments = case.make(rt)

    with blocks.pushed():
        scope = rt.call("runtime_stream_push", stream).succeeds().out
        out = made(rt, case.function, **arguments)
        rt.call("runtime_scope_pop", scope).succeeds()

    assert out.shape == case.shape and out.dtype == "f32"
    if case.structural:
        assert out.flags & ~rt.constant("KINA_FLAG_READ_ONLY") == rt.constant("KINA_FLAG_VIEW") and not blocks.live
        return
    assert out.strides == compact(case.shape) and out.flags == rt.constant("KINA_FLAG_OWNED")
    assert out.data in blocks.live and len(blocks.live) == 1
    assert int(rt.ffi.cast("uintptr_t", out.struct.allocator)) == blocks.borrowed.value
    assert int(rt.ffi.cast("uintptr_t", out.struct.stream)) == stream.value
    rt.call("runtime_free", tensor=out).succeeds()


@clause("KINA-TENSOR-26", "eebbf8de")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
@pytest.mark.parametrize("layout", ["compact", "padded", "reversed", "transposed"])
def test_a_result_is_written_into_out_with_any_strides(rt: Executor, case: Case, layout: str) -> None:
    expected = case.call(rt).succeeds().out.numpy()
    steps = {
        "compact": compact(case.shape),
        "padded": compact([n + 2 for n in case.shape]),
        "reversed": tuple(-s for s in compact(case.shape)),
        "transposed": tuple(reversed(compact(tuple(reversed(case.shape))))),
    }[layout]

    for owned in (False, True):
        out = case.call(rt, out=case.out(rt, strides=steps, offset=1, owned=owned)).succeeds().out
        assert np.array_equal(out.numpy(), expected)


@clause("KINA-TENSOR-26", "eebbf8de")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_an_out_of_another_shape_is_refused(rt: Executor, case: Case) -> None:
    call = case.call(rt, out=case.out(rt))

    for shape in [case.shape[:-1], (*case.shape[:-1], case.shape[-1] + 1), (*case.shape, 1), (1, *case.shape), (0,)]:
        call.refuses("INVALID_SHAPE", out=rt.out("f32", shape), argument="out")


@clause("KINA-TENSOR-26", "eebbf8de")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_an_out_of_another_dtype_is_refused(rt: Executor, case: Case) -> None:
    call = case.call(rt, out=case.out(rt))

    for dtype in ["f64", "i32", "bool"]:
        call.refuses("INVALID_DTYPE", out=rt.out(dtype, case.shape), argument="out")


@clause("KINA-TENSOR-26", "eebbf8de")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
@pytest.mark.parametrize("flaw", [f for f in FLAWS if f.name != "empty" and "too many" not in f.name], ids=str)
def test_an_out_that_is_no_valid_tensor_is_refused(rt: Executor, case: Case, flaw: Flaw) -> None:
    if flaw.name == "no such device type":  # another device as well, which is of a lower tier
        case.call(rt, out=case.out(rt)).refuses({flaw.status, "DEVICE_MISMATCH"}, out=flaw.on(rt), argument="out")
        return
    case.call(rt, out=case.out(rt)).refuses(flaw.status, out=flaw.on(rt), clause=flaw.clause, argument="out")


MAKERS: dict[str, Any] = {
    "runtime_alloc": lambda rt: ALLOC,
    "runtime_view": lambda rt: {"in_": rt.alloc("f32", (2, 3)), **geometry((3,))},
    "runtime_alias": lambda rt: {"in_": rt.alloc("f32", (2, 3))},
    "runtime_wrap": lambda rt: {"source": rt.tensor("f32", (2, 3)), "size_bytes": 24, "stream": None, "flags": 0},
    "runtime_weak_upgrade": lambda rt: {"weak": _referred(rt, "runtime_weak_create")},
    "runtime_peer_open": lambda rt: {"peer": _referred(rt, "runtime_peer_share"), "device_type": 1, "device_id": 0},
    "runtime_from_dlpack": lambda rt: {"managed": lambda: _exported(rt, "runtime_to_dlpack"), "params": None},
    "runtime_from_dlpack_legacy": lambda rt: {
        "managed": lambda: _exported(rt, "runtime_to_dlpack_legacy"),
        "params": None,
    },
}


def _referred(rt: Executor, function: str) -> Any:
    return rt.call(function, rt.alloc("f32", (2, 3))).succeeds().out


def _exported(rt: Executor, function: str) -> Any:
    managed = rt.call(function, tensor=rt.alloc("f32", (2, 3)), params=None).succeeds().out
    return managed


@clause("KINA-TENSOR-27", "a2a8b2a8")
@pytest.mark.parametrize("maker", [m for m in MAKERS if "from_dlpack" not in m])
def test_a_maker_refuses_an_out_that_is_not_empty(rt: Executor, maker: str) -> None:
    call = rt.call(maker, **MAKERS[maker](rt))

    for out in (rt.alloc("f32", (2, 3)), rt.tensor("f32", (3,)), FLAWS[1].on(rt), FLAWS[2].on(rt)):
        call.refuses("INVALID_ARGUMENT", out=out, clause="KINA-TENSOR-27", argument="out")


@clause("KINA-TENSOR-27", "a2a8b2a8")
@pytest.mark.parametrize("word", ["", "_legacy"])
def test_an_import_refuses_an_out_that_is_not_empty(rt: Executor, word: str) -> None:
    managed = _exported(rt, f"runtime_to_dlpack{word}")
    call = rt.call(f"runtime_from_dlpack{word}", managed=managed, params=None)

    call.refuses("INVALID_ARGUMENT", out=rt.alloc("f32", (2, 3)), clause="KINA-TENSOR-27", control=False)


@clause("KINA-TENSOR-28", "388e8b80")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_an_operation_writes_the_elements_of_out_and_nothing_else(rt: Executor, case: Case) -> None:
    arguments = {k: borrowed_like(rt, v) if isinstance(v, Tensor) else v for k, v in case.make(rt).items()}
    before = {k: v.storage_bytes() for k, v in arguments.items() if isinstance(v, Tensor)}
    strides = tuple(3 * s for s in compact(case.shape))
    out = case.out(rt, strides=strides, tail=64, offset=5)
    assert out.buffer is not None
    written = np.zeros(len(out.buffer.data), bool)
    np.ndarray((*case.shape, 4), bool, written.data, 20, (*(4 * s for s in strides), 1))[...] = True

    rt.call(case.function, out=out, **arguments).succeeds()

    assert (out.buffer.data[~written] == 0xA5).all() and out.buffer.broken_guard() is None
    for name, held in before.items():
        assert arguments[name].storage_bytes() == held


@clause("KINA-TENSOR-29", "e35c1372")
@pytest.mark.parametrize("case", [c for c in OPERATIONS if c.in_place], ids=str)
@pytest.mark.parametrize("strides", [(3, 1), (1, 2), (-3, 1), (8, -2)], ids=str)
@pytest.mark.parametrize("owned", [True, False])
def test_out_may_be_exactly_an_input_of_an_elementwise_operation(
    rt: Executor, case: Case, strides: tuple[int, ...], owned: bool
) -> None:
    expected = case.call(rt).succeeds().out.numpy()
    for name in inputs_of(case, rt):
        arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
        both = rt.tensor("f32", case.shape, arguments[name].numpy(), strides=strides, owned=owned)
        arguments[name] = both
        alias = made(rt, "runtime_alias", in_=both)
        status = rt.call(case.function, out=alias, **arguments).status()

        assert status == "SUCCESS" and np.array_equal(both.numpy(), expected)


@clause("KINA-TENSOR-29", "e35c1372")
def test_a_binary_operation_may_have_one_tensor_three_times(rt: Executor) -> None:
    x = rt.tensor("f32", (2, 3), [[1, 2, 3], [4, 5, 6]], owned=True)

    status = rt.call("runtime_gpu_binary", out=x, a=x, b=x, op="KINA_BINARY_ADD").status()

    assert status == "SUCCESS" and x.numpy().tolist() == [[2, 4, 6], [8, 10, 12]]


@clause("KINA-TENSOR-29", "e35c1372")
def test_a_cast_in_place_changes_the_dtype_of_the_same_bytes(rt: Executor) -> None:
    x = rt.tensor("f32", (4,), [1, -2, 3, 4])
    out = _same_bytes(rt, x, "i32")

    assert rt.call("runtime_gpu_cast", out=out, in_=x, target="i32").status() == "SUCCESS"
    assert out.numpy().tolist() == [1, -2, 3, 4]


def _same_bytes(rt: Executor, tensor: Tensor, dtype: str) -> Tensor:
    """A borrowed tensor of another dtype of the same size on the same bytes."""
    other = tensor.copy()
    value = DTYPES[dtype].value
    other.struct.dl.dtype = {"code": value & 0xFF, "bits": value >> 8 & 0xFF, "lanes": value >> 16}
    return other


def shared(rt: Executor, shape: tuple[int, ...], values: Any, out_shape: tuple[int, ...], shift: int) -> Any:
    """An input and an out on one buffer, the out `shift` elements behind the input's first."""
    count = int(np.prod(shape)) + int(np.prod(out_shape)) + 16
    base = rt.tensor("f32", (count,), 0, owned=True)
    x = made(rt, "runtime_view", in_=base, **geometry(shape, None, 8))
    x.write(values)
    return x, made(rt, "runtime_view", in_=base, **geometry(out_shape, None, 8 + shift))


@clause("KINA-TENSOR-30", "2d933e5c")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_an_out_that_overlaps_an_input_is_refused(rt: Executor, case: Case, shift: int) -> None:
    for name in inputs_of(case, rt):
        arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
        if arguments[name].dtype != "f32" or (case.in_place and shift == 0):
            continue
        x, out = shared(rt, arguments[name].shape, arguments[name].numpy(), case.shape, shift)
        call = rt.call(case.function, **{**arguments, name: x, "out": case.out(rt, owned=True)})
        call.refuses("OVERLAP", out=out, argument="out")


@clause("KINA-TENSOR-30", "2d933e5c")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_an_out_that_only_touches_its_inputs_is_written(rt: Executor, case: Case) -> None:
    expected = case.call(rt).succeeds().out.numpy()
    name = inputs_of(case, rt)[0]
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
    x = arguments[name]
    for shift in (int(np.prod(x.shape)), -int(np.prod(case.shape))):
        values = x.numpy()
        base = rt.tensor("f32", (abs(shift) + int(np.prod(x.shape)) + int(np.prod(case.shape)) + 8,), 0, owned=True)
        first = made(rt, "runtime_view", in_=base, **geometry(x.shape, None, max(0, -shift)))
        out = made(rt, "runtime_view", in_=base, **geometry(case.shape, None, max(0, shift)))
        first.write(values)

        status = rt.call(case.function, **{**arguments, name: first, "out": out}).status()

        assert status == "SUCCESS" and np.array_equal(out.numpy(), expected)


@clause("KINA-TENSOR-30", "2d933e5c")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_overlap_is_judged_by_address_on_foreign_memory(rt: Executor, case: Case) -> None:
    name = inputs_of(case, rt)[0]
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
    buffer = rt.tensor("f32", (64,))
    x, out = (_placed(rt, buffer, shape, at) for shape, at in ((arguments[name].shape, 0), (case.shape, 2)))
    x.write(arguments[name].numpy())
    call = rt.call(case.function, **{**arguments, name: x, "out": case.out(rt)})

    call.refuses("OVERLAP", out=out, argument="out")


def _placed(rt: Executor, buffer: Tensor, shape: tuple[int, ...], at: int) -> Tensor:
    """A borrowed tensor `at` elements into the buffer of another one, with a storage of its own."""
    tensor = rt.tensor("f32", shape)
    tensor.buffer = None
    tensor.keep.append(buffer)
    tensor.struct.dl.data = rt.ffi.cast("void *", buffer.address + 4 * at)
    return tensor


@clause("KINA-TENSOR-31", "aaeaa17d")
@pytest.mark.needs("sim")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_operands_on_different_devices_are_refused(rt: Executor, case: Case) -> None:
    call = case.call(rt, out=case.out(rt))
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}

    for name in inputs_of(case, rt)[1:]:
        elsewhere = made(rt, "runtime_copy_to_device", in_=arguments[name], device_id=0)
        change: dict[str, Any] = {name: elsewhere}
        call.refuses("DEVICE_MISMATCH", clause="KINA-TENSOR-31", **change)


@clause("KINA-TENSOR-26", "eebbf8de")
@pytest.mark.needs("sim")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_an_out_on_another_device_is_refused(rt: Executor, case: Case) -> None:
    call = case.call(rt, out=case.out(rt))
    elsewhere = made(rt, "runtime_copy_to_device", in_=rt.tensor("f32", case.shape), device_id=0)

    call.refuses("DEVICE_MISMATCH", out=elsewhere, argument="out")


@clause("KINA-TENSOR-31", "aaeaa17d")
@pytest.mark.parametrize("function", ["runtime_alloc", "runtime_wrap"])
def test_a_call_that_names_two_devices_is_refused(rt: Executor, function: str) -> None:
    stream = main_stream(rt)
    source = rt.tensor("f32", (2, 3))
    elsewhere = rt.tensor("f32", (2, 3))
    elsewhere.struct.dl.device.device_type = 2
    if function == "runtime_alloc":
        rt.call(function, **{**ALLOC, "stream": stream}).refuses("DEVICE_MISMATCH", device_type=2)
    else:
        call = rt.call(function, source=source, size_bytes=24, stream=stream, flags=0)
        call.refuses("DEVICE_MISMATCH", source=elsewhere)


@clause("KINA-TENSOR-32", "3cfb9a89")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_an_operation_with_a_failed_input_does_not_run(rt: Executor, case: Case) -> None:
    for name in inputs_of(case, rt):
        arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
        tensor = arguments[name]
        for out in (None, case.out(rt), case.out(rt, owned=True)):
            if out is None and case.structural:
                continue  # a view reads nothing
            call = rt.call(case.function, **arguments, **({} if out is None else {"out": out}))
            call.refuses("FAILED_INPUT", within=partial(failed, rt, tensor), argument=name)


@clause("KINA-TENSOR-33", "3c069acf")
def test_every_bool_byte_but_zero_is_true(rt: Executor) -> None:
    x = rt.tensor("bool", (256,))
    x.raw()[...] = np.arange(256, dtype=np.uint8)

    y = made(rt, "runtime_gpu_unary", in_=x, op="KINA_UNARY_LOGICAL_NOT")
    z = made(rt, "runtime_gpu_cast", in_=x, target="i32")

    assert y.numpy().tolist() == [True] + [False] * 255
    assert z.numpy().tolist() == [0] + [1] * 255


@clause("KINA-TENSOR-34", "af13cd19")
@pytest.mark.parametrize("case", OPERATIONS, ids=str)
def test_out_is_an_inputs_struct_only_where_exact_overlap_is_legal(rt: Executor, case: Case) -> None:
    name = inputs_of(case, rt)[0]
    arguments = {k.rstrip("_"): v for k, v in case.make(rt).items()}
    both = rt.empty()
    call = rt.call(case.function, **arguments)

    change: dict[str, Any] = {name: both, "out": both}
    call.refuses("INVALID_ARGUMENT", as_one="one empty struct for both", **change)
    if case.in_place:
        assert rt.call(case.function, out=arguments[name], **arguments).status() == "SUCCESS"
    else:
        tensor = rt.tensor("f32", arguments[name].shape, owned=True)
        status = rt.call(case.function, **{**arguments, name: tensor}, out=tensor).status()
        assert status in ({"OVERLAP"} if tensor.shape == case.shape else {"OVERLAP", "INVALID_SHAPE"})


# ---- alloc -----------------------------------------------------------------------------------------------------------


@clause("KINA-TENSOR-35", "14739059")
@given(dtype=all_dtypes, shape=shapes((0, 6)))
def test_alloc_makes_a_compact_tensor(rt: Executor, dtype: str, shape: tuple[int, ...]) -> None:
    tensor = rt.alloc(dtype, shape)

    assert tensor.shape == shape and tensor.dtype == dtype and tensor.device == (1, 0)
    assert tensor.strides == compact(shape) and tensor.struct.dl.byte_offset == 0
    assert tensor.flags == rt.constant("KINA_FLAG_OWNED")
    assert tensor.size_bytes == tensor.elements * DTYPES[dtype].bytes


@clause("KINA-TENSOR-36", "d6107b42")
@given(dtype=all_dtypes, count=st.integers(1, 5000))
def test_storage_is_aligned_to_256_bytes(rt: Executor, dtype: str, count: int) -> None:
    assert rt.alloc(dtype, (count,)).data % 256 == 0


@clause("KINA-TENSOR-37", "08ef1cf5")
def test_bytes_come_from_the_current_resource_on_the_stream(rt: Executor) -> None:
    blocks, stream = Blocks(rt), rt.call("runtime_stream_checkout", 1, 0).succeeds().out
    current = rt.call("runtime_stream_current", 1, 0).succeeds().out

    with blocks.pushed():
        ambient = made(rt, "runtime_alloc", **ALLOC)
        given_ = made(rt, "runtime_alloc", **{**ALLOC, "stream": stream})
    scope = rt.call("runtime_stream_push", stream).succeeds().out
    pushed = made(rt, "runtime_alloc", **ALLOC)
    rt.call("runtime_scope_pop", scope).succeeds()

    assert [size for _, size, _ in blocks.given] == [24, 24]
    assert {ambient.data, given_.data} == set(blocks.live)
    assert ambient.struct.allocator == blocks.borrowed.cdata
    streams = [int(rt.ffi.cast("uintptr_t", t.struct.stream)) for t in (ambient, given_, pushed)]
    assert streams == [current.value, stream.value, stream.value]
    rt.call("runtime_free", tensor=ambient).succeeds()
    rt.call("runtime_free", tensor=given_).succeeds()


@clause("KINA-TENSOR-38", "4b80bbbf")
def test_a_tensor_of_zero_bytes_takes_no_block(rt: Executor) -> None:
    blocks = Blocks(rt)

    with blocks.pushed(), rt.limited(0):
        empty = rt.alloc("f32", (3, 0))

    assert not blocks.given and empty.size_bytes == 0 and empty.data == 0


@clause("KINA-TENSOR-39", "97c3dc3d")
@pytest.mark.parametrize("ndim", [1, 2, 32])
def test_a_null_shape_is_refused_unless_the_rank_is_0(rt: Executor, ndim: int) -> None:
    for call in (
        rt.call("runtime_alloc", **{**ALLOC, "shape": (1,) * ndim, "ndim": ndim}),
        rt.call("runtime_view", rt.alloc("f32", (4,)), **geometry((1,) * ndim)),
    ):
        call.refuses("INVALID_ARGUMENT", shape=None, clause="KINA-TENSOR-39", argument="shape")


@clause("KINA-TENSOR-39", "97c3dc3d")
def test_with_rank_0_shape_and_strides_are_not_read(rt: Executor) -> None:
    nowhere = rt.ffi.cast("int64_t *", 16)
    base = rt.tensor("f32", (4,), [1, 2, 3, 4], owned=True)

    for shape in (None, nowhere):
        tensor = made(rt, "runtime_alloc", **{**ALLOC, "shape": shape, "ndim": 0})
        view = made(rt, "runtime_view", in_=base, shape=shape, strides=shape, ndim=0, offset_elements=2, flags=0)
        assert tensor.shape == () and tensor.size_bytes == 4
        assert view.shape == () and view.numpy() == 3


@clause("KINA-TENSOR-40", "1285afb9")
@pytest.mark.parametrize("function", ["runtime_alloc", "runtime_wrap", "runtime_tensor_record_use"])
def test_a_stream_of_another_device_is_refused(rt: Executor, function: str) -> None:
    stream = main_stream(rt)
    elsewhere = rt.tensor("f32", (2, 3))
    elsewhere.struct.dl.device.device_type = 2
    calls: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "runtime_alloc": ({**ALLOC, "stream": stream}, {"device_type": 2}),
        "runtime_wrap": (
            {"source": rt.tensor("f32", (2, 3)), "size_bytes": 24, "stream": stream, "flags": 0},
            {"source": elsewhere},
        ),
        "runtime_tensor_record_use": (
            {"tensor": rt.alloc("f32", (2, 3)), "stream": stream, "access": "KINA_ACCESS_READ"},
            {"tensor": elsewhere},
        ),
    }
    arguments, change = calls[function]

    rt.call(function, **arguments).refuses("DEVICE_MISMATCH", clause="KINA-TENSOR-40", argument="stream", **change)


@clause("KINA-TENSOR-41", "74f9daa3")
@pytest.mark.parametrize("device_type", [3, 13])
def test_page_locked_and_managed_memory_need_the_feature(rt: Executor, device_type: int) -> None:
    if rt.offers("cuda"):
        assert rt.call("runtime_alloc", **{**ALLOC, "device_type": device_type}).status() in {"SUCCESS", "UNSUPPORTED"}
        return
    rt.call("runtime_alloc", **ALLOC).refuses("UNSUPPORTED", device_type=device_type, argument="device_type")


@clause("KINA-STATUS-23", "54af5684")
def test_alloc_refuses_null_pointers_and_dead_streams(rt: Executor) -> None:
    call = rt.call("runtime_alloc", **ALLOC)

    call.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out")
    call.refuses("INVALID_HANDLE", stream=rt.handle("KinaStream", 12345), clause="KINA-STATUS-26", argument="stream")


@clause("KINA-STATUS-24", "b7c8e81b")
def test_alloc_refuses_devices_that_are_not_there(rt: Executor) -> None:
    call = rt.call("runtime_alloc", **ALLOC)

    for device_id in (-1, 1 << 20, -(1 << 31)):
        call.refuses("INVALID_ARGUMENT", device_id=device_id, clause="KINA-STATUS-24", argument="device_id")
    for device_type in (0, 4, 99, -1):
        call.refuses("UNSUPPORTED", device_type=device_type, clause="KINA-STATUS-24", argument="device_type")


@clause("KINA-STATUS-25", "baced594")
@pytest.mark.parametrize("shape", [(1 << 62, 4), (1 << 31, 1 << 31), (1 << 61,), ((1 << 63) - 1,), (0, 1 << 62, 4)])
def test_alloc_refuses_shapes_that_overflow(rt: Executor, shape: tuple[int, ...]) -> None:
    rt.call("runtime_alloc", **ALLOC).refuses(
        "INVALID_SHAPE", shape=shape, ndim=len(shape), as_one="a shape with its rank", clause="KINA-STATUS-25"
    )


@clause("KINA-STATUS-44", "01bc6644")
def test_alloc_reports_an_exhausted_resource_with_the_bytes_asked_for(rt: Executor) -> None:
    record = rt.call("runtime_alloc", **ALLOC).refuses("OUT_OF_MEMORY", within=rt.limited, clause="KINA-STATUS-44")

    assert record.requested_bytes == 24


@clause("KINA-STATUS-44", "01bc6644")
def test_alloc_passes_on_what_a_resource_refuses_with(rt: Executor) -> None:
    record = rt.call("runtime_alloc", **ALLOC).refuses(
        "OUT_OF_MEMORY", shape=(1 << 50,), ndim=1, as_one="a shape with its rank"
    )

    assert record.requested_bytes == 1 << 52


@clause("KINA-RESOURCE-63", "b6cf1ad0")
@pytest.mark.parametrize("status", ["DEVICE", "DEVICE_LOST", "OUT_OF_MEMORY"])
def test_alloc_answers_what_a_custom_resource_answers(rt: Executor, status: str) -> None:
    class Refusing(Blocks):
        refusing = False

        def _allocate(self, out: Any, context: Any, size: int, alignment: int, stream: Any) -> int:
            if self.refusing:
                return self.rt.lib.status(status)
            return super()._allocate(out, context, size, alignment, stream)

    blocks = Refusing(rt)
    call = rt.call("runtime_alloc", **ALLOC)
    with blocks.pushed():
        call.succeeds()
        blocks.refusing = True
        call.refuses(status, control=False)
    rt.release_since(0)


# ---- free ------------------------------------------------------------------------------------------------------------


@clause("KINA-TENSOR-42", "b89a6e95")
def test_free_makes_the_struct_empty_and_the_handle_dead(rt: Executor) -> None:
    tensor = rt.alloc("f32", (4,))
    copy = tensor.copy()

    rt.call("runtime_free", tensor=tensor).succeeds()

    assert tensor.struct_bytes() == bytes(96)
    rt.call("runtime_alias", rt.alloc("f32", (4,))).refuses("INVALID_HANDLE", in_=_blind(rt, copy))


def _blind(rt: Executor, tensor: Tensor) -> Tensor:
    """The struct of a dead tensor, without the address that nobody may read any more."""
    tensor.struct.dl.data = rt.ffi.NULL
    tensor.struct.dl.ndim = 0
    tensor.struct.size_bytes = 0
    return tensor


@clause("KINA-STATUS-23", "54af5684")
def test_free_refuses_null(rt: Executor) -> None:
    call = rt.call("runtime_free", tensor=lambda: rt.alloc("f32", (2,)))

    call.refuses("INVALID_ARGUMENT", tensor=None, clause="KINA-STATUS-23", argument="tensor")


@clause("KINA-TENSOR-43", "e7d6f4c5")
@given(
    count=st.integers(1, 4),
    size=st.integers(1, 700),
    order=st.permutations(range(5)),
    released=st.booleans(),
)
def test_the_last_free_gives_the_bytes_back_once(
    rt: Executor, count: int, size: int, order: list[int], released: bool
) -> None:
    blocks = Blocks(rt)
    with blocks.pushed():
        tensors = [rt.alloc("u8", (size,))]
    tensors += [made(rt, "runtime_alias", in_=tensors[0]) for _ in range(count)]
    if released:
        rt.call("runtime_resource_release", blocks.resource).succeeds()
        rt.forget([blocks.resource])

    for i in [i for i in order if i <= count]:
        assert not blocks.returned
        rt.call("runtime_free", tensor=tensors[i]).succeeds()

    assert blocks.returned == blocks.given and blocks.given[0][1] == size
    assert blocks.destroyed == (1 if released else 0)


@clause("KINA-TENSOR-44", "acb84947")
def test_while_another_tensor_lives_nothing_is_given_back(rt: Executor) -> None:
    blocks = Blocks(rt)
    with blocks.pushed():
        tensor = rt.tensor("f32", (4,), [1, 2, 3, 4], owned=True)
    view = made(rt, "runtime_view", in_=tensor, **geometry((2,), None, 1))

    rt.call("runtime_free", tensor=tensor).succeeds()

    assert not blocks.returned and view.numpy().tolist() == [2, 3]
    assert made(rt, "runtime_gpu_unary", in_=view, op="KINA_UNARY_NEG").numpy().tolist() == [-2, -3]
    rt.call("runtime_free", tensor=view).succeeds()


@clause("KINA-TENSOR-45", "2e1fdc26")
def test_freeing_a_borrowed_tensor_touches_no_memory_behind_it(rt: Executor) -> None:
    for flaw in BORROWED_FLAWS:
        tensor = flaw.on(rt)
        tensor.struct.dl.data = rt.ffi.cast("void *", 16)
        tensor.struct.dl.shape = rt.ffi.cast("int64_t *", 16)
        tensor.struct.dl.strides = rt.ffi.cast("int64_t *", 16)

        assert rt.lib.status_name(rt.function("runtime_free")(tensor.struct)) == "SUCCESS"
        assert tensor.struct_bytes() == bytes(96)


@clause("KINA-TENSOR-46", "4fca22c2")
def test_nothing_keeps_a_live_tensor_from_being_freed(rt: Executor) -> None:
    tensor = rt.tensor("f32", (2, 3), owned=True)
    rt.call("runtime_weak_create", tensor).succeeds()
    rt.call("runtime_peer_share", tensor).succeeds()
    read_only = made(rt, "runtime_view", in_=tensor, **{**geometry((2,)), "flags": rt.constant("KINA_FLAG_READ_ONLY")})
    rt.call("runtime_failure_set", tensor=tensor, cause=0, status="DEVICE", message=None).succeeds()

    rt.call("runtime_free", tensor=read_only).succeeds()
    rt.call("runtime_free", tensor=tensor).succeeds()


# ---- view and alias --------------------------------------------------------------------------------------------------


@clause("KINA-TENSOR-47", "b3f7c5e0")
@given(dtype=all_dtypes, shape=shapes((0, 4), [1, 2, 3, 5]), data=st.data(), owned=st.booleans())
def test_a_view_shows_bytes_of_its_source(
    rt: Executor, dtype: str, shape: tuple[int, ...], data: st.DataObject, owned: bool
) -> None:
    base = rt.tensor(dtype, (4096,), owned=owned)
    base.raw()[...] = np.arange(4096).astype(base.raw().dtype)
    strides, gap = data.draw(layouts(shape))
    steps = strides or compact(shape)
    low, high = span(shape, steps)
    place = gap - low
    if high - low + gap >= 4096:
        return

    view = made(rt, "runtime_view", in_=base, **geometry(shape, strides, place))

    lowest = base.raw()[gap : gap + high - low + 1]
    item = DTYPES[dtype].bytes
    moves = [s * item if n > 1 else 0 for n, s in zip(shape, steps, strict=True)]
    expected = np.ndarray(shape, base.raw().dtype, np.ascontiguousarray(lowest), -low * item, moves)
    assert view.dtype == dtype and view.shape == shape and view.device == base.device
    assert view.raw().tobytes() == expected.tobytes()
    assert view.address == base.address + place * item
    assert view.size_bytes == base.size_bytes and view.struct.allocator == base.struct.allocator


@clause("KINA-TENSOR-47", "b3f7c5e0")
def test_writes_through_a_view_are_seen_by_its_source(rt: Executor) -> None:
    base = rt.tensor("i32", (6,), 0, owned=True)
    view = made(rt, "runtime_view", in_=base, **geometry((3,), (2,), 1))

    rt.call("runtime_fill", tensor=view, value=(7).to_bytes(4, "little"), value_bytes=4).succeeds()

    assert base.numpy().tolist() == [0, 7, 0, 7, 0, 7]


@clause("KINA-TENSOR-48", "8cd606bf")
@given(shape=shapes((0, 5)))
def test_null_strides_of_a_view_are_compact(rt: Executor, shape: tuple[int, ...]) -> None:
    base = rt.alloc("u8", (4096,))

    assert made(rt, "runtime_view", in_=base, **geometry(shape)).strides == compact(shape)


@clause("KINA-TENSOR-49", "560f38fc")
def test_strides_and_offset_may_be_negative_and_strides_zero(rt: Executor) -> None:
    base = rt.tensor("i32", (6,), [0, 1, 2, 3, 4, 5], owned=True)
    tail = made(rt, "runtime_view", in_=base, **geometry((6,), (-1,), 5))

    again = made(rt, "runtime_view", in_=tail, **geometry((2, 2), (0, -1), -2))

    assert tail.numpy().tolist() == [5, 4, 3, 2, 1, 0]
    assert again.numpy().tolist() == [[3, 2], [3, 2]]
    assert made(rt, "runtime_view", in_=tail, **geometry((2,), None, -5)).numpy().tolist() == [0, 1]


OUTSIDE = [
    ((7,), None, 0),
    ((6,), None, 1),
    ((1,), None, 6),
    ((1,), None, -1),
    ((2,), (-1,), 0),
    ((2,), (6,), 0),
    ((3, 2), (2, 2), 0),
    ((0,), None, 7),
    ((0,), None, -1),
    ((1,), None, (1 << 63) - 1),
    ((1,), None, -(1 << 63)),
    ((2,), (1 << 60,), 0),
]


@clause("KINA-TENSOR-50", "595c12c2")
@pytest.mark.parametrize(("shape", "strides", "offset"), OUTSIDE, ids=str)
@pytest.mark.parametrize("owned", [True, False])
def test_a_view_outside_the_hull_of_its_source_is_refused(
    rt: Executor, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int, owned: bool
) -> None:
    base = rt.tensor("i32", (12,), owned=owned)
    inner = made(rt, "runtime_view", in_=base, **geometry((6,), None, 3))
    call = rt.call("runtime_view", inner, **geometry((6,)))

    call.refuses(
        "INVALID_SHAPE",
        shape=shape,
        strides=strides,
        ndim=len(shape),
        offset_elements=offset,
        as_one="the place of the view",
        clause="KINA-TENSOR-50",
    )


@clause("KINA-STATUS-25", "baced594")
@pytest.mark.parametrize(
    ("shape", "strides"),
    [((2,), ((1 << 63) - 1,)), ((3,), (-(1 << 62),)), ((1 << 40, 1 << 40), (0, 0)), ((2, 2), ((1 << 62) - 1,) * 2)],
    ids=str,
)
def test_a_view_whose_geometry_overflows_is_refused(
    rt: Executor, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    call = rt.call("runtime_view", rt.alloc("i32", (6,)), **geometry((6,)))

    call.refuses("INVALID_SHAPE", shape=shape, strides=strides, ndim=len(shape), as_one="a geometry")


@clause("KINA-TENSOR-50", "595c12c2")
def test_an_empty_view_may_lie_at_the_end(rt: Executor) -> None:
    base = rt.alloc("i32", (6,))

    for offset in (0, 3, 6):
        assert made(rt, "runtime_view", in_=base, **geometry((0, 5), None, offset)).elements == 0
    empty = made(rt, "runtime_view", in_=base, **geometry((0,), None, 2))
    call = rt.call("runtime_view", empty, **geometry((0, 7)))
    call.refuses("INVALID_SHAPE", offset_elements=1)
    call.refuses("INVALID_SHAPE", shape=(1, 7), clause="KINA-TENSOR-50")


@clause("KINA-TENSOR-51", "5e52120a")
@pytest.mark.parametrize("bit", [b for b in range(32) if b != 4])
def test_read_only_is_the_only_flag_to_ask_for(rt: Executor, bit: int) -> None:
    view = rt.call("runtime_view", rt.alloc("i32", (6,)), **geometry((6,)))
    wrap = rt.call("runtime_wrap", source=rt.tensor("f32", (3,)), size_bytes=12, stream=None, flags=0)

    view.refuses("UNSUPPORTED", flags=1 << bit, clause="KINA-TENSOR-51", argument="flags")
    wrap.refuses("UNSUPPORTED", flags=1 << bit, clause="KINA-TENSOR-51", argument="flags")


@clause("KINA-TENSOR-51", "5e52120a")
def test_read_only_can_be_asked_for(rt: Executor) -> None:
    flag = rt.constant("KINA_FLAG_READ_ONLY")
    view = made(rt, "runtime_view", in_=rt.alloc("i32", (6,)), **{**geometry((6,)), "flags": flag})
    borrowed = wrapped(rt, rt.tensor("i32", (6,)), flags=flag)
    fill = rt.call("runtime_fill", tensor=rt.out("i32", (6,)), value=b"\0\0\0\0", value_bytes=4)

    assert view.flags & flag and borrowed.flags & flag
    fill.refuses("READ_ONLY", tensor=view)
    fill.refuses("READ_ONLY", tensor=borrowed)


@clause("KINA-TENSOR-52", "d99534de")
@pytest.mark.parametrize("maker", ["runtime_view", "runtime_alias"])
def test_a_view_or_alias_outlives_its_source(rt: Executor, maker: str) -> None:
    base = rt.tensor("i32", (3,), [1, 2, 3], owned=True)
    other = made(rt, maker, in_=base, **(geometry((3,)) if maker == "runtime_view" else {}))

    rt.call("runtime_free", tensor=base).succeeds()

    assert other.numpy().tolist() == [1, 2, 3]
    rt.call("runtime_fill", tensor=other, value=(9).to_bytes(4, "little"), value_bytes=4).succeeds()
    assert other.numpy().tolist() == [9, 9, 9]


@clause("KINA-TENSOR-53", "1ff8fd69")
@given(dtype=all_dtypes, shape=shapes((0, 4)), data=st.data(), owned=st.booleans())
def test_an_alias_is_a_second_tensor_of_the_same_geometry(
    rt: Executor, dtype: str, shape: tuple[int, ...], data: st.DataObject, owned: bool
) -> None:
    strides, offset = data.draw(layouts(shape, writable=True))
    tensor = rt.tensor(dtype, shape, strides=strides, offset=offset, owned=owned)

    alias = made(rt, "runtime_alias", in_=tensor)

    assert alias.handle not in {0, tensor.handle} and alias.flags == tensor.flags
    assert alias.shape == tensor.shape and alias.strides == tensor.strides and alias.dtype == dtype
    assert alias.address == tensor.address or not tensor.elements
    assert alias.raw().tobytes() == tensor.raw().tobytes()


@clause("KINA-TENSOR-54", "77fb2eb2")
@pytest.mark.parametrize("maker", ["runtime_view", "runtime_alias", "runtime_gpu_transpose"])
def test_what_is_made_of_a_borrowed_tensor_needs_only_its_bytes(rt: Executor, maker: str) -> None:
    source = rt.tensor("i32", (2, 3), [[1, 2, 3], [4, 5, 6]])
    more = {"runtime_view": geometry((2, 3)), "runtime_alias": {}, "runtime_gpu_transpose": {"permutation": (0, 1)}}
    other = made(rt, maker, in_=source, **more[maker])
    source.struct.dl.shape[0] = source.struct.dl.strides[0] = 1 << 40
    rt.ffi.memmove(source.struct, bytes(96), 96)

    assert other.handle != 0 and other.shape == (2, 3) and other.data == source.buffer.address  # type: ignore[union-attr]
    assert made(rt, "runtime_gpu_unary", in_=other, op="KINA_UNARY_NEG").numpy().tolist() == [
        [-1, -2, -3],
        [-4, -5, -6],
    ]
    rt.call("runtime_free", tensor=other).succeeds()


@clause("KINA-TENSOR-55", "4e252ed0")
@given(shape=shapes((0, 4), [1, 2, 3, 5]), data=st.data())
def test_nested_strides_leave_a_tensor_writable(rt: Executor, shape: tuple[int, ...], data: st.DataObject) -> None:
    strides, offset = data.draw(layouts(shape, writable=True))
    base = rt.alloc("u8", (4096,))
    low, high = span(shape, strides or compact(shape))
    if high - low + offset >= 4096:
        return

    view = made(rt, "runtime_view", in_=base, **geometry(shape, strides, offset - low))

    assert not view.flags & rt.constant("KINA_FLAG_READ_ONLY")


@clause("KINA-TENSOR-56", "65e8ea45")
def test_interleaved_strides_may_be_read_only(rt: Executor) -> None:
    base = rt.tensor("i32", (16,), list(range(16)), owned=True)

    view = made(rt, "runtime_view", in_=base, **geometry((3, 2), (2, 3)))

    assert view.flags in {rt.constant("KINA_FLAG_VIEW"), rt.constant("KINA_FLAG_VIEW") | 16}
    assert view.numpy().tolist() == [[0, 3], [2, 5], [4, 7]]


@clause("KINA-STATUS-23", "54af5684")
def test_view_and_alias_refuse_null_pointers(rt: Executor) -> None:
    view = rt.call("runtime_view", rt.alloc("i32", (6,)), **geometry((6,)))
    alias = rt.call("runtime_alias", rt.alloc("i32", (6,)))

    for call in (view, alias):
        call.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out")
        call.refuses("INVALID_ARGUMENT", in_=None, clause="KINA-STATUS-23", argument="in")


# ---- wrap ------------------------------------------------------------------------------------------------------------


@clause("KINA-TENSOR-57", "61f7ceda")
@given(dtype=all_dtypes, shape=shapes((0, 4)), data=st.data(), tail=st.integers(0, 9))
def test_wrap_makes_a_borrowed_tensor(
    rt: Executor, dtype: str, shape: tuple[int, ...], data: st.DataObject, tail: int
) -> None:
    strides, offset = data.draw(layouts(shape, writable=True))
    source = rt.tensor(dtype, shape, strides=strides, offset=offset, tail=tail)

    tensor = wrapped(rt, source)

    assert tensor.struct_bytes()[:48] == source.struct_bytes()[:48]
    assert tensor.handle == 0 and tensor.flags == rt.constant("KINA_FLAG_BORROWED")
    assert tensor.struct.allocator == rt.ffi.NULL and tensor.size_bytes == source.size_bytes
    assert made(rt, "runtime_copy_to_host", in_=tensor).raw().tobytes() == source.raw().tobytes()


@clause("KINA-TENSOR-57", "61f7ceda")
def test_wrap_keeps_null_strides(rt: Executor) -> None:
    source = rt.tensor("i32", (2, 3))
    source.struct.dl.strides = rt.ffi.NULL

    tensor = wrapped(rt, source)

    assert tensor.struct.dl.strides == rt.ffi.NULL and tensor.strides == (3, 1)


@clause("KINA-TENSOR-58", "bd7e7a18")
def test_wrap_names_the_stream_given_or_the_current_one(rt: Executor) -> None:
    stream = rt.call("runtime_stream_checkout", 1, 0).succeeds().out
    current = rt.call("runtime_stream_current", 1, 0).succeeds().out
    source = rt.tensor("f32", (3,))

    given_ = wrapped(rt, source, stream=stream)
    ambient = wrapped(rt, source)

    assert int(rt.ffi.cast("uintptr_t", given_.struct.stream)) == stream.value
    assert int(rt.ffi.cast("uintptr_t", ambient.struct.stream)) == current.value


GEOMETRY_FLAWS = [f for f in FLAWS if f.clause not in {f"KINA-TENSOR-{n}" for n in (2, 3, 4, 23)}]


@clause("KINA-TENSOR-59", "4d7e34b5")
@pytest.mark.parametrize("flaw", GEOMETRY_FLAWS, ids=str)
def test_wrap_refuses_what_would_be_no_valid_tensor(rt: Executor, flaw: Flaw) -> None:
    call = rt.call("runtime_wrap", source=rt.tensor("f32", (2, 3), tail=8), size_bytes=32, stream=None, flags=0)
    wrong = flaw.on(rt)

    if flaw.name == "ends outside":
        call.refuses("INVALID_SHAPE", size_bytes=23, clause=flaw.clause, argument="source")
    else:
        call.refuses(flaw.status, source=wrong, clause=flaw.clause, argument="source")


@clause("KINA-STATUS-23", "54af5684")
def test_wrap_refuses_null_pointers_and_dead_streams(rt: Executor) -> None:
    call = rt.call("runtime_wrap", source=rt.tensor("f32", (2, 3)), size_bytes=24, stream=None, flags=0)

    call.refuses("INVALID_ARGUMENT", out=None, clause="KINA-STATUS-23", argument="out")
    call.refuses("INVALID_ARGUMENT", source=None, clause="KINA-STATUS-23", argument="source")
    call.refuses("INVALID_HANDLE", stream=rt.handle("KinaStream", 7), clause="KINA-STATUS-26", argument="stream")


@clause("KINA-TENSOR-60", "2140a6e0")
def test_a_borrowed_tensor_is_checked_by_every_call(rt: Executor) -> None:
    source = rt.tensor("f32", (2, 3))
    tensor = wrapped(rt, source)
    tensor.buffer = None

    for change in ({"size_bytes": 23}, {"size_bytes": 24}):
        tensor.struct.size_bytes = change["size_bytes"]
        expected = "SUCCESS" if change["size_bytes"] == 24 else "INVALID_SHAPE"
        assert rt.call("runtime_tensor_synchronize", tensor).status() == expected


@clause("KINA-STATUS-24", "b7c8e81b")
@pytest.mark.parametrize("case", READERS, ids=str)
def test_a_borrowed_tensor_on_a_device_that_is_not_there_is_refused(rt: Executor, case: Case) -> None:
    for flaw in FLAWS:
        is_alone = (
            len(inputs_of(case, rt)) < 2 or flaw.name == "no such device"
        )  # else the inputs are on two devices too
        if flaw.clause == "KINA-STATUS-24" and is_alone and not case.function.endswith("overlap"):
            flawed(rt, case, flaw, flaw.status)


@clause("KINA-STATUS-25", "baced594")
@pytest.mark.parametrize("case", READERS, ids=str)
def test_a_borrowed_geometry_that_overflows_is_refused(rt: Executor, case: Case) -> None:
    for flaw in FLAWS:
        if flaw.clause == "KINA-STATUS-25":
            flawed(rt, case, flaw, "INVALID_SHAPE")


# ---- synchronize and record_use --------------------------------------------------------------------------------------


@clause("KINA-TENSOR-61", "d4e9c326")
@pytest.mark.parametrize("owned", [True, False])
def test_synchronize_succeeds_on_good_bytes(rt: Executor, owned: bool) -> None:
    rt.call("runtime_tensor_synchronize", rt.tensor("f32", (2, 3), owned=owned)).succeeds()


@clause("KINA-TENSOR-61", "d4e9c326")
def test_synchronize_looks_at_the_bytes_under_the_elements_alone(rt: Executor) -> None:
    base = rt.tensor("f32", (4, 2), owned=True)
    left, right = (made(rt, "runtime_view", in_=base, **geometry((4,), (2,), i)) for i in (0, 1))

    with failed(rt, right):
        rt.call("runtime_tensor_synchronize", left).succeeds()


@clause("KINA-TENSOR-62", "710fc2cb")
def test_synchronize_reports_a_failure_and_repairs_nothing(rt: Executor) -> None:
    tensor = rt.tensor("f32", (2, 3), owned=True)
    call = rt.call("runtime_tensor_synchronize", tensor)

    call.refuses("FAILED_INPUT", within=partial(failed, rt, tensor), clause="KINA-TENSOR-62", argument="tensor")
    with failed(rt, tensor) as failure:
        for _ in range(2):
            assert call.status() == "FAILED_INPUT" and rt.record().failure == failure


@clause("KINA-TENSOR-63", "6999dce4")
@pytest.mark.parametrize("access", ["KINA_ACCESS_READ", "KINA_ACCESS_WRITE", "KINA_ACCESS_READ_WRITE"])
def test_a_recorded_use_is_accepted_on_any_stream_of_the_device(rt: Executor, access: str) -> None:
    stream = rt.call("runtime_stream_checkout", 1, 0).succeeds().out
    tensor = rt.tensor("f32", (2, 3), owned=True)

    for used in (tensor, made(rt, "runtime_alias", in_=rt.tensor("f32", (2, 3)))):
        rt.call("runtime_tensor_record_use", used, stream=stream, access=access).succeeds()
    rt.call("runtime_tensor_synchronize", tensor).succeeds()


@memory_case("P09")
@clause("KINA-TENSOR-64", "297abb96")
def test_a_use_of_a_borrowed_tensor_is_not_recorded(rt: Executor) -> None:
    call = rt.call("runtime_tensor_record_use", rt.alloc("f32", (2,)), stream=None, access="KINA_ACCESS_READ")

    call.refuses("UNSUPPORTED", tensor=rt.tensor("f32", (2,)), clause="KINA-TENSOR-64", argument="tensor")


@clause("KINA-TENSOR-65", "b22a502c")
def test_a_recorded_use_repairs_and_fails_nothing(rt: Executor) -> None:
    tensor = rt.tensor("f32", (2, 3), owned=True)
    use = rt.call("runtime_tensor_record_use", tensor, stream=None, access="KINA_ACCESS_WRITE")

    use.succeeds()
    rt.call("runtime_tensor_synchronize", tensor).succeeds()
    with failed(rt, tensor):
        use.succeeds()
        assert rt.call("runtime_tensor_synchronize", tensor).status() == "FAILED_INPUT"


@clause("KINA-TENSOR-66", "1b11a6a5")
@pytest.mark.parametrize("access", ["KINA_ACCESS_WRITE", "KINA_ACCESS_READ_WRITE"])
def test_a_write_into_a_read_only_tensor_is_not_recorded(rt: Executor, access: str) -> None:
    read_only = rt.tensor("f32", (2,), owned=True, read_only=True)
    call = rt.call("runtime_tensor_record_use", rt.alloc("f32", (2,)), stream=None, access=access)

    call.refuses("READ_ONLY", tensor=read_only, clause="KINA-TENSOR-66")
    rt.call("runtime_tensor_record_use", read_only, stream=None, access="KINA_ACCESS_READ").succeeds()


@clause("KINA-VERSION-16", "e54fde4b")
@pytest.mark.parametrize("access", [0, 4, -1, 0x40000000])
def test_an_unknown_access_is_refused(rt: Executor, access: int) -> None:
    call = rt.call("runtime_tensor_record_use", rt.alloc("f32", (2,)), stream=None, access="KINA_ACCESS_READ")

    call.refuses("UNSUPPORTED", access=access, clause="KINA-VERSION-16", argument="access")


@clause("KINA-STATUS-23", "54af5684")
def test_stream_calls_refuse_null_tensors_and_dead_streams(rt: Executor) -> None:
    use = rt.call("runtime_tensor_record_use", rt.alloc("f32", (2,)), stream=None, access="KINA_ACCESS_READ")

    use.refuses("INVALID_ARGUMENT", tensor=None, clause="KINA-STATUS-23", argument="tensor")
    use.refuses("INVALID_HANDLE", stream=rt.handle("KinaStream", 7), clause="KINA-STATUS-26", argument="stream")
    rt.call("runtime_tensor_synchronize", rt.alloc("f32", (2,))).refuses("INVALID_ARGUMENT", tensor=None)
