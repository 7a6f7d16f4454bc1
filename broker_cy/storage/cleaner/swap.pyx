"""The cleaner's work on a log on the loop: reading the state of its segments, and replacing them by cleaned ones."""

from libc.stdint cimport int64_t

from broker_cy.storage.log cimport Log
from broker_cy.storage.log_config cimport LogConfig
from broker_cy.storage.segment cimport Segment

from broker_cy.storage.cleaner.files import DELETED, SWAP, file_name
from broker_cy.storage.segment_files import DATA_SUFFIXES, SNAPSHOT_SUFFIX
from broker_cy.storage.cleaner.job import CleaningAborted, CleaningPlan, SourceSegment


def segment_sizes(Log log not None):
    """[(base offset, size)] of all segments; the active one is the last."""
    cdef Segment segment
    return [(segment.base_offset, segment.size) for segment in log.segments]


def largest_timestamp(Log log not None, Py_ssize_t number):
    """Largest timestamp of segment `number`; if its records have none, the time when its file was last modified. Raises
    StorageError, OSError."""
    cdef Segment segment = log.segments[number]
    segment.ensure_timestamps()
    if segment.max_timestamp >= 0:
        return segment.max_timestamp
    return modified_ms(segment)


cdef int64_t modified_ms(Segment segment) except -1:
    import os
    return int(os.stat(segment.path).st_mtime * 1000)


def first_timestamp(Log log not None, Py_ssize_t number):
    """Largest timestamp of the first batch of segment `number`; -1 if there is none. Raises StorageError."""
    cdef Segment segment = log.segments[number]
    segment.ensure_rolling_timestamp()
    return segment.rolling_timestamp if segment.rolling_timestamp >= 0 else -1


def plan(
    Log log not None, int64_t first_dirty_offset, int64_t first_uncleanable_offset, int64_t now_ms, *,
    int64_t map_bytes, double load_factor, int64_t buffer_bytes,
):
    """A CleaningPlan for the segments before `first_uncleanable_offset`, a segment's base offset. Raises OSError, StorageError."""
    cdef Segment segment
    cdef LogConfig config = log.config
    cdef list sources = [], unsynced = []
    for segment in log.segments:
        if segment.base_offset < first_uncleanable_offset:
            sources.append(SourceSegment(
                segment.base_offset, segment.size, segment.offsets.count() * 8, segment.times.count() * 12
            ))
    for segment in log.segments[log.segment_number(log.synced_end_offset):]:
        if segment.base_offset < first_uncleanable_offset:
            unsynced.append(segment.base_offset)
    return CleaningPlan(
        directory=log.directory, syncs=log.syncs, segments=sources, unsynced=unsynced, all_bases=[each[0] for each in segment_sizes(log)],
        first_dirty_offset=first_dirty_offset, first_uncleanable_offset=first_uncleanable_offset,
        producers=log.producers.encode(committed=True), generation=log.generation, segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes, index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms, now_ms=now_ms, map_bytes=map_bytes, load_factor=load_factor,
        buffer_bytes=buffer_bytes,
    )


def install(Log log not None, files, replacement):
    """Put a cleaned segment, whose files are named `.swap`, in the place of the segments it replaces. Return the paths of their
    files, renamed to `.deleted`, to be unlinked later (file.delete.delay.ms). Readers that hold a part of an old segment keep its
    file.

    Raises CleaningAborted if the log no longer has these segments. Raises OSError if a file cannot be renamed: then the old
    segments get their names back and stay. If even that fails the log goes offline, since only a start can find out which files are
    whole.
    """
    cdef Segment segment, cleaned
    cdef list old, renamed = []
    cdef Py_ssize_t first = log.segment_number(replacement.base_offset)
    old = log.segments[first:first + len(replacement.replaced)]
    if (
        log.offline is not None or [(<Segment>segment).base_offset for segment in old] != replacement.replaced
        or log.active in old
    ):
        files.discard(replacement.base_offset, SWAP)
        raise CleaningAborted
    try:
        for segment in old:
            rename_files(files, segment.base_offset, DATA_SUFFIXES, "", DELETED, renamed)
            if segment.base_offset != replacement.base_offset:
                # Snapshots of producer state are kept at the starts of segments, and no segment starts here any longer.
                rename_files(files, segment.base_offset, (SNAPSHOT_SUFFIX,), "", DELETED, renamed)
        names = [name for _, name in renamed]
        rename_files(files, replacement.base_offset, DATA_SUFFIXES, SWAP, "", renamed)
    except OSError:
        if give_names_back(log, files, renamed):
            files.discard(replacement.base_offset, SWAP)
        raise
    for segment in old:
        segment.close()
    cleaned = Segment(log.directory, replacement.base_offset, log.open_files, replacement.size, True,
                      (<Segment>old[0]).created_ms, log.config.index_interval_bytes)
    # Its checksums were computed when it was written a moment ago, and it is on disk.
    cleaned.mark_verified()
    cleaned.max_timestamp = replacement.max_timestamp
    cleaned.max_timestamp_offset = replacement.max_timestamp_offset
    log.segments[first:first + len(old)] = [cleaned]
    return [f"{files.path}/{name}" for name in names]


cdef int rename_files(files, int64_t base_offset, suffixes, old_mark, new_mark, list renamed) except -1:
    """Rename the existing files of a segment, and note each in `renamed` as (old name, new name)."""
    for suffix in suffixes:
        name = file_name(base_offset, suffix)
        try:
            files.rename(name + old_mark, name + new_mark)
        except FileNotFoundError:
            continue
        renamed.append((name + old_mark, name + new_mark))
    return 0


cdef bint give_names_back(Log log, files, list renamed) except -1:
    """Undo renames, the last one first; return whether that succeeded. Each step restores a state that the renames went through:
    if a crash or a second failure interrupts it, the next start puts the cleaned segment in place, whose files all still exist."""
    try:
        for old, new in reversed(renamed):
            files.rename(new, old)
    except OSError as error:
        log.mark_offline(f"cannot restore the names of segments that the cleaner was replacing: {error}")
        return False
    return True
