"""Writes a sample of the metrics to `__broker_metrics` at intervals, as the history that consoles and jobs read.

The cost is that of reading the counters: idle APIs and connections are skipped. Bounds: a sample lists the busiest
TOPICS_MAX topics and CONNECTIONS_MAX connections, and the number of the others; quota_samples has those of quotas.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from broker_cy.broker import disk_rooms
from broker_cy.connections.activity import Activity
from broker_cy.core.supervision import keep_running
from broker_cy.events.own_topic import OwnTopic
from broker_cy.metadata.topic_names import BROKER_METRICS
from broker_cy.metrics import process
from broker_cy.metrics.histogram import Snapshot
from broker_cy.metrics.requests import PHASE_NAMES
from broker_cy.metrics.sample import Api, Connection, Sample, Times, Topic, encode
from broker_cy.telemetry import coordinator_counts
from broker_cy.telemetry.metrics_page import api_name, error_name
from broker_cy.telemetry.partition_metrics import topic_totals
from broker_cy.telemetry.quota_samples import QuotaSamples

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.connections.answers import ServerCore
    from broker_cy.telemetry.loop_watch import LoopWatch

LOGGER = logging.getLogger("broker_cy.server.metrics")

TOPICS_MAX = 500
CONNECTIONS_MAX = 200
# Partitions that are read in one turn of the loop.
PARTITIONS_PER_TURN = 5_000
# Connections that are read in one turn of the loop, in 1 or 2 ms.
CONNECTIONS_PER_TURN = 10_000


def times_of(values: Snapshot) -> Times:
    """Return the quantiles of a histogram that a sample contains."""
    return Times(
        values.count,
        values.sum_ns // 1000,
        values.quantile_ns(0.5) // 1000,
        values.quantile_ns(0.99) // 1000,
        values.max_ns // 1000,
    )


class MetricsSampler:
    """Runs from `start` to `stop`."""

    def __init__(self, broker: Broker, core: ServerCore, watch: LoopWatch, interval_ms: int) -> None:
        self._broker = broker
        self._core = core
        self._watch = watch
        self._interval_s = interval_ms / 1000
        self._topic = OwnTopic(
            BROKER_METRICS,
            broker.config,
            broker.clock,
            broker.loop,
            broker.partitions,
            broker.controller.submit,
            broker.own_topics,
        )
        self._task: asyncio.Task[None] | None = None
        self._began_s = broker.loop.time()
        self._last_s = self._began_s
        self._process = process.read()
        self._lag = watch.lag.snapshot()
        self._counters: dict[str, int] = {}
        self._phases: dict[tuple[int, int], Snapshot] = {}
        self._errors: dict[tuple[int, int], int] = {}
        self._apis: dict[int, tuple[int, int, int]] = {}
        self._topics: dict[bytes, tuple[int, int, int]] = {}
        self._quotas = QuotaSamples(broker.quotas)

    def start(self) -> None:
        self._task = keep_running(self._broker.loop, self._run, "samples of metrics")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._topic.stop()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            if self._core.metrics.on:
                try:
                    sample = await self.sample()
                    self._topic.write(str(sample.broker).encode(), encode(sample), sample.time_ms)
                except OSError as error:
                    LOGGER.warning("could not sample metrics", exc_info=error)

    def _since(self, name: str, value: int) -> int:
        """Return the growth of a counter since the last sample."""
        before = self._counters.get(name, 0)
        self._counters[name] = value
        return value - before

    async def sample(self) -> Sample:
        """Return the counts since the last call."""
        broker, core = self._broker, self._core
        now_s = broker.loop.time()
        sample = Sample(time_ms=broker.clock.wall_ms(), broker=broker.node_id)
        sample.interval_ms = round((now_s - self._last_s) * 1000)
        sample.uptime_ms = round((now_s - self._began_s) * 1000)
        self._last_s = now_s
        self._read_process(sample)
        lag = self._watch.lag.snapshot()
        sample.loop_lag, self._lag = times_of(lag - self._lag), lag
        sample.connections = len(core.connections)
        sample.connections_opened = self._since("opened", core.connections_opened)
        sample.connections_closed = self._since("closed", core.connections_closed)
        metrics = core.metrics
        sample.hot_reads = self._since("hot_reads", metrics.hot_reads)
        sample.cold_reads = self._since("cold_reads", metrics.cold_reads)
        sample.hot_bytes = self._since("hot_bytes", metrics.hot_bytes)
        sample.cold_bytes = self._since("cold_bytes", metrics.cold_bytes)
        sample.sync_rounds = self._since("rounds", core.commit.rounds)
        sample.unflushed_bytes = broker.log_manager.totals.unflushed_bytes
        self._read_apis(sample)
        await self._read_connections(sample)
        await self._read_topics(sample)
        await self._read_coordinators(sample)
        await self._quotas.read(sample, int(broker.clock.monotonic() * 1000))
        sample.disks.update((await disk_rooms.measured(broker)).known())
        return sample

    def _read_process(self, sample: Sample) -> None:
        now, before = process.read(), self._process
        self._process = now
        sample.cpu_us = round((now.cpu_s - before.cpu_s) * 1e6)
        sample.resident_bytes = now.resident_bytes
        sample.open_fds = now.open_fds
        sample.minor_faults = now.minor_faults - before.minor_faults
        sample.major_faults = now.major_faults - before.major_faults
        sample.disk_read_bytes = now.disk_read_bytes - before.disk_read_bytes
        sample.disk_written_bytes = now.disk_written_bytes - before.disk_written_bytes

    def _read_apis(self, sample: Sample) -> None:
        metrics = self._core.metrics
        for key in metrics.keys():  # noqa: SIM118 - it is no mapping
            counts = metrics.read(key)
            before = self._apis.get(key, (0, 0, 0))
            # A waiting request is counted before it ends, so there can be times without new requests.
            api = Api(counts[0] - before[0], {}, counts[1] - before[1], counts[2] - before[2])
            self._apis[key] = counts
            for phase, name in PHASE_NAMES.items():
                snapshot = metrics.phase(key, phase)
                if snapshot is None:
                    continue
                earlier = self._phases.get((key, phase))
                if earlier is not None and earlier.count == snapshot.count:
                    continue
                self._phases[key, phase] = snapshot
                api.phases[name] = times_of(snapshot if earlier is None else snapshot - earlier)
            if api.requests or api.phases:
                sample.apis[api_name(key)] = api
        errors = metrics.error_counts()
        for (key, code), count in errors.items():
            grown = count - self._errors.get((key, code), 0)
            if grown:
                sample.apis.setdefault(api_name(key), Api()).errors[error_name(code)] = grown
        self._errors = errors

    async def _read_connections(self, sample: Sample) -> None:
        activity = Activity(CONNECTIONS_MAX)
        connections = list(self._core.connections)
        for start in range(0, len(connections), CONNECTIONS_PER_TURN):
            if start:
                await asyncio.sleep(0)
            activity.look(connections, start, start + CONNECTIONS_PER_TURN)
        sample.busy = [
            Connection(
                connection.connection_id,
                connection.client_id.decode("utf-8", "replace"),
                connection.client_host,
                connection.listener,
                max(0, activity.newest_ms - connection.opened_ms),
                *counts,
            )
            for connection, *counts in activity.busiest()
        ]
        sample.busy_left_out = activity.count - len(sample.busy)

    async def _read_topics(self, sample: Sample) -> None:
        now: dict[bytes, tuple[int, int, int]] = {}
        grown: list[tuple[str, Topic]] = []
        looked_at = 0
        for name, places in list(self._broker.partitions.by_name.items()):
            totals = now[name] = topic_totals(places)
            before = self._topics.get(name, (0, 0, 0))
            if totals != before:
                # Smaller than before if the topic was deleted and created again.
                change = (max(0, after - earlier) for after, earlier in zip(totals, before, strict=True))
                grown.append((name.decode(), Topic(*change)))
            sample.partitions += len(places)
            looked_at += len(places)
            if looked_at >= PARTITIONS_PER_TURN:
                looked_at = 0
                await asyncio.sleep(0)
        self._topics = now
        sample.offline = len(self._broker.log_manager.offline)
        grown.sort(key=lambda each: each[1].in_bytes + each[1].out_bytes, reverse=True)
        sample.topics = dict(grown[:TOPICS_MAX])
        sample.topics_left_out = len(grown) - len(sample.topics)

    async def _read_coordinators(self, sample: Sample) -> None:
        counts = await coordinator_counts.count(self._broker)
        sample.groups, sample.members, sample.transactions = (
            counts.groups_by_state(),
            counts.members,
            counts.transactions,
        )
        if counts.oldest_start_ms >= 0:
            sample.oldest_transaction_ms = max(0, sample.time_ms - counts.oldest_start_ms)
