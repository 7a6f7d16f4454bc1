"""Users that read a topic and write it to another one, exactly once: `transactional-copier`.

The source is the topic of the run, which producers of the same scenario fill, read as a member of a group with
read_committed; the target is a separate topic, which is created and deleted like the run's topic. The offsets are part
of the transaction. A record of partition p is copied to partition p of the target, modulo its partitions, under a stamp
of the copier, so that copies are verified like all other records.

`abort_share` of the transactions are aborted at random, and the next one copies their records again. Counts in the
book: `transactions committed`, `transactions aborted` (on purpose), `transactions failed`, `fenced producers`.
"""

from __future__ import annotations

import random
import time
from collections import deque

import gevent

from broker_cy.core.errors import WireError
from broker_cy.wire.records import Record
from loadgen.net.cluster import RETRY_S
from loadgen.users.fetching import PAYLOAD_BYTES_MAX
from loadgen.users.group_member import GroupUser
from loadgen.users.settings import Copying, settings_of
from loadgen.users.transactions import FENCED, Transactional, TransactionError
from loadgen.verify.ledger import ABORTED, ACKNOWLEDGED, UNKNOWN, Track
from loadgen.verify.prefix import HEADER, PREFIX, PREFIX_BYTES, stamp_of

NS_PER_MS = 1_000_000
COMMITTED, WAS_ABORTED, FAILED = "transactions committed", "transactions aborted", "transactions failed"
FENCED_PRODUCERS = "fenced producers"


class _Copies:
    """The records of one transaction, by partition of the target, and the numbers under which they are tracked."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Record]] = {}
        self.numbers: list[tuple[Track, int]] = []
        self.offsets: dict[int, int] = {}

    def settle(self, outcome: int) -> None:
        for track, sequence in self.numbers:
            track.settle(sequence, outcome)


class TransactionalCopier(GroupUser):
    """Copies up to `records_per_transaction` records in each operation that finds some."""

    abstract = True
    commits = False

    def connect(self) -> None:
        super().connect()
        work = self.shared.work
        self.copying = settings_of(Copying, self.spec)
        self._random = random.Random(f"aborts {work.scenario.seed} {self.spec.name} {self.place}")
        self._producer = work.producer_id(self.number)
        self._partitions = len(self.cluster.partitions(self.copying.target))
        # Fetched records that are not copied yet: those of one answer, and of an aborted transaction.
        self._waiting: deque[tuple[int, Record]] = deque()
        self._epoch = (0, 0)
        transactional_id = f"{self.copying.transactional_id}-{self.spec.name}-{self.place}"
        self._transactional = Transactional(work, self.cluster, transactional_id, self.copying.transaction_timeout_ms)
        self._transactional.set_deadline()
        self._transactional.begin_again()
        self._is_fresh = True

    def perform(self, due_ns: int) -> None:
        if not self.session.await_part() or not self._begun():
            return
        if self._epoch != self.session.member.epoch:
            self._restart()
        if not self._waiting:
            self._read()
        with self.session.busy():
            if self._epoch != self.session.member.epoch or not self.session.ready.is_set():
                self._waiting.clear()
                return
            if self._waiting:
                self._copy(due_ns)

    def _begun(self) -> bool:
        """Get a new epoch after a failure; returns whether there is one."""
        if self._is_fresh:
            return True
        self._transactional.set_deadline()
        try:
            self._transactional.begin_again()
        except TransactionError as error:
            self._note_fenced(error)
            gevent.sleep(RETRY_S)
            return False
        self._is_fresh = True
        return True

    def _restart(self) -> None:
        """Drop records of another generation: the session has set the positions."""
        self._epoch = self.session.member.epoch
        self._waiting.clear()

    def _read(self) -> None:
        for span in self.fetcher.poll(self.wait_ms(self.fetching.max_wait_ms)):
            try:
                records = span.batch.records(PAYLOAD_BYTES_MAX)
            except WireError:
                self.load.book.count("damaged batches")
                continue
            self._waiting.extend((span.partition, each) for each in records if each.offset >= span.first)

    def _copy(self, due_ns: int) -> None:
        """Perform one transaction, and settle its records."""
        sent_ns = time.monotonic_ns()
        count = min(len(self._waiting), self.copying.records_per_transaction)
        taken = [self._waiting.popleft() for _ in range(count)]
        copies = self._copies(taken, due_ns)
        self._transactional.set_deadline()
        commit = self._random.random() >= self.copying.abort_share
        book, meter = self.load.book, self.meter("Transaction")
        outcome = ABORTED
        try:
            self._fill(copies)
            # From here on, a failure leaves it open whether the transaction is committed.
            outcome = UNKNOWN if commit else ABORTED
            self._transactional.end(commit=commit)
        except TransactionError as error:
            copies.settle(outcome)
            meter.failed(error.name, due_ns, sent_ns, time.monotonic_ns())
            book.count(FAILED)
            self._note_fenced(error)
            # The next transaction begins at the committed offsets.
            self._is_fresh = False
            self._waiting.clear()
            self.session.relocate()
            return
        if commit:
            copies.settle(ACKNOWLEDGED)
        else:
            copies.settle(ABORTED)
            self._waiting.extendleft(reversed(taken))
        book.count(COMMITTED if commit else WAS_ABORTED)
        meter.done(due_ns, sent_ns, time.monotonic_ns(), count)

    def _fill(self, copies: _Copies) -> None:
        """Perform the transaction up to its end. Raises TransactionError."""
        target, transactional = self.copying.target, self._transactional
        transactional.add_partitions(target, sorted(copies.batches))
        for partition, records in copies.batches.items():
            transactional.produce(target, partition, records)
        transactional.commit_offsets(self.session.member, self.fetcher.topic, copies.offsets)

    def _note_fenced(self, error: TransactionError) -> None:
        if error.name in FENCED:
            self.load.book.count(FENCED_PRODUCERS)

    def _copies(self, taken: list[tuple[int, Record]], due_ns: int) -> _Copies:
        copies = _Copies()
        for partition, record in taken:
            target = partition % self._partitions
            copies.offsets[partition] = record.offset + 1
            copies.batches.setdefault(target, []).append(self._copy_of(record, target, due_ns, copies))
        return copies

    def _copy_of(self, record: Record, partition: int, due_ns: int, copies: _Copies) -> Record:
        """Return the record with our stamp instead of its previous one."""
        now_ms = time.time_ns() // NS_PER_MS
        work = self.shared.work
        if work.ledger is None:
            return Record(timestamp=now_ms, key=record.key, value=record.value, headers=record.headers)
        track = work.ledger.track(self._producer, self.copying.target, partition)
        sequence = track.begin()
        copies.numbers.append((track, sequence))
        stamp = PREFIX.pack(work.run, self._producer, sequence, due_ns)
        headers = [each for each in record.headers if each[0] != HEADER]
        if len(headers) < len(record.headers):
            return Record(timestamp=now_ms, key=record.key, value=record.value, headers=[*headers, (HEADER, stamp)])
        value = record.value or b""
        before = stamp_of(value)
        rest = value[PREFIX_BYTES:] if before is not None and before.run == work.run else value
        return Record(timestamp=now_ms, key=record.key, value=stamp + rest, headers=headers)
