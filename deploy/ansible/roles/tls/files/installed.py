"""The certificates that a host has, and the modes of their directories, as JSON. Keys are not included."""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import socket
import stat
import sys

CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)


def text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def described(path: str) -> str | None:
    try:
        found = os.stat(path)
        owner, group = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
    except (OSError, KeyError):
        return None
    return f"{stat.S_IMODE(found.st_mode):04o} {owner} {group}"


def main() -> None:
    directory = sys.argv[1]
    print(
        json.dumps(
            {
                "certificate": "".join(CERTIFICATE.findall(text_of(os.path.join(directory, "node.pem")))),
                "authority": text_of(os.path.join(directory, "authority.pem")),
                "paths": {path: described(path) for path in (os.path.dirname(directory), directory)},
                "groups": {each.gr_name: True for each in grp.getgrall()},
                "host_name": socket.gethostname(),
            }
        )
    )


main()
