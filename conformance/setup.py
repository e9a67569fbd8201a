"""Builds the wheel: the two packages, and inside them the header, the contract and the suite."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
PACKAGES = ["kina", "kina_conformance"]
CARRIED = {
    HERE.parent / "include": "kina/contract/include",
    HERE.parent / "spec": "kina/contract/spec",
    HERE / "suite": "kina_conformance/tests",
}


class BuildWithContract(build_py):
    """What lies beside the packages in the source tree lies inside them in the wheel."""

    def run(self) -> None:
        for package in PACKAGES:  # an earlier version's files would go into the wheel as well
            shutil.rmtree(Path(self.build_lib, package), ignore_errors=True)
        super().run()
        for source, target in CARRIED.items():
            leave_out = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(source, Path(self.build_lib, target), ignore=leave_out, dirs_exist_ok=True)


setup(packages=PACKAGES, cmdclass={"build_py": BuildWithContract})
