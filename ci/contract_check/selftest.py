"""Proves that the check sees: each edit in a copy of the tree must bring a finding in the expected file that says the expected word."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .sources import ERRORS, FREEZE, HEADER, MAP, MESSAGES, Finding

COPIED = ("include", "spec", "ci", "impl", "conformance")


@dataclass(frozen=True)
class Edit:
    """A change that breaks the agreement: the first match of `pattern` becomes `replacement`."""

    what: str
    file: str
    pattern: str
    replacement: str
    found_in: str
    word: str


EDITS = (
    Edit("a parameter is renamed", HEADER, r"(runtime_device_push\(KinaScope \*out, int32_t )device_type", r"\1kind", FREEZE, "runtime_device_push"),
    Edit("a parameter changes its type", HEADER, r"(runtime_stream_query\()int32_t", r"\1int64_t", FREEZE, "runtime_stream_query"),
    Edit("a pointer parameter is added", HEADER, r"(runtime_stream_main\()", r"\1const char *name, ", HEADER, "'name' is missing"),
    Edit("two parameters change places", HEADER, r"runtime_stream_wait\(KinaStream stream, KinaStream awaited\)", "runtime_stream_wait(KinaStream awaited, KinaStream stream)", FREEZE, "runtime_stream_wait"),
    Edit("a function goes", HEADER, r"KINA_API KinaStatus runtime_weak_release[^;]*;", "", MAP, "runtime_weak_release"),
    Edit("a status goes from a tag", HEADER, r"(errors: INVALID_ARGUMENT [^;\n]*); INVALID_HANDLE [^;\n]*", r"\1", HEADER, "INVALID_HANDLE is missing"),
    Edit("a status is misspelled", HEADER, r"errors: INVALID_ARGUMENT", "errors: INVALID_ARGUMENTS", HEADER, "INVALID_ARGUMENTS"),
    Edit("INTERNAL stands in a tag", HEADER, r"errors: INVALID_ARGUMENT", "errors: INTERNAL KINA-STATUS-1; INVALID_ARGUMENT", HEADER, "INTERNAL"),
    Edit("a status loses its clause", HEADER, r"BUSY KINA-STREAM-6", "BUSY", HEADER, "'BUSY'"),
    Edit("a tag names a clause that is not there", HEADER, r"BUSY KINA-STREAM-6", "BUSY KINA-STREAM-999", HEADER, "KINA-STREAM-999"),
    Edit("a tag line goes", HEADER, r" \* thread: any\n", "", HEADER, "tag lines"),
    Edit("two tag lines change places", HEADER, r"( \* stream: \w+\n)( \* alloc: [^\n]*\n)", r"\2\1", HEADER, "in this order"),
    Edit("a tag has an unknown word", HEADER, r"stream: synchronises", "stream: synchronizes", HEADER, "synchronizes"),
    Edit("an owner is missing", HEADER, r"owner: out produce, stream borrow", "owner: out produce", HEADER, "'stream' is missing"),
    Edit("an owner names a parameter that is not there", HEADER, r"owner: out produce", "owner: put produce", HEADER, "'put'"),
    Edit("null names a parameter that is not there", HEADER, r"null: field", "null: feld", HEADER, "'feld'"),
    Edit("a feature has no enumerator", HEADER, r"feature: capture", "feature: captures", HEADER, "captures"),
    Edit("prose cites a clause that is not there", HEADER, r"\[KINA-STREAM-1\]", "[KINA-STREAM-998]", HEADER, "KINA-STREAM-998"),
    Edit("an enumerator changes its value", HEADER, r"KINA_ERROR_BUSY = 16", "KINA_ERROR_BUSY = 26", FREEZE, "KINA_ERROR_BUSY"),
    Edit("an enumerator goes", HEADER, r"KINA_UNARY_SILU = 0x11B,", "", FREEZE, "KINA_UNARY_SILU"),
    Edit("an enumerator is added", HEADER, r"(KINA_OVERLAP_PARTIAL = 2)", r"\1, KINA_OVERLAP_INSIDE = 3", FREEZE, "KINA_OVERLAP_INSIDE"),
    Edit("a macro changes", HEADER, r"#define KINA_MAX_NDIM( +)32", r"#define KINA_MAX_NDIM\g<1>64", FREEZE, "KINA_MAX_NDIM"),
    Edit("a field is renamed", HEADER, r"size_bytes;( +/\* 64)", r"byte_size;\1", FREEZE, "byte_size"),
    Edit("a field's offset is misstated", HEADER, r"(uint32_t +magic; +/\* )76", r"\g<1>72", FREEZE, "KinaTensor.magic"),
    Edit("a chapter of the header goes", HEADER, r"/\* ==== indexing ====", "/* indexing", HEADER, "the sections must be"),
    Edit("a clause goes", "spec/stream.md", r"- \*\*KINA-STREAM-8\*\*[^\n]*\n", "", "spec/stream.md", "KINA-STREAM-8 is gone"),
    Edit("a clause number is used twice", "spec/device.md", r"KINA-DEVICE-2\*\*", "KINA-DEVICE-1**", "spec/device.md", "stands twice"),
    Edit("a clause is no clause line", "spec/device.md", r"- \*\*KINA-DEVICE-2\*\* MUST:", "- **KINA-DEVICE-2** must:", "spec/device.md", "not a clause line"),
    Edit("a clause says what another says", "spec/device.md", r"(KINA-DEVICE-2\*\* MUST: )[^\n]*", r"\1the count of a type stays the same for the life of the process.", "spec/device.md", "says the same"),
    Edit("a clause is reworded", "spec/status.md", r"(KINA-STATUS-2\*\* MUST: `runtime_status_name`) returns", r"\1 gives", "conformance/suite/test_status.py", "KINA-STATUS-2"),
    Edit("a clause is added without a test", "spec/device.md", r"\Z", "- **KINA-DEVICE-99** MUST: every device has a colour.\n", "spec/device.md", "no test cites KINA-DEVICE-99"),
    Edit("a map line goes", MAP, r"    runtime_gpu_cast;\n", "", MAP, "runtime_gpu_cast"),
    Edit("a map line is added", MAP, r"    runtime_gpu_cast;\n", "    runtime_gpu_cast;\n    runtime_gpu_caste;\n", MAP, "runtime_gpu_caste"),
    Edit("the map's node changes", MAP, r"KINA_1\.0 \{", "KINA_1.1 {", MAP, "KINA_1.1"),
    Edit("a status row changes its value", "spec/tables/statuses.toml", r"value = 17", "value = 27", "spec/tables/statuses.toml", "VERSION"),
    Edit("a status row goes", "spec/tables/statuses.toml", r"\[\[status\]\]\nvalue = 19\n(?:.+\n)+", "", "spec/tables/statuses.toml", "KINA_ERROR_VENDOR_LIBRARY"),
    Edit("a status changes its category", "spec/tables/statuses.toml", r'category = "resource"', 'category = "device"', ERRORS, "KINA_ERROR_OUT_OF_MEMORY"),
    Edit("a dtype row changes", "spec/tables/dtypes.toml", r"bits = 16", "bits = 32", "spec/tables/dtypes.toml", "KINA_DTYPE"),
    Edit("an op row changes its enumerator", "spec/tables/ops.toml", r'"KINA_UNARY_NEG"', '"KINA_UNARY_NEGATE"', "spec/tables/ops.toml", "KINA_UNARY_NEG"),
    Edit("an exception loses its reason", "spec/tables/status.toml", r'reason = "[^"]*"', 'reason = ""', "spec/tables/status.toml", "give the reason"),
    Edit("an exception goes", "spec/tables/status.toml", r"\[\[exception\]\]\n(?:.+\n)+", "", HEADER, "is missing"),
    Edit("an untested clause is unknown", "spec/tables/untested.toml", r'id = "KINA-DEVICE-(\d+)"', 'id = "KINA-DEVICE-99"', "spec/tables/untested.toml", "KINA-DEVICE-99"),
    Edit("freeze.c loses an enumerator", FREEZE, r"FREEZE_VALUE\(KINA_ERROR_BUSY, 16\);\n", "", FREEZE, "KINA_ERROR_BUSY"),
    Edit("freeze.c loses a field", FREEZE, r"FREEZE_FIELD\(KinaTensor, magic, 76, 4\);\n", "", FREEZE, "KinaTensor.magic"),
    Edit("freeze.c loses a signature", FREEZE, r"KinaStatus runtime_free\([^\n]*\n", "", FREEZE, "runtime_free"),
    Edit("two messages are alike", MESSAGES, r'(KINA_MESSAGE\(empty_input, \w+, )"[^"]*"', r'\1"{} is NULL"', MESSAGES, "empty_input"),
    Edit("code cites a clause that is not there", "impl/core/scope.cpp", r"KINA-STREAM-\d+", "KINA-STREAM-997", "impl/core/scope.cpp", "KINA-STREAM-997"),
    Edit("a test goes", "conformance/suite/test_device.py", r'@clause\("KINA-DEVICE-5"[^\n]*\n', "", "spec/device.md", "no test cites KINA-DEVICE-5"),
    Edit("a test cites an unknown clause", "conformance/suite/test_device.py", r'clause\("KINA-DEVICE-5"', 'clause("KINA-DEVICE-996"', "conformance/suite/test_device.py", "KINA-DEVICE-996"),
    Edit("a test loses its clause's hash", "conformance/suite/test_device.py", r'(clause\("KINA-DEVICE-5"), "\w+"', r'\1, ""', "conformance/suite/test_device.py", "hash"),
    Edit("a refusal is no longer tested", "conformance/suite/test_status.py", r'\["BUSY", "BUSY"\]', '["DEVICE"]', HEADER, "no test produces BUSY from runtime_set_log_callback"),
)  # fmt: skip


def run(root: Path, check: Callable[[Path], list[Finding]]) -> int:
    before = set(map(str, check(root)))
    missed = [edit for edit in EDITS if not _caught(edit, root, before, check)]
    for edit in missed:
        print(f"not caught: {edit.what} ({edit.file})")
    print(f"{len(EDITS) - len(missed)} of {len(EDITS)} edits caught")
    return 1 if missed else 0


def _caught(edit: Edit, root: Path, before: set[str], check: Callable[[Path], list[Finding]]) -> bool:
    """Whether the edit brings a new finding in the right file that names the thing."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        path = copy / edit.file
        text, count = re.subn(edit.pattern, edit.replacement, path.read_text(encoding="utf-8"), count=1)
        if count != 1:
            print(f"{edit.what}: {edit.file} has nothing that matches {edit.pattern!r}")
            return False
        path.write_text(text, encoding="utf-8")
        new = [finding for finding in check(copy) if str(finding) not in before]
    return any(finding.file == edit.found_in and edit.word in str(finding) for finding in new)
