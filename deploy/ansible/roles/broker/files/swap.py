"""On a host whose broker is stopped: activate the prepared settings and the wanted release.

Reads {"home", "version", "properties", "keep"} as JSON on the standard input, and prints its changes, one per line. It
keeps "keep" releases, and always those of `current` and `previous`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys


def target(link: str) -> str | None:
    try:
        return os.path.basename(os.readlink(link))
    except OSError:
        return None


def point(link: str, version: str) -> None:
    """Replace the link atomically: a service that starts meanwhile finds the old or the new one."""
    temporary = f"{link}.{os.getpid()}"
    os.symlink(os.path.join("releases", version), temporary)
    os.rename(temporary, link)
    print(f"{link} -> {version}")


def main() -> None:
    asked = json.load(sys.stdin)
    home, version = asked["home"], asked["version"]
    current, previous = os.path.join(home, "current"), os.path.join(home, "previous")
    releases = os.path.join(home, "releases")
    if not os.path.exists(os.path.join(releases, version, "installed.json")):
        raise SystemExit(f"{releases}/{version} is not installed")
    prepared = asked["properties"] + ".next"
    if os.path.exists(prepared):
        os.rename(prepared, asked["properties"])
        print(asked["properties"])
    before = target(current)
    if before != version:
        if before is not None:
            point(previous, before)
        point(current, version)
    kept = {target(current), target(previous)}
    complete = [name for name in os.listdir(releases) if os.path.exists(os.path.join(releases, name, "installed.json"))]
    complete.sort(key=lambda name: os.path.getmtime(os.path.join(releases, name, "installed.json")), reverse=True)
    for name in complete[max(asked["keep"], 2) :]:
        if name not in kept:
            shutil.rmtree(os.path.join(releases, name))
            print(f"removed {name}")


main()
