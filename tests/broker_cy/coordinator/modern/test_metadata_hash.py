"""The metadata hash against Kafka's: `tests/fixtures/metadata_hashes_4.3.1.txt` has recorded answers of the JVM."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.coordinator.modern.metadata_hash import group_hash, topic_hashes
from broker_cy.metadata.image import BrokerImage, MetadataImage
from broker_cy.metadata.partition import PartitionImage
from broker_cy.metadata.topics import TopicImage
from tests.support import kafka_tools, needs

ANSWERS = Path(__file__).parents[3] / "fixtures" / "metadata_hashes_4.3.1.txt"
RACKS = ("a", "rack-1", "éß", "日本", "\N{GRINNING FACE}x", "z" * 130)
NAMES = ("t", "orders", "a.b_c-D", "x" * 249)
TIMEOUT_S = 60.0


def groups() -> list[str]:
    """The groups of KafkaMetadataHashes.java: each size class of XXH3 occurs."""
    rng = random.Random("metadata hashes")
    found = ["", "t,0.0,", "t,-1.-1,a"]
    for count in (1, 1, 1, 1, 2, 3, 4):
        for partitions in (1, 2, 7, 30, 120):
            topics = []
            for name in rng.sample(NAMES, count):
                racks = ["+".join(rng.choices(RACKS, k=rng.randrange(4))) for _ in range(partitions)]
                most, least = (rng.getrandbits(64) - (1 << 63) for _ in range(2))
                topics.append(f"{name},{most}.{least},{'/'.join(racks)}")
            found.append(";".join(topics))
    return found


def ours(line: str) -> str:
    image = MetadataImage()
    hashes: dict[str, int] = {}
    for text in filter(None, line.split(";")):
        name, numbers, racks = text.split(",")
        topic_id = UUID(bytes=struct.pack(">qq", *map(int, numbers.split("."))))
        partitions: dict[int, PartitionImage] = {}
        for index, of_partition in enumerate(racks.split("/")):
            # A broker without a rack does not count, nor does one that is not registered.
            replicas = [broker_of(image, None), 1_000_000]
            replicas += [broker_of(image, rack) for rack in of_partition.split("+") if rack]
            partitions[index] = PartitionImage(tuple(replicas), (), -1, 0, 0)
        hashes |= topic_hashes([TopicImage(name, topic_id, partitions)], image)
    return " ".join(map(str, [*hashes.values(), group_hash(hashes)]))


def broker_of(image: MetadataImage, rack: str | None) -> int:
    number = len(image.brokers)
    image.brokers[number] = BrokerImage(number, 0, UUID(int=0), {}, {}, rack, False, False, (), None)
    return number


def test_hashes_are_those_of_kafka() -> None:
    """If this fails, each move of a coordinator between Kafka and this broker rebalances all groups."""
    recorded = [line.split("\t") for line in ANSWERS.read_text().splitlines()]
    assert [line for line, _ in recorded] == groups()
    for line, answer in recorded:
        assert ours(line) == answer, line


@pytest.mark.full
@needs.java
def test_recorded_hashes_are_those_of_the_jvm() -> None:
    """If this fails, the recorded answers are not Kafka's."""
    source = Path(__file__).with_name("KafkaMetadataHashes.java")
    done = kafka_tools.run_program(source, stdin=("\n".join(groups()) + "\n").encode(), timeout_s=TIMEOUT_S)
    answers = done.stdout.decode().splitlines()
    text = "".join(f"{line}\t{answer}\n" for line, answer in zip(groups(), answers, strict=True))
    assert text == ANSWERS.read_text()
