"""Users that are members of a share group (KIP-932): `share-consumer`.

Each has a confluent_kafka.ShareConsumer and a native thread that calls it, so that no call of librdkafka blocks the
hub. An operation is a poll with the acknowledgements of its records, which are sent and awaited before the next poll.
`release_share` and `reject_share` decide at random how many of the records are released and rejected; the others are
accepted.

Operations: ShareFetch is a poll that returned records, ShareAcknowledge the acknowledgement of its records.

Counts in the book: `accepted`, `released`, `rejected` (records that were acknowledged so), `redelivered` (records that
were delivered before), and `empty fetches`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import gevent
from gevent.threadpool import ThreadPool

from broker_cy.client.address import Address
from broker_cy.wire import messages
from loadgen.engines.base import EngineError
from loadgen.engines.librdkafka import name_of
from loadgen.net import login as logins
from loadgen.net.cluster import RETRY_S, Cluster, check
from loadgen.users.base import LoadUser
from loadgen.users.fetching import EMPTY, STAMPS_MAX
from loadgen.users.settings import ShareConsuming, settings_of
from loadgen.verify.prefix import Stamp, stamp_of

if TYPE_CHECKING:
    from confluent_kafka import Message, ShareConsumer

# The resource type of group settings, and the operation that sets one (IncrementalAlterConfigs, KIP-848).
GROUP_RESOURCE: Final = 32
SET: Final = 0
ACCEPTED, RELEASED, REJECTED = "accepted", "released", "rejected"
REDELIVERED: Final = "redelivered"
T = TypeVar("T")


@dataclass
class _Polled:
    """The result of one poll, made in the thread. Times in nanoseconds of the monotonic clock.

    `poll_error` and `acknowledge_error` are Kafka's names, or librdkafka's own. `counts`:
    records of each acknowledgement type.
    """

    began_ns: int
    polled_ns: int = 0
    acknowledged_ns: int = 0
    records: int = 0
    size_bytes: int = 0
    redelivered: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    stamps: list[tuple[Stamp, int]] = field(default_factory=list)
    poll_error: str = ""
    acknowledge_error: str = ""


class ShareMember(LoadUser):
    """Polls, and accepts, releases or rejects each record."""

    abstract = True

    def connect(self) -> None:
        """Set the group's settings, and subscribe. Raises NetError, Refused and EngineError."""
        self.sharing = settings_of(ShareConsuming, self.spec)
        self._random = random.Random(f"share {self.load.plan.scenario.seed} {self.spec.name} {self.place}")
        self._end_to_end = self.meter("EndToEnd")
        cluster = self.new_cluster()
        try:
            _configure(cluster, self.sharing)
        finally:
            cluster.close()
        try:
            from confluent_kafka import IllegalStateException, KafkaException, ShareConsumer
        except ImportError as error:
            raise EngineError(
                f"kind share-consumer needs confluent-kafka: pip install confluent-kafka ({error})"
            ) from None
        self._failures = (KafkaException, IllegalStateException)
        self._thread = ThreadPool(1)
        self._consumer = self._call(partial(self._open, ShareConsumer))

    def _call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread, and wait for its result while the hub serves others."""
        return cast(T, self._thread.spawn(function).get())

    def _open(self, kind: type[ShareConsumer]) -> ShareConsumer:
        plan = self.load.plan
        consumer = kind(
            {
                "bootstrap.servers": ",".join(str(Address(*each)) for each in plan.bootstrap),
                "client.id": f"broker-load-{self.spec.name}-{self.place}",
                "group.id": self.sharing.group,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": self.sharing.max_poll_records,
                # Failures are counted by their codes; lines on stderr would break the display.
                "log_level": 0,
                **logins.librdkafka_settings(),
            }
        )
        consumer.subscribe([plan.scenario.topic.name])
        return consumer

    def perform(self, due_ns: int) -> None:
        wait_s = self.wait_ms(self.sharing.max_wait_ms) / 1000
        polled = self._call(partial(self._poll, wait_s))
        fetch = self.meter("ShareFetch")
        if polled.poll_error:
            fetch.failed(polled.poll_error, due_ns, polled.began_ns, polled.polled_ns)
            gevent.sleep(RETRY_S)
        if not polled.records:
            if not polled.poll_error:
                self.load.book.count(EMPTY)
            return
        fetch.done(due_ns, polled.began_ns, polled.polled_ns, polled.records, polled.size_bytes)
        self._count(polled)

    def _count(self, polled: _Polled) -> None:
        book, acknowledge = self.load.book, self.meter("ShareAcknowledge")
        if polled.redelivered:
            book.count(REDELIVERED, polled.redelivered)
        times_ns = (polled.polled_ns, polled.polled_ns, polled.acknowledged_ns)
        if polled.acknowledge_error:
            acknowledge.failed(polled.acknowledge_error, *times_ns)
        else:
            acknowledge.done(*times_ns, polled.records)
            for name, number in polled.counts.items():
                book.count(name, number)
        work = self.shared.work
        for stamp, size_bytes in polled.stamps:
            # Clocks of hosts differ: only records of this process.
            if stamp.run == work.run and stamp.producer >> 40 == work.worker:
                self._end_to_end.done(stamp.due_ns, stamp.due_ns, polled.polled_ns, 1, size_bytes)

    def _poll(self, wait_s: float) -> _Polled:
        """Poll and acknowledge; runs in the thread."""
        polled = _Polled(time.monotonic_ns())
        try:
            found = list(self._consumer.poll(wait_s))
        except self._failures as error:
            polled.poll_error = _name(error)
            found = []
        polled.polled_ns = time.monotonic_ns()
        for message in found:
            failure = message.error()
            if failure is not None:
                polled.poll_error = name_of(failure)
            else:
                self._take(message, polled)
        if polled.records:
            try:
                answers = self._consumer.commit_sync(self.load.plan.scenario.timeout_s)
                refused = next((each for each in answers.values() if each is not None), None)
                if refused is not None:
                    polled.acknowledge_error = _name(refused)
            except self._failures as error:
                polled.acknowledge_error = _name(error)
            polled.acknowledged_ns = time.monotonic_ns()
        return polled

    def _take(self, message: Message, polled: _Polled) -> None:
        """Choose the acknowledgement of a record, and measure the record."""
        from confluent_kafka import AcknowledgeType

        draw, sharing = self._random.random(), self.sharing
        if draw < sharing.reject_share:
            name, kind = REJECTED, AcknowledgeType.REJECT
        elif draw < sharing.reject_share + sharing.release_share:
            name, kind = RELEASED, AcknowledgeType.RELEASE
        else:
            name, kind = ACCEPTED, AcknowledgeType.ACCEPT
        try:
            self._consumer.acknowledge(message, kind)
            polled.counts[name] = polled.counts.get(name, 0) + 1
        except self._failures as error:
            # The client has given the record up, as after the loss of its broker.
            polled.acknowledge_error = _name(error)
        value: Any = message.value()
        headers: Any = message.headers() or ()
        size_bytes = len(value or b"") + len(message.key() or b"")
        is_first = (message.delivery_count() or 1) <= 1
        polled.records += 1
        polled.size_bytes += size_bytes
        polled.redelivered += not is_first
        if is_first and self.shared.work.ledger is not None and len(polled.stamps) < STAMPS_MAX:
            stamp = stamp_of(value, headers)
            if stamp is not None:
                polled.stamps.append((stamp, len(value or b"")))

    def disconnect(self) -> None:
        """Leave the group; records that are still locked are released."""
        if not hasattr(self, "_thread"):
            return
        if hasattr(self, "_consumer"):
            try:
                self._call(self._consumer.close)
            except self._failures:
                self.load.book.count("unclean ends of share consumers")
        self._thread.kill()


def _name(error: Exception) -> str:
    """Return Kafka's name of a KafkaException, or librdkafka's own; ILLEGAL_STATE for a call at the wrong time."""
    content = error.args[0]
    return "ILLEGAL_STATE" if isinstance(content, str) else name_of(content)


def _configure(cluster: Cluster, sharing: ShareConsuming) -> None:
    """Set the start and the isolation level of the group, which share consumers cannot set. Raises Refused."""
    alter = messages.IncrementalAlterConfigsRequest
    settings = {"share.auto.offset.reset": sharing.from_, "share.isolation.level": sharing.isolation}
    configs = [alter.AlterableConfig(name=name, config_operation=SET, value=value) for name, value in settings.items()]
    resource = alter.AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=sharing.group, configs=configs)
    answer = cluster.any().call(alter(resources=[resource]), messages.IncrementalAlterConfigsResponse)
    for each in answer.responses:
        check(each.error_code, f"IncrementalAlterConfigs of group {sharing.group}", each.error_message)
