"""Each produced batch gets the response that a real Kafka 4.3.1 gave to the same bytes.

The responses are in tests/fixtures/kafka-4.3.1/verdicts.json; record_verdicts.py recorded them. A client that handled
Kafka's errors handles ours, and what Kafka stored is stored here byte by byte.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from broker_cy.wire.batch import validate
from broker_cy.wire.records import decode_batches, rebuild_batch
from broker_cy.wire.rejection import Accepted, Rejection
from tests.broker_cy.wire.produced_cases import CODECS, TOPICS, Case

VERDICTS = json.loads((Path(__file__).parents[2] / "fixtures" / "kafka-4.3.1" / "verdicts.json").read_text())
CASES = [Case(name, bytes.fromhex(each["sent"]), each["topic"], each["version"]) for name, each in VERDICTS.items()]
INVALID_RECORD, UNKNOWN_SERVER_ERROR = 87, -1

# Cases with a different response, with our code and the reason.
OTHERWISE = {
    # The size overflows an int32 in Kafka and fails the whole request.
    "length-2147483647": INVALID_RECORD,
    # The transactional bit is set: the request's handler refuses the batch without reading it.
    "attributes--1": UNKNOWN_SERVER_ERROR,
    # Kafka decompresses piece by piece and finds a broken record before the broken end of the stream; we find the
    # latter.
    "gzip-flip-49": UNKNOWN_SERVER_ERROR,
}
# Kafka does not check a record's length where the batch is compressed; consumers then fail on it.
LENGTH_LIES = re.compile(r"record-length-(0|negative|beyond-end|one-short)-(gzip|snappy|lz4|zstd)|lz4-flip-28")


def now_of(answer: dict[str, Any]) -> int:
    """Return when Kafka validated the batch: its append time, or the time in a message about its timestamp."""
    if answer.get("log_append_time_ms", -1) != -1:
        return int(answer["log_append_time_ms"])
    found = re.search(r"within \[.*, (\d+)\]", json.dumps(answer))
    return int(found[1]) - 3_600_000 if found else 1_800_000_000_000


def judge(case: Case, data: bytearray, now_ms: int) -> Accepted | Rejection:
    settings = TOPICS[case.topic]
    return validate(
        data,
        now_ms=now_ms,
        topic_partition=f"verdicts-{case.topic}-0",
        timestamp_type=int(settings.get("message.timestamp.type") == "LogAppendTime"),
        before_max_ms=int(settings.get("message.timestamp.before.max.ms", 2**63 - 1)),
        max_message_bytes=int(settings.get("max.message.bytes", 1_048_588)),
        compacted="cleanup.policy" in settings,
        target_codec=CODECS.get(settings.get("compression.type", ""), -1),
        produce_version=case.version,
    )


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_verdict_is_kafkas(case: Case) -> None:
    """Error code, errors of single records, and stored bytes are Kafka's."""
    answer = VERDICTS[case.name]
    data = bytearray(case.records)
    verdict = judge(case, data, now_of(answer))
    code = 0 if isinstance(verdict, Accepted) else int(verdict.code)
    if case.name in OTHERWISE or LENGTH_LIES.fullmatch(case.name):
        assert code == OTHERWISE.get(case.name, INVALID_RECORD) != answer["error"]
        return
    assert code == answer["error"]
    if isinstance(verdict, Rejection):
        assert [list(error) for error in verdict.record_errors] == answer["record_errors"]
        assert verdict.message == answer["message"] or not answer["record_errors"]
        assert bytes(data) == case.records
    elif not verdict.rebuild:
        stored = bytes.fromhex(answer["stored"]) if "stored" in answer else case.records[: verdict.size_bytes]
        assert bytes(data[: verdict.size_bytes]) == stored


def rebuilt() -> list[Case]:
    found = []
    for case in CASES:
        verdict = judge(case, bytearray(case.records), now_of(VERDICTS[case.name]))
        if isinstance(verdict, Accepted) and verdict.rebuild:
            found.append(case)
    return found


@pytest.mark.parametrize("case", rebuilt(), ids=[case.name for case in rebuilt()])
def test_a_rebuilt_batch_holds_the_producers_records(case: Case) -> None:
    """A topic's own compression.type, and repaired offset deltas, change neither keys, values nor timestamps."""
    answer = VERDICTS[case.name]
    data = bytearray(case.records)
    judge(case, data, now_of(answer))
    target = CODECS.get(TOPICS[case.topic].get("compression.type", ""))
    (ours,) = decode_batches(rebuild_batch(data, codec=target))
    (theirs,) = decode_batches(bytes.fromhex(answer["stored"]) if "stored" in answer else case.records)
    assert ours.is_valid()
    assert [record.offset for record in ours] == list(range(ours.count))
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine.timestamp, mine.key, mine.value, mine.headers) == (
            other.timestamp,
            other.key,
            other.value,
            other.headers,
        )
    assert (ours.attributes, ours.max_timestamp, ours.count) == (theirs.attributes, theirs.max_timestamp, theirs.count)
    again = judge(case, bytearray(rebuild_batch(data, codec=target)), now_of(answer))
    assert isinstance(again, Accepted)
    assert not again.rebuild
