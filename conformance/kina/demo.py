"""The interop demo: a compiled program's result goes to PyTorch and NumPy and back, without a copy.

python -m kina.demo --lib build/release/libkina.so.1 --programs build/release/programs [--device cpu]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kina


class Demo:
    """Numbered steps, each of which says what it did and stops the demo if it did not hold."""

    def __init__(self) -> None:
        self.steps = 0
        self.checks = 0

    def step(self, text: str) -> None:
        self.steps += 1
        print(f"{self.steps:2}. {text}")

    def check(self, text: str, holds: bool) -> None:
        self.checks += 1
        print(f"      {'ok' if holds else 'NO'}  {text}")
        if not holds:
            raise SystemExit(f"demo FAILED: {text}")


def quiet_torch() -> Any:
    """PyTorch. A build for NumPy 1 complains at length, once, where NumPy 2 is installed, and then does without it."""
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch

        torch.zeros(1).reshape(-1)
    return torch


def close(actual: Any, expected: Any, inner: int) -> bool:
    """Within the bound of a float32 product over `inner` terms of size one."""
    import numpy as np

    return bool(np.abs(np.asarray(actual, np.float64) - expected).max() <= 4 * inner * 2.0**-24)


def with_torch(demo: Demo, program: kina.Program, device: str) -> None:
    """Section by section what the specification asks for, first on zeros."""
    torch = quiet_torch()
    demo.step(f"a and b: zeros of the runtime on {device}; PyTorch is {torch.__version__}")
    a = kina.zeros((128, 256), dtype="f32", device=device)
    b = kina.zeros((256, 64), dtype="f32", device=device)
    demo.step("c = program.matmul(a, b): the compiled program runs")
    c = program.matmul(a, b)
    demo.check(f"c is {c.dtype}, {c.shape}, on {c.device}", c.shape == (128, 64) and str(c.dtype) == "f32")
    demo.step("c_torch = torch.from_dlpack(c.to_dlpack())")
    c_torch = torch.from_dlpack(c.to_dlpack())
    demo.check(f"PyTorch reads the runtime's own bytes at {c.data_ptr:#x}", c_torch.data_ptr() == c.data_ptr)
    demo.step("c_torch_relu = torch.nn.functional.relu(c_torch)")
    c_torch_relu = torch.nn.functional.relu(c_torch)
    demo.step("c_back = kina.from_dlpack(torch.utils.dlpack.to_dlpack(c_torch_relu))")
    c_back = kina.from_dlpack(torch.utils.dlpack.to_dlpack(c_torch_relu))
    demo.check(
        f"the runtime reads PyTorch's own bytes at {c_back.data_ptr:#x}", c_back.data_ptr == c_torch_relu.data_ptr()
    )
    demo.step("c_back equals relu(a @ b), computed independently")
    expected = torch.relu(torch.zeros(128, 64))
    demo.check("PyTorch finds its result close to the expected one", torch.allclose(c_torch_relu.cpu(), expected))
    demo.check("the runtime reads the same values back", not c_back.numpy().any())
    del c
    c_torch += 1
    demo.check("the bytes live on after the runtime's tensor is gone", bool((c_torch == 1).all()))


def with_torch_and_random_numbers(demo: Demo, program: kina.Program) -> None:
    """The same way with numbers that can be wrong."""
    import numpy as np

    torch = quiet_torch()
    generator = np.random.default_rng(20)
    left = generator.uniform(-1, 1, (128, 256)).astype(np.float32)
    right = generator.uniform(-1, 1, (256, 64)).astype(np.float32)
    demo.step("random a and b, taken from NumPy without a copy; c_back = relu(program.matmul(a, b)) by way of PyTorch")
    a, b = kina.from_dlpack(left), kina.from_dlpack(right)
    demo.check(
        "the runtime reads NumPy's own bytes", a.data_ptr == left.ctypes.data and b.data_ptr == right.ctypes.data
    )
    c = program.matmul(a, b)
    c_torch = torch.from_dlpack(c.to_dlpack())
    c_back = kina.from_dlpack(torch.utils.dlpack.to_dlpack(torch.nn.functional.relu(c_torch)))
    product = left.astype(np.float64) @ right.astype(np.float64)
    expected = np.maximum(product, 0)
    demo.check(
        f"half of the expected values are positive: {(expected > 0).mean():.0%}", 0.4 < (expected > 0).mean() < 0.6
    )
    demo.check("c_back equals relu(a @ b) as NumPy computes it in float64", close(c_back.numpy(), expected, 256))
    again = kina.from_dlpack(c_torch)
    demo.check("from_dlpack takes a PyTorch tensor as well as a capsule", again.data_ptr == c.data_ptr)


def with_numpy(demo: Demo, program: kina.Program) -> None:
    """NumPy as the other side: versioned capsules where it knows them."""
    import numpy as np

    generator = np.random.default_rng(21)
    left = generator.uniform(-1, 1, (128, 256)).astype(np.float32)
    right = generator.uniform(-1, 1, (256, 64)).astype(np.float32)
    demo.step(f"c_numpy = np.from_dlpack(program.matmul(a, b)); NumPy is {np.__version__}")
    c = program.matmul(kina.asarray(left), kina.asarray(right))
    c_numpy = np.from_dlpack(c)
    demo.check("NumPy reads the runtime's own bytes", c_numpy.ctypes.data == c.data_ptr)
    demo.step("c_back = kina.from_dlpack(np.maximum(c_numpy, 0))")
    rectified = np.maximum(c_numpy, 0)
    c_back = kina.from_dlpack(rectified)
    demo.check("the runtime reads NumPy's own bytes", c_back.data_ptr == rectified.ctypes.data)
    expected = np.maximum(left.astype(np.float64) @ right.astype(np.float64), 0)
    demo.check("c_back equals relu(a @ b) as NumPy computes it in float64", close(c_back.numpy(), expected, 256))
    print("      a tensor prints itself as a NumPy user expects:\n" + textwrap.indent(repr(c_back[:2, :4]), " " * 10))


def other_programs(demo: Demo, folder: Path) -> None:
    """A perceptron and attention, compiled as well."""
    import numpy as np

    generator = np.random.default_rng(22)

    def random(*shape: int) -> Any:
        return generator.uniform(-1, 1, shape).astype(np.float32)

    demo.step("mlp_program: layer(x, w, b) = relu(x @ w.T + b), and two of them")
    mlp = kina.load(folder / "mlp_program.so")
    x, w1, b1, w2, b2 = random(5, 16), random(32, 16), random(32), random(3, 32), random(3)
    wide = [array.astype(np.float64) for array in (x, w1, b1, w2, b2)]
    hidden = np.maximum(wide[0] @ wide[1].T + wide[2], 0)
    got = mlp.layer(*map(kina.asarray, (x, w1, b1)))
    demo.check("layer agrees with NumPy", close(got.numpy(), hidden, 17))
    got = mlp.mlp(*map(kina.asarray, (x, w1, b1, w2, b2)))
    demo.check(
        "mlp agrees with NumPy", bool(np.allclose(got.numpy(), hidden @ wide[3].T + wide[4], rtol=1e-4, atol=1e-4))
    )
    demo.step("attention_program: softmax(q @ k.T / sqrt(d)) @ v")
    attention = kina.load(folder / "attention_program.so")
    q, k, v = random(2, 4, 8), random(2, 6, 8), random(2, 6, 8)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(8)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    got = attention.attention(*map(kina.asarray, (q, k, v)))
    demo.check("attention agrees with NumPy", bool(np.allclose(got.numpy(), weights @ v, rtol=1e-5, atol=1e-5)))


def run(library: str, folder: Path, device: str) -> None:
    demo = Demo()
    runtime = kina.use(library)
    version = runtime.ffi.string(runtime.runtime_version_string()).decode()
    demo.step(f"program = kina.load({str(folder / 'matmul_program.so')!r})")
    program = kina.load(folder / "matmul_program.so")
    demo.check(
        f"the program runs on {program.library_path}, version {version}, and on nothing else",
        bool(program.library_path),
    )
    arms: list[Callable[[], None]] = [
        lambda: with_torch(demo, program, device),
        lambda: with_torch_and_random_numbers(demo, program),
        lambda: with_numpy(demo, program),
        lambda: other_programs(demo, folder),
    ]
    for arm in arms:
        arm()
    demo.step("a program built for a newer ABI is refused")
    for name in ("newer_minor_program.so", "newer_major_program.so"):
        try:
            kina.load(folder / name)
            refused = "it was accepted"
        except kina.ProgramError as error:
            refused = error.status
        demo.check(f"{name}: {refused}", refused == "VERSION")
    print(f"demo passed: {demo.steps} steps, {demo.checks} checks")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kina.demo", description=__doc__)
    parser.add_argument("--lib", required=True, help="the runtime library")
    parser.add_argument("--programs", required=True, type=Path, help="the folder of the compiled programs")
    parser.add_argument("--device", default="cpu", help="where a and b are made: cpu, cuda:0")
    options = parser.parse_args()
    run(options.lib, options.programs, options.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
