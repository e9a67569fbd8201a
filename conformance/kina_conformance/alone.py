"""Runs a piece of Python in a process of its own, for what ends, forks, unloads or watches a process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from .executor import Executor, Violation

# Seconds without an answer after which a child of fork counts as hanging, on however loaded a machine.
PATIENCE = 60

# From Python 3.12 on, a fork beside other threads is warned of; here it is what tests are about.
_OPTIONS = ("-W", "ignore:This process:DeprecationWarning")

_PRELUDE = f"""
PATIENCE = {PATIENCE}
import ctypes, os, signal, sys, threading
from kina.runtime import Runtime, interface
ffi = interface()
# Types made once: cffi looks their names up under a lock of its own, which a child of fork can find taken for good.
TENSOR, SCOPE, STREAM = (ffi.typeof(f"Kina{{kind}} *") for kind in ("Tensor", "Scope", "Stream"))

def opened(path=sys.argv[1]):
    return Runtime(path)

def tensor(rt, shape=(4,), device=(1, 0)):
    made = ffi.new(TENSOR)
    status = rt.runtime_alloc(made, list(shape), len(shape), rt.constants["KINA_DTYPE_F32"], *device, ffi.NULL)
    assert status == 0, (status, ffi.string(rt.runtime_last_error_message()))
    return made

def word(rt, status):
    return rt.status_name(status)
"""


def alone(rt: Executor, body: str, *arguments: str, seconds: float = 3 * PATIENCE, **variables: str) -> str:
    """Standard output of `body`, run with the path of the library (and `arguments`) in `sys.argv`; it must end well.

    `variables` join its environment.
    """
    code = _PRELUDE + textwrap.dedent(body)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1]), **variables}
    done = subprocess.run(
        [sys.executable, *_OPTIONS, "-c", code, rt.lib.path, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0 or done.stderr:
        raise Violation(f"a process of its own ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout
