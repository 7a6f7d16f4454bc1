"""On a host: compares a service with its wanted state, so that a run without changes needs one task for it.

Reads {"user", "directories", "files", "units", "watch"} as JSON on the standard input; directories and files are
{"path", "mode", "owner", "group"}, files with "digest" as well. Prints {"user": whether it exists, "differs": [paths],
"units": {name: whether it is enabled, runs, and runs since the last change of a file}}. Nothing is changed.
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import stat
import subprocess
import sys
from typing import Any


def differs(wanted: dict[str, str]) -> bool:
    try:
        found = os.stat(wanted["path"])
        owner, group = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
    except (OSError, KeyError):
        return True
    if (f"{stat.S_IMODE(found.st_mode):04o}", owner, group) != (wanted["mode"], wanted["owner"], wanted["group"]):
        return True
    if "digest" not in wanted:
        return not stat.S_ISDIR(found.st_mode)
    with open(wanted["path"], "rb") as file:
        return hashlib.sha256(file.read()).hexdigest() != wanted["digest"]


def changed_at(paths: list[str]) -> int:
    """The second of the last change of a file; 0 without a file."""
    return max((int(os.stat(path).st_mtime) for path in paths if os.path.exists(path)), default=0)


def is_right(unit: str, since: int) -> bool:
    fields = "ActiveState,UnitFileState,NeedDaemonReload,ActiveEnterTimestamp"
    shown = subprocess.run(
        ["systemctl", "show", unit, "--timestamp=unix", "--property", fields],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
    ).stdout.decode()  # fmt: skip
    found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    begun = found.get("ActiveEnterTimestamp", "").lstrip("@")
    return (
        found.get("ActiveState") == "active"
        and found.get("UnitFileState") == "enabled"
        and found.get("NeedDaemonReload") == "no"
        and begun.isdecimal()
        and int(begun) >= since
    )


def main() -> None:
    asked: dict[str, Any] = json.load(sys.stdin)
    try:
        pwd.getpwnam(asked["user"])
        is_there = True
    except KeyError:
        is_there = False
    since = changed_at([each["path"] for each in asked["files"]] + asked["watch"])
    print(
        json.dumps(
            {
                "user": is_there,
                "differs": [each["path"] for each in asked["directories"] + asked["files"] if differs(each)],
                "units": {unit: is_right(unit, since) for unit in asked["units"]},
            }
        )
    )


main()
