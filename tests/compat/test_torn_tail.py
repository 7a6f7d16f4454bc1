"""A torn or damaged batch at the end of a log, as a power failure leaves it."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.support.broker import Target, target_is_kafka
from tests.support.confluent import read_all, send
from tests.support.kafka_dump import dump_log_segments
from tests.support.raw_wire import RawBatch, RawRecord
from tests.support.topics import create_topic

MakeBroker = Callable[..., Target]
SEGMENT = f"{0:020}.log"


def _line(broker: Target, *patterns: str) -> str:
    """Return the log line that contains all the patterns."""
    for line in broker.stderr().splitlines():
        if all(re.search(pattern, line, re.IGNORECASE) for pattern in patterns):
            return line
    raise AssertionError(f"no line with {patterns} in:\n{broker.stderr()[-3000:]}")


def test_a_torn_tail_is_cut_off(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, a torn batch at the end keeps the broker from starting, or is served."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic)
    send(broker, topic, [b"%d" % n for n in range(100)], **{"batch.num.messages": 10})
    broker.kill()
    segment = broker.data_dir / f"{topic}-0" / SEGMENT
    whole = segment.read_bytes()
    torn = RawBatch(base_offset=100, records=[RawRecord(value=b"torn")]).encode()
    segment.write_bytes(whole + torn[:-3])
    broker.restart()
    assert read_all(broker.bootstrap, topic) == [b"%d" % n for n in range(100)]
    assert segment.stat().st_size == len(whole)
    if not target_is_kafka():
        line = _line(broker, topic, r"truncat|cut|torn")
        assert str(len(torn) - 3) in line, "the log line does not say how many bytes"
    send(broker, topic, [b"next"])
    assert read_all(broker.bootstrap, topic)[-1] == b"next"
    broker.stop()
    dump_log_segments([segment])


def test_a_corrupt_tail_is_cut_off(make_broker: MakeBroker, topic: str) -> None:
    """If this fails, a last batch with a broken checksum is served, or good ones are removed with it."""
    broker = make_broker()
    create_topic(broker.bootstrap, topic)
    send(broker, topic, [b"%d" % n for n in range(50)])
    send(broker, topic, [b"last"])
    broker.kill()
    segment = broker.data_dir / f"{topic}-0" / SEGMENT
    data = bytearray(segment.read_bytes())
    data[-2] ^= 0xFF
    segment.write_bytes(data)
    broker.restart()
    assert read_all(broker.bootstrap, topic) == [b"%d" % n for n in range(50)]
