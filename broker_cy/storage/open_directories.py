"""Opens the directories of a node at its start, and decides whether it can run without some of them (Kafka's
initializeLogDirs and MetaPropertiesEnsemble).

A directory whose content is wrong ends the start: it belongs to another cluster or node, another process uses it, it
has the id of another directory, it is in another one, or it is empty while others are formatted. A directory that
cannot be read or written is offline: the node runs without it, as after a failure of its disk while it runs. The
directory of the metadata log must be usable, and at least one data directory.

A path that does not exist is offline, too, because the mount point of a missing disk looks like this if the directory
is below it. Kafka 4.3.1 refuses to start. Both refuse if the path is an empty directory: it may be a mount point, and
a node that formatted it would fill the disk below it.
"""

from __future__ import annotations

import enum
import logging
import os
from collections.abc import Callable, Sequence
from uuid import UUID

from broker_cy.core import uuid as kafka_uuid
from broker_cy.core.logs import facts
from broker_cy.storage.data_directory import (
    META_PROPERTIES,
    METADATA_TOPIC,
    DataDirectory,
    DataDirectoryError,
    DirectoryUnavailable,
)
from broker_cy.storage.errors import rights_advice

logger = logging.getLogger(__name__)


class Content(enum.Enum):
    """The content of a path that is named as a data directory."""

    FORMATTED = enum.auto()
    # Without meta.properties.
    EMPTY = enum.auto()
    # Nothing is at the path.
    ABSENT = enum.auto()


def open_directories(
    paths: Sequence[str],
    node_id: int,
    new_cluster_id: Callable[[], str],
    new_uuid: Callable[[], UUID],
    *,
    may_format: bool = True,
    metadata_path: str | None = None,
) -> list[DataDirectory]:
    """Lock the data directories. Those of a node without any formatted directory are formatted, if they have no logs
    either. Without `may_format` one must be formatted already, because only that one names the cluster of the node.
    `metadata_path` is the directory of the metadata log, if it is none of them.

    Directories that are offline are returned with the reason (`DataDirectory.failure`). The others agree with each
    other and with `node_id`. Raises DataDirectoryError and OSError, after unlocking all of them again.
    """
    _refuse_same(paths)
    _refuse_nested(paths, paths)
    opened = [DataDirectory(path) for path in paths]
    contents = [content_of(each.path) for each in opened]
    is_new = Content.FORMATTED not in contents
    if is_new and metadata_path is not None:
        is_new = content_of(metadata_path) is not Content.FORMATTED
    try:
        if is_new:
            for directory, content in zip(opened, contents, strict=True):
                _open_new(directory, content)
            if not may_format:
                raise DataDirectoryError(
                    f"data directory {opened[0].path} is not formatted, and this node is one of several: format it "
                    "with broker-cy storage format, with the cluster id of the other nodes"
                )
            cluster_id = new_cluster_id()
            for directory in opened:
                directory.format(cluster_id, node_id, new_uuid())
        else:
            for directory, content in zip(opened, contents, strict=True):
                _open(directory, content)
            _check(opened, node_id)
            for directory in usable(opened):
                # Kafka before 3.7 gave directories no id; later versions add it at their start, too.
                if directory.directory_id == kafka_uuid.ZERO:
                    directory.format(directory.cluster_id, node_id, new_uuid())
    except BaseException:
        for directory in opened:
            directory.close()
        raise
    for directory in opened:
        if directory.failure is not None:
            logger.error("data directory offline", extra=facts(path=directory.path, reason=directory.failure))
    return opened


def usable(directories: Sequence[DataDirectory]) -> list[DataDirectory]:
    """Those that are not offline."""
    return [each for each in directories if each.failure is None]


def open_metadata_directory(
    path: str, directories: Sequence[DataDirectory], new_uuid: Callable[[], UUID], *, may_format: bool = True
) -> DataDirectory:
    """The directory of the metadata log (metadata.log.dir): one of the data directories, which are open, or another one
    of the same node, which has an id of its own. With `may_format` it is formatted if it is not. Raises
    DataDirectoryError and OSError.
    """
    path = os.path.abspath(path)
    found = next((each for each in directories if each.path == path), None)
    if found is None:
        data_paths = [each.path for each in directories]
        _refuse_same([path, *data_paths])
        _refuse_nested([path], data_paths)
        found = _open_apart(path, usable(directories)[0], new_uuid, may_format=may_format)
    elif found.failure is not None:
        raise DataDirectoryError(f"{found.failure}. It is the directory of the metadata log, so the node cannot start")
    for directory in usable(directories):
        if directory is not found and os.path.exists(f"{directory.path}/{METADATA_TOPIC}-0"):
            if found not in directories:
                found.close()
            raise DataDirectoryError(
                f"Found unexpected metadata location in data directory `{directory.path}/{METADATA_TOPIC}-0` (the "
                f"configured metadata directory is {path}): set metadata.log.dir to the directory with the metadata "
                "log, and remove the other log if it is older"
            )
    return found


def _open_apart(
    path: str, data_directory: DataDirectory, new_uuid: Callable[[], UUID], *, may_format: bool
) -> DataDirectory:
    """A directory that has only the metadata log; it must fit `data_directory`."""
    first = data_directory
    found = DataDirectory(path)
    found.lock()
    try:
        if not found.formatted:
            if not may_format:
                raise DataDirectoryError(
                    f"metadata directory {path} is not formatted, and this node is one of several: format it with "
                    "broker-cy storage format, with the cluster id of the other nodes"
                )
            found.format(first.cluster_id, first.node_id, new_uuid())
        found.read_meta()
        if (found.cluster_id, found.node_id) != (first.cluster_id, first.node_id):
            raise DataDirectoryError(
                f"metadata directory {path} belongs to node.id {found.node_id} of cluster {found.cluster_id}, "
                f"{first.path} to node.id {first.node_id} of cluster {first.cluster_id}"
            )
    except BaseException:
        found.close()
        raise
    return found


def _refuse_same(paths: Sequence[str]) -> None:
    """Raise DataDirectoryError if two paths lead to the same directory."""
    real = [os.path.realpath(path) for path in paths]
    if len(set(real)) < len(real):
        raise DataDirectoryError(f"Duplicate log directory found: {', '.join(paths)}: name each directory once")


def _refuse_nested(paths: Sequence[str], data_paths: Sequence[str]) -> None:
    """Raise DataDirectoryError if one of `paths` is in one of `data_paths`, where it would be taken for a partition if
    its name ends with a number, and renamed as that of a deleted topic. (Kafka refuses the other names.)
    """
    for path in paths:
        for outer in data_paths:
            if _is_in(os.path.abspath(path), outer) or _is_in(os.path.realpath(path), os.path.realpath(outer)):
                raise DataDirectoryError(
                    f"directory {path} is in data directory {outer}, which has only partitions: choose a directory "
                    "beside it"
                )


def _is_in(path: str, outer: str) -> bool:
    return path != outer and os.path.commonpath([path, outer]) == outer


def content_of(path: str) -> Content | OSError:
    """Return the content of the path, or the error that leaves it unknown."""
    try:
        os.stat(f"{path}/{META_PROPERTIES}")
        return Content.FORMATTED
    except FileNotFoundError:
        pass
    except OSError as error:
        return error
    try:
        os.listdir(path)
        return Content.EMPTY
    except FileNotFoundError:
        return Content.ABSENT
    except OSError as error:
        return error


def _open_new(directory: DataDirectory, content: Content | OSError) -> None:
    """Lock a directory that is to be formatted. An unreadable one may be formatted, so the node may not be new. Raises
    DataDirectoryError.
    """
    if isinstance(content, OSError):
        raise DirectoryUnavailable(_unreadable(directory.path, content))
    directory.lock()
    directory.refuse_logs_without_meta()


def _open(directory: DataDirectory, content: Content | OSError) -> None:
    """Lock and read a directory of a node that has formatted ones, or take it offline. Raises DataDirectoryError."""
    if isinstance(content, OSError):
        directory.failure = _unreadable(directory.path, content)
    elif content is Content.ABSENT:
        directory.failure = (
            f"data directory {directory.path} does not exist: mount its disk, or make it and format it with broker-cy "
            "storage format --ignore-formatted"
        )
    elif content is Content.EMPTY:
        directory.refuse_logs_without_meta()
        raise DataDirectoryError(
            f"No `meta.properties` found in {directory.path} (have you run `kafka-storage.sh` to format the "
            "directory?): mount its disk, or format a new one with broker-cy storage format --ignore-formatted"
        )
    else:
        try:
            directory.lock()
            directory.read_meta()
            directory.names()
        except DirectoryUnavailable as error:
            directory.close()
            directory.failure = str(error)


def _unreadable(path: str, error: OSError) -> str:
    return f"data directory {path} cannot be read ({error.strerror}){rights_advice(error)}"


def _check(opened: Sequence[DataDirectory], node_id: int) -> None:
    """Raise DataDirectoryError unless the directories that are online are those of one node."""
    online = usable(opened)
    if not online:
        raise DataDirectoryError("; ".join(str(each.failure) for each in opened))
    paths: dict[UUID, str] = {}
    for directory in online:
        if directory.node_id != node_id:
            raise DataDirectoryError(
                f"data directory {directory.path} belongs to node.id {directory.node_id}, this broker is {node_id}"
            )
        if directory.cluster_id != online[0].cluster_id:
            raise DataDirectoryError(
                f"data directory {directory.path} belongs to cluster {directory.cluster_id}, {online[0].path} to "
                f"{online[0].cluster_id}"
            )
        if directory.directory_id == kafka_uuid.ZERO:
            continue
        if kafka_uuid.is_reserved(directory.directory_id):
            raise DataDirectoryError(
                f"Invalid reserved directory ID {kafka_uuid.to_text(directory.directory_id)} found in "
                f"{directory.path}: remove the line directory.id from its {META_PROPERTIES}"
            )
        other = paths.setdefault(directory.directory_id, directory.path)
        if other != directory.path:
            raise DataDirectoryError(
                f"Duplicate directory ID {kafka_uuid.to_text(directory.directory_id)} found. It was the ID of {other}, "
                f"but also of {directory.path}: one is a copy of the other, remove it"
            )
