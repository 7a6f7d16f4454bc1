"""Logs that a start replays into state: the metadata log and its snapshots, and the groups' log."""

from __future__ import annotations

import struct
from pathlib import Path
from uuid import UUID

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.core.errors import WireError
from broker_cy.core.step import Now
from broker_cy.metadata import snapshot
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import MetadataLogError
from broker_cy.quorum import wire_log
from broker_cy.quorum.election_state import ElectionState, QuorumError
from broker_cy.quorum.entries import Batch as QuorumBatch
from broker_cy.quorum.entries import KRaftVersion, Leadership
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.wire import codec, messages
from broker_cy.wire.records import Batch, Record, decode_batches, encode_batch
from tests.broker_cy.wire.random_messages import ALL, Generator
from tests.fuzz.batch_targets import NOW_MS, mutate_batch
from tests.fuzz.mutator import Mutator
from tests.fuzz.target import MIB, Target, text_mutation
from tests.fuzz.wire_targets import metadata_corpus

LOG_DIR = Path(__file__).resolve().parents[1] / "fixtures/kafka-4.3.1/logdir"
# Records of other topics than __consumer_offsets.
OTHER_TOPICS = ("TransactionLog", "ShareSnapshot", "ShareUpdate")
DIRECTORY_ID = UUID(int=1 << 99)
SNAPSHOT_ID = snapshot.SnapshotId(1_000_000, 5)

# --- the metadata log


def log_corpus() -> list[bytes]:
    """Batches that a real Kafka wrote, and batches of random records, which are rarely consistent with each other."""
    log = (LOG_DIR / "__cluster_metadata-0/00000000000000000000.log").read_bytes()
    bootstrap = (LOG_DIR / "bootstrap.checkpoint").read_bytes()
    batches = [bytes(batch.data) for batch in decode_batches(log)]
    return [log, *(b"".join(batches[: i + 1]) for i in range(0, len(batches), 3)), bootstrap]


_random_values: list[bytes] = []


def mutate_metadata_log(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """Mutate the value of one record, insert another one, or mutate a batch like any batch."""
    if not _random_values:
        _random_values.extend(metadata_corpus())
    r = mutator.bits(16)
    try:
        batches = list(decode_batches(data))
    except ValueError:
        batches = []
    if not batches:
        return bytes(mutator.mutate(data, other))
    number = mutator.bits(16) % len(batches)
    chosen = batches[number]
    changed = bytes(chosen.data)
    if r & 3 == 0:
        changed = mutate_batch(mutator, changed, other)
    else:
        try:
            changed = _with_other_value(mutator, chosen.records(MIB), chosen, r)
        except ValueError:
            changed = mutate_batch(mutator, changed, other)
    before = data[: chosen.position]
    return before + changed + data[chosen.position + chosen.size_bytes :]


def _with_other_value(mutator: Mutator, records: list[Record], batch: Batch, r: int) -> bytes:
    at = mutator.bits(16) % len(records)
    value = _random_values[mutator.bits(16) % len(_random_values)] if r & 4 else records[at].value or b""
    if r & 8:
        value = bytes(mutator.mutate(value, _random_values[mutator.bits(16) % len(_random_values)]))
    records[at] = Record(timestamp=records[at].timestamp, key=records[at].key, value=value)
    if r & 0x30 == 0:
        records.append(records[mutator.bits(16) % len(records)])
    return encode_batch(
        records, base_offset=batch.base_offset, leader_epoch=batch.leader_epoch, control=batch.is_control
    )


def run_metadata_log(data: bytes) -> None:
    """Applied records can be written as a snapshot, and read again."""
    loader = Loader()
    loader.load_log(data)
    records = list(snapshot.records_of(loader.image))
    content = b"".join(snapshot.write(iter(records), loader.kraft, 5, NOW_MS, NOW_MS))
    assert snapshot.is_finished(content)
    again = Loader()
    again.load_snapshot(content, SNAPSHOT_ID)
    assert list(snapshot.records_of(again.image)) == records


# --- the groups' log: records as (key length, key, value length or -1, value)


def _framed(key: bytes, value: bytes | None) -> bytes:
    if value is None:
        return struct.pack(">H", len(key)) + key + struct.pack(">i", -1)
    return struct.pack(">H", len(key)) + key + struct.pack(">i", len(value)) + value


def group_log_corpus() -> list[bytes]:
    """A key and a value of each type and version, and tombstones."""
    # The number of a key's message is the type of the record, in the place where values have a version.
    keys = {name.removesuffix("Key"): version for name, version in ALL if name.endswith("Key")}
    found = []
    for name, version in ALL:
        kind = name.removesuffix("Value")
        if not name.endswith("Value") or kind not in keys or kind in OTHER_TOPICS:
            continue
        key_type = getattr(messages, kind + "Key").API_KEY
        for number in range(3):
            key_message = Generator(("key", name, version, number)).message(kind + "Key", keys[kind])
            key = struct.pack(">h", key_type) + codec.encode(key_message, keys[kind])
            value = codec.encode_versioned(Generator(("value", name, version, number)).message(name, version), version)
            found.append(_framed(key, value) + (_framed(key, None) if number == 2 else b""))
    return found


def run_group_log(data: bytes) -> None:
    """Replay into a new coordinator, and let time pass."""
    machine = GroupMachine(GroupSettings())
    at = offset = 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2])
        key = data[at + 2 : at + 2 + size]
        at += 2 + size
        size = int.from_bytes(data[at : at + 4], signed=True)
        value = None if size < 0 else data[at + 4 : at + 4 + size]
        at += 4 + max(size, 0)
        machine.apply(offset, 7 if data[0] & 1 else -1, key, value)
        offset += 1
    if data and data[0] & 2:
        machine.apply_marker(offset, 7, True)
    machine.loaded(Now(NOW_MS, 0))
    machine.expire(Now(NOW_MS + (1 << 40), 1 << 40))


# --- quorum-state


def quorum_corpus() -> list[bytes]:
    """One file of each version."""
    return [
        b'{"leaderId":1,"leaderEpoch":3,"votedId":-1,"data_version":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAABQ"}',
        b'{"clusterId":"","leaderId":1,"leaderEpoch":3,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],'
        b'"data_version":0}',
    ]


def run_quorum(data: bytes) -> None:
    """A damaged file is reported as an error with its name."""
    state = ElectionState.from_json(data)
    assert 0 <= state.epoch < 2**31
    assert -1 <= state.leader_id < 2**31
    assert ElectionState.from_json(state.to_json()).epoch == state.epoch


# --- entries that a follower of the quorum fetches


def entries_corpus() -> list[bytes]:
    """Entries that a real Kafka wrote, and each entry that the quorum reads."""
    key = ReplicaKey(1, DIRECTORY_ID)
    voters = VoterSet([Voter(key, (Endpoint("CONTROLLER", "localhost", 9093),)), Voter(ReplicaKey(2))])
    control = (Leadership(1, voters.keys, (key,)), KRaftVersion(1), voters)
    return [*log_corpus(), wire_log.encoded(QuorumBatch(0, 3, 1, None, control), 0)]


def run_entries(data: bytes) -> None:
    """Damaged entries are refused, and entries that are read are written in the same way again."""
    for batch in wire_log.batches_of(data):
        assert batch.offset < batch.end_offset
        assert batch.content is not None
        for entry in batch.control:
            if isinstance(entry, VoterSet):
                assert wire_log.from_record(wire_log.to_record(entry)) == entry


TARGETS = {
    target.name: target
    for target in (
        Target("metadata_log", log_corpus, run_metadata_log, (MetadataLogError,), 4_000, mutate_metadata_log),
        Target("group_log", group_log_corpus, run_group_log, (ValueError,), 40_000),
        Target("quorum_state", quorum_corpus, run_quorum, (QuorumError,), 20_000, text_mutation),
        Target("quorum_entries", entries_corpus, run_entries, (WireError,), 4_000, mutate_metadata_log),
    )
}
