"""The entries of the metadata log that the quorum itself reads, in Kafka's form: control records in record batches."""

from __future__ import annotations

from broker_cy.core.errors import WireError
from broker_cy.quorum.entries import Batch, Control, KRaftVersion, Leadership
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.wire import control
from broker_cy.wire.control import ControlMessage, decode_control, encode_control
from broker_cy.wire.records import decode_batches, encode_batch


def to_control(entry: Control) -> ControlMessage:
    """The control record of an entry.

    A LeaderChangeMessage has version 0 with each kraft.version, so that it has no directory ids: Kafka 4.3.1 writes
    only this version, reads each one as if it had it, and a node that reads another one ends.
    """
    match entry:
        case Leadership(leader_id, voters, granting):
            return control.LeaderChange(leader_id, _without_directories(voters), _without_directories(granting))
        case KRaftVersion(level):
            return control.KraftVersion(level)
        case VoterSet():
            return to_record(entry)


def _without_directories(keys: tuple[ReplicaKey, ...]) -> tuple[control.Voter, ...]:
    return tuple(control.Voter(key.id) for key in keys)


def from_control(message: ControlMessage) -> Control | None:
    """The entry of a control record; None for one that the quorum does not read."""
    match message:
        case control.LeaderChange(leader_id, voters, granting):
            return Leadership(
                leader_id,
                tuple(ReplicaKey(one.voter_id, one.directory_id) for one in voters),
                tuple(ReplicaKey(one.voter_id, one.directory_id) for one in granting),
            )
        case control.KraftVersion(level):
            return KRaftVersion(level)
        case control.KraftVoters():
            return from_record(message)
    return None


def to_record(voters: VoterSet) -> control.KraftVoters:
    """The VotersRecord of the set."""
    return control.KraftVoters(
        tuple(
            control.VoterSetEntry(
                voter.key.id,
                voter.key.directory_id,
                tuple(control.VoterEndpoint(*endpoint) for endpoint in voter.endpoints),
                voter.min_kraft_version,
                voter.max_kraft_version,
            )
            for voter in voters.voters
        )
    )


def from_record(record: control.KraftVoters) -> VoterSet:
    """The set of a VotersRecord. Raises WireError if an id occurs twice."""
    try:
        return VoterSet(
            Voter(
                ReplicaKey(entry.voter_id, entry.directory_id),
                tuple(Endpoint(one.name, one.host, one.port) for one in entry.endpoints),
                entry.min_kraft_version,
                entry.max_kraft_version,
            )
            for entry in record.voters
        )
    except ValueError as error:
        raise WireError(f"VotersRecord: {error}") from error


def encoded(batch: Batch, now_ms: int) -> bytes:
    """The bytes of a batch."""
    if batch.content is not None:
        return batch.content
    records = [encode_control(to_control(entry), now_ms) for entry in batch.control]
    return encode_batch(records, base_offset=batch.offset, leader_epoch=batch.epoch, control=True)


def batches_of(content: bytes) -> tuple[Batch, ...]:
    """The batches in the records of a Fetch response; an incomplete one at the end is left out. Raises WireError for
    one that is damaged, or does not follow the one before.
    """
    found: list[Batch] = []
    for batch in decode_batches(content):
        if not batch.is_valid():
            raise WireError(f"the batch at offset {batch.base_offset} has a wrong checksum")
        offset, end_offset = batch.base_offset, batch.last_offset + 1
        follows = offset == found[-1].end_offset if found else offset >= 0
        if not follows or end_offset <= offset or batch.leader_epoch < 0:
            raise WireError(f"a batch has offsets {offset} to {end_offset} of epoch {batch.leader_epoch}")
        control_entries: tuple[Control, ...] = ()
        if batch.is_control:
            messages = [decode_control(record) for record in batch.records()]
            entries = [from_control(message) for message in messages if message is not None]
            control_entries = tuple(entry for entry in entries if entry is not None)
        raw = content[batch.position : batch.position + batch.size_bytes]
        found.append(Batch(offset, end_offset, batch.leader_epoch, raw, control_entries))
    return tuple(found)
