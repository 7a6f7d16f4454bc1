"""A `TransactionMachine` with a manual clock, a log in memory, and requests in short form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from broker_cy.coordinator.step import Record
from broker_cy.coordinator.txn import end, init, markers, partitions
from broker_cy.coordinator.txn.end import Ended
from broker_cy.coordinator.txn.init import Initialized
from broker_cy.coordinator.txn.settings import TxnSettings
from broker_cy.coordinator.txn.state import Markers, ProducerIdAndEpoch, TopicPartition, Transaction
from broker_cy.coordinator.txn.transaction_machine import TransactionMachine
from broker_cy.coordinator.txn.transaction_table import TxnStep
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now

ID = "payments"
TIMEOUT_MS = 60_000
P0: TopicPartition = ("t", 0)
P1: TopicPartition = ("t", 1)


class TxnHarness:
    """Runs operations; `answers` has every response by token. Records are written immediately unless `hold` is set, and
    markers unless `hold_markers` is.
    """

    def __init__(self, version: int = 2, **settings: Any) -> None:
        self.settings = TxnSettings(**settings)
        self.version = version
        self.wall_ms = 1_700_000_000_000
        self.mono_ms = 0
        self.log: list[Record] = []
        self.answers: dict[object, Any] = {}
        self.hold = False
        self.hold_markers = False
        self.held: list[TxnStep] = []
        self.sent: list[Markers] = []
        self.written: list[Markers] = []
        self.next_producer_id = 1000
        self._tokens = 0
        self.machine = self._new()

    def _new(self) -> TransactionMachine:
        machine = TransactionMachine(self.settings)
        machine.transaction_version = self.version
        machine.coordinator_epoch = 7
        return machine

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.mono_ms)

    def state(self, transactional_id: str = ID) -> Transaction:
        return self.machine.transactions[transactional_id]

    def force(self, transaction: Transaction) -> None:
        """Write this value as the state of its id."""
        step = TxnStep()
        self.machine.change(step, transaction)
        self.take(step)

    # ---- steps ----

    def take(self, step: TxnStep) -> None:
        for token, response in step.replies:
            assert token not in self.answers, f"{token} is answered twice"
            self.answers[token] = response
        self.sent += step.markers
        if step.records or step.follows:
            self.held.append(step)
            # Without records before it, a step without records waits for nothing.
            if not self.hold or not any(each.records for each in self.held):
                self.write()
        if not self.hold_markers:
            self.write_markers()

    def write(self) -> None:
        """The held records reach the disk."""
        steps, self.held = self.held, []
        for step in steps:
            self.log += step.records
        self.take(self.machine.written(steps, self.now))

    def fail(self, code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """The held records cannot be written."""
        steps, self.held = self.held, []
        self.take(self.machine.failed(steps, code, self.now))

    def write_markers(self, code: ErrorCode = ErrorCode.NONE, only: Iterable[TopicPartition] | None = None) -> None:
        """Let the partitions (of `only`) answer `code` to the markers that were sent, and the others NONE."""
        all_sent, self.sent = self.sent, []
        for sent in all_sent:
            self.written.append(sent)
            where = sent.partitions if only is None else tuple(only)
            results = {p: code if p in where else ErrorCode.NONE for p in sent.partitions}
            self.take(self.machine.run(markers.written, sent, results, self.now))

    def restart(self) -> None:
        """Load another state machine from the log."""
        self.held.clear()
        self.sent.clear()
        self.machine = self._new()
        self.replay(self.log)
        self.take(self.machine.loaded(self.now))

    def replay(self, log: list[Record]) -> None:
        for offset, (key, value) in enumerate(log):
            self.machine.apply(offset, -1, key, value)

    def as_loaded(self) -> dict[str, Transaction]:
        """Return the state as a restart would find it: records contain neither the last epoch nor an empty id's
        partitions.
        """
        return {key: replace(found, last_producer_epoch=-1) for key, found in self.machine.transactions.items()}

    # ---- time ----

    def advance(self, ms: int) -> None:
        """Let time pass, and run everything that becomes due at its time."""
        end = self.mono_ms + ms
        while (wake := self.machine.next_wake_ms()) is not None and wake <= end:
            self._move(max(wake, self.mono_ms))
            self.take(self.machine.expire(self.now))
        self._move(end)

    def _move(self, mono_ms: int) -> None:
        self.wall_ms += mono_ms - self.mono_ms
        self.mono_ms = mono_ms

    # ---- requests ----

    def token(self) -> int:
        self._tokens += 1
        return self._tokens

    def run(self, operation: Any, *request: Any, token: object = None) -> Any:
        """Return the response, None while it is awaited; producer ids are provided if they are requested."""
        while True:
            asked = self.token() if token is None else token
            step = self.machine.run(operation, *request, asked, self.now)
            self.take(step)
            if asked not in self.answers or self.answers[asked] is not None:
                return self.answers.get(asked)
            assert step.needs_producer_id
            del self.answers[asked]
            self.give_producer_id()

    def give_producer_id(self) -> None:
        self.machine.add_producer_id(self.next_producer_id)
        self.next_producer_id += 1

    def init(
        self,
        transactional_id: str = ID,
        expected: tuple[int, int] | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
        token: object = None,
    ) -> Initialized:
        producer = None if expected is None else ProducerIdAndEpoch(*expected)
        answer: Initialized = self.run(init.init_producer_id, transactional_id, timeout_ms, producer, token=token)
        return answer

    def producer(self, transactional_id: str = ID) -> tuple[int, int]:
        """Obtain a producer id and epoch to begin with."""
        answer = self.init(transactional_id)
        assert answer.code is ErrorCode.NONE
        return answer.producer_id, answer.epoch

    def add(
        self,
        producer: tuple[int, int],
        *added: TopicPartition,
        transactional_id: str = ID,
        version: int = 2,
        token: object = None,
    ) -> ErrorCode:
        code: ErrorCode = self.run(
            partitions.add,
            transactional_id,
            ProducerIdAndEpoch(*producer),
            frozenset(added or (P0,)),
            version,
            token=token,
        )
        return code

    def verify(self, producer: tuple[int, int], *asked: TopicPartition, token: object = None) -> Any:
        return self.run(partitions.verify, ID, ProducerIdAndEpoch(*producer), asked or (P0,), token=token)

    def end(
        self,
        producer: tuple[int, int],
        commit: bool = True,
        *,
        transactional_id: str = ID,
        version: int = 2,
        token: object = None,
    ) -> Ended:
        answer: Ended = self.run(end.end, transactional_id, ProducerIdAndEpoch(*producer), commit, version, token=token)
        return answer
