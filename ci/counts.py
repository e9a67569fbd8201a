"""Prints how many tests of a report passed, failed, and asked for a feature or device that the library lacks.

A report that is missing is one failure.
"""

import json
import sys
from pathlib import Path

report = Path(sys.argv[1])
tests = json.loads(report.read_text())["tests"] if report.exists() else []
good = sum(test["outcome"] == "passed" for test in tests)
absent = sum(test["outcome"] == "absent" for test in tests)
print(good, len(tests) - good - absent if tests else 1, absent)
