"""Compiled programs run on the runtime that was meant, or not at all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kina


@pytest.fixture(autouse=True)
def _runtime(library: Path) -> None:
    kina.use(library)


def python(script: str, *arguments: str | Path) -> str:
    """What a script prints in a process of its own."""
    folder = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys\nsys.path.insert(0, {folder!r})\nimport kina\n{script}",
            *map(str, arguments),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_program_multiplies(programs: Path) -> None:
    program = kina.load(programs / "matmul_program.so")
    a, b = np.array([[1, 2], [3, 4]], np.float32), np.array([[5], [6]], np.float32)

    assert program.matmul(kina.asarray(a), kina.asarray(b)).tolist() == [[17], [39]]
    assert (program.matmul.arity, program.matmul.output_count) == (2, 1)
    out = kina.zeros((2, 1))
    assert program.matmul(kina.asarray(a), kina.asarray(b), out=out) is out
    empty = kina.Tensor(program.runtime)
    assert program.matmul(kina.asarray(a), kina.asarray(b), out=empty) is empty
    assert out.tolist() == empty.tolist() == [[17], [39]]


def test_a_programs_failure_is_the_runtimes(programs: Path) -> None:
    program = kina.load(programs / "matmul_program.so")
    mlp = kina.load(programs / "mlp_program.so")

    with pytest.raises(kina.KinaError, match="INVALID_SHAPE"):
        program.matmul(kina.zeros((2, 3)), kina.zeros((2, 3)))
    with pytest.raises(kina.KinaError, match="INVALID_SHAPE"):
        mlp.mlp(kina.zeros((5, 4)), kina.zeros((3, 4)), kina.zeros((3,)), kina.zeros((2, 9)), kina.zeros((2,)))
    with pytest.raises(TypeError, match="2 tensors"):
        program.matmul(kina.zeros((2, 2)))
    with pytest.raises(TypeError, match="tensors of its own runtime"):
        program.matmul(*[np.zeros((2, 2))] * 2)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="matmul"):
        _ = program.convolution


def test_a_library_that_is_no_runtime_does_not_become_the_current_one(library: Path) -> None:
    with pytest.raises(OSError, match=r"libm\.so\.6 is no Kina runtime"):
        kina.use("libm.so.6")

    assert kina.current().path == str(library)


@pytest.mark.parametrize("name", ["newer_minor_program.so", "newer_major_program.so"])
def test_a_program_for_a_newer_abi_is_refused(programs: Path, name: str) -> None:
    with pytest.raises(kina.ProgramError, match=r"^VERSION: .* is built for ABI") as refused:
        kina.load(programs / name)

    assert refused.value.status == "VERSION"


def test_a_program_that_needs_newer_symbols_is_refused(programs: Path, tmp_path: Path) -> None:
    program = (programs / "matmul_program.so").read_bytes()
    newer = tmp_path / "newer_symbols.so"
    newer.write_bytes(program.replace(b"KINA_1.0\0", b"KINA_1.9\0"))

    with pytest.raises(kina.ProgramError, match="VERSION"):
        kina.load(newer)


def test_what_is_no_program_is_refused(library: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("no program\n")

    with pytest.raises(kina.ProgramError, match="cannot be loaded"):
        kina.load(text)
    with pytest.raises(kina.ProgramError, match="kina_program"):
        kina.load(shutil.copyfile(library, tmp_path / "libkina.so.1"))
    with pytest.raises(FileNotFoundError):
        kina.load(tmp_path / "absent.so")


def test_a_program_runs_on_a_library_of_any_name(library: Path, programs: Path, tmp_path: Path) -> None:
    foreign = shutil.copyfile(library, tmp_path / "libforeign.so")

    said = python(
        "kina.use(sys.argv[1])\n"
        "program = kina.load(sys.argv[2])\n"
        "print(program.library_path, program.matmul(kina.zeros((2, 3)), kina.zeros((3, 4))).shape)",
        foreign,
        programs / "matmul_program.so",
    )

    assert said == f"{foreign} (2, 4)"


def test_a_program_never_runs_on_another_library_than_was_meant(library: Path, programs: Path, tmp_path: Path) -> None:
    foreign = shutil.copyfile(library, tmp_path / "libforeign.so")

    said = python(
        "first, second = kina.Runtime(sys.argv[1]), kina.Runtime(sys.argv[2])\n"
        "print(kina.load(sys.argv[3], first).library_path)\n"
        "try:\n    print(kina.load(sys.argv[3], second).library_path)\n"
        "except kina.ProgramError as error:\n    print(error)",
        library,
        foreign,
        programs / "matmul_program.so",
    )

    first, second = said.splitlines()
    assert first == str(library)
    assert second == str(foreign) or f"runs on {library}, not on {foreign}" in second
