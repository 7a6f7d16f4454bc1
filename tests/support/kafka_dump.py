"""A data directory that Apache Kafka wrote, and the output of Kafka's dump tool for it (tests/fixtures)."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kafka_tools import run_tool

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "kafka-4.3.1"
_BATCH = re.compile(r"baseOffset: \d+ .* isControl: (true|false) .* compresscodec: (\w+) ")
_RECORD = re.compile(
    r"\| offset: (\d+) CreateTime: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: -?\d+ headerKeys: \[(.*?)\]"
)
_ABORTED = re.compile(r"^version: 0 producerId: \d+ firstOffset: (\d+) lastOffset: (\d+) ", re.MULTILINE)


@dataclass(frozen=True)
class DumpedRecord:
    """A record as the dump shows it; sizes are -1 for null."""

    offset: int
    timestamp_ms: int
    key_bytes: int
    value_bytes: int
    header_keys: tuple[str, ...]
    codec: str
    # The text after the fields: key and payload, with U+FFFD for each byte that is not valid UTF-8.
    text: str

    @property
    def key(self) -> str | None:
        return None if self.key_bytes < 0 else self.text[len(" key: ") :][: self.key_bytes]

    @property
    def value(self) -> str | None:
        if self.value_bytes < 0:
            return None
        label = " payload: " if self.key is None else f" key: {self.key} payload: "
        return self.text[len(label) :][: self.value_bytes]


def copy_data_directory(target: Path) -> Path:
    """Copy the directory as Kafka left it, so that it can be written to."""
    shutil.copytree(FIXTURES / "logdir", target, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def _dump(partition: str) -> str:
    # Not read_text, which would translate bytes of the values as line ends.
    return (FIXTURES / "dump" / f"{partition}.txt").read_bytes().decode()


def dumped_records(partition: str) -> Iterator[DumpedRecord]:
    """Every record of a partition except those of control batches."""
    text = _dump(partition)
    # A value may contain line ends: a record extends to the beginning of the next one, batch or file.
    starts = [*(match.start() for match in re.finditer(r"^(?:\| offset|baseOffset|Dumping)", text, re.M)), len(text)]
    control, codec = False, ""
    for start, end in itertools.pairwise(starts):
        part = text[start:end]
        if batch := _BATCH.match(part):
            control, codec = batch[1] == "true", batch[2]
        elif (record := _RECORD.match(part)) and not control:
            offset, timestamp, key, value = map(int, record.groups()[:4])
            headers = tuple(record[5].split(",")) if record[5] else ()
            yield DumpedRecord(offset, timestamp, key, value, headers, codec, part[record.end() :])


def aborted_offsets(partition: str) -> set[int]:
    """Offsets of records of aborted transactions, provided that no other records are between them."""
    return {offset for first, last in _ABORTED.findall(_dump(partition)) for offset in range(int(first), int(last) + 1)}


def metadata_records(kind: str) -> list[dict[str, Any]]:
    """Data of the cluster metadata's records of one type, for example TOPIC_RECORD."""
    found = [json.loads(record.text[len(" payload: ") :]) for record in dumped_records("__cluster_metadata-0")]
    return [each["data"] for each in found if each["type"] == kind]


def committed_offsets() -> dict[tuple[str, str, int], int]:
    """The last committed offset by (group, topic, partition)."""
    found = {}
    for record in dumped_records("__consumer_offsets-0"):
        key, _, value = record.text.removeprefix(" key: ").partition(" payload: ")
        parsed = json.loads(key)
        if parsed["type"] == "1":
            data = parsed["data"]
            found[data["group"], data["topic"], data["partition"]] = json.loads(value)["data"]["offset"]
    return found


def dump_log_segments(paths: Iterable[Path], *flags: str) -> str:
    """The output of DumpLogSegments for segments, indexes, snapshots or checkpoints.

    Raises AssertionError if it reports a fault.
    """
    files = ",".join(str(path) for path in paths)
    done = run_tool("org.apache.kafka.tools.DumpLogSegments", *flags, "--files", files)
    text = done.stdout.decode()
    for fault in (
        "Found timestamp mismatch",
        "Found out of order",
        "Mismatches in",
        "Non-consecutive offsets",
        "invalid bytes at the end",
        "isvalid: false",
    ):
        if fault in text:
            raise AssertionError(f"DumpLogSegments found a fault in {files}:\n{text}")
    return text
