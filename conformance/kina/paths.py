"""Where the contract lies: the source tree, or the copy that the wheel carries."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).resolve().parent


def contract_root() -> Path:
    """The folder that holds `include/` and `spec/`."""
    carried = _HERE / "contract"
    return carried if carried.is_dir() else _HERE.parents[1]


def header_path() -> Path:
    return contract_root() / "include" / "kina_runtime.h"


def spec_path() -> Path:
    return contract_root() / "spec"
