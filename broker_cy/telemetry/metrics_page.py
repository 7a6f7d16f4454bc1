"""One scrape: everything in metrics.definitions, read from the running broker.

The page is written in slices, and the loop runs between them, so that ten thousand partitions delay no client: a slice
has at most PARTITIONS_PER_SLICE lines, or the groups of one coordinator partition.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from heapq import nlargest
from typing import TYPE_CHECKING

from broker_cy import __version__
from broker_cy.broker import disk_rooms
from broker_cy.control.membership.cordons import is_cordoned
from broker_cy.core.errors import ErrorCode
from broker_cy.core.tls_version import openssl_version
from broker_cy.metrics import process
from broker_cy.metrics.exposition import Page, labels_text
from broker_cy.metrics.requests import PHASE_NAMES
from broker_cy.share_service.inspection import GroupFlight, groups_by_cause, most_in_flight
from broker_cy.telemetry import coordinator_counts
from broker_cy.telemetry.partition_metrics import FAMILIES, lines
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from broker_cy.broker.broker import Broker
    from broker_cy.broker.client_quotas import ClientQuotas
    from broker_cy.connections.answers import ServerCore
    from broker_cy.metrics.login_counts import LoginCounts
    from broker_cy.replica.partition import Partition
    from broker_cy.replication.mirror_view import MirrorView
    from broker_cy.share.share_partitions import ShareKey
    from broker_cy.share_service.share_service import ShareService
    from broker_cy.telemetry.loop_watch import LoopWatch

PARTITIONS_PER_SLICE = 2_000
# Client ids that are listed; the connections of others are counted as OTHER_CLIENTS.
CLIENT_IDS_MAX = 1_000
OTHER_CLIENTS = "(others)"
# Connections that are read in one turn of the loop, in about 3 ms.
CONNECTIONS_PER_TURN = 2_000
# Users and client ids whose waits are listed, those that waited longest.
THROTTLED_MAX = 100
# Share partitions whose records in flight are listed.
SHARE_PARTITIONS_MAX = 100
# Share groups whose causes are listed, those with most records that were archived or given back.
SHARE_GROUPS_MAX = 100
# Records with as many deliveries or more are counted together.
DELIVERIES_MAX = 10


def api_name(key: int) -> str:
    """Return Kafka's name in the form that its own tools print: `Produce`, `OffsetCommit`."""
    return "".join(word.capitalize() for word in ApiKey(key).name.split("_"))


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or the number of an unknown code."""
    found = ErrorCode(code)
    return found.name if found == code else str(code)


async def render(broker: Broker, core: ServerCore, watch: LoopWatch, only: frozenset[str] | None = None) -> bytes:
    """Return the page of a scrape. If `only` is given, it contains only the partition metrics of these topics."""
    page = Page()
    if only is not None:
        await _partitions(
            page, [(name, places) for name, places in broker.partitions.by_name.items() if name.decode() in only]
        )
        return page.encode()
    page.one("broker_cy_build_info", 1, __version__, str(broker.node_id), broker.cluster_id)
    _requests(page, core)
    await _connections(page, core)
    _logins(page, broker.login_counts)
    _quotas(page, broker.quotas, core)
    _tls(page, broker)
    topics = list(broker.partitions.by_name.items())
    page.one("broker_cy_topics", len(topics))
    await _partitions(page, topics)
    await _coordinators(page, broker)
    await _mirrors(page, broker)
    _storage(page, broker, core)
    await _directories(page, broker)
    _quorum(page, broker)
    _process(page, watch)
    return page.encode()


async def render_controller(broker: Broker, core: ServerCore, watch: LoopWatch) -> bytes:
    """The same for a node that is only a controller: it has no partitions, coordinators and fetches of clients."""
    page = Page()
    page.one("broker_cy_build_info", 1, __version__, str(broker.node_id), broker.cluster_id)
    _requests(page, core)
    await _connections(page, core)
    _logins(page, broker.login_counts)
    _quotas(page, broker.quotas, core)
    _tls(page, broker)
    await _directories(page, broker)
    _quorum(page, broker)
    _process(page, watch)
    return page.encode()


def _quorum(page: Page, broker: Broker) -> None:
    controller = broker.controller
    page.one("broker_cy_quorum_leader", controller.leader_id)
    page.one("broker_cy_quorum_epoch", controller.epoch)
    page.one("broker_cy_quorum_high_watermark", controller.high_watermark)
    page.one("broker_cy_metadata_offset", controller.image.offset)
    page.one("broker_cy_active_controller", int(controller.is_active))


def _requests(page: Page, core: ServerCore) -> None:
    metrics = core.metrics
    read = {key: metrics.read(key) for key in metrics.keys()}  # noqa: SIM118 - it is no mapping
    for place, name in enumerate(
        ("broker_cy_requests_total", "broker_cy_request_bytes_total", "broker_cy_response_bytes_total")
    ):
        page.family(name)
        for key, counts in read.items():
            page.sample(name, counts[place], api_name(key))
    page.family("broker_cy_request_errors_total")
    for (key, code), count in metrics.error_counts().items():
        page.sample("broker_cy_request_errors_total", count, api_name(key), error_name(code))
    page.family("broker_cy_request_phase_seconds")
    for key in read:
        for phase, phase_name in PHASE_NAMES.items():
            snapshot = metrics.phase(key, phase)
            if snapshot is not None:
                page.histogram("broker_cy_request_phase_seconds", snapshot, api_name(key), phase_name)


async def _connections(page: Page, core: ServerCore) -> None:
    listeners: Counter[str] = Counter()
    clients: dict[str, list[int]] = {}
    for number, connection in enumerate(list(core.connections), 1):
        if number % CONNECTIONS_PER_TURN == 0:
            await asyncio.sleep(0)
        listeners[connection.listener] += 1
        name = connection.client_id.decode("utf-8", "replace")
        if name not in clients and len(clients) >= CLIENT_IDS_MAX:
            name = OTHER_CLIENTS
        counts = clients.setdefault(name, [0, 0, 0, 0])
        counts[0] += 1
        counts[1] += connection.requests
        counts[2] += connection.bytes_in
        counts[3] += connection.bytes_out
    page.family("broker_cy_connections")
    for listener, count in listeners.items():
        page.sample("broker_cy_connections", count, listener)
    page.one("broker_cy_connections_opened_total", core.connections_opened)
    page.one("broker_cy_connections_closed_total", core.connections_closed)
    for place, family in enumerate(("connections", "requests", "received_bytes", "sent_bytes")):
        page.family(f"broker_cy_client_{family}")
        for name, counts in clients.items():
            page.sample(f"broker_cy_client_{family}", counts[place], name)


def _tls(page: Page, broker: Broker) -> None:
    version = openssl_version()
    if version is not None:
        page.one("broker_cy_openssl_info", 1, version)
    if broker.tls is not None:
        family = "broker_cy_certificate_expiry_timestamp_seconds"
        page.family(family)
        for name, tls in broker.tls.listeners.items():
            page.sample(family, tls.identity.certificate.not_after_ms // 1000, name)
    family = "broker_cy_tls_handshakes_total"
    page.family(family)
    for (listener, is_done), number in broker.tls_counts.handshakes.items():
        page.sample(family, number, listener, "success" if is_done else "failure")


def _logins(page: Page, counts: LoginCounts) -> None:
    for family, again in (("broker_cy_authentications_total", False), ("broker_cy_reauthentications_total", True)):
        page.family(family)
        for result, numbers in (("success", counts.successes), ("failure", counts.failures)):
            for (listener, is_again), number in numbers.items():
                if is_again is again:
                    page.sample(family, number, listener, result)
    page.family("broker_cy_expired_sessions_total")
    for listener, number in counts.expired.items():
        page.sample("broker_cy_expired_sessions_total", number, listener)


def _quotas(page: Page, quotas: ClientQuotas, core: ServerCore) -> None:
    kinds = quotas.kinds()
    waits = {key: kind.waits for key, kind in kinds.items()}
    page.family("broker_cy_quotas")
    for key, kind in kinds.items():
        page.sample("broker_cy_quotas", len(kind.limits), key)
    page.family("broker_cy_quota_entities")
    for key, kind in kinds.items():
        page.sample("broker_cy_quota_entities", len(kind), key)
    page.family("broker_cy_throttles_total")
    for key, (count, _) in waits.items():
        page.sample("broker_cy_throttles_total", count, key)
    page.family("broker_cy_throttle_seconds_total")
    for key, (_, waited_ms) in waits.items():
        page.sample("broker_cy_throttle_seconds_total", waited_ms / 1000, key)
    longest = nlargest(
        THROTTLED_MAX, ((meter.waited_ms, key, meter.entity) for key, meter in quotas.meters() if meter.waits)
    )
    page.family("broker_cy_client_throttle_seconds")
    for waited_ms, key, (user, client_id) in longest:
        page.sample("broker_cy_client_throttle_seconds", waited_ms / 1000, key, user, client_id)
    page.one("broker_cy_connections_throttled", sum(each.is_muted for each in core.connections))


async def _partitions(page: Page, topics: list[tuple[bytes, list[Partition | None]]]) -> None:
    partitions: list[Partition] = []
    labels: list[bytes] = []
    offline = unopened = 0
    for name, places in topics:
        held = [partition for partition in places if partition is not None]
        unopened += sum(partition.unopened for partition in held)
        offline += sum(partition.offline is not None and not partition.unopened for partition in held)
        partitions += held
        # Both labels of a partition; only the number differs within the topic.
        before, after = labels_text(("topic", "partition"), (name.decode(), "\0")).encode().split(b"\0")
        labels += [b"%s%d%s" % (before, partition.index, after) for partition in held]
        if held:
            await asyncio.sleep(0)
    page.one("broker_cy_partitions", len(partitions))
    page.one("broker_cy_partitions_offline", offline)
    page.one("broker_cy_partitions_unopened", unopened)
    for name_text, family in FAMILIES:
        page.family(name_text)
        for start in range(0, len(partitions), PARTITIONS_PER_SLICE):
            page.parts.append(
                lines(name_text.encode(), family, partitions, labels, start, start + PARTITIONS_PER_SLICE)
            )
            await asyncio.sleep(0)


async def _coordinators(page: Page, broker: Broker) -> None:
    counts = await coordinator_counts.count(broker)
    page.family("broker_cy_groups")
    for (protocol, state), number in counts.groups.items():
        page.sample("broker_cy_groups", number, protocol, state)
    page.one("broker_cy_group_members", counts.members)
    page.one("broker_cy_group_commits_total", counts.commits)
    page.family("broker_cy_group_rebalances_total")
    for protocol, number in broker.events.rebalances.items():
        page.sample("broker_cy_group_rebalances_total", number, protocol)
    page.family("broker_cy_transactional_ids")
    for state, number in counts.transactions.items():
        page.sample("broker_cy_transactional_ids", number, state)
    oldest_ms = 0 if counts.oldest_start_ms < 0 else max(0, broker.clock.wall_ms() - counts.oldest_start_ms)
    page.one("broker_cy_transaction_oldest_seconds", oldest_ms / 1000)
    share_state = broker.share_state
    page.one("broker_cy_share_partitions", sum(len(machine.entries) for machine in share_state.machines_now()))
    page.family("broker_cy_share_state_write_seconds")
    page.histogram("broker_cy_share_state_write_seconds", share_state.write_times.snapshot())
    page.family("broker_cy_share_state_pruned_offset")
    for index, offset in share_state.pruned_offsets().items():
        page.sample("broker_cy_share_state_pruned_offset", offset, share_state.topic, str(index))
    await _share_groups(page, broker.share)


async def _share_groups(page: Page, share: ShareService) -> None:
    counts = share.counts
    page.one("broker_cy_share_sessions", len(share.sessions))
    page.one("broker_cy_share_served_partitions", len(share.table))
    page.family("broker_cy_share_in_flight_records")
    largest = most_in_flight(share, SHARE_PARTITIONS_MAX)
    for key, topic, records in largest:
        page.sample("broker_cy_share_in_flight_records", records, key.group_id, topic, str(key.topic.partition))
    page.family("broker_cy_share_in_flight_batches")
    for key, topic, _ in largest:
        found = share.table.get(key)
        if found is not None:
            labels = key.group_id, topic, str(key.topic.partition)
            page.sample("broker_cy_share_in_flight_batches", found.batches_in_flight, *labels)
    page.family("broker_cy_share_acknowledged_records_total")
    for kind, number in counts.acknowledgements.items():
        page.sample("broker_cy_share_acknowledged_records_total", number, kind.name.lower())
    page.one("broker_cy_share_delivered_records_total", counts.deliveries)
    page.one("broker_cy_share_redelivered_records_total", counts.redeliveries)
    page.one("broker_cy_share_expired_locks_total", counts.expired_locks)
    page.one("broker_cy_share_records_of_ended_sessions_total", counts.released_by_sessions)
    page.one("broker_cy_share_records_at_limit_total", counts.archived_at_limit)
    page.family("broker_cy_share_partition_load_seconds")
    page.histogram("broker_cy_share_partition_load_seconds", counts.load_times.snapshot())
    await _share_flights(page, share, [key for key, _, _ in largest])
    causes = groups_by_cause(share, SHARE_GROUPS_MAX)
    page.family("broker_cy_share_group_archived_records_total")
    for group_id, of_group in causes:
        for why, number in of_group.archived.items():
            page.sample("broker_cy_share_group_archived_records_total", number, group_id, why.value)
    page.family("broker_cy_share_group_returned_records_total")
    for group_id, of_group in causes:
        for cause, number in of_group.returned.items():
            page.sample("broker_cy_share_group_returned_records_total", number, group_id, cause.value)


async def _share_flights(page: Page, share: ShareService, keys: list[ShareKey]) -> None:
    """The records in flight of these share partitions, by group. A share partition has at most some thousand runs."""
    flights: dict[str, GroupFlight] = {}
    for key in keys:
        found = share.table.get(key)
        if found is not None:
            flights.setdefault(key.group_id, GroupFlight()).add(found)
            await asyncio.sleep(0)
    page.family("broker_cy_share_group_in_flight_records")
    for group_id, flight in flights.items():
        numbers: Counter[str] = Counter()
        for deliveries, records in flight.by_deliveries.items():
            numbers[str(deliveries) if deliveries < DELIVERIES_MAX else f"{DELIVERIES_MAX}+"] += records
        for deliveries_text, records in sorted(numbers.items()):
            page.sample("broker_cy_share_group_in_flight_records", records, group_id, deliveries_text)
    page.family("broker_cy_share_group_last_attempt_records")
    for group_id, flight in flights.items():
        page.sample("broker_cy_share_group_last_attempt_records", flight.last_attempts, group_id)


async def _mirrors(page: Page, broker: Broker) -> None:
    views: list[MirrorView] = []
    for view in broker.mirror_views():
        views.append(view)
        if len(views) % PARTITIONS_PER_SLICE == 0:
            await asyncio.sleep(0)
    page.family("broker_cy_mirror_partitions")
    for (link, state), number in Counter((view.link, view.state) for view in views).items():
        page.sample("broker_cy_mirror_partitions", number, link, state)
    page.family("broker_cy_mirror_problem")
    for view in views:
        if view.cause:
            page.sample("broker_cy_mirror_problem", 1, view.link, view.topic, str(view.partition), view.cause)
    copied = [view for view in views if view.link]
    found: dict[str, list[float | None]] = {
        "broker_cy_mirror_lag_records": [view.lag_records for view in copied],
        "broker_cy_mirror_lag_seconds": [None if view.lag_ms is None else view.lag_ms / 1000 for view in copied],
        "broker_cy_mirror_records_total": [view.records for view in copied],
        "broker_cy_mirror_bytes_total": [view.bytes for view in copied],
    }
    for name, values in found.items():
        page.family(name)
        for view, value in zip(copied, values, strict=True):
            if value is not None:
                page.sample(name, value, view.link, view.topic, str(view.partition))
        await asyncio.sleep(0)


def _storage(page: Page, broker: Broker, core: ServerCore) -> None:
    metrics = core.metrics
    page.one("broker_cy_fetches_from_memory_total", metrics.hot_reads)
    page.one("broker_cy_fetches_from_disk_total", metrics.cold_reads)
    page.one("broker_cy_fetched_bytes_from_memory_total", metrics.hot_bytes)
    page.one("broker_cy_fetched_bytes_from_disk_total", metrics.cold_bytes)
    page.one("broker_cy_sync_rounds_total", core.commit.rounds)
    page.one("broker_cy_synced_files_total", core.commit.syncs)
    page.family("broker_cy_sync_round_seconds")
    page.histogram("broker_cy_sync_round_seconds", core.commit.round_times.snapshot())
    page.one("broker_cy_unflushed_bytes", broker.log_manager.totals.unflushed_bytes)


async def _directories(page: Page, broker: Broker) -> None:
    sizes_by_path = (await disk_rooms.measured(broker)).known()
    for place, name in enumerate(("broker_cy_log_directory_free_bytes", "broker_cy_log_directory_total_bytes")):
        page.family(name)
        for directory, sizes in sizes_by_path.items():
            page.sample(name, sizes[place], directory)
    data_directories = broker.log_manager.data_directories
    page.family("broker_cy_log_directory_offline")
    for each in data_directories:
        page.sample("broker_cy_log_directory_offline", int(each.failure is not None), each.path)
    left = broker.log_manager.left_to_open()
    for place, name in enumerate(
        ("broker_cy_log_directory_unopened_logs", "broker_cy_log_directory_unchecked_segments")
    ):
        page.family(name)
        for directory, counts in left.items():
            page.sample(name, counts[place], directory)
    page.family("broker_cy_log_directory_cordoned")
    for path in broker.config.log_dirs:
        cordoned = is_cordoned(broker.config, str(path))
        page.sample("broker_cy_log_directory_cordoned", int(cordoned), os.path.abspath(path))
    arriving = Counter(each.target.path for each in broker.log_manager.moves.moves.values())
    page.family("broker_cy_log_directory_arriving_replicas")
    for each in data_directories:
        page.sample("broker_cy_log_directory_arriving_replicas", arriving[each.path], each.path)


def _process(page: Page, watch: LoopWatch) -> None:
    stats = process.read()
    page.family("broker_cy_loop_lag_seconds")
    page.histogram("broker_cy_loop_lag_seconds", watch.lag.snapshot())
    page.family("broker_cy_page_faults_total")
    page.sample("broker_cy_page_faults_total", stats.minor_faults, "minor")
    page.sample("broker_cy_page_faults_total", stats.major_faults, "major")
    page.family("broker_cy_context_switches_total")
    page.sample("broker_cy_context_switches_total", stats.voluntary_switches, "voluntary")
    page.sample("broker_cy_context_switches_total", stats.involuntary_switches, "involuntary")
    page.one("broker_cy_disk_read_bytes_total", stats.disk_read_bytes)
    page.one("broker_cy_disk_written_bytes_total", stats.disk_written_bytes)
    page.one("process_cpu_seconds_total", stats.cpu_s)
    page.one("process_resident_memory_bytes", stats.resident_bytes)
    page.one("process_virtual_memory_bytes", stats.virtual_bytes)
    page.one("process_open_fds", stats.open_fds)
    page.one("process_max_fds", stats.max_fds)
    page.one("process_start_time_seconds", stats.start_time_s)
