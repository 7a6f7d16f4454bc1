"""A node that does not lead the metadata quorum applies what is committed, from its own log."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.outgoing import MACHINE
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.metadata import framing
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import VersionedRecord
from broker_cy.server.metadata import committed_metadata
from broker_cy.server.metadata.committed_metadata import CommittedMetadata
from broker_cy.server.metadata.controller_service import ControllerService
from broker_cy.storage.data_directory import open_directories
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.settings import StorageSettings
from broker_cy.wire import messages
from tests.broker_cy.server.metadata_broker import MetadataBroker, run, until
from tests.broker_cy.server.test_controller_service import create


def test_an_image_that_follows_is_that_of_the_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker that does not lead the quorum would serve other topics than the cluster has, or its
    partitions would not hear of them.
    """
    monkeypatch.setattr(committed_metadata, "REPLAY_BYTES", 300)

    async def work() -> None:
        async with MetadataBroker(tmp_path / "leader") as broker:
            for name in ("a", "b", "c"):
                await broker.controller.submit(create(name, partitions=3))
            wanted = broker.image.copy()
        shutil.copytree(tmp_path / "leader", tmp_path / "follower")
        ids = MACHINE_RANDOMNESS.kafka_uuid
        directories = open_directories([str(tmp_path / "follower")], 1, lambda: "", ids)
        logs = LogManager(directories, StorageSettings(), InlineJobs())
        files = MetadataBroker(tmp_path / "follower")
        files.directories = directories
        opened = ControllerService.open(
            files.config, files.clock, asyncio.get_running_loop(), logs, MACHINE_RANDOMNESS, MACHINE
        )._files
        heard: list[str] = []
        pieces: list[int] = []
        damage: list[str] = []
        follower = CommittedMetadata(
            Loader(),
            opened,
            asyncio.get_running_loop(),
            [lambda delta, image: heard.extend(topic.after.name for topic in delta.topics if topic.after is not None)],
            lambda image, size: pieces.append(size),
            damage.append,
        )
        follower.publish()
        follower.advance(wanted.offset + 1)
        await until(lambda: follower.end_offset > wanted.offset or bool(damage))
        assert not damage
        assert {topic.name: topic.partitions for topic in follower.image.topics} == {
            topic.name: topic.partitions for topic in wanted.topics
        }
        assert dict(follower.image.brokers) == dict(wanted.brokers)
        assert (follower.image.offset, follower.image.epoch) == (wanted.offset, wanted.epoch)
        assert sorted(set(heard)) == ["a", "b", "c"]
        assert len(pieces) > 1
        files.close()

    run(work)


def test_a_transaction_takes_effect_when_it_ends() -> None:
    """If this fails, a broker would serve half of what a controller wrote as a whole (KIP-868)."""
    records = [
        messages.BeginTransactionRecord(name="t"),
        messages.FeatureLevelRecord(name="metadata.version", feature_level=20),
        messages.EndTransactionRecord(),
        messages.BeginTransactionRecord(name="u"),
        messages.FeatureLevelRecord(name="metadata.version", feature_level=21),
        messages.AbortTransactionRecord(reason="no"),
    ]
    loader = Loader()
    levels = []
    for offset, record in enumerate(records):
        delta = loader.follow(framing.data_batch([VersionedRecord(record)], offset, 1, 0))
        levels.append((loader.image.features.metadata_version, delta.features, loader.in_transaction))
    assert levels == [
        (0, [], True),
        (0, [], True),
        (20, ["metadata.version"], False),
        (20, [], True),
        (20, [], True),
        (20, [], False),
    ]


def test_records_that_cannot_be_applied_are_reported(tmp_path: Path) -> None:
    """If this fails, a broker whose log is damaged would go on with metadata that nobody else has."""

    async def work() -> None:
        async with MetadataBroker(tmp_path) as broker:
            loader = Loader()
            damage: list[str] = []

            class Damaged:
                directory = "log"

                def read(self, offset: int, end_offset: int, max_bytes: int) -> bytes:
                    return b"\0" * 90

            files: Any = Damaged()
            loop = asyncio.get_running_loop()
            follower = CommittedMetadata(loader, files, loop, [], lambda *_: None, damage.append)
            follower.advance(broker.image.offset + 1)
            assert len(damage) == 1
            assert damage[0].startswith("log: the records from offset 0 on: batch at byte 0")
            assert loader.image.offset == -1

    run(work)
