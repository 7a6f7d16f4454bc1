"""`producers`: the memory that a broker needs for each idempotent producer that is open in a partition.

Each obtains a producer id and writes one batch. WARM producers come first, so that one-time allocations are not
counted; then memory is measured before and after `count` more. For a JVM it is the live heap after a full collection
(`jcmd GC.class_histogram`), because its resident memory is the configured heap; for any other process it is resident
memory.
"""

import re
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.measuring import proc
from bench.modes.base import Outcome, up
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Target, TargetError
from bench.window.engine import FAILURES, Measured, Session, new_topic
from bench.wire import batches
from bench.wire.protocol import ACKS_ALL, TIMEOUT_MS, Client, check, compact, uvarint
from bench.wire.transactional import PRODUCE, PRODUCE_VERSION, Producer, init_producer, stamp
from broker_cy.client.toml_file import SpecError

COUNT = 10_000
WARM = 2_000
JCMD_TIMEOUT_S = 60
_TOTAL = re.compile(r"^Total\s+\d+\s+(\d+)\s*$", re.MULTILINE)


def producers(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, count: int, pairs: int
) -> None:
    """Measure each target in turn, `pairs` times, restarted each time. Raises SpecError."""
    for spec in specs:
        if spec.kind not in ("ours", "kafka"):
            raise SpecError(f"target {spec.name}: its memory cannot be measured (allowed: ours and kafka)")
    for pair in range(pairs):
        for spec in list(specs)[:: -1 if pair % 2 else 1]:
            if session.stop.is_set() or outcome.failed:
                return
            with up(session, [spec], outcome) as targets:
                outcome.runs.append(_measure(session, spec.name, targets[spec.name], workload, count, pair))
            session.on_window()


def _measure(session: Session, name: str, target: Target, workload: Workload, count: int, pair: int) -> Measured:
    run = Measured.begin(name, f"{count:,} open producers", pair)
    topic = new_topic("producers")
    batch = batches.of_records(replace(workload, partitions=1), 1, pair)
    try:
        target.create_topic(topic, 1)
        with Client(target.address) as client:
            _open(session, client, topic, batch, WARM)
            before = memory_bytes(target.pid)
            _open(session, client, topic, batch, count)
            after = memory_bytes(target.pid)
        run.extra |= {"producers": count, "bytes_per_producer": (after - before) / count}
    except (*FAILURES, subprocess.SubprocessError) as error:
        run.failed = f"{type(error).__name__}: {error}"
    return run


def _open(session: Session, client: Client, topic: str, batch: batches.Batch, count: int) -> None:
    """Open this number of producers, each with its first batch. Raises OSError, ProtocolError, Stopped."""
    for _ in range(count):
        session.go_on()
        write(client, topic, batch, init_producer(client))


def write(client: Client, topic: str, batch: batches.Batch, producer: Producer) -> None:
    """Write the first batch of an idempotent producer to partition 0. Raises OSError, ProtocolError."""
    data = bytearray(batch.data)
    stamp(data, 0, len(data), producer, 0)
    body = b"\0" + struct.pack(">hi", ACKS_ALL, TIMEOUT_MS) + uvarint(2) + compact(topic.encode()) + uvarint(2)
    body += struct.pack(">i", 0) + uvarint(len(data) + 1) + bytes(data) + b"\0\0\0"
    reader = client.call(PRODUCE, PRODUCE_VERSION, body)
    reader.uvarint()
    reader.string()
    reader.uvarint()
    reader.take(4)
    check(reader.number(2), f"Produce of producer {producer.id}")


def memory_bytes(pid: int) -> int:
    """Return the memory in use: the live heap of a JVM, the resident memory of others. Raises OSError, TargetError."""
    if Path(f"/proc/{pid}/exe").resolve().name != "java":
        return proc.resident_bytes(pid)
    reported = subprocess.run(
        ["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, timeout=JCMD_TIMEOUT_S, check=True
    )
    found = _TOTAL.search(reported.stdout)
    if found is None:
        raise TargetError(f"jcmd printed no total: {reported.stdout[-200:]!r}")
    return int(found[1])
