"""Applications in a thread of a program, against a broker."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_streams import (
    LONG,
    STRING,
    FailureReason,
    KafkaStreams,
    KeyQuery,
    Position,
    PositionBound,
    StateQueryRequest,
    StreamsBuilder,
    StreamsError,
    StreamThreadExceptionResponse,
    ValueAndTimestamp,
)
from broker_streams.dsl.materialized import Materialized
from broker_streams.queries.requests import StateQueryResult
from broker_streams.queries.views import StoreUnavailable
from tests.broker_streams.brokers import SETTINGS
from tests.broker_streams.hosts.test_embedded import WAIT_S, create, until, write
from tests.support.broker import BrokerProcess
from tests.support.wait import until as wait_until

State = KafkaStreams.State


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    made = BrokerProcess(tmp_path_factory.mktemp("threads-broker"), SETTINGS)
    try:
        yield made.start()
    finally:
        made.close()


def config(broker: BrokerProcess, name: str, directory: Path, **changed: Any) -> dict[str, Any]:
    return {
        "application.id": name,
        "bootstrap.servers": broker.bootstrap,
        "commit.interval.ms": 20,
        "statestore.cache.max.bytes": 0,
        "default.key.serde": STRING,
        "default.value.serde": STRING,
        "state.dir": str(directory),
        **changed,
    }


def counts(name: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    grouped = builder.stream(f"{name}-in").group_by(lambda key, value: value)
    grouped.count(materialized=Materialized("counts")).to_stream().to(f"{name}-out", value=LONG)
    return builder


def run(broker: BrokerProcess, job: Callable[[AdminClient], Any]) -> None:
    async def connected() -> None:
        async with AdminClient(broker.bootstrap, timeout_s=WAIT_S) as client:
            await job(client)

    asyncio.run(connected())


def wait(condition: Callable[[], bool]) -> None:
    wait_until(condition, "the state of the application", WAIT_S)


def row(streams: KafkaStreams, key: str) -> int | None:
    try:
        found: ValueAndTimestamp | None = streams.store("counts").get(key)
    except StoreUnavailable:
        return None
    return None if found is None else found.value


def test_an_application_runs_in_a_thread(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, a program cannot run an application beside its own work, or ask its stores."""
    name = "thread"
    states: list[tuple[enum.Enum, enum.Enum]] = []
    streams = KafkaStreams(counts(name), config(broker, name, tmp_path))
    streams.set_state_listener(lambda new, old: states.append((new, old)))
    assert streams.state() is State.CREATED
    with pytest.raises(StoreUnavailable, match="the instance is CREATED"):
        streams.store("counts")
    run(broker, lambda client: create(client, f"{name}-in", f"{name}-out"))
    with streams:
        run(broker, lambda client: write(client, f"{name}-in", "a", "b", "a"))
        wait(lambda: row(streams, "a") == 2 and row(streams, "b") == 1)
        assert streams.state() is State.RUNNING
        store = streams.store("counts")
        assert [(each.key, each.value.value) for each in store.range("a", "b")] == [("a", 2), ("b", 1)]
        assert store.approximate_num_entries() == 2
        with pytest.raises(AttributeError, match="'put'"):
            store.put("a", 3)
        assert streams.query_metadata_for_key("counts", "a").partition in (0, 1)
        assert streams.metadata_for_all_streams_clients() is not None
        processed = streams.metrics()["kafka_streams_stream_thread_metrics_process_total"]
        assert sum(processed.values()) == 6  # inputs, and those of the repartition topic
        with pytest.raises(StreamsError, match="start: the instance is RUNNING; CREATED is expected"):
            streams.start()
        with pytest.raises(StreamsError, match="close it first"):
            streams.clean_up()
    assert streams.state() is State.NOT_RUNNING
    assert (State.RUNNING, State.REBALANCING) in states
    assert states[-1] == (State.NOT_RUNNING, State.PENDING_SHUTDOWN)
    run(broker, lambda client: until(client, f"{name}-out", [("a", 1), ("a", 2), ("b", 1)]))
    assert (tmp_path / name).is_dir()
    streams.clean_up()
    assert not (tmp_path / name).exists()


def test_a_paused_instance_processes_nothing(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, `pause` is ignored, or an instance that is paused leaves its group."""
    name = "pause"
    run(broker, lambda client: create(client, f"{name}-in", f"{name}-out"))
    with KafkaStreams(counts(name), config(broker, name, tmp_path)) as streams:
        run(broker, lambda client: write(client, f"{name}-in", "a"))
        wait(lambda: row(streams, "a") == 1)
        streams.pause()
        assert streams.is_paused()
        run(broker, lambda client: write(client, f"{name}-in", "a", "a"))
        wait(lambda: not streams._running().host._reading.is_empty)
        assert row(streams, "a") == 1
        assert streams.state() is State.RUNNING
        streams.resume()
        wait(lambda: row(streams, "a") == 3)


def failing(name: str, fails: threading.Event) -> StreamsBuilder:
    def one(text: str) -> int:
        if fails.is_set():
            raise RuntimeError("not now")
        return 1

    builder = StreamsBuilder()
    builder.stream(f"{name}-in").map_values(one).to(f"{name}-out", value=LONG)
    return builder


def test_an_instance_begins_again_after_an_error(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, REPLACE_THREAD ends the instance, or a record is lost or doubled."""
    name, fails, errors = "again", threading.Event(), []
    run(broker, lambda client: create(client, f"{name}-in", f"{name}-out"))
    streams = KafkaStreams(failing(name, fails), config(broker, name, tmp_path))

    def handler(error: Exception) -> StreamThreadExceptionResponse:
        errors.append(error)
        if len(errors) == 2:
            fails.clear()
        return StreamThreadExceptionResponse.REPLACE_THREAD

    streams.set_uncaught_exception_handler(handler)
    fails.set()
    with streams:
        run(broker, lambda client: write(client, f"{name}-in", "a", "b"))
        run(broker, lambda client: until(client, f"{name}-out", [("k0", 1), ("k1", 1)]))
        assert len(errors) == 2
        assert streams.state() in (State.RUNNING, State.REBALANCING)
    assert streams.state() is State.NOT_RUNNING


@pytest.mark.parametrize("response", [StreamThreadExceptionResponse.SHUTDOWN_CLIENT, None])
def test_an_error_ends_the_instance(
    broker: BrokerProcess, tmp_path: Path, response: StreamThreadExceptionResponse | None
) -> None:
    """If this fails, an instance that cannot go on seems to run, or its error is not told."""
    name, fails = f"end-{response is None}".lower(), threading.Event()
    fails.set()
    run(broker, lambda client: create(client, f"{name}-in", f"{name}-out"))
    streams = KafkaStreams(failing(name, fails), config(broker, name, tmp_path))
    if response is not None:
        streams.set_uncaught_exception_handler(lambda error: response)
    streams.start()
    run(broker, lambda client: write(client, f"{name}-in", "a"))
    assert streams.wait(WAIT_S)
    assert streams.state() is State.ERROR
    assert "not now" in str(streams.error)
    assert streams.close()


def test_an_error_ends_all_instances(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, SHUTDOWN_APPLICATION ends one instance, and the others meet the same error one after the other."""
    name, fails = "all", threading.Event()
    run(broker, lambda client: create(client, f"{name}-in", f"{name}-out"))
    both = [KafkaStreams(failing(name, fails), config(broker, name, tmp_path / str(at))) for at in range(2)]
    for each in both:
        each.set_uncaught_exception_handler(lambda error: StreamThreadExceptionResponse.SHUTDOWN_APPLICATION)
        each.start()
    wait(lambda: all(each.state() is State.RUNNING for each in both))
    fails.set()
    run(broker, lambda client: write(client, f"{name}-in", "a"))
    assert all(each.wait(WAIT_S) for each in both)
    assert [each.state() for each in both] == [State.ERROR] * 2
    assert any("asked all instances" in str(each.error) for each in both)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"bootstrap.servers": ""}, "bootstrap.servers is missing"),
        ({"application.id": ""}, "application.id"),
        ({"commit.interval.ms": "soon"}, "commit.interval.ms"),
    ],
)
def test_wrong_settings_are_named_at_once(changed: dict[str, str], text: str) -> None:
    """If this fails, a wrong setting is found in another thread, where the program does not see it."""
    given = {"application.id": "wrong", "bootstrap.servers": "localhost:9092", **changed}
    with pytest.raises(ValueError, match=text):
        KafkaStreams(counts("wrong"), given)


def test_requests_are_answered_with_positions(broker: BrokerProcess, tmp_path: Path) -> None:
    """If this fails, a program cannot ask for its own writes, or cannot see how far stores are behind."""
    name = "requests"
    run(broker, lambda client: create(client, f"{name}-in", f"{name}-out"))
    builder = StreamsBuilder()
    counted = builder.stream(f"{name}-in").group_by_key().count(materialized=Materialized("counts"))
    counted.to_stream().to(f"{name}-out", value=LONG)
    builder.global_table(f"{name}-out", key=STRING, value=LONG, materialized=Materialized("everywhere"))
    request = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("k0")).require_active()
    streams = KafkaStreams(builder, config(broker, name, tmp_path))
    with pytest.raises(StoreUnavailable, match="the instance is CREATED"):
        streams.query(request)
    with streams:
        run(broker, lambda client: write(client, f"{name}-in", "a", "b"))
        wait(lambda: streams.state() is State.RUNNING)
        found: list[StateQueryResult] = []

        def has_counted() -> bool:
            found.append(streams.query(request))
            return found[-1].only_partition_result() is not None

        wait(has_counted)
        result = found[-1].only_partition_result()
        assert result is not None
        assert result.result == 1
        assert sorted(found[-1].partition_results) == [0, 1]
        (partition,) = (number for number, each in found[-1].partition_results.items() if each is result)
        at = result.position.partition_positions(f"{name}-in")[partition]
        # A bound that the part has reached, and one that it has not.
        plain = StateQueryRequest.in_store("counts").with_query(KeyQuery.with_key("k0")).with_partitions([partition, 9])
        bound = PositionBound.at(Position({f"{name}-in": {partition: at}}))
        answers = streams.query(plain.with_position_bound(bound)).partition_results
        assert answers[partition].result == 1
        assert answers[9].failure_reason is FailureReason.NOT_PRESENT
        behind = PositionBound.at(Position({f"{name}-in": {partition: at + 1000}}))
        answers = streams.query(plain.with_position_bound(behind)).partition_results
        assert answers[partition].failure_reason is FailureReason.NOT_UP_TO_BOUND
        whole = streams.query(StateQueryRequest.in_store("everywhere").with_query(KeyQuery.with_key("k0")))
        assert whole.global_result is not None
        assert whole.global_result.failure_reason is FailureReason.UNKNOWN_QUERY_TYPE
        with pytest.raises(StoreUnavailable, match="has no store other"):
            streams.query(StateQueryRequest.in_store("other").with_query(KeyQuery.with_key("k0")))
        lags = streams.all_local_store_partition_lags()
        assert {store: sorted(parts) for store, parts in lags.items()} == {"counts": [0, 1]}
        ends = [each.end_offset_position for each in lags["counts"].values()]
        assert max(ends) > 0
        assert [each.offset_lag for each in lags["counts"].values()] == [0, 0]
