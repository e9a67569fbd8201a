"""Where the tests lie: beside this package in the source tree, inside it in the wheel."""

from __future__ import annotations

from pathlib import Path


def suite_path() -> Path:
    here = Path(__file__).resolve().parent
    carried = here / "tests"
    return carried if carried.is_dir() else here.parent / "suite"
