"""What can be said of a library before any test: loads, symbols, versions, features, devices."""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kina.runtime import Runtime

from .contract import contract

LOAD_SECONDS = 20.0


@dataclass
class Library:
    """A library under test as it presents itself; `refusal` says why it cannot be tested."""

    path: str
    sha256: str = ""
    build_id: str = ""
    missing: list[str] = field(default_factory=list)
    abi_version: str = ""
    version: str = ""
    features: list[str] = field(default_factory=list)
    devices: dict[str, int] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # what it says of a device type that it has no device of
    refusal: str = ""

    def device_lines(self) -> list[str]:
        """Its devices in words, and what it says of those that are absent."""
        present = ", ".join(f"{name} {count}" for name, count in self.devices.items() if count)
        return [f"devices {present or 'none'}", *(f"no {name}: {words}" for name, words in self.absent.items())]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def feature_names() -> list[str]:
    prefix = "KINA_FEATURE_"
    return [name.removeprefix(prefix).lower() for name in contract().header.constants if name.startswith(prefix)]


def examine(path: str) -> Library:
    """Opens the library in a child, so that whatever it does at load is an answer and not an end.

    A name without a slash that is no file is the loader's to find.
    """
    library = Library(path)
    if os.path.isfile(path):
        library.sha256 = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        library.build_id = build_id(Path(path))
    elif "/" in path:
        library.refusal = f"{path} is not a file"
        return library
    for name, value in _in_a_child(path, _asked, "was loaded or asked for its version").items():
        setattr(library, name, value)
    if not library.refusal:  # in another child: what goes wrong there is for the tests to tell
        found = _in_a_child(path, _devices, "was asked for its devices")
        library.devices = found.get("devices", {})
        library.absent = found.get("absent") or ({"answer": found["refusal"]} if "refusal" in found else {})
    return library


def _in_a_child(path: str, question: Callable[[Runtime], dict[str, Any]], doing: str) -> dict[str, Any]:
    """What a question to the library finds out; `refusal` where it gives no answer."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(path, question, writer)
    os.close(writer)
    data = _read(reader, LOAD_SECONDS)
    if data is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if data is None:
        return {"refusal": f"HANG while the library {doing}: no answer within {LOAD_SECONDS:.0f} s"}
    if not data.endswith(b"\n"):
        return {"refusal": f"{ended(status)} while the library {doing}"}
    found: dict[str, Any] = json.loads(data)
    return found


def _answer(path: str, question: Callable[[Runtime], dict[str, Any]], writer: int) -> None:
    answer: dict[str, Any]
    sink = os.open(os.devnull, os.O_RDWR)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    try:
        answer = question(Runtime(path))
    except OSError as error:
        answer = {"refusal": f"no library that can be loaded: {error}"}
    os.write(writer, json.dumps(answer).encode() + b"\n")
    os._exit(0)


def _devices(runtime: Runtime) -> dict[str, Any]:
    """How many devices of each type there are; where there is none, the library's own words when one is asked for."""
    count, stream = runtime.ffi.new("int32_t *"), runtime.ffi.new("KinaStream *")
    devices, absent = {}, {}
    for name in ("kDLCPU", "kDLCUDA", "kDLExtDev"):
        count[0] = 0
        if runtime.runtime_device_count(count, runtime.constants[name]) != 0:
            continue
        devices[name] = int(count[0])
        refused = count[0] == 0 and runtime.runtime_stream_main(stream, runtime.constants[name], 0) != 0
        message = runtime.runtime_last_error_message() if refused else runtime.ffi.NULL
        if message != runtime.ffi.NULL:
            absent[name] = runtime.ffi.string(message).decode(errors="replace")
    return {"devices": devices, "absent": absent}


def _asked(runtime: Runtime) -> dict[str, Any]:
    if runtime.missing:
        count = len(runtime.missing)
        shown = ", ".join(runtime.missing[:8]) + (f" and {count - 8} more" if count > 8 else "")
        text = f"{count} of {len(runtime.names)} functions are missing: {shown}"
        return {"missing": runtime.missing, "refusal": text}
    version = int(runtime.runtime_abi_version())
    text = runtime.runtime_version_string()
    return {
        "abi_version": f"{version >> 16}.{version & 0xFFFF}",
        "version": runtime.ffi.string(text).decode(errors="replace") if text != runtime.ffi.NULL else "",
        "features": [name for name in feature_names() if runtime.offers(name)],
    }


def _read(fd: int, seconds: float) -> bytes | None:
    """All that comes until the end; None when time is up first."""
    data, until = b"", time.monotonic() + seconds
    with os.fdopen(fd, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            part = pipe.read(65536)
            if not part:
                return data
            data += part
            if data.endswith(b"\n"):
                return data


def ended(status: int) -> str:
    """How a process ended, in the words of the report."""
    if os.WIFSIGNALED(status):
        return f"CRASH {signal.Signals(os.WTERMSIG(status)).name}"
    return f"EXIT {os.WEXITSTATUS(status)}"


def build_id(path: Path) -> str:
    """The GNU build id of an ELF file; empty where there is none."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return ""
    offset, size, count = *struct.unpack_from("<Q", data, 0x20), *struct.unpack_from("<HH", data, 0x36)
    for i in range(count):
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", data, offset + i * size)
        end = start + length
        while kind == 4 and start + 12 <= min(end, len(data)):
            name, value, note = struct.unpack_from("<III", data, start)
            body = start + 12 + (name + 3) // 4 * 4
            if note == 3 and data[start + 12 : start + 15] == b"GNU":
                return data[body : body + value].hex()
            start = body + (value + 3) // 4 * 4
    return ""
