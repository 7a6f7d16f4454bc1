"""On a host whose broker is about to be restarted: remember its release and settings, or restore them.

Reads {"home", "properties", "former"} as JSON on the standard input. Without "former" it keeps a copy of the settings
beside them, and prints the releases of `current` and `previous` as JSON. With "former", which is that output, and a
stopped broker, it restores the links and the settings, and prints its changes, one per line.
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


def point(link: str, version: str | None) -> None:
    if target(link) == version:
        return
    if version is None:
        os.unlink(link)
    else:
        # The link is replaced atomically, so that there is always a release to start.
        temporary = f"{link}.{os.getpid()}"
        os.symlink(os.path.join("releases", version), temporary)
        os.rename(temporary, link)
    print(f"{link} -> {version}")


def copy(source: str, destination: str) -> None:
    """Copy a file with owner and mode; the target is complete at any time."""
    temporary = f"{destination}.{os.getpid()}"
    shutil.copy2(source, temporary)
    stat = os.stat(source)
    os.chown(temporary, stat.st_uid, stat.st_gid)
    os.rename(temporary, destination)


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def main() -> None:
    asked = json.load(sys.stdin)
    links = {name: os.path.join(asked["home"], name) for name in ("current", "previous")}
    settings, kept = asked["properties"], asked["properties"] + ".former"
    former = asked.get("former")
    if former is None:
        copy(settings, kept)
        print(json.dumps({name: target(link) for name, link in links.items()}))
        return
    for name, link in links.items():
        point(link, former[name])
    if os.path.exists(kept) and content(kept) != content(settings):
        # Keeps the settings that did not work for inspection.
        copy(settings, settings + ".failed")
        copy(kept, settings)
        print(settings)


main()
