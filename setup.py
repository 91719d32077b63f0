"""Builds the native kernels beside their sources; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = Path("engine/model/kernels")
FLAGS = [
    "-std=gnu++17",
    "-O3",
    "-fvisibility=hidden",
    "-ffp-contract=off",  # a fused multiply-add is where the source says so: then all levels give the same bits
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
]


class BuildLibrary(build_ext):
    """Names the library as ctypes loads it, not as an extension module."""

    def get_ext_filename(self, fullname: str) -> str:
        """The path of the built file below the package root."""
        return fullname.replace(".", "/") + ".so"


setup(
    cmdclass={"build_ext": BuildLibrary},
    ext_modules=[
        Extension(
            "engine.model.kernels.libtidemark",
            sources=sorted(str(path) for path in KERNELS.glob("*.cpp")),
            depends=sorted(str(path) for pattern in ("*.h", "*.inc") for path in KERNELS.glob(pattern)),
            extra_compile_args=FLAGS,
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,  # without a compiler everything runs on torch's operators, slower, and says so at start
        )
    ],
)
