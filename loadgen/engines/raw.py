"""The engine `raw`: volume. The C driver of `broker-bench` sends pre-encoded batches from a separate thread.

One user is one driver with `connections` connections (at least one for each leader), which send in turn. An operation
is one request with one batch of `records` records. The requests of a connection go to its partitions in turn, which all
have one leader. A request that is due on a lost connection fails. If all connections are lost, it waits for the first
new one, at most until the round ends. Without a rate, `in_flight` requests are kept in flight on each connection.
Values and keys are drawn and encoded when the run is prepared, and each batch is sent again and again, with the times
of its preparation; keys do not decide the partition.

With verification, a user is idempotent whether the scenario says so or not: values carry no stamps, so its batches are
tracked by the producer ids and sequences in their headers (KIP-98). A failed request then closes its connection as an
outage does: unacknowledged records of the connection are UNKNOWN, and it continues with another producer id.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any, Final

import gevent
from gevent.threadpool import ThreadPool

from bench.measuring.histogram import Histogram
from bench.wire import protocol
from bench.wire.protocol import Template
from bench.wire.raw import Driver
from broker_cy.client.payload.keys import KeySource
from broker_cy.client.payload.values import ValueSource
from broker_cy.wire.records import Record, encode_batch
from loadgen.engines.base import ACKS, CODECS, EngineError, Work
from loadgen.engines.pieces import parts_of
from loadgen.net import login as logins
from loadgen.net.cluster import Cluster, Refused, error_name
from loadgen.net.connection import Address, NetError
from loadgen.pace.timer import NS

# Distinct batches, so that a cluster cannot benefit from a single one, and their limits.
BATCHES_MIN: Final = 4
BATCHES_MAX: Final = 256
BATCHES_BYTES: Final = 64 << 20
BATCHES_RECORDS: Final = 50_000
# Request frames of one user.
TEMPLATES_MAX: Final = 1 << 16
# The interval at which figures are collected, and at which the thread checks for lost connections.
DRAIN_S: Final = 0.1
# The driver hands over its figures for intervals of this length.
SAMPLE_NS: Final = 250_000_000
# The pause between attempts to reconnect.
RETRY_S: Final = 0.1
# Sent with producer ids without a transactional id; brokers ignore it.
TRANSACTION_TIMEOUT_MS: Final = 60_000
_NO_LIMIT = 1 << 62
_PRODUCE_ERROR = re.compile(r"Produce error (-?\d+)")
_Sample = tuple[float, int, int, int, int, Histogram]


class RawEngine:
    """Engine of one kind of users in one process."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._batches: list[bytes] = []
        self._loads: dict[int, _Load] = {}

    def prepare(self) -> None:
        """Check the options, and encode the batches. Raises EngineError."""
        spec = self._work.spec
        if any(each is not None for each in logins.chosen()):
            raise EngineError(f"{spec.name}: the engine raw has neither logins nor TLS: use gevent")
        if spec.kind != "producer":
            raise EngineError(f"{spec.name}: the engine raw is for users of kind producer, not {spec.kind}")
        if is_idempotent(self._work) and spec.acks != "all":
            why = "idempotent" if spec.idempotent else "verified, and therefore idempotent"
            raise EngineError(f'{spec.name}: a producer that is {why} needs acks = "all", not {spec.acks!r}')
        self._batches = _encoded(self._work)

    def connect(self, user: int) -> None:
        """Open the connections of a user. Raises EngineError."""
        try:
            self._loads[user] = _Load(self._work, user, self._batches)
        except (OSError, NetError, Refused) as error:
            raise EngineError(f"{self._work.spec.name}: {error}") from error

    def produce(self, user: int) -> None:
        """Send requests until the pacer ends, and wait for their answers."""
        self._loads[user].produce()

    def settle(self, timeout_s: float) -> None:
        """Each user waits for its answers itself."""

    def close(self) -> None:
        """Close the connections, and end the threads."""
        for each in self._loads.values():
            each.close()
        self._loads.clear()


def is_idempotent(work: Work) -> bool:
    """Whether batches have producer ids."""
    return work.spec.idempotent or work.ledger is not None


def _encoded(work: Work) -> list[bytes]:
    """Return distinct batches of the scenario's records."""
    spec = work.spec
    seed, user = work.scenario.seed, work.producer_id(0)
    values = ValueSource(spec.payload, seed, now=time.time).cursor(user)
    keys = KeySource(spec.keys, seed, work.partitions).cursor(user)
    now_ms = time.time_ns() // 1_000_000
    batches: list[bytes] = []
    size = 0
    while len(batches) < BATCHES_MAX:
        if len(batches) >= BATCHES_MIN and (
            size >= BATCHES_BYTES or (len(batches) + 1) * spec.records > BATCHES_RECORDS
        ):
            break
        records = [Record(timestamp=now_ms, key=keys.next()[0], value=values.next()) for _ in range(spec.records)]
        batches.append(encode_batch(records, codec=CODECS[spec.codec]))
        size += len(batches[-1])
    return batches


class _Load:
    """One user: a driver, and the thread that runs it."""

    def __init__(self, work: Work, user: int, batches: list[bytes]) -> None:
        """Connect. Raises OSError, NetError and Refused."""
        self._work, spec = work, work.spec
        self._first = work.share.user(user) / spec.count
        self._in_flight = spec.options["in_flight"]
        self._topic = work.scenario.topic.name
        self._cluster = Cluster(work.bootstrap, f"broker-load-{spec.name}-{user}", work.scenario.timeout_s)
        self._is_idempotent = is_idempotent(work)
        self._driver: Driver | None = None
        # The error of the last lost connections: the driver forgets it when they are opened again.
        self._error: str | None = None
        self._begun_ns = 0
        self._thread = ThreadPool(1)
        try:
            self._cluster.partitions(self._topic)
            places = spread(self._leaders(), spec.options["connections"])
            self._partitions = [partitions for _, partitions in places]
            self._driver = Driver(
                [address for address, _ in places],
                _templates(self._topic, self._partitions, batches, spec.records, ACKS[spec.acks]),
                unanswered=spec.acks == "0",
                producers=[self._cluster.producer_id(TRANSACTION_TIMEOUT_MS) for _ in places]
                if self._is_idempotent
                else None,
                giving_up=spec.acks != "0",
                answer_timeout_s=work.scenario.timeout_s,
                stop_limit_s=work.scenario.timeout_s,
            )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connections, and end the thread."""
        if self._driver is not None:
            self._driver.stop()
            self._thread.join()
            self._driver.close()
            self._driver = None
        self._thread.kill()
        self._cluster.close()

    def _leaders(self) -> dict[int, Address]:
        """Return the leaders known now. Raises NetError and Refused."""
        answer = self._cluster.refresh([self._topic])
        addresses = {each.node_id: (each.host, each.port) for each in answer.brokers}
        return {
            part.partition_index: addresses[part.leader_id]
            for topic in answer.topics
            for part in topic.partitions
            if part.leader_id in addresses
        }

    def _producer_id(self) -> tuple[int, int]:
        return self._cluster.producer_id(TRANSACTION_TIMEOUT_MS)

    # ------------------------------------------------------------------------------------------------ a round

    def produce(self) -> None:
        """Send the requests that are due from the pacer's begin to its end."""
        driver = self._driver
        assert driver is not None
        try:
            for _ in self._loops(driver):
                self._run(driver)
        finally:
            self._note(driver)

    def _loops(self, driver: Driver) -> Iterator[None]:
        """Prepare the driver's loops of this round, one after the other."""
        pacer = self._work.pacer
        if pacer.profile is None:
            seconds = (pacer.end_ns - time.monotonic_ns()) / NS
            if seconds > 0 and not pacer.is_ended:
                self._begun_ns = time.monotonic_ns()
                driver.start_closed(depth=self._in_flight, requests=_NO_LIMIT, seconds=seconds)
                yield
            return
        profile = pacer.profile.scaled(1 / self._work.spec.count)
        pacer.hand_over()
        for part in parts_of(profile, (pacer.end_ns - pacer.start_ns) / NS, self._first):
            if pacer.is_ended or pacer.is_cut:
                return
            self._begun_ns = pacer.start_ns + int(part.at_s * NS)
            driver.start_open(
                start=part.start,
                end=part.end,
                ramp_s=0.0 if part.start == part.end else part.seconds,
                seconds=part.seconds,
                origin_ns=self._begun_ns,
                first=part.first,
            )
            yield

    def _run(self, driver: Driver) -> None:
        """Run the prepared loop to its end, replacing lost connections."""
        pacer = self._work.pacer
        while True:
            result = self._thread.spawn(_slices, driver)
            while not result.ready():
                result.wait(DRAIN_S)
                if pacer.is_ended or pacer.is_cut:
                    driver.stop()
                self._take(driver.take_sample(), driver)
            is_over, lost = _outcome(result)
            self._error = driver.first_error or self._error
            if is_over and (not lost or pacer.is_ended or time.monotonic_ns() >= pacer.end_ns):
                break
            if lost and not self._revive(driver, lost) and is_over:
                gevent.sleep(RETRY_S)
        if lost and pacer.profile is not None:
            driver.fail_due()
        for sample in driver.last_samples():
            self._take(sample, driver)
        if pacer.profile is not None:
            pacer.lateness.merge(driver.lateness)

    def _revive(self, driver: Driver, lost: list[int]) -> bool:
        """Reopen lost connections whose leaders are known; returns whether any was reopened."""
        self._note(driver)
        revived = False
        try:
            leaders = self._leaders()
            for index in lost:
                # All partitions of a connection had one leader; if they no longer do, some requests are rejected from
                # now on.
                address = leaders.get(self._partitions[index][0])
                if address is not None:
                    driver.revive(
                        index,
                        address,
                        self._producer_id() if self._is_idempotent else None,
                    )
                    revived = True
        except (OSError, NetError, Refused):
            self._work.book.count("raw: no connection")
        return revived

    def _note(self, driver: Driver) -> None:
        """Note the acknowledged records in the ledger."""
        if (ledger := self._work.ledger) is not None:
            for _, producer_id, partition, acknowledged, sent in driver.acknowledged():
                ledger.batches(producer_id, self._topic, partition, acknowledged, sent)

    def _take(self, sample: _Sample | None, driver: Driver) -> None:
        """Count an interval of the driver."""
        if sample is None:
            return
        ended_s, records, size_bytes, responses, failures, latency = sample
        meter = self._work.meter
        if is_left_over(self._begun_ns + int(ended_s * NS), meter.start_ns, time.monotonic_ns()):
            return
        errors = {error_of(driver.first_error or self._error): failures} if failures else None
        # In a closed loop a request is due when it is sent; in an open one, the time of sending is not known.
        service = latency if self._work.pacer.profile is None else Histogram()
        meter.add(responses, records, size_bytes, latency, service, errors)


def is_left_over(ended_ns: int, start_ns: int, now_ns: int) -> bool:
    """Return whether most of an interval of the driver is in the warm-up although it is collected afterwards. Its
    requests would otherwise count in the measured time, which begins at `start_ns` (0: no warm-up).
    """
    return 0 < start_ns <= now_ns and ended_ns - SAMPLE_NS // 2 < start_ns


def _outcome(result: Any) -> tuple[bool, list[int]]:
    """Return the result of the thread with its type, which gevent does not declare."""
    found: tuple[bool, list[int]] = result.get()
    return found


def _slices(driver: Driver) -> tuple[bool, list[int]]:
    """Run the loop until it is over or a connection is lost; runs in the thread."""
    while True:
        is_over = driver.loop(DRAIN_S)
        lost = driver.lost()
        if is_over or lost:
            return is_over, lost


def spread(leaders: dict[int, Address], connections: int) -> list[tuple[Address, list[int]]]:
    """Return address and partitions of each connection: at least one for each leader, all partitions of one leader."""
    by_leader: dict[Address, list[int]] = {}
    for partition in sorted(leaders):
        by_leader.setdefault(leaders[partition], []).append(partition)
    addresses = list(by_leader)
    count = max(connections, len(addresses))
    found = []
    for index in range(count):
        address = addresses[index % len(addresses)]
        theirs = by_leader[address]
        turn, turns = index // len(addresses), len(range(index % len(addresses), count, len(addresses)))
        found.append((address, theirs[turn::turns] or [theirs[turn % len(theirs)]]))
    return found


def _templates(
    topic: str, partitions: list[list[int]], batches: list[bytes], records: int, acks: int
) -> list[list[Template]]:
    """Return the requests of each connection, sent in turn: a batch to each of its partitions, repeatedly."""
    frames = sum(len(each) for each in partitions)
    each = min(len(batches), max(BATCHES_MIN, TEMPLATES_MAX // frames))
    payloads = [batch + protocol.PRODUCE_TAIL for batch in batches]
    return [
        [
            # Adjacent partitions begin at different batches, so that all are in use from the start.
            protocol.produce_apart(topic, partition, payloads[(partition + number) % len(payloads)], records, acks)
            for number in range(each)
            for partition in mine
        ]
        for mine in partitions
    ]


def error_of(text: str | None) -> str:
    """Return Kafka's name, or a short name, for the driver's error."""
    if text is None:
        return "DISCONNECTED"
    if found := _PRODUCE_ERROR.search(text):
        return error_name(int(found[1]))
    if "was due" in text:
        return "OFFSET_WENT_BACK"
    return "TIMED_OUT" if "no answer" in text else "DISCONNECTED"
