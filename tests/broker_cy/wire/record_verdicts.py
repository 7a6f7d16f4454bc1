"""Sends produced_cases to a real Kafka and records its responses and what it stores.

    python -m tests.broker_cy.wire.record_verdicts HOST:PORT LOG_DIR

HOST:PORT is an Apache Kafka of one node on this machine, LOG_DIR its log.dirs; the result is verdicts.json with the
other fixtures. Run it by hand when the cases change. The sent bytes are recorded too: another release of a compression
library may write other bytes.
"""

import json
import socket
import struct
import sys
import time
from pathlib import Path

from broker_cy.wire import codec, messages
from broker_cy.wire.records import decode_batches
from tests.broker_cy.wire.produced_cases import TOPICS, Case, cases

RESULT = Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1" / "verdicts.json"
PREFIX = "verdicts-"
PRODUCE, CREATE_TOPICS = 0, 19
NOT_READY = {3, 5, 6}  # unknown topic, no leader, not the leader: a topic that was just created


class Peer:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self.socket = socket.create_connection(self.address)

    def call(self, api: int, version: int, header_flexible: bool, body: bytes) -> bytes:
        header = struct.pack(">hhih", api, version, 1, -1) + (b"\0" if header_flexible else b"")
        frame = header + body
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        size = struct.unpack(">i", self._read(4))[0]
        return self._read(size)[5 if header_flexible else 4 :]

    def reconnect(self) -> None:
        self.socket.close()
        self.socket = socket.create_connection(self.address)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the peer closed the connection")
            data += part
        return data


def create_topics(peer: Peer) -> None:
    topic_type = messages.CreateTopicsRequest.CreatableTopic
    config_type = messages.CreateTopicsRequest.CreatableTopicConfig
    request = messages.CreateTopicsRequest(
        topics=[
            topic_type(
                name=PREFIX + name,
                num_partitions=1,
                replication_factor=1,
                configs=[config_type(name=key, value=value) for key, value in settings.items()],
            )
            for name, settings in TOPICS.items()
        ],
        timeout_ms=30_000,
    )
    peer.call(CREATE_TOPICS, 7, True, codec.encode(request, 7))
    for name in TOPICS:
        while produce(peer, Case("", b"", name)).error_code in NOT_READY:
            time.sleep(0.1)


def produce(peer: Peer, case: Case) -> messages.ProduceResponse.PartitionProduceResponse:
    topic_type = messages.ProduceRequest.TopicProduceData
    partition = messages.ProduceRequest.PartitionProduceData(index=0, records=case.records)
    request = messages.ProduceRequest(
        acks=-1, timeout_ms=5000, topic_data=[topic_type(name=PREFIX + case.topic, partition_data=[partition])]
    )
    flexible = case.version >= 9
    answer = peer.call(PRODUCE, case.version, flexible, codec.encode(request, case.version))
    response = codec.decode(messages.ProduceResponse, case.version, answer)
    return response.responses[0].partition_responses[0]


def stored(log_dir: Path, topic: str, base_offset: int) -> bytes:
    for log in (log_dir / f"{PREFIX}{topic}-0").glob("*.log"):
        for batch in decode_batches(log.read_bytes()):
            if batch.base_offset == base_offset:
                return bytes(batch.data)
    raise LookupError(f"no batch at {base_offset} of {topic}")


def record(peer: Peer, log_dir: Path, case: Case) -> dict[str, object]:
    try:
        answer = produce(peer, case)
    except ConnectionError:
        peer.reconnect()
        return {"closed": True}
    if answer.error_code != 0:
        told = [[error.batch_index, error.batch_index_error_message] for error in answer.record_errors]
        return {"error": answer.error_code, "message": answer.error_message, "record_errors": told}
    batch = stored(log_dir, case.topic, answer.base_offset)
    # Base offset and leader epoch are set by the broker.
    plain = bytes(8) + batch[8:12] + case.records[12:16] + batch[16:]
    same = plain == case.records[: len(plain)]
    return {"error": 0, "log_append_time_ms": answer.log_append_time_ms} | ({} if same else {"stored": plain.hex()})


def main() -> None:
    address, log_dir = sys.argv[1:]
    peer = Peer(address)
    create_topics(peer)
    answers = {
        case.name: {"topic": case.topic, "version": case.version, "sent": case.records.hex()}
        | record(peer, Path(log_dir), case)
        for case in cases()
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items())
    RESULT.write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
