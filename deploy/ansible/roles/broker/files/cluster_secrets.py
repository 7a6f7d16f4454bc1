"""On the control node: the cluster id, the passwords and the token of a cluster, generated once and kept in one
directory.

Reads the request as JSON on the standard input, and prints everything as JSON, with the names of new files. With
"check" nothing is written; new values are then only examples. Existing files always take precedence.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
import sys
import uuid
from pathlib import Path
from typing import Any

PASSWORD_BYTES = 24
TOKEN_BYTES = 32


class Store:
    """The directory; only its owner may read it."""

    def __init__(self, directory: Path, is_check: bool) -> None:
        self._directory = directory
        self._is_check = is_check
        self.made: list[str] = []

    def get(self, name: str, fresh: str) -> str:
        """The content of the file `name`, which is created with `fresh` if it does not exist."""
        path = self._directory / name
        if path.exists():
            found = path.read_text(encoding="utf-8").strip()
            if not found:
                raise SystemExit(
                    f"{path} is empty: write the secret into it, or remove the file to have a new one made"
                )
            return found
        self.put(name, fresh)
        return fresh

    def put(self, name: str, value: str) -> None:
        self.made.append(name)
        if self._is_check:
            return
        path = self._directory / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(value + "\n")
        temporary.rename(path)


def directory_id(cluster_id: str, node_id: int) -> str:
    """The id of the metadata directory of a first voter: the same in each run, so that all hosts agree."""
    for number in range(100):
        digest = hashlib.sha256(f"{cluster_id}/{node_id}/{number}".encode()).digest()
        text = _text(uuid.UUID(bytes=digest[:16], version=4))
        if text:
            return text
    raise AssertionError("unreachable: each try succeeds with 63 of 64")


def new_cluster_id() -> str:
    while True:
        text = _text(uuid.uuid4())
        if text:
            return text


def _text(value: uuid.UUID) -> str:
    """The id in Kafka's form; empty if a command line would interpret it as an option."""
    text = base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
    return "" if text.startswith("-") else text


def cluster_id_of(store: Store, path: Path, formatted: dict[str, str], *, joins: bool) -> str:
    """Return the cluster id. The hosts' id takes precedence over that of the file: the directory may have been lost,
    but not the records.
    """
    ids = sorted(set(formatted.values()))
    if len(ids) > 1:
        whose = ", ".join(f"{host}: {found}" for host, found in sorted(formatted.items()))
        raise SystemExit(f"the hosts belong to different clusters ({whose}): use a separate inventory for each cluster")
    if not ids and joins:
        # The cluster is not in this inventory: the operator has to write its id into the file.
        return path.read_text(encoding="utf-8").strip() if path.exists() else ""
    if not ids:
        return store.get("cluster-id", new_cluster_id())
    if not path.exists() or path.read_text(encoding="utf-8").strip() != ids[0]:
        store.put("cluster-id", ids[0])
    return ids[0]


def main() -> None:
    asked: dict[str, Any] = json.load(sys.stdin)
    os.umask(0o077)
    directory = Path(asked["directory"])
    store = Store(directory, asked["check"])
    cluster_id = cluster_id_of(store, directory / "cluster-id", asked["formatted"], joins=asked["joins"])
    passwords = {
        user["name"]: user.get("password")
        or store.get(f"passwords/{user['name']}", secrets.token_urlsafe(PASSWORD_BYTES))
        for user in asked["users"]
    }
    print(
        json.dumps(
            {
                "cluster_id": cluster_id,
                "passwords": passwords,
                "metrics_token": asked["metrics_token"]
                or store.get("metrics-token", secrets.token_urlsafe(TOKEN_BYTES)),
                "directory_ids": {str(node): directory_id(cluster_id, node) for node in asked["nodes"]},
                "made": store.made,
            }
        )
    )


main()
