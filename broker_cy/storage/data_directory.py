"""One data directory (an entry of log.dirs): its lock, `meta.properties`, and the mark of a clean shutdown."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from contextlib import suppress
from functools import lru_cache
from uuid import UUID

from broker_cy.core import uuid as kafka_uuid
from broker_cy.core.properties import parse_properties
from broker_cy.storage.atomic import read_whole, sync_directory, write_atomically
from broker_cy.storage.errors import SHORTAGES, rights_advice

META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
METADATA_TOPIC = "__cluster_metadata"
PARTITION_METADATA = "partition.metadata"
SMALL_FILE_MAX_BYTES = 64 << 10
VERSION = "1"

# A directory's name is `<topic>-<partition>`, with the possible suffixes `.<uuid>-delete`, `.<uuid>-stray` and
# `.<uuid>-future`. Partition numbers are int32.
PARTITION_MAX = 2**31 - 1
PARTITION_DIGITS_MAX = 10
_MARKED = re.compile(r".+\.[0-9a-f]{32}-(?P<mark>delete|stray|future)")


class DataDirectoryError(Exception):
    """A data directory cannot be used; the message is one line that says what to do."""


class DirectoryUnavailable(DataDirectoryError):
    """Its disk, or its permissions, prevent the use of a data directory. Its content is not known to be wrong, so a
    node with several directories can use the others.
    """


def parse_partition(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a directory name; None if it is not that of a partition in use."""
    # A name with a mark has no number at its end.
    topic, _, number = name.rpartition("-")
    if not topic or not number.isdigit() or not number.isascii() or len(number) > PARTITION_DIGITS_MAX:
        return None
    partition = int(number)
    return None if partition > PARTITION_MAX or "\n" in topic else (topic, partition)


def mark_of(name: str) -> str | None:
    """`delete`, `stray` or `future` for the directory of a partition that is not in use, else None."""
    found = _MARKED.fullmatch(name)
    return found["mark"] if found else None


def moved_partition(name: str) -> tuple[str, int] | None:
    """(topic, partition) of the copy of a log that is moved (`-future`); None for another name."""
    return parse_partition(name.rpartition(".")[0]) if mark_of(name) == "future" else None


class DataDirectory:
    """A data directory that this process has locked. `close` releases it."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.cluster_id = ""
        self.node_id = -1
        self.directory_id = kafka_uuid.ZERO
        # Why this process does not use it: its disk failed, before the start (storage.open_directories) or later
        # (storage.directory_failures).
        self.failure: str | None = None
        self._lock_fd = -1

    def lock(self) -> None:
        """Create the directory if it is missing, and lock it; raises DataDirectoryError, DirectoryUnavailable.

        Both kinds of file lock are taken: Kafka's own (fcntl), which a running Kafka holds, and flock, which also
        excludes a second broker in the same process.
        """
        if is_formatted(f"{self.path}/shard-0"):
            raise DataDirectoryError(
                f"data directory {self.path} contains those of shards (shard-0): start it with --shards, or name the "
                "directory of one of them"
            )
        try:
            os.makedirs(self.path, exist_ok=True)
            fd = os.open(f"{self.path}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DirectoryUnavailable(
                f"data directory {self.path} cannot be written ({error.strerror}): "
                "correct its permissions or choose another"
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise DirectoryUnavailable(f"data directory {self.path} cannot be locked: {error.strerror}") from error
            by = f" (process {holder})" if holder.isdigit() else ""
            raise DataDirectoryError(
                f"data directory {self.path} is in use by another broker{by}: stop it, or choose another log.dirs"
            ) from None
        self._lock_fd = fd
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            # A full disk cannot hold the number; the lock does not depend on it.
            if error.errno not in SHORTAGES:
                raise DirectoryUnavailable(f"data directory {self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Release the lock."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    @property
    def formatted(self) -> bool:
        """Return whether the directory has a meta.properties."""
        return os.path.exists(f"{self.path}/{META_PROPERTIES}")

    def names(self) -> list[str]:
        """All names in the directory, sorted. Raises DirectoryUnavailable."""
        try:
            return sorted(os.listdir(self.path))
        except OSError as error:
            raise DirectoryUnavailable(f"data directory {self.path} cannot be read: {error.strerror}") from error

    def directories(self) -> list[str]:
        """The names of the directories in it, sorted. Raises OSError."""
        with os.scandir(self.path) as entries:
            return sorted(each.name for each in entries if each.is_dir())

    def partitions(self) -> list[str]:
        """Names of the directories of partitions in use, sorted; the metadata log is one. Raises
        DirectoryUnavailable.
        """
        try:
            return [name for name in self.directories() if parse_partition(name)]
        except OSError as error:
            raise DirectoryUnavailable(f"data directory {self.path} cannot be read: {error.strerror}") from error

    def refuse_logs_without_meta(self) -> None:
        """Raise DataDirectoryError if there are logs, because logs of an unknown cluster must not get a new cluster
        id.
        """
        if names := self.partitions():
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise DataDirectoryError(
                f"data directory {self.path} holds logs ({names[0]}{more}) but no {META_PROPERTIES}: "
                "put that file back, or move the logs away for a new cluster"
            )

    def read_meta(self) -> None:
        """Read cluster id, node id and directory id from meta.properties; raises DataDirectoryError, and
        DirectoryUnavailable if the file cannot be read.
        """
        path = f"{self.path}/{META_PROPERTIES}"
        try:
            values = parse_properties(read_whole(path, SMALL_FILE_MAX_BYTES).decode())
            if values.get("version") != VERSION:
                raise ValueError(f"version is {values.get('version')!r}, expected {VERSION}")
            self.cluster_id = values["cluster.id"]
            self.node_id = int(values["node.id"])
            if "directory.id" in values:
                self.directory_id = kafka_uuid.from_text(values["directory.id"])
        except KeyError as error:
            raise DataDirectoryError(f"{path} has no {error.args[0]}: restore it, or remove the directory") from None
        except (OSError, ValueError) as error:
            # Do not suggest removing a directory that only has wrong permissions.
            remedy = rights_advice(error) or ": restore it, or remove the directory"
            kind = DirectoryUnavailable if isinstance(error, OSError) else DataDirectoryError
            raise kind(f"{path} cannot be read ({error}){remedy}") from error

    def format(self, cluster_id: str, node_id: int, directory_id: UUID) -> None:
        """Write meta.properties; raises DataDirectoryError."""
        values = {
            "node.id": node_id,
            "directory.id": kafka_uuid.to_text(directory_id),
            "version": VERSION,
            "cluster.id": cluster_id,
        }
        text = "#\n" + "".join(f"{name}={value}\n" for name, value in values.items())
        try:
            write_atomically(f"{self.path}/{META_PROPERTIES}", text.encode(), sync=True)
        except OSError as error:
            raise DataDirectoryError(f"data directory {self.path} cannot be written: {error.strerror}") from error
        self.cluster_id = cluster_id
        self.node_id = node_id
        self.directory_id = directory_id

    # --- clean stop

    def clean_broker_epoch(self) -> int | None:
        """Return the broker epoch that a clean shutdown wrote, -1 if it wrote none; None after an unclean shutdown."""
        try:
            data = read_whole(f"{self.path}/{CLEAN_SHUTDOWN}", SMALL_FILE_MAX_BYTES)
        except (OSError, ValueError):
            return None
        try:
            return int(json.loads(data)["brokerEpoch"])
        except (ValueError, ArithmeticError, LookupError, TypeError, RecursionError):
            return -1

    def mark_clean(self, broker_epoch: int) -> None:
        """Record that everything is on disk, as the last step of a shutdown. Raises OSError."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_atomically(f"{self.path}/{CLEAN_SHUTDOWN}", content.encode(), sync=True)

    def unmark_clean(self) -> None:
        """Remove the mark: from now on a shutdown is unclean until mark_clean; raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(f"{self.path}/{CLEAN_SHUTDOWN}")
            sync_directory(self.path)


def is_formatted(path: str | os.PathLike[str]) -> bool:
    """Return whether this data directory was in use before."""
    return os.path.exists(f"{os.fspath(path)}/{META_PROPERTIES}")


def holds_partitions(path: str | os.PathLike[str]) -> bool:
    """Return whether the directory has a partition besides that of the metadata, which formatting may make as well.
    True if the directory cannot be read: opening it reports the error.
    """
    if not os.path.isdir(path):
        return False
    try:
        names = os.listdir(path)
    except OSError:
        return True
    found = (parse_partition(name) for name in names)
    return any(key is not None and key[0] != METADATA_TOPIC for key in found)


def problem_of(path: str) -> str | None:
    """Return why `path` is not a readable data directory; None if it is one."""
    if os.path.isdir(path):
        return None if is_formatted(path) else f"{path} is not formatted."
    return f"{path} is not a directory" if os.path.exists(path) else f"{path} does not exist"


def make_log_directory(path: str, name: str) -> str:
    """Create the directory of a partition in the data directory `path`, unless it exists, and return its path. Raises
    OSError.
    """
    found = f"{path}/{name}"
    os.makedirs(found, exist_ok=True)
    sync_directory(path)
    return found


def room(path: str) -> tuple[int, int]:
    """Return (free bytes, total bytes) of the file system of a data directory. Raises OSError."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def read_topic_id(directory: str) -> UUID | None:
    """Topic id in a partition's `partition.metadata`; None if there is none, or if its content was lost in a power loss
    before the partition's first sync. Raises ValueError if it is damaged.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        content = read_whole(path, SMALL_FILE_MAX_BYTES)
    except FileNotFoundError:
        return None
    try:
        return topic_id_in(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


@lru_cache(maxsize=16)  # A start reads the partitions of a topic one after the other, and their files are equal.
def topic_id_in(content: bytes) -> UUID | None:
    """Topic id in the content of a `partition.metadata`; None if its content was lost in a power loss. Raises
    ValueError if it is damaged.
    """
    text = content.decode(errors="replace")
    if not text.strip("\0"):
        return None
    values = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if values.get("version") != "0" or "topic_id" not in values:
        raise ValueError("not partition metadata of version 0")
    return kafka_uuid.from_text(values["topic_id"])


def write_topic_id(directory: str, topic_id: UUID) -> None:
    """Write a partition's `partition.metadata`; raises OSError. The first sync of the log includes this file."""
    text = f"version: 0\ntopic_id: {kafka_uuid.to_text(topic_id)}"
    write_atomically(f"{directory}/{PARTITION_METADATA}", text.encode(), sync=False)
