"""The runtime that `kina.zeros`, `kina.load` and the like use: one for the process, chosen or found by its name."""

from __future__ import annotations

import os

from .runtime import Runtime

_current: Runtime | None = None


def use(library: str | os.PathLike[str] | Runtime) -> Runtime:
    """Makes a runtime, given by path or opened already, the current one."""
    global _current
    runtime = library if isinstance(library, Runtime) else Runtime(library)
    if "runtime_abi_version" in runtime.missing:
        raise OSError(f"{runtime.path} is no Kina runtime: it exports no runtime_abi_version")
    _current = runtime
    return _current


def current() -> Runtime:
    """The current runtime: what `use` was given, else `$KINA_LIBRARY`, else what the loader finds as libkina.so.1."""
    return _current or use(os.environ.get("KINA_LIBRARY") or "libkina.so.1")
