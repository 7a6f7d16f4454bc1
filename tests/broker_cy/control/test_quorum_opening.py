"""A node finds the voters of the metadata quorum in its log when it starts: all sets of them, because the newest one
need not be committed.
"""

from __future__ import annotations

import random
from pathlib import Path

from broker_cy.config import BrokerConfig
from broker_cy.control.controller_service import SEGMENT_BYTES_MAX
from broker_cy.control.quorum.metadata_log import MetadataLog
from broker_cy.control.quorum.quorum_opening import open_quorum
from broker_cy.core.randomness import Randomness
from broker_cy.quorum import wire_log
from broker_cy.quorum.entries import Batch, Control, KRaftVersion, Leadership
from broker_cy.quorum.quorum import Quorum
from broker_cy.quorum.step import Role, Start, Tick
from broker_cy.quorum.voters import VoterSet
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import messages
from tests.broker_cy.quorum.voters import replica, voter


def opened(path: Path, *written: tuple[Control, ...], settings: dict[str, str] | None = None) -> Quorum:
    """The quorum of node 1, whose log has a control batch of epoch 1 with each of the entries."""
    properties = {
        "node.id": "1",
        "process.roles": "controller",
        "listeners": "CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(path),
        **(settings or {"controller.quorum.bootstrap.servers": "localhost:9093,localhost:9094"}),
    }
    directory = path / "__cluster_metadata-0"
    directory.mkdir()
    log = Log.create(str(directory), "__cluster_metadata", 0, LogConfig(segment_bytes=SEGMENT_BYTES_MAX), 0)
    files = MetadataLog(log, str(path), SEGMENT_BYTES_MAX)
    for control in written:
        offset = log.log_end_offset
        files.append(wire_log.encoded(Batch(offset, offset + len(control), 1, None, control), 0), 0)
        files.begin_sync()()
    config = BrokerConfig.from_properties(properties)
    quorum, voters, _ = open_quorum(config, voter(1), files, files.load(), Randomness(random.Random(1)))
    assert voters == quorum.voters
    return quorum


def first(*ids: int) -> tuple[Control, ...]:
    """The records that the first leader writes."""
    voters = VoterSet(map(voter, ids))
    return (Leadership(1, voters.keys, voters.keys), KRaftVersion(1), voters)


def test_a_removed_leader_stands_after_a_restart(tmp_path: Path) -> None:
    """If this fails, a quorum never gets a leader if its removed leader restarted before the removal was committed.
    Only this leader has the record, and it does not vote for the remaining voter, whose log is shorter.
    """
    quorum = opened(tmp_path, first(1, 2), (VoterSet([voter(2)]),))
    assert quorum.voters == VoterSet([voter(2)])
    quorum.step(Start(), 0)
    output = quorum.step(Tick(), 10_000)
    assert output.role is Role.PROSPECTIVE
    assert [(each.to, type(each.message)) for each in output.send] == [(2, messages.VoteRequest)]


def test_a_start_knows_the_voters_before_the_newest_ones(tmp_path: Path) -> None:
    """If this fails, a voter whose newest VotersRecord is truncated has no voters: it never stands again. A snapshot
    that ends before the record has none, either.
    """
    quorum = opened(tmp_path, first(1, 2), (VoterSet([voter(1), voter(2), voter(3)]),))
    assert quorum.voters.keys == (replica(1), replica(2), replica(3))
    assert quorum.voters_at(3)[1:] == (1, VoterSet([voter(1), voter(2)]))


def test_static_voters_count_again_if_the_upgrade_is_undone(tmp_path: Path) -> None:
    """If this fails, a voter that truncates the record of an upgrade of kraft.version no longer knows any voter."""
    settings = {"controller.quorum.voters": "1@localhost:9093,2@localhost:9094"}
    quorum = opened(tmp_path, (KRaftVersion(1), VoterSet([voter(1), voter(2)])), settings=settings)
    assert (quorum.kraft_version, quorum.voters.ids) == (1, (1, 2))
    assert quorum.voters_at(0)[1] == 0
    assert quorum.voters_at(0)[2].ids == (1, 2)
