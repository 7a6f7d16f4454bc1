"""kill -9 at every step of a transaction. Another broker starts from the page cache as it was after each iteration of
the loop that wrote something, and between the writes of one iteration.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.control import ControlType, control_type
from broker_cy.wire.records import Record, decode_batches, encode_batch
from tests.broker_cy.coordinator_services.group_broker import GROUP, run, until
from tests.broker_cy.coordinator_services.txn_broker import ID, P0, P1, Identity, TxnBroker

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # On a slow machine the first sample would create a topic in the middle.
    "brokercy.metrics.sample.interval.ms": "0",
}
OFFSET = 7
TIME_MS = 1_800_000_000_000
COPIES_MAX = 20


@dataclass
class Recorder:
    """Copies the data directory whenever a log has grown, with what the client knew by then."""

    data: Path
    out: Path
    told: list[str] = field(default_factory=list)
    """The responses that the client has received."""
    copies: list[tuple[Path, frozenset[str]]] = field(default_factory=list)
    sizes: dict[Path, int] = field(default_factory=dict)
    running: bool = True

    def tick(self) -> None:
        if self.running:
            self.look()
            asyncio.get_running_loop().call_soon(self.tick)

    def look(self) -> None:
        sizes = {path.relative_to(self.data): path.stat().st_size for path in self.data.glob("*/*.log")}
        if sizes == self.sizes:
            return
        told = frozenset(self.told)
        if self.copies:
            self._between({path for path, size in sizes.items() if self.sizes.get(path) != size}, told)
        self.sizes = sizes
        self._keep(self._copied(self.data), told)

    def _between(self, grown: set[Path], told: frozenset[str]) -> None:
        """Make the cases in which only some of the logs were written, and nothing else of their directories."""
        before = self.copies[-1][0]
        for order in (sorted(grown), sorted(grown, reverse=True)):
            for count in range(1, len(order) + 1):
                copy = self._copied(before)
                for path in order[:count]:
                    shutil.copy(self.data / path, copy / path)
                self._keep(copy, told)
                if len(order) == 1:
                    return

    def _copied(self, source: Path) -> Path:
        """Copy a data directory. A worker may rename a checkpoint into place during the copy, which is then
        repeated.
        """
        target = self.out / str(len(self.copies))
        for _ in range(COPIES_MAX):
            try:
                return shutil.copytree(source, target)
            except (shutil.Error, FileNotFoundError):
                shutil.rmtree(target)
        raise AssertionError(f"{source} changes whenever it is copied")

    def _keep(self, copy: Path, told: frozenset[str]) -> None:
        self.copies.append((copy, told))


def data(producer: Identity, sequence: int) -> bytes:
    record = Record(timestamp=TIME_MS, key=None, value=b"%d" % sequence)
    return encode_batch(
        [record],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        transactional=True,
    )


async def transact(broker: TxnBroker, producer: Identity, old: bool, commit: bool, offset: int, sequence: int) -> None:
    """Do everything that a consumer-transformer-producer does in one transaction."""
    for place in (P0, P1):
        assert await broker.add(producer, place, version=3 if old else 5) == {place: "NONE"}
        partition = broker.server.broker.partitions.get(*place)
        assert partition is not None
        await partition.append_records(data(producer, sequence), TIME_MS)
    if old:
        added = messages.AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id=GROUP
        )
        assert (await broker.call(added, 3)).error_code == ErrorCode.NONE
    request = messages.TxnOffsetCommitRequest
    part = request.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    answer = await broker.call(
        request(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[request.TxnOffsetCommitRequestTopic(name="t", partitions=[part])],
        ),
        4 if old else 5,
    )
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    ended = await broker.end(producer, commit, version=4 if old else 5)
    assert ended.error_code == ErrorCode.NONE


def outcomes(broker: TxnBroker, index: int) -> Iterator[tuple[int, bool]]:
    """Return the sequence of each batch of a partition, and whether the marker after it commits it."""
    partition = broker.server.broker.partitions.get("t", index)
    assert partition is not None
    assert partition.last_stable_offset == partition.log.log_end_offset, "a transaction is open"
    part = partition.log.read_slice(0)
    waiting: list[int] = []
    for batch in decode_batches(b"" if part is None else part.read()):
        if batch.is_control:
            (record,) = batch.records()
            for sequence in waiting:
                yield sequence, control_type(record) is ControlType.COMMIT
            waiting = []
        else:
            waiting += [int(record.value or b"") for record in batch.records()]
    assert waiting == []


async def check(copy: Path, told: frozenset[str], commit: bool) -> bool:
    """Return whether the transaction under test is committed after a restart; fails if partitions disagree."""
    async with TxnBroker(copy, SETTINGS) as broker:
        await until(lambda: not broker.txn_runtime().machine.ending)
        await broker.producer()
        found = [dict(outcomes(broker, index)) for index in range(2)]
        assert [each[0] for each in found] == [True, True], "what was committed before"
        ends = {each[1] for each in found if 1 in each}
        assert len(ends) <= 1, f"one partition is committed, the other is not: {found}"
        committed = ends == {True}
        if committed:
            assert all(1 in each for each in found), f"a part is lost: {found}"
        assert await broker.committed() == (OFFSET + 1 if committed else OFFSET)
        if "ended" in told:
            assert committed == commit, "the client was told something else"
        return committed


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("old", [True, False])
def test_killed_at_every_step(tmp_path: Path, old: bool, commit: bool) -> None:
    """If this fails, a transaction is committed in one partition and not in another, or differently from the producer's
    response, or stays open.
    """

    async def work() -> None:
        path = tmp_path / "data"
        async with TxnBroker(path, SETTINGS) as broker:
            await broker.prepare_txn()
            await transact(broker, await broker.producer(), old, True, OFFSET, 0)
            await until(lambda: broker.state() == "CompleteCommit")
            producer = await broker.producer()
            recorder = Recorder(path, tmp_path / "copies")
            recorder.tick()
            await transact(broker, producer, old, commit, OFFSET + 1, 1)
            recorder.told.append("ended")
            await until(lambda: broker.state().startswith("Complete"))
            await asyncio.sleep(0)
            recorder.look()
            recorder.running = False
        results = [await check(copy, told, commit) for copy, told in recorder.copies]
        # Not all of them are before the decision, and not all are after it.
        assert results[-1] == commit
        assert results[0] is False
        assert len(results) > 10
        assert any("ended" not in told for _, told in recorder.copies)

    run(work)
