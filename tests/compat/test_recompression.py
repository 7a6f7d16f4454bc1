"""compression.type and its levels: the stored form of a batch of each codec, read by Apache Kafka's own tool."""

from __future__ import annotations

import itertools
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import SETTINGS, CoreHarness, produce_to
from tests.support.kafka_dump import dump_log_segments

# compression.type, and the setting of its level.
TARGETS: list[tuple[str, int | None]] = [
    ("producer", None), ("uncompressed", None), ("snappy", None),
    ("gzip", -1), ("gzip", 1), ("gzip", 9), ("lz4", 1), ("lz4", 9), ("lz4", 17),
    ("zstd", -131072), ("zstd", 3), ("zstd", 22),
]  # fmt: skip
WORDS = [b"offset", b"segment", b"leader", b"epoch", b"record", b"batch"]
VALUES = [b" ".join(WORDS[(i * k + k) % 6] for k in range(1, 60)) for i in range(40)]


def records() -> list[Record]:
    return [Record(i, 1_700_000_000_000 + i, b"k%d" % i, value, [("h", b"x")]) for i, value in enumerate(VALUES)]


@pytest.fixture
def core() -> Any:
    harness = CoreHarness()
    yield harness
    harness.close()


def test_every_pair_of_codecs_is_stored_as_the_topic_says(core: CoreHarness) -> None:
    """If this fails, a topic's compression.type or level is ignored, or Kafka cannot read recompressed batches."""
    client = core.client()
    logs: list[Path] = []
    for number, (kind, level) in enumerate(TARGETS):
        name = f"t{number}"
        core.topic(name)
        settings = {**SETTINGS, "compression.type": kind}
        if level is not None:
            settings[f"compression.{kind}.level"] = level
        partition = core.table.by_name[name.encode()][0]
        assert partition is not None
        core.on_loop(partial(partition.configure, settings))
        for codec in Codec:
            result = produce_to(client, name, encode_batch(records(), codec=codec))
            assert (result.error_code, result.base_offset) == (0, codec * len(VALUES))
        logs.append(Path(partition.log.active.path))
    text = dump_log_segments(logs, "--deep-iteration", "--print-data-log")
    sizes: dict[tuple[str, int | None], list[int]] = {}
    dumps = re.split(r"^Dumping .*$", text, flags=re.MULTILINE)[1:]
    assert len(dumps) == len(TARGETS)
    for (kind, level), dump in zip(TARGETS, dumps, strict=True):
        found = re.findall(r"size: (\d+) magic: 2 compresscodec: (\w+) .* isvalid: (\w+)$", dump, re.MULTILINE)
        named = (
            [codec.name.lower() for codec in Codec]
            if kind == "producer"
            else [kind.replace("uncompressed", "none")] * 5
        )
        assert [codec for _, codec, _ in found] == named
        assert {valid for _, _, valid in found} == {"true"}
        sizes[kind, level] = [int(size) for size, _, _ in found]
        payloads = re.findall(r"^\| offset: (\d+) .* payload: (.*)$", dump, re.MULTILINE)
        assert [int(offset) for offset, _ in payloads] == list(range(5 * len(VALUES)))
        assert [payload.encode() for _, payload in payloads] == VALUES * 5
    # A batch that has the topic's codec is not changed, whatever its level: Kafka compares codecs only.
    assert sizes["gzip", 1][Codec.GZIP] == sizes["gzip", 9][Codec.GZIP] == sizes["producer", None][Codec.GZIP]
    for kind, levels in itertools.groupby(TARGETS[3:], key=lambda target: target[0]):
        lowest, *_, highest = sorted(level for _, level in levels if level is not None and level != -1)
        assert sizes[kind, highest][Codec.NONE] < sizes[kind, lowest][Codec.NONE], f"{kind}: the level has no effect"
