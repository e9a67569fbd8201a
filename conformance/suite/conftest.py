"""Binds the tests to the library under test; all of it lives in `kina_conformance.plugin`."""

import sys
from pathlib import Path

try:
    import kina_conformance  # noqa: F401
except ModuleNotFoundError:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kina_conformance.plugin import *  # noqa: F403
