"""Compile every .pyx under broker_cy and bench into its own extension. Metadata is in setup.cfg.

Environment: BROKER_CY_SANITIZE=1 builds with AddressSanitizer and UBSan (see `make asan`).
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

# C sources that belong to one extension module, by module name.
C_SOURCES: dict[str, list[str]] = {
    "broker_cy.core.crc32c": ["broker_cy/core/includes/crc32c_impl.c"],
}

SANITIZE = os.environ.get("BROKER_CY_SANITIZE") == "1"
COMPILE_ARGS = [
    "-O2",
    *([] if SANITIZE else ["-g0"]),
    "-fno-strict-aliasing",
    "-Wno-unused-function",
    "-Wno-unreachable-code",
]
LINK_ARGS: list[str] = []
if SANITIZE:
    flags = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined", "-g"]
    COMPILE_ARGS += flags
    LINK_ARGS += flags

JOBS = len(os.sched_getaffinity(0))


def extensions() -> list[Extension]:
    found = []
    for path in sorted([*Path("broker_cy").rglob("*.pyx"), *Path("bench").rglob("*.pyx")]):
        name = ".".join(path.with_suffix("").parts)
        sources = [str(path), *(s for s in C_SOURCES.get(name, []) if Path(s).exists())]
        found.append(Extension(name, sources, extra_compile_args=COMPILE_ARGS, extra_link_args=LINK_ARGS))
    return found


modules = extensions()
setup(
    ext_modules=cythonize(
        modules,
        nthreads=JOBS if len(modules) > 1 else 0,
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "embedsignature": True,
            "freethreading_compatible": False,
        },
    ),
    options={"build_ext": {"inplace": True, "parallel": JOBS}},
)
