"""Three producer clients behind one interface: send records, report the fate of each, run transactions.

A client reports one of three fates for each record: acknowledged at an offset, refused by the broker, or unknown. A
producer that is neither idempotent nor transactional sends nothing twice (`retries` is 0), so that an error code of the
broker means that the record was not written, and a lost connection means that it was written once or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from tests.blackbox.model import Fate, Sent

TIMEOUT_S = 60.0
TIMEOUT_MS = int(TIMEOUT_S * 1000)
# If the broker dies, kafka-python 3.0 may wait for its coordinator until this timeout.
BLOCK_MS = 15_000
BATCH_BYTES = 16_000
HEADER = "id"
# Codes after which a record may have been written: REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND.
UNSURE = (7, 20)
# Codes that mean, however often the record was sent, that it was never written: MESSAGE_TOO_LARGE, INVALID_RECORD.
NEVER = (10, 87)

# Connections that break because the broker is killed are not worth logging.
for _name in ("aiokafka", "kafka"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class ClientFailed(Exception):
    """The client gave up; the fate of records without a response is unknown."""


class Sender(ABC):
    """One producer, transactional with a `transactional_id`; otherwise `idempotent` says which kind."""

    def __init__(self, bootstrap: str, codec: str, *, idempotent: bool, transactional_id: str | None = None) -> None:
        self.bootstrap = bootstrap
        self.codec = codec
        self.retries = idempotent or transactional_id is not None
        self.transactional_id = transactional_id
        self.open()

    @abstractmethod
    def open(self) -> None:
        """Raises ClientFailed if the broker is not available, or does not return a producer id."""

    @abstractmethod
    def send(self, topic: str, records: Sequence[tuple[int, Sent]]) -> None:
        """Send to (partition, record), and record the fate of each record; returns when all are answered."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def end(self, commit: bool) -> None:
        """Raises ClientFailed if the client does not know that the transaction ended in this way."""

    @abstractmethod
    def close(self) -> None: ...

    def answered(self, sent: Sent, code: int | None, offset: int | None) -> None:
        """`code` is None for success, and at most 0 for an error of the client itself."""
        if code is None:
            assert offset is not None
            assert offset >= 0, f"{sent.id} was acknowledged at offset {offset}"
            sent.fate, sent.offset = Fate.ACKED, offset
        elif code in NEVER or (code > 0 and code not in UNSURE and not self.retries):
            sent.fate = Fate.REFUSED


class Confluent(Sender):
    def open(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": self.codec,
            "acks": "all",
            "linger.ms": 1,
            "batch.size": BATCH_BYTES,
            "message.timeout.ms": TIMEOUT_MS,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 100,
            # Without this, librdkafka 2.16 closes its handle while the only broker is down, and may hang in that.
            "metadata.recovery.strategy": "none",
            "log_level": 2,
        }
        if self.transactional_id is not None:
            settings["transactional.id"] = self.transactional_id
        elif self.retries:
            settings["enable.idempotence"] = True
        else:
            settings |= {"retries": 0, "enable.idempotence": False}
        self.producer = Producer(settings)
        if self.transactional_id is not None:
            self._call(self.producer.init_transactions)

    def _call(self, call: Any) -> None:
        """Repeat a call as librdkafka requires, until it neither times out nor fails with a retriable error."""
        for _ in range(int(TIMEOUT_S)):
            try:
                call(1.0)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise ClientFailed(str(error)) from error
        raise ClientFailed("timed out")

    def send(self, topic: str, records: Sequence[tuple[int, Sent]]) -> None:
        for partition, sent in records:

            def delivered(error: KafkaError | None, message: Message, sent: Sent = sent) -> None:
                self.answered(sent, error.code() if error is not None else None, message.offset())

            try:
                self.producer.produce(
                    topic,
                    sent.value,
                    sent.key,
                    partition=partition,
                    headers={HEADER: sent.id.encode()},
                    on_delivery=delivered,
                )
            except KafkaException as error:
                raise ClientFailed(str(error)) from error
        if self.producer.flush(TIMEOUT_S + 5) != 0:
            raise ClientFailed("some records were not answered")

    def begin(self) -> None:
        try:
            self.producer.begin_transaction()
        except KafkaException as error:
            raise ClientFailed(str(error)) from error

    def end(self, commit: bool) -> None:
        self._call(self.producer.commit_transaction if commit else self.producer.abort_transaction)

    def close(self) -> None:
        self.producer.purge()
        self.producer.flush(1.0)
        del self.producer


class AioKafka(Sender):
    """Always idempotent, because its retries cannot be disabled: it resends records without a response."""

    def open(self) -> None:
        self.retries = True
        self.runner = asyncio.Runner()
        self.producer: AIOKafkaProducer | None = None
        try:
            self._run(self._start())
        except ClientFailed:
            self.close()
            raise

    async def _start(self) -> None:
        self.producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            compression_type=None if self.codec == "none" else self.codec,
            max_batch_size=BATCH_BYTES,
            enable_idempotence=True,
            transactional_id=self.transactional_id,
            request_timeout_ms=TIMEOUT_MS,
            retry_backoff_ms=20,
        )
        await self.producer.start()

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(coroutine, TIMEOUT_S)

        try:
            self.runner.run(bounded())
        except (AioKafkaError, TimeoutError, AssertionError, RuntimeError) as error:
            raise ClientFailed(repr(error)) from error

    def send(self, topic: str, records: Sequence[tuple[int, Sent]]) -> None:
        self._run(self._send(topic, records))

    async def _send(self, topic: str, records: Sequence[tuple[int, Sent]]) -> None:
        assert self.producer is not None
        futures: list[tuple[Sent, Any]] = []
        failure: BaseException | None = None
        for partition, sent in records:
            try:
                headers = [(HEADER, sent.id.encode())]
                future = await self.producer.send(topic, sent.value, sent.key, partition=partition, headers=headers)
            except AioKafkaError as error:
                failure = error
                break
            futures.append((sent, future))
        for sent, future in futures:
            try:
                self.answered(sent, None, (await future).offset)
            except AioKafkaError as error:
                self.answered(sent, getattr(error, "errno", None) or -1, None)
        if failure is not None:
            raise failure

    def begin(self) -> None:
        assert self.producer is not None
        self._run(self.producer.begin_transaction())

    def end(self, commit: bool) -> None:
        assert self.producer is not None
        self._run(self.producer.commit_transaction() if commit else self.producer.abort_transaction())

    def close(self) -> None:
        if self.producer is not None:
            with contextlib.suppress(ClientFailed):
                self._run(self.producer.stop())
        self.runner.close()


class KafkaPython(Sender):
    def open(self) -> None:
        settings: dict[str, Any] = {"retries": 0, "max_in_flight_requests_per_connection": 1}
        try:
            self.producer = KafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks="all",
                compression_type=None if self.codec == "none" else self.codec,
                batch_size=BATCH_BYTES,
                linger_ms=1,
                enable_idempotence=self.retries,
                transactional_id=self.transactional_id,
                delivery_timeout_ms=TIMEOUT_MS,
                max_block_ms=BLOCK_MS,
                retry_backoff_ms=20,
                reconnect_backoff_ms=10,
                reconnect_backoff_max_ms=100,
                **({} if self.retries else settings),
            )
            if self.transactional_id is not None:
                self.producer.init_transactions()
        except PythonKafkaError as error:
            raise ClientFailed(repr(error)) from error

    def send(self, topic: str, records: Sequence[tuple[int, Sent]]) -> None:
        futures: list[tuple[Sent, Any]] = []
        try:
            for partition, sent in records:
                headers = [(HEADER, sent.id.encode())]
                future = self.producer.send(topic, sent.value, sent.key, headers, partition)
                futures.append((sent, future))
            self.producer.flush(TIMEOUT_S + 5)
        except (PythonKafkaError, AssertionError) as error:
            raise ClientFailed(repr(error)) from error
        finally:
            for sent, future in futures:
                self._answer(sent, future)

    def _answer(self, sent: Sent, future: Any) -> None:
        try:
            self.answered(sent, None, future.get(0).offset)
        except PythonKafkaError as error:
            self.answered(sent, getattr(error, "errno", None) or -1, None)

    def begin(self) -> None:
        try:
            self.producer.begin_transaction()
        except (PythonKafkaError, AssertionError) as error:
            raise ClientFailed(repr(error)) from error

    def end(self, commit: bool) -> None:
        try:
            if commit:
                self.producer.commit_transaction()
            else:
                self.producer.abort_transaction()
        except (PythonKafkaError, AssertionError) as error:
            raise ClientFailed(repr(error)) from error

    def close(self) -> None:
        self.producer.close(5)


SENDERS: dict[str, type[Sender]] = {
    "confluent-kafka": Confluent,
    "aiokafka": AioKafka,
    "kafka-python": KafkaPython,
}
