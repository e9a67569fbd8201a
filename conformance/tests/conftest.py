"""What the tests of the Python side need from outside: the folder of the package, a library, compiled programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def _named(variable: str) -> Path:
    path = Path(os.environ.get(variable) or f"${variable} is not set").resolve()
    if not path.exists():
        raise pytest.UsageError(f"{variable} must name what was built: {path} does not exist")
    return path


@pytest.fixture(scope="session")
def library() -> Path:
    """A runtime library: $KINA_LIBRARY."""
    return _named("KINA_LIBRARY")


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder of the compiled programs: $KINA_PROGRAMS."""
    return _named("KINA_PROGRAMS")
