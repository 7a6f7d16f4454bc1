"""The dependencies of instruction counts other than this project's sources."""

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

# If one of these differs, the difference is printed and counts are still compared: this project chooses Cython and
# uvloop (requirements.lock), and the gate must show that a new version costs more; the kernel only determines into how
# many pieces a large response is split.
TOLD = ("cython", "uvloop", "kernel")
# Properties of the machine: if one of these differs, every count does, and a comparison is not possible.
MACHINE = ("python", "python_build", "gcc", "libc", "valgrind", "processor")


def versions() -> dict[str, str]:
    """Return the versions of everything that is counted, and of the program that counts.

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
    """Return the major version from a compiler's version output."""
    found = re.match(r"\d+", text)
    return found[0] if found else text


def python_build() -> str:
    """Return the start of the SHA-256 of the interpreter's file: libpython if that is shared, else the program."""
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
    """Return the machine, and those instruction sets for which libc, crc32c and zlib have separate variants."""
    wanted = ("sse4_2", "pclmulqdq", "avx", "avx2", "bmi2", "erms")
    flags: set[str] = set()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            flags = set(line.partition(":")[2].split())
            break
    return " ".join([platform.machine(), *(flag for flag in wanted if flag in flags)])


def differences(expected: dict[str, str], now: dict[str, str], keys: tuple[str, ...]) -> list[str]:
    """Describe which of `keys` differ."""
    return [
        f"{key} {now.get(key, 'none')} (recorded: {expected.get(key, 'none')})"
        for key in keys
        if expected.get(key) != now.get(key)
    ]
