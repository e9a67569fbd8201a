"""Violations made from the tags: each function, each parameter, each kind, one thing changed in a valid call."""

from __future__ import annotations

from typing import Any

import pytest

from kina.header import Parameter
from kina_conformance import Call, Executor, Handle, Tensor, cells, clause
from kina_conformance.bases import NEED_ACCELERATOR, base, has_control, stream
from kina_conformance.cells import Cell, declares, is_handle, is_input, is_operation, nullable, parameters, refuse
from kina_conformance.contract import Function
from kina_conformance.resources import host

ENDS_OPERAND = {"runtime_free"}  # what it is given is ended: borrowed tensors are freed without a look at their bytes


def _pointers(function: Function, parameter: Parameter) -> bool:
    kind = parameter.type
    plain = parameter.is_pointer and kind != "void *"
    return plain and not nullable(function, parameter)


@pytest.mark.parametrize("cell", parameters(_pointers))
@clause("KINA-STATUS-23", "54af5684")
def test_a_null_pointer_that_the_tag_does_not_allow_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_ARGUMENT", None, "KINA-STATUS-23", argument=cell.parameter)


@pytest.mark.parametrize("cell", parameters(lambda f, p: is_handle(p) and not nullable(f, p)))
@clause("KINA-STATUS-28", "649fc08b")
def test_null_where_a_handle_is_demanded_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_ARGUMENT", None, "KINA-STATUS-28", argument=cell.parameter)


@pytest.mark.parametrize("cell", parameters(lambda f, p: is_handle(p), ("made_up", "other_type", "released")))
@clause("KINA-STATUS-26", "4bd48c17")
def test_a_handle_that_names_nothing_of_its_type_is_refused(rt: Executor, cell: Cell) -> None:
    kind = rt.contract.functions[cell.function].prototype.parameter(cell.parameter).type
    if cell.kind == "made_up":
        wrong = rt.handle(kind, 0x5A5A5A5A5A5A)
    elif cell.kind == "other_type":
        wrong = rt.handle(kind, (host(rt) if kind == "KinaStream" else stream(rt)).value)
    else:
        wrong = _released(rt, kind)

    refuse(rt, cell, "INVALID_HANDLE", wrong, "KINA-STATUS-26", argument=cell.parameter)


def _released(rt: Executor, kind: str) -> Handle:
    """A handle of this kind that has ended."""
    ends = {
        "KinaStream": ("runtime_stream_checkin", base(rt, "runtime_stream_checkout")),
        "KinaResource": ("runtime_resource_release", base(rt, "runtime_resource_limit")),
        "KinaScope": ("runtime_scope_pop", base(rt, "runtime_phase_push")),
        "KinaWeak": ("runtime_weak_release", base(rt, "runtime_weak_create")),
        "KinaPeer": ("runtime_peer_release", base(rt, "runtime_peer_share")),
    }
    release, maker = ends[kind]
    handle: Handle = maker.succeeds().out
    rt.call(release, handle).succeeds()
    return handle


# ---- tensors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", parameters(lambda f, p: is_input(p) and f.name != "runtime_free"))
@clause("KINA-TENSOR-2", "9d825a0c")
def test_an_empty_input_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_ARGUMENT", rt.empty(), "KINA-TENSOR-2", argument=cell.parameter)


@pytest.mark.parametrize("cell", parameters(lambda f, p: is_input(p), sorted(cells.BAD_STRUCTS)))
@clause("KINA-TENSOR-3", "4dda0318")
def test_a_struct_with_a_wrong_magic_is_refused(rt: Executor, cell: Cell) -> None:
    made = cells.BAD_STRUCTS[cell.kind]
    refuse(rt, cell, "INVALID_HANDLE", lambda rt, call: made(rt, call, cell.parameter), "KINA-TENSOR-3")


@pytest.mark.parametrize("cell", parameters(lambda f, p: is_input(p)))
@clause("KINA-TENSOR-4", "d3e0cbf9")
def test_a_freed_tensor_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_HANDLE", lambda rt, call: cells.stale(rt, call, cell.parameter), "KINA-TENSOR-4")


@pytest.mark.parametrize("cell", parameters(lambda f, p: is_operation(f) and p.name == "out"))
@clause("KINA-TENSOR-4", "d3e0cbf9")
def test_a_freed_out_is_refused(rt: Executor, cell: Cell) -> None:
    def freed(rt: Executor, _call: Call) -> Tensor:
        twin = rt.tensor("f32", (4, 4), owned=True)
        copy = twin.copy()
        rt.call("runtime_free", twin).succeeds()
        copy.struct.size_bytes = 0
        return copy

    refuse(rt, cell, "INVALID_HANDLE", freed, "KINA-TENSOR-4")


def _borrowable(function: Function, parameter: Parameter) -> bool:
    return is_input(parameter) and function.name not in ENDS_OPERAND


@pytest.mark.parametrize("cell", parameters(_borrowable, sorted(cells.BAD_FLAGS)))
@clause("KINA-TENSOR-23", "edd0a1c2")
def test_a_borrowed_struct_with_fields_of_an_owned_one_is_refused(rt: Executor, cell: Cell) -> None:
    made = cells.BAD_FLAGS[cell.kind]
    refuse(rt, cell, "INVALID_HANDLE", lambda rt, call: made(rt, call, cell.parameter), "KINA-TENSOR-23")


@pytest.mark.parametrize("cell", parameters(_borrowable))
@clause("KINA-TENSOR-19", "4c70d6ea")
def test_a_borrowed_tensor_without_shape_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_ARGUMENT", lambda rt, call: cells.NULL_SHAPE(rt, call, cell.parameter), "KINA-TENSOR-19")


@pytest.mark.parametrize("cell", parameters(_borrowable))
@clause("KINA-TENSOR-20", "1bdd115d")
def test_a_borrowed_tensor_with_elements_and_without_data_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_ARGUMENT", lambda rt, call: cells.NULL_DATA(rt, call, cell.parameter), "KINA-TENSOR-20")


@pytest.mark.parametrize("cell", parameters(_borrowable, sorted(cells.BEYOND)))
@clause("KINA-TENSOR-21", "8dec1558")
def test_a_borrowed_tensor_that_leaves_its_memory_is_refused(rt: Executor, cell: Cell) -> None:
    made = cells.BEYOND[cell.kind]
    refuse(rt, cell, "INVALID_SHAPE", lambda rt, call: made(rt, call, cell.parameter), "KINA-TENSOR-21")


@pytest.mark.parametrize("cell", parameters(_borrowable))
@clause("KINA-TENSOR-22", "95624966")
def test_misaligned_data_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_ARGUMENT", lambda rt, call: cells.MISALIGNED(rt, call, cell.parameter), "KINA-TENSOR-22")


@pytest.mark.parametrize("cell", parameters(_borrowable, sorted(cells.BAD_SHAPES)))
@clause("KINA-TENSOR-15", "7e378526")
def test_an_impossible_rank_or_extent_is_refused(rt: Executor, cell: Cell) -> None:
    made = cells.BAD_SHAPES[cell.kind]
    refuse(rt, cell, "INVALID_SHAPE", lambda rt, call: made(rt, call, cell.parameter), "KINA-TENSOR-15")


@pytest.mark.parametrize("cell", parameters(_borrowable, sorted(cells.OVERFLOWS)))
@clause("KINA-STATUS-25", "baced594")
def test_a_shape_that_overflows_is_refused(rt: Executor, cell: Cell) -> None:
    made = cells.OVERFLOWS[cell.kind]
    value = lambda rt, call: made(rt, call, cell.parameter)  # noqa: E731
    refuse(rt, cell, "INVALID_SHAPE", value, ("KINA-STATUS-25", "KINA-TENSOR-21"))


@pytest.mark.parametrize("cell", parameters(cells.alone_or_first("dtype"), sorted(cells.BAD_DTYPES)))
@clause("KINA-TENSOR-17", "5471aba4")
def test_a_dtype_outside_the_table_is_refused(rt: Executor, cell: Cell) -> None:
    cells.refuse_together(rt, cell, "dtype", cells.BAD_DTYPES[cell.kind], "UNSUPPORTED", "KINA-TENSOR-17")


@pytest.mark.parametrize("cell", parameters(cells.alone_or_first("device"), sorted(cells.NO_DEVICE)))
@clause("KINA-STATUS-24", "b7c8e81b")
def test_a_tensor_on_a_device_type_without_devices_is_refused(rt: Executor, cell: Cell) -> None:
    cells.refuse_together(rt, cell, "device", cells.NO_DEVICE[cell.kind], "UNSUPPORTED", "KINA-STATUS-24")


def _one_of_several(function: Function, parameter: Parameter) -> bool:
    group = cells.agreeing(function, "device")
    return len(group) > 1 and parameter.name in group


@pytest.mark.parametrize("cell", parameters(_one_of_several, sorted(cells.NO_DEVICE)))
@clause("KINA-STATUS-22", "e6e68084")
@clause("KINA-TENSOR-31", "aaeaa17d")
def test_operands_on_different_devices_are_refused_before_the_device_is(rt: Executor, cell: Cell) -> None:
    made = cells.NO_DEVICE[cell.kind]
    refuse(rt, cell, "DEVICE_MISMATCH", lambda rt, call: made(rt, call, cell.parameter), "KINA-TENSOR-31")


# ---- outs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", parameters(lambda f, p: p.name == "out" and f.name in cells.MAKERS))
@clause("KINA-TENSOR-27", "a2a8b2a8")
def test_a_maker_refuses_an_out_that_is_not_empty(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_ARGUMENT", rt.tensor("f32", (4, 4)), "KINA-TENSOR-27", argument="out")


def _written(function: Function, parameter: Parameter) -> bool:
    return is_operation(function) and parameter.name == "out" and function.name not in NEED_ACCELERATOR


@pytest.mark.parametrize("cell", parameters(_written, sorted(cells.OTHER_SHAPES)))
@clause("KINA-TENSOR-26", "eebbf8de")
def test_an_out_of_another_shape_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_SHAPE", cells.OTHER_SHAPES[cell.kind], "KINA-TENSOR-26", argument="out")


@pytest.mark.parametrize("cell", parameters(_written))
@clause("KINA-TENSOR-26", "eebbf8de")
def test_an_out_of_another_dtype_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "INVALID_DTYPE", cells.other_dtype, "KINA-TENSOR-26", argument="out")


@pytest.mark.parametrize("cell", parameters(_written))
@clause("KINA-TENSOR-14", "9c559134")
def test_a_read_only_out_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "READ_ONLY", cells.read_only_out, "KINA-TENSOR-14", argument="out")


@pytest.mark.parametrize("cell", parameters(_written))
@clause("KINA-TENSOR-30", "2d933e5c")
def test_an_out_that_shares_bytes_with_an_input_is_refused(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "OVERLAP", cells.overlapping_out, "KINA-TENSOR-30")


# ---- states -------------------------------------------------------------------------------------------------------


def _first_input(function: Function, parameter: Parameter) -> bool:
    return is_operation(function) and parameter.position == 2 and declares(function, "FAILED_INPUT")


@pytest.mark.parametrize("cell", parameters(_first_input))
@clause("KINA-TENSOR-32", "3cfb9a89")
def test_a_failed_input_stops_the_operation(rt: Executor, cell: Cell) -> None:
    if not has_control(rt, cell.function):
        base(rt, cell.function).refuses("UNSUPPORTED", control=False)
        return
    call = cells.into_out(rt, base(rt, cell.function))
    call.refuses("FAILED_INPUT", within=lambda: cells.failed(rt, call), clause="KINA-TENSOR-32")


MAKES_BYTES = (
    "movement",
    "elementwise",
    "reduction",
    "matmul",
    "indexing",
)


def _allocates(function: Function, parameter: Parameter) -> bool:
    own_bytes = function.chapter in MAKES_BYTES or "concat" in function.name or function.name == "runtime_alloc"
    rows = function.tags.errors if function.tags else {}
    return parameter.position == 1 and own_bytes and "OUT_OF_MEMORY" in rows and not rows["OUT_OF_MEMORY"].injected


@pytest.mark.parametrize("cell", parameters(_allocates))
@clause("KINA-STATUS-44", "01bc6644")
def test_an_exhausted_resource_is_out_of_memory(rt: Executor, cell: Cell) -> None:
    if not has_control(rt, cell.function):
        base(rt, cell.function).refuses("UNSUPPORTED", control=False)
        return
    call = base(rt, cell.function)
    place = call.succeeds().out.device
    record = call.refuses("OUT_OF_MEMORY", within=lambda: rt.limited(device=place), clause="KINA-STATUS-44")

    assert record.requested_bytes > 0


# ---- structs that grow --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", parameters(lambda f, p: cells.struct_of(p) is not None, ("zero", "smaller")))
@clause("KINA-VERSION-11", "40fda338")
def test_a_struct_smaller_than_in_1_0_is_refused(rt: Executor, cell: Cell) -> None:
    _refuse_size(rt, cell, "KINA-VERSION-11")


@pytest.mark.parametrize(
    "cell", parameters(lambda f, p: cells.struct_of(p) is not None, ("odd", "above_the_limit", "huge"))
)
@clause("KINA-VERSION-12", "e9bccee2")
def test_a_struct_size_that_cannot_be_is_refused(rt: Executor, cell: Cell) -> None:
    _refuse_size(rt, cell, "KINA-VERSION-12")


def _refuse_size(rt: Executor, cell: Cell, clause_id: str) -> None:
    parameter = rt.contract.functions[cell.function].prototype.parameter(cell.parameter)
    known = rt.ffi.sizeof(cells.struct_of(parameter))
    size = cells.STRUCT_SIZES[cell.kind](known)
    refuse(rt, cell, "VERSION", lambda rt, call: cells.sized(rt, call, parameter, size), clause_id)


def _option(function: Function, parameter: Parameter) -> bool:
    return cells.struct_of(parameter) is not None and parameter.type.startswith("const ")


@pytest.mark.parametrize("cell", parameters(_option))
@clause("KINA-VERSION-13", "b43e0d18")
def test_an_unknown_tail_that_is_not_zero_is_refused(rt: Executor, cell: Cell) -> None:
    parameter = rt.contract.functions[cell.function].prototype.parameter(cell.parameter)
    size = rt.ffi.sizeof(cells.struct_of(parameter)) + 16
    value = lambda rt, call: cells.sized(rt, call, parameter, size, bytes(15) + b"\1")  # noqa: E731
    refuse(rt, cell, "VERSION", value, "KINA-VERSION-13")


@pytest.mark.parametrize("cell", parameters(_option))
@clause("KINA-VERSION-13", "b43e0d18")
def test_a_longer_struct_whose_tail_is_zero_is_accepted(rt: Executor, cell: Cell) -> None:
    if not has_control(rt, cell.function):
        base(rt, cell.function).refuses("UNSUPPORTED", control=False)
        return
    parameter = rt.contract.functions[cell.function].prototype.parameter(cell.parameter)
    size = rt.ffi.sizeof(cells.struct_of(parameter)) + 64
    call = base(rt, cell.function)

    call.succeeds(**{cell.parameter: cells.sized(rt, call, parameter, size, bytes(64))})


def _has_reserved(function: Function, parameter: Parameter) -> bool:
    name = cells.struct_of(parameter)
    return _option(function, parameter) and name in {"KinaPoolParams", "KinaLoggingParams", "KinaMatmulParams"}


@pytest.mark.parametrize("cell", parameters(_has_reserved))
@clause("KINA-VERSION-14", "7da7fd1f")
def test_a_reserved_field_that_is_not_zero_is_refused(rt: Executor, cell: Cell) -> None:
    value = lambda rt, call: {**call.given[cell.parameter], "reserved": 1}  # noqa: E731
    refuse(rt, cell, "VERSION", value, "KINA-VERSION-14")


FIELDS = {
    "KinaCudaAsyncParams": {"flags": 0x8000},
    "KinaPoolParams": {"flags": 0x8000, "growth": 9},
    "KinaLoggingParams": {"flags": 0x8000, "format": 9},
    "KinaMatmulParams": {"compute": 9, "activation": 0x17F},
    "KinaDlpackParams": {"flags": 0x8000},
}


def _options(field: str) -> list[Any]:
    return parameters(lambda f, p: _option(f, p) and field in FIELDS.get(cells.struct_of(p) or "", {}), (field,))


@pytest.mark.parametrize(
    "cell", [c for field in ("flags", "growth", "format", "compute", "activation") for c in _options(field)]
)
@clause("KINA-VERSION-16", "e54fde4b")
def test_an_unknown_option_value_is_refused(rt: Executor, cell: Cell) -> None:
    parameter = rt.contract.functions[cell.function].prototype.parameter(cell.parameter)
    wrong = FIELDS[cells.struct_of(parameter) or ""][cell.kind]
    value = lambda rt, call: {**call.given[cell.parameter], cell.kind: wrong}  # noqa: E731
    refuse(rt, cell, "UNSUPPORTED", value, None)


# ---- scalars ------------------------------------------------------------------------------------------------------


def _device_type(function: Function, parameter: Parameter) -> bool:
    return parameter.name == "device_type" and function.name not in {"runtime_device_count", "runtime_stream_import"}


@pytest.mark.parametrize("cell", parameters(_device_type, ("opencl", "unknown", "negative")))
@clause("KINA-STATUS-24", "b7c8e81b")
def test_a_device_type_without_devices_is_unsupported(rt: Executor, cell: Cell) -> None:
    value = {"opencl": 4, "unknown": 77, "negative": -1}[cell.kind]
    refuse(rt, cell, "UNSUPPORTED", value, "KINA-STATUS-24")


def _device_id(function: Function, parameter: Parameter) -> bool:
    return parameter.name in {"device_id", "peer_id"} and function.name not in NEED_ACCELERATOR


@pytest.mark.parametrize("cell", parameters(_device_id, ("negative", "beyond")))
@clause("KINA-STATUS-24", "b7c8e81b")
def test_a_device_id_that_does_not_exist_is_refused(rt: Executor, cell: Cell) -> None:
    value = {"negative": -1, "beyond": 99}[cell.kind]
    refuse(rt, cell, "INVALID_ARGUMENT", value, "KINA-STATUS-24", argument=cell.parameter)


@pytest.mark.parametrize("cell", parameters(lambda f, p: p.type == "KinaDtype", ("none", "handle", "lanes")))
@clause("KINA-TENSOR-17", "5471aba4")
def test_a_dtype_that_is_not_in_the_table_is_unsupported(rt: Executor, cell: Cell) -> None:
    value = {"none": 0, "handle": 0x00014003, "lanes": 0x00042002}[cell.kind]
    refuse(rt, cell, "UNSUPPORTED", value, "KINA-TENSOR-17")


ENUMERATORS = {"KinaUnaryOp", "KinaBinaryOp", "KinaReduceOp", "KinaAccess", "KinaLogLevel"}


@pytest.mark.parametrize("cell", parameters(lambda f, p: p.type in ENUMERATORS, ("beyond", "vendor", "negative")))
@clause("KINA-VERSION-16", "e54fde4b")
def test_an_enumerator_that_1_0_does_not_define_is_unsupported(rt: Executor, cell: Cell) -> None:
    value = {"beyond": 0x3FF, "vendor": 0x40000000, "negative": -5}[cell.kind]
    refuse(rt, cell, "UNSUPPORTED", value, None)


@pytest.mark.parametrize("cell", parameters(lambda f, p: p.type == "uint32_t" and p.name == "flags"))
@clause("KINA-VERSION-16", "e54fde4b")
def test_a_flag_bit_that_1_0_does_not_define_is_unsupported(rt: Executor, cell: Cell) -> None:
    refuse(rt, cell, "UNSUPPORTED", 0x8000, None)
