# SPDX-License-Identifier: Apache-2.0
"""Builds the program and its C library with CMake, and packs both into the wheel.

TESSERA_BUILD names the folder of a build that exists already; nothing is compiled then.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

tree = Path(__file__).resolve().parent.parent


def version():
    text = (tree / "CMakeLists.txt").read_text()
    return re.search(r"project\(tessera VERSION ([0-9.]+)", text)[1]


def built():
    """The folder that has the program and the library."""
    given = os.environ.get("TESSERA_BUILD")
    if given:
        return (tree / given).resolve()  # of the tree, if it is no absolute path
    folder = tree / "build" / "release"
    subprocess.run(["cmake", "--preset", "release"], cwd=tree, check=True)
    subprocess.run(["cmake", "--build", folder, "--target", "tessera", "tessera_c"], check=True)
    return folder


class BuildWithProgram(build_py):
    def run(self):
        super().run()
        folder = built()
        package = Path(self.build_lib) / "tessera"
        library = folder / "c" / "libtessera_c.so"
        parts = {"bin": [folder / "tessera"], "lib": [library]}
        parts["lib"] += [p for p in folder.glob("libtessera_*.so")]  # modules: MPI, CUDA
        for name, files in parts.items():
            (package / name).mkdir(parents=True, exist_ok=True)
            for file in files:
                # Modules lie beside the program, where it looks for them.
                place = "bin" if name == "lib" and file != library else name
                (package / place).mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.resolve(), package / place / file.name)


class PlatformWheel(bdist_wheel):
    """For one kind of machine, but for every Python: nothing is compiled against it."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


class WithPrograms(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=version(),
    distclass=WithPrograms,
    cmdclass={"build_py": BuildWithProgram, "bdist_wheel": PlatformWheel},
)
