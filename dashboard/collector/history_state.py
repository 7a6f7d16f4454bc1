"""The state file of a cluster's history, so that a restart reads only newer records.

Format: a line of JSON (the header) and after it the blocks of all series, then the events. The header has the version,
the cluster id, the byte order, the ranges of offsets that were read of both topics, the series with the numbers of
their blocks, the traffic of topics, and time, offset, type, subject and size of each event. The last four bytes are the
CRC-32 of everything before them, big-endian.

A file of another version, byte order or cluster, or a damaged one, is ignored with a log line: everything is then read
from the topics. The file is replaced atomically; it is not synced, because a damaged file only costs time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import orjson

from broker_cy.client.turns import Turns
from dashboard.collector.history_coverage import Coverage, TopicState
from dashboard.collector.history_marks import Mark, Marks
from dashboard.collector.history_topics import Busiest
from dashboard.collector.rings import BLOCK_FLOATS, RESOLUTIONS_MS, Key, Rings

_LOG = logging.getLogger(__name__)

VERSION: Final = 1
# A larger file was not written by this program: rings and events have bounds, and the header is small.
FILE_BYTES_MAX: Final = 512 << 20
_CRC_BYTES: Final = 4
_BLOCK_BYTES: Final = BLOCK_FLOATS * 4
# Blocks that are copied in one turn of the loop, below 1 ms, and written at once.
_BLOCKS_A_TURN: Final = 64


@dataclass(slots=True)
class State:
    """The state that a restart continues with."""

    cluster_id: str
    rings: Rings
    busiest: Busiest
    marks: Marks
    samples: TopicState = field(default_factory=TopicState)
    events: TopicState = field(default_factory=TopicState)


def path_of(directory: Path, cluster_id: str) -> Path:
    """Return the file of a cluster. Its id comes from a broker, so it is not used as a file name."""
    return directory / f"history-{hashlib.sha256(cluster_id.encode()).hexdigest()[:16]}.bin"


async def save(path: Path, state: State) -> None:
    """Write the file. The state must not change meanwhile. Raises OSError."""
    header = orjson.dumps(await _header(state)) + b"\n"
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        # Client ids and topic names must not be readable by other users.
        descriptor = await asyncio.to_thread(os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            check = 0
            for part in chain((header,), _parts(state)):
                check = await asyncio.to_thread(_write, file, part, check)
            await asyncio.to_thread(file.write, check.to_bytes(_CRC_BYTES, "big"))
        await asyncio.to_thread(os.replace, temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write(file: Any, part: bytes, check: int) -> int:
    file.write(part)
    return crc32(part, check)


def _parts(state: State) -> Iterator[bytes]:
    """The bytes after the header, each part small enough for one turn of the loop."""
    blocks: list[array[float]] = []
    for _, series in state.rings.items():
        for numbers in series.blocks:
            blocks += numbers.values()
        while len(blocks) >= _BLOCKS_A_TURN:
            yield b"".join(blocks[:_BLOCKS_A_TURN])
            del blocks[:_BLOCKS_A_TURN]
    yield b"".join(blocks)
    values: list[bytes] = []
    size = 0
    for mark in state.marks:
        values.append(mark.value)
        size += len(mark.value)
        if size >= _BLOCKS_A_TURN * _BLOCK_BYTES:
            yield b"".join(values)
            values, size = [], 0
    yield b"".join(values)


async def _header(state: State) -> dict[str, Any]:
    turns = Turns()
    series = []
    for key, each in state.rings.items():
        series.append([*key, [list(blocks) for blocks in each.blocks]])
        await turns.pause()
    marks = []
    for mark in state.marks:
        marks.append([mark.time_ms, mark.offset, mark.kind, mark.subject, len(mark.value)])
        await turns.pause()
    busiest = state.busiest
    return {
        "version": VERSION,
        "cluster_id": state.cluster_id,
        "byte_order": sys.byteorder,
        "newest_ms": state.rings.newest_ms,
        "samples": _topic(state.samples),
        "events": _topic(state.events),
        "series": series,
        "topics": [[*place, size] for place, size in busiest.held.items()],
        "other_topics": [[*place, size] for place, size in busiest.others.items()],
        "partial_topics": list(busiest.partial),
        "has_forgotten": busiest.has_forgotten,
        "marks": marks,
        "marks_from_ms": state.marks.from_ms,
    }


def _topic(topic: TopicState) -> dict[str, Any]:
    return {"topic_id": topic.topic_id, "ranges": topic.coverage.ranges}


def load(path: Path, cluster_id: str) -> State | None:
    """Return the state of a file; None, with a log line, if it does not exist or cannot be used. This can take seconds:
    call it in a thread.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ValueError(f"more than {FILE_BYTES_MAX} bytes")
        data = path.read_bytes()
        if len(data) < _CRC_BYTES or crc32(memoryview(data)[:-_CRC_BYTES]) != int.from_bytes(data[-_CRC_BYTES:], "big"):
            raise ValueError("the checksum is wrong")
        return _state(data, cluster_id)
    except FileNotFoundError:
        _LOG.info("no state file %s: the history is read from the topics", path)
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        _LOG.warning("state file %s is ignored, and the history is read from the topics: %s", path, error)
    return None


def _state(data: bytes, cluster_id: str) -> State:
    end = data.index(b"\n") + 1
    header = orjson.loads(data[:end])
    for name, expected in (("version", VERSION), ("cluster_id", cluster_id), ("byte_order", sys.byteorder)):
        if header[name] != expected:
            raise ValueError(f"{name} is {header[name]!r}, not {expected!r}")
    rest = memoryview(data)[end:-_CRC_BYTES]
    state = State(
        cluster_id, Rings(), Busiest(), Marks(), _read_topic(header["samples"]), _read_topic(header["events"])
    )
    at = _read_rings(state.rings, header, rest)
    state.busiest.restore(
        [((node, name), size) for node, name, size in header["topics"]],
        [((node, name), size) for node, name, size in header["other_topics"]],
    )
    state.busiest.partial = {(node, name) for node, name in header["partial_topics"]}
    state.busiest.has_forgotten = header["has_forgotten"]
    for time_ms, offset, kind, subject, size in header["marks"]:
        state.marks.add(Mark(time_ms, offset, kind, subject, bytes(rest[at : at + size])))
        at += size
    state.marks.from_ms = header["marks_from_ms"]
    if at != len(rest):
        raise ValueError(f"{len(rest)} bytes after the header instead of {at}")
    return state


def _read_topic(found: dict[str, Any]) -> TopicState:
    return TopicState(found["topic_id"], Coverage((start, end, from_ms) for start, end, from_ms in found["ranges"]))


def _read_rings(rings: Rings, header: dict[str, Any], rest: memoryview) -> int:
    rings.advance(header["newest_ms"])
    at = 0
    for node, measure, subject, phase, levels in header["series"]:
        series = rings.series(Key(node, measure, subject, phase))
        if series is None or len(levels) != len(RESOLUTIONS_MS):
            raise ValueError("too many series or resolutions")
        for blocks, numbers in zip(series.blocks, levels, strict=True):
            for number in numbers:
                block = array("f")
                block.frombytes(rest[at : at + _BLOCK_BYTES])
                if len(block) != BLOCK_FLOATS:
                    raise ValueError("the file is too short")
                blocks[number] = block
                at += _BLOCK_BYTES
                rings.blocks += 1
    return at
