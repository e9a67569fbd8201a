"""What tests do with tensors in one line: make them, refer to them, let them go."""

from __future__ import annotations

from typing import Any

from .executor import Executor
from .memory import Handle, Tensor


def made(rt: Executor, name: str, **arguments: Any) -> Tensor:
    """The tensor that a call produces; what it was made of stays as long."""
    tensor: Tensor = rt.call(name, **arguments).succeeds().out
    tensor.keep += arguments.values()
    return tensor


def free(rt: Executor, tensor: Tensor) -> None:
    rt.call("runtime_free", tensor).succeeds()


def weak_of(rt: Executor, tensor: Tensor) -> Handle:
    weak: Handle = rt.call("runtime_weak_create", tensor).succeeds().out
    return weak


def peer_of(rt: Executor, tensor: Tensor) -> Handle:
    peer: Handle = rt.call("runtime_peer_share", tensor).succeeds().out
    return peer
