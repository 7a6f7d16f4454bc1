"""Runs on a host as `python3 -c TEXT`: reports the settings of the host, and those that cannot be changed.

It reads JSON on the standard input, prints one JSON object, and changes nothing. It uses only the standard library and
runs with Python 3.8.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage"


def value_of(path: str) -> str | None:
    """The content of a file of /proc/sys or /sys with single spaces, or None if it does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            return " ".join(file.read().split())
    except OSError:
        return None


def writable(path: str) -> bool:
    """Whether root may write there: in a container, parts of /proc and /sys are read-only."""
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        return False
    return True


def state(path: str, wanted: str, found: str | None) -> dict[str, Any]:
    same = found == " ".join(wanted.split())
    return {"found": found, "same": same, "can_be_set": same or (found is not None and writable(path))}


def sysctl(name: str, wanted: str) -> dict[str, Any]:
    path = "/proc/sys/" + name.replace(".", "/")
    return state(path, wanted, value_of(path))


def huge_pages(name: str, wanted: str) -> dict[str, Any]:
    """The kernel lists all choices, with the current one in brackets."""
    path = f"{HUGE_PAGES}/{name}"
    chosen = re.search(r"\[(.+?)\]", value_of(path) or "")
    return state(path, wanted, chosen.group(1) if chosen else None)


def read_ahead(path: str, wanted: str) -> dict[str, Any]:
    """The read-ahead of the disk of a directory, or of its nearest existing parent."""
    while not os.path.exists(path):
        path = os.path.dirname(path)
    device = os.stat(path).st_dev
    block = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    # A partition has the queue of its disk.
    queue = next((at for at in (f"{block}/queue", os.path.realpath(block) + "/../queue") if os.path.isdir(at)), block)
    found = state(f"{queue}/read_ahead_kb", wanted, value_of(f"{queue}/read_ahead_kb"))
    # The unit sets it through the device, which a container does not have.
    shown = subprocess.run(
        ["findmnt", "--noheadings", "--output", "SOURCE", "--target", path],
        stdout=subprocess.PIPE,
        timeout=10,
        check=False,
    )
    source = shown.stdout.decode(errors="replace").strip().split("[")[0]
    return {**found, "source": source, "can_be_set": found["same"] or (found["can_be_set"] and os.path.exists(source))}


def text_of(path: str) -> str | None:
    """The content of a file that only root may change and all users may read; None if it does not exist or has other
    permissions.
    """
    try:
        found = os.stat(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return None
    right = (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (0, 0, 0o644)
    return text.strip() if right else None


def main() -> None:
    asked = {"sysctls": {}, "huge_pages": {}, "read_ahead_paths": [], "read_ahead_kb": 0, **json.load(sys.stdin)}
    print(
        json.dumps(
            {
                "sysctls": {name: sysctl(name, str(wanted)) for name, wanted in asked["sysctls"].items()},
                "huge_pages": {name: huge_pages(name, str(wanted)) for name, wanted in asked["huge_pages"].items()},
                "read_ahead": {
                    path: read_ahead(path, str(asked["read_ahead_kb"])) for path in asked["read_ahead_paths"]
                },
                "files": {path: text_of(path) for path in asked["files"]},
            }
        )
    )


if __name__ == "__main__":
    main()
