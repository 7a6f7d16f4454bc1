"""Copies of tasks' files in a directory that instances may share: a new instance begins with the newest that fits.

    SNAPSHOT_DIR/APPLICATION/TASK/TIME-ID.mdb     the file
    SNAPSHOT_DIR/APPLICATION/TASK/TIME-ID.json    its stamp, size and XXH3: written last, so the copy is whole

A copy is made of a state of one moment, while the task goes on. It has the rows of commits only.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from uuid import uuid4

import lmdb
import xxhash

from broker_streams.state.file import DATA, TaskFile, sync_directory
from broker_streams.state.stamp import Log, Stamp, misfit, missing

_BLOCK_BYTES: Final = 1 << 20
# A snapshot is taken in place of a file only if it lacks less than half of what the file lacks: a copy costs, too.
WORTH: Final = 2


class Snapshot(NamedTuple):
    """A whole copy."""

    path: Path
    stamp: Stamp
    size_bytes: int
    digest: str

    def fits(self, logs: Mapping[str, Log], now_ms: int) -> bool:
        places = self.stamp.places
        return all(
            misfit(places[name], log, self.stamp.time_ms, now_ms) is None
            for name, log in logs.items()
            if name in places
        )


class Snapshots:
    """The snapshots of one application; at most `count` of a task are kept."""

    def __init__(self, root: Path, application_id: str, count: int) -> None:
        self._path = root / application_id
        self._count = count

    def take(self, file: TaskFile, task: str) -> Snapshot:
        """Copy a file, and delete the oldest copies. May run beside writes of the file, in another thread.

        Raises StreamsError, OSError, lmdb.Error.
        """
        directory = self._path / task
        directory.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".new-", dir=directory))
        try:
            file.copy(work)
            stamp = _stamp_of(work)
            with (work / DATA).open("rb") as data:
                digest, size = _digest(data), os.fstat(data.fileno()).st_size
                os.fsync(data.fileno())
            path = directory / f"{stamp.time_ms:015}-{uuid4().hex}.mdb"
            (work / DATA).rename(path)
            text = json.dumps({"stamp": stamp.data().decode(), "size_bytes": size, "xxh3": digest})
            with (work / "json").open("w") as described:
                described.write(text)
                described.flush()
                os.fsync(described.fileno())
            (work / "json").rename(path.with_suffix(".json"))
            sync_directory(directory)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        for old in self.of(task)[self._count :]:
            for each in (old.path.with_suffix(".json"), old.path):
                with suppress(FileNotFoundError):
                    each.unlink()
        return Snapshot(path, stamp, size, digest)

    def of(self, task: str) -> list[Snapshot]:
        """The whole copies of a task, the newest first. Copies that cannot be read are left out."""
        found = []
        with suppress(OSError):
            for described in sorted((self._path / task).glob("*.json"), reverse=True):
                with suppress(OSError, ValueError, KeyError, TypeError):
                    text = json.loads(described.read_text())
                    stamp = Stamp.of(text["stamp"].encode())
                    path = described.with_suffix(".mdb")
                    if path.stat().st_size == text["size_bytes"]:
                        found.append(Snapshot(path, stamp, text["size_bytes"], text["xxh3"]))
        return found

    def better(self, task: str, lacking: int, logs: Mapping[str, Log], now_ms: int) -> Snapshot | None:
        """The newest snapshot that fits, if it saves much of the `lacking` offsets of the changelogs."""
        for each in self.of(task):
            if each.fits(logs, now_ms) and missing(each.stamp.places, logs) * WORTH < lacking:
                return each
        return None


def fetch(snapshot: Snapshot, directory: Path) -> Path | None:
    """Copy a snapshot beside the file of a task; None: it is damaged, or gone. May run in another thread."""
    to = directory / f".{uuid4().hex}.new"
    try:
        with snapshot.path.open("rb") as source, to.open("wb") as target:
            shutil.copyfileobj(source, target, _BLOCK_BYTES)
        with to.open("rb") as copied:
            if _digest(copied) == snapshot.digest:
                return to
    except OSError:
        pass
    to.unlink(missing_ok=True)
    return None


def install(fetched: Path, directory: Path) -> None:
    """Put a fetched snapshot in place of the file of a task, which is closed. The mark of the machine's boot stays:
    after a power loss, the copy is not taken for whole.
    """
    fetched.rename(directory / DATA)


def _digest(data: BinaryIO) -> str:
    found = xxhash.xxh3_128()
    while block := data.read(_BLOCK_BYTES):
        found.update(block)
    return found.hexdigest()


def _stamp_of(directory: Path) -> Stamp:
    """Raises ValueError, lmdb.Error: it is no whole file."""
    env = lmdb.open(str(directory), readonly=True, lock=False, max_dbs=4)
    try:
        with env.begin() as txn:
            return Stamp.of(txn.get(b"stamp", None, env.open_db(b"meta", txn=txn, create=False)))
    finally:
        env.close()
