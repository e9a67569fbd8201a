"""Every known fault of other DLPack projects has a test that looks for it."""

from __future__ import annotations

import re

from kina_conformance.cases import PARTLY, ROWS
from kina_conformance.suite import suite_path


def test_every_row_has_a_test_that_looks_for_it() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in suite_path().glob("test_dlpack*.py"))
    marked = {row for mark in re.findall(r"@case\(([^)]*)\)", text) for row in re.findall(r"P\d\d", mark)}

    assert marked == set(ROWS)
    assert set(PARTLY) <= set(ROWS)
