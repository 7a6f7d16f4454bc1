"""What instruction counts depend on besides this project's sources."""

import ctypes
import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

# Compared in spite of a difference, which is printed: this project chooses Cython and uvloop (requirements.lock), and
# the gate must show that a new version costs more; the kernel decides only about the pieces of a large answer.
TOLD = ("cython", "uvloop", "kernel")
# The machine's: with another of these every count is another, and there is nothing to compare with.
MACHINE = ("python", "python_build", "gcc", "libc", "valgrind", "processor")


def versions() -> dict[str, str]:
    """The versions of all that is counted, and of what counts.

    Raises FileNotFoundError if a program is missing, CalledProcessError if one fails."""
    return {
        "python": platform.python_version(),
        "python_build": python_build(),
        "gcc": first_number(said_by(os.environ.get("CC", "gcc").split()[-1], "-dumpversion")),
        "libc": " ".join(platform.libc_ver()),
        "valgrind": said_by("valgrind", "--version").removeprefix("valgrind-"),
        "processor": processor(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "cython": importlib.metadata.version("cython"),
        "uvloop": importlib.metadata.version("uvloop"),
    }


def said_by(*command: str) -> str:
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"{command[0]} is needed (Debian: apt-get install valgrind gcc)")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def first_number(text: str) -> str:
    """The major version in what a compiler says of itself."""
    found = re.match(r"\d+", text)
    return found[0] if found else text


def python_build() -> str:
    """The start of the SHA-256 of the interpreter's file: libpython where it is shared, else the program."""
    path = Path(sys.executable).resolve()
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        shared = Path(ctypes.pythonapi._name or "")
        for line in Path("/proc/self/maps").read_text().splitlines():
            mapped = Path(line.split(maxsplit=5)[-1])
            if mapped.name.startswith("libpython"):
                shared = mapped
        path = shared if shared.is_file() else path
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def processor() -> str:
    """The machine, and the instruction sets for which libc, crc32c and zlib have variants of their own."""
    wanted = ("sse4_2", "pclmulqdq", "avx", "avx2", "bmi2", "erms")
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            flags = set(line.partition(":")[2].split())
            break
    return " ".join([platform.machine(), *(flag for flag in wanted if flag in flags)])


def differences(expected: dict[str, str], now: dict[str, str], keys: tuple[str, ...]) -> list[str]:
    """What of `keys` is not the same, in words."""
    return [
        f"{key} {now.get(key, 'none')} (recorded: {expected.get(key, 'none')})"
        for key in keys
        if expected.get(key) != now.get(key)
    ]
