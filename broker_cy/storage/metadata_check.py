"""Checks whether the metadata log of a data directory may be loaded, without changing anything on disk.

A torn tail of any other log costs that partition only records that were not acknowledged. The metadata log determines
which topics exist: if it were truncated below the committed end, every directory of a topic that it then no longer
contains would be a stray. So, as in Kafka, damage to committed metadata ends the start; only later entries may be
truncated.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from broker_cy.storage import recovery
from broker_cy.storage.data_directory import METADATA_TOPIC, DataDirectory, DataDirectoryError, parse_partition
from broker_cy.storage.log_files import DIGITS, base_offset_of

RESTORE = "restore the data directory from a copy"


def check(path: str, committed: int | None, clean: bool, directories: Iterable[DataDirectory]) -> bool:
    """Check all of the metadata log in the directory `path`; return whether there is one to load.

    `committed` is the end offset of the committed records according to the checkpoints (None if they have no entry),
    `clean` is whether the last stop was clean. Nothing may be missing or damaged below `committed`, and nothing damaged
    below the newest snapshot (a log that merely ends below it is left to the code that reads the snapshot). After a
    clean stop without an entry in the checkpoints, nothing at all may be damaged. If there is no log, or an empty one,
    `directories` must not contain a partition of a topic. Raises DataDirectoryError, and OSError if a file cannot be
    read.
    """
    names = os.listdir(path) if os.path.isdir(path) else []
    snapshot = max((n for n in names if n.endswith(".checkpoint") and base_offset_of(n) is not None), default=None)
    snapshot_end = int(snapshot[:DIGITS]) if snapshot is not None else 0
    end_offset, problem = _read(path, names, snapshot_end)
    needed = max(committed or 0, snapshot_end)
    if problem is not None:
        file, position, reason, is_torn = problem
        strict = not is_torn or (clean and committed is None)
        if strict or end_offset < needed:
            raise DataDirectoryError(
                f"metadata log {file} is damaged at byte {position} (offset {end_offset}: {reason}), in committed "
                f"records: {RESTORE}{_covered(snapshot)}"
            )
    elif committed is not None and end_offset < committed:
        raise DataDirectoryError(
            f"metadata log {path} ends at offset {end_offset}, but was committed up to offset {committed}: "
            f"{RESTORE}{_covered(snapshot)}"
        )
    if end_offset == 0:
        _refuse_partitions(path, directories)
    return bool(names) or os.path.isdir(path)


def _covered(snapshot: str | None) -> str:
    if snapshot is None:
        return ""
    return f" (the snapshot {snapshot} in this directory covers only the records below offset {int(snapshot[:DIGITS])})"


def _read(path: str, names: list[str], snapshot_end: int) -> tuple[int, tuple[str, int, str, bool] | None]:
    """The offset after the last valid batch, and the problem there, None if the log ends there: file, position, reason,
    and whether it can be the torn end of the log. Segments may be missing below `snapshot_end`: a deletion may have
    been interrupted.
    """
    bases = {base: name for name in names if name[DIGITS:] == ".log" and (base := base_offset_of(name)) is not None}
    sizes = {base: os.path.getsize(f"{path}/{name}") for base, name in bases.items()}
    # Segments that were begun and are still empty are ignored.
    filled = sorted(base for base, size in sizes.items() if size > 0)
    end_offset = filled[0] if filled else min(sizes, default=0)
    for base in filled:
        file = f"{path}/{bases[base]}"
        if end_offset < base <= snapshot_end:
            end_offset = base
        if base != end_offset:
            return end_offset, (file, 0, f"the batches from this offset up to offset {base} are missing", False)
        result, gap = recovery.verify_contiguous(file, base, sizes[base])
        end_offset = result.next_offset
        if gap:
            return end_offset, (file, result.position, "expected a batch with this base offset", False)
        if result.problem is not None:
            return end_offset, (file, result.position, result.problem, base == filled[-1])
    return end_offset, None


def _refuse_partitions(path: str, directories: Iterable[DataDirectory]) -> None:
    for directory in directories:
        # The message names a topic of the users, if there is one: internal topics begin with two underscores.
        for name in sorted(directory.partitions(), key=lambda name: (name.startswith("__"), name)):
            key = parse_partition(name)
            if key is not None and key[0] != METADATA_TOPIC:
                raise DataDirectoryError(
                    f"metadata log {path} is missing or empty, and {directory.path} holds logs of topics ({name}): "
                    f"{RESTORE}, or set metadata.log.dir to the directory that contains the metadata log, "
                    "or move the logs away for a new cluster"
                )
