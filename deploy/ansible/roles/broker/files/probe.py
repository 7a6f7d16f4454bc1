"""Prints the state of a host as one JSON document, so that a run without changes needs one task for it.

Runs as root with the interpreter of the host before anything is installed, so it uses only the standard library. For
files that may have secrets it reports only digests.
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import re
import stat
import subprocess
import sys
from typing import Any

# A change of only this setting needs no restart: a running node already has its quorum, and reads the setting at its
# next start.
WITHOUT_RESTART = re.compile(r"^controller\.quorum\.bootstrap\.servers=.*\n?", re.MULTILINE)
QUORUM_STATE = "__cluster_metadata-0/quorum-state"
UNIT_FIELDS = ("LoadState", "ActiveState", "SubState", "UnitFileState", "NeedDaemonReload")


def text_of(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def described(path: str) -> dict[str, str] | None:
    """Mode, owner and group as a playbook writes them, and the digest of a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    try:
        owner, group = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        owner, group = str(found.st_uid), str(found.st_gid)
    shown = {"mode": f"{stat.S_IMODE(found.st_mode):04o}", "owner": owner, "group": group}
    text = text_of(path) if stat.S_ISREG(found.st_mode) else None
    if text is not None:
        shown["digest"] = digest(text)
        shown["digest_restart"] = digest(WITHOUT_RESTART.sub("", text))
    return shown


def releases(root: str) -> dict[str, Any]:
    """The extras of each completely installed release."""
    found = {}
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return {}
    for name in names:
        marker = text_of(os.path.join(root, name, "installed.json"))
        if marker is not None:
            found[name] = json.loads(marker)
    return found


def link(path: str) -> str:
    try:
        return os.path.basename(os.readlink(path))
    except OSError:
        return ""


def meta(directories: list[str]) -> dict[str, Any] | None:
    """The first meta.properties: its cluster, node and directory. `started`: whether a node has run with these
    directories: a node writes quorum-state, formatting does not.
    """
    for directory in directories:
        text = text_of(os.path.join(directory, "meta.properties"))
        if text is not None:
            pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
            found = {name.strip(): value.strip() for name, value in pairs}
            return {
                "cluster_id": found.get("cluster.id", ""),
                "node_id": found.get("node.id", ""),
                "directory_id": found.get("directory.id", ""),
                "started": any(os.path.exists(os.path.join(each, QUORUM_STATE)) for each in directories),
            }
    return None


def unformatted(directories: list[str]) -> list[str]:
    """The directories without meta.properties. Those on a disk that does not answer are not among them."""
    found = []
    for directory in directories:
        try:
            os.stat(os.path.join(directory, "meta.properties"))
        except FileNotFoundError:
            found.append(directory)
        except OSError:
            pass
    return found


def unit(name: str) -> dict[str, str]:
    command = ["systemctl", "show", name, "--property", ",".join(UNIT_FIELDS)]
    shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode()
    found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    return {field: found.get(field, "") for field in UNIT_FIELDS}


def exists(look_up: Any, name: str) -> bool:
    try:
        look_up(name)
    except KeyError:
        return False
    return True


def main() -> None:
    asked = json.load(sys.stdin)
    home = asked["home"]
    print(
        json.dumps(
            {
                "user": exists(pwd.getpwnam, asked["user"]),
                "paths": {path: described(path) for path in asked["paths"]},
                "releases": releases(os.path.join(home, "releases")),
                "current": link(os.path.join(home, "current")),
                "previous": link(os.path.join(home, "previous")),
                "meta": meta(asked["log_dirs"]),
                "unformatted": unformatted(asked["log_dirs"]),
                "unit": unit(asked["unit"]),
            }
        )
    )


if __name__ == "__main__":
    main()
