"""The metrics count what clients did: records, bytes, errors and times add up, over HTTP as Prometheus reads them."""

from __future__ import annotations

import gzip
import http.client
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client.parser import text_string_to_metric_families

from broker_cy.wire import messages
from tests.support.broker import BrokerProcess
from tests.support.certificates import Authority
from tests.support.cluster import ask
from tests.support.confluent import close_consumer, new_consumer, send, take
from tests.support.topics import create_topic
from tests.support.wait import until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
TIMEOUT_S = 60.0
RECORDS = 500


class Metered(BrokerProcess):
    """A broker with a metrics port."""

    def address(self) -> tuple[str, int]:
        found = re.search(r"metrics on https?://([\d.]+):(\d+)/metrics", self.stdout())
        assert found is not None, self.stdout()
        return found[1], int(found[2])

    def ask(self, target: str, method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection(*self.address(), timeout=TIMEOUT_S)
        try:
            connection.request(method, target, headers={k.replace("_", "-"): v for k, v in headers.items()})
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def scrape(self) -> Samples:
        response, body = self.ask("/metrics")
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Metered]:
    process = Metered(tmp_path, {"brokercy.metrics.listener": "127.0.0.1:0", "group.initial.rebalance.delay.ms": "0"})
    process.start()
    yield process
    process.close()


def test_groups_are_counted_by_protocol(broker: Metered) -> None:
    """If this fails, the groups of the newer protocol (KIP-848) are missing from the metrics."""
    create_topic(broker.bootstrap, "orders", partitions=2)
    send(broker, "orders", [b"x"])
    consumer = new_consumer(broker.bootstrap, "readers", group_protocol="consumer")
    try:
        consumer.subscribe(["orders"])
        take(consumer, 1)
        found = broker.scrape()
        assert value(found, "broker_cy_groups", protocol="consumer", state="Stable") == 1
        assert value(found, "broker_cy_group_members") == 1
        assert value(found, "broker_cy_group_rebalances_total", protocol="consumer") == 1
        assert value(found, "broker_cy_group_rebalances_total", protocol="classic") == 0
    finally:
        close_consumer(consumer)


def test_records_bytes_and_times_add_up(broker: Metered) -> None:
    """If this fails, an operator sees other numbers than the clients."""
    create_topic(broker.bootstrap, "orders", partitions=2)
    send(broker, "orders", [b"x" * 100] * RECORDS, partition=1)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "client.id": "the reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    taken = 0
    while taken < RECORDS:
        taken += len(consumer.consume(RECORDS, timeout=TIMEOUT_S))
    found = broker.scrape()
    one = {"topic": "orders", "partition": "1"}
    assert value(found, "broker_cy_partition_appended_records_total", **one) == RECORDS
    assert value(found, "broker_cy_partition_high_watermark", **one) == RECORDS
    assert value(found, "broker_cy_partition_log_end_offset", **one) == RECORDS
    size = value(found, "broker_cy_partition_log_size_bytes", **one)
    assert size == (broker.data_dir / "orders-1" / "00000000000000000000.log").stat().st_size
    assert value(found, "broker_cy_partition_appended_bytes_total", **one) == size
    assert value(found, "broker_cy_partition_fetched_bytes_total", **one) >= size
    assert value(found, "broker_cy_partition_appended_records_total", topic="orders", partition="0") == 0
    assert value(found, "broker_cy_groups", protocol="classic", state="Stable") == 1
    assert value(found, "broker_cy_group_members") == 1
    assert value(found, "broker_cy_group_rebalances_total", protocol="classic") >= 1
    committed = value(found, "broker_cy_group_commits_total")
    consumer.commit(offsets=[TopicPartition("orders", 1, 5)], asynchronous=False)
    assert value(broker.scrape(), "broker_cy_group_commits_total") >= committed + 1
    assert value(found, "broker_cy_client_connections", client_id="the reader") >= 1
    produced = value(found, "broker_cy_requests_total", api="Produce")
    assert 1 <= produced <= RECORDS
    for phase in ("queue", "handler", "disk", "send", "total"):
        count = value(found, "broker_cy_request_phase_seconds_count", api="Produce", phase=phase)
        assert count == produced, phase
    waits = {"api": "Fetch", "phase": "data"}
    until(
        lambda: value(broker.scrape(), "broker_cy_request_phase_seconds_count", **waits) >= 1,
        "a fetch that waited for records",
        TIMEOUT_S,
    )
    assert value(found, "broker_cy_fetches_from_memory_total") >= 1
    parts = sum(
        value(found, "broker_cy_request_phase_seconds_sum", api="Produce", phase=phase)
        for phase in ("queue", "handler", "disk", "send")
    )
    total = value(found, "broker_cy_request_phase_seconds_sum", api="Produce", phase="total")
    assert parts == pytest.approx(total, rel=0.01)
    assert value(found, "process_resident_memory_bytes") > 1 << 20
    close_consumer(consumer)


def test_errors_are_counted_by_name(broker: Metered) -> None:
    """If this fails, a dashboard does not distinguish a missing topic from a fenced producer."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topics(["nowhere"])["nowhere"].result(TIMEOUT_S)
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 5_000_000})
    create_topic(broker.bootstrap, "small", config={"max.message.bytes": "1000"})
    producer.produce("small", b"x" * 100_000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    assert errors[0] is not None
    found = broker.scrape()
    name = "broker_cy_request_errors_total"
    assert value(found, name, api="DeleteTopics", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert value(found, name, api="Produce", error="MESSAGE_TOO_LARGE") >= 1


def test_counting_can_be_turned_off_and_on(broker: Metered) -> None:
    """brokercy.metrics.enable is dynamic; clients notice nothing."""
    create_topic(broker.bootstrap, "orders")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def enable(text: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        entry = ConfigEntry("brokercy.metrics.enable", text, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(TIMEOUT_S)

    enable("false")
    before = value(broker.scrape(), "broker_cy_requests_total", api="Produce")
    send(broker, "orders", [b"x"] * 10)
    assert value(broker.scrape(), "broker_cy_requests_total", api="Produce") == before
    enable("true")
    send(broker, "orders", [b"x"] * 10)
    assert value(broker.scrape(), "broker_cy_requests_total", api="Produce") > before


def test_other_paths_methods_and_encodings(broker: Metered) -> None:
    """Load balancers, curl and scrapers that compress."""
    assert broker.ask("/healthz")[0].status == 200
    until(lambda: broker.ask("/readyz")[0].status == 200, "readyz", TIMEOUT_S)
    assert broker.ask("/nothing")[0].status == 404
    response, body = broker.ask("/metrics", "POST")
    assert response.status == 405
    assert response.headers["Allow"] == "GET, HEAD"
    send(broker, "one", [b"x"])
    send(broker, "other", [b"x"])
    _, body = broker.ask("/metrics?topic=one")
    assert b'broker_cy_partition_segments{topic="one",partition="0"} 1' in body
    assert b"other" not in body
    assert b"build_info" not in body
    assert b"partition=" not in broker.ask("/metrics?topic=")[1]
    response, body = broker.ask("/metrics", "HEAD")
    assert (response.status, body) == (200, b"")
    response, body = broker.ask("/metrics", Accept_Encoding="gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    assert b"broker_cy_build_info" in gzip.decompress(body)


def test_peers_that_speak_no_http_disturb_nobody(broker: Metered) -> None:
    """A port scanner, a TLS client, and a client that sends half a request and stays connected."""
    with (
        socket.create_connection(broker.address(), TIMEOUT_S) as half,
        socket.create_connection(broker.address(), TIMEOUT_S) as noise,
    ):
        half.sendall(b"GET /metrics HT")
        noise.sendall(bytes(range(256)) * 10)
        noise.settimeout(TIMEOUT_S)
        try:
            while noise.recv(4096):
                pass
        except ConnectionResetError:
            pass
        assert broker.ask("/healthz")[0].status == 200
    many = [socket.create_connection(broker.address(), TIMEOUT_S) for _ in range(40)]
    for each in many:
        each.close()
    until(lambda: broker.ask("/healthz")[0].status == 200, "an answer", TIMEOUT_S)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("9404", "HOST:PORT is expected"),
        ("127.0.0.1:99999", "ports are 0 to 65535"),
        ("127.0.0.1:x", "HOST:PORT is expected"),
    ],
)
def test_an_impossible_address_ends_the_start(tmp_path: Path, address: str, said: str) -> None:
    process = BrokerProcess(tmp_path, {"brokercy.metrics.listener": address})
    child = process.launch()
    assert child.wait(TIMEOUT_S) != 0
    assert said in child.stderr()
    assert repr(address) in child.stderr()
    process.close()


def test_metrics_behind_a_token_and_tls(tmp_path: Path) -> None:
    """If this fails, every client that reaches the port can read the names of topics and clients."""
    authority = Authority()
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-that-nobody-guesses\n")
    settings = {
        "brokercy.metrics.listener": "127.0.0.1:0",
        "brokercy.metrics.token.file": str(tokens),
        "brokercy.metrics.ssl.certificate.file": str(authority.issue("broker").write_pem(tmp_path / "certificate.pem")),
    }
    process = Metered(tmp_path / "data", settings)
    context = ssl.create_default_context(cadata=authority.pem)
    process.start()
    try:
        host, port = process.address()
        for token, status in (("a-token-that-nobody-guesses", 200), ("another-token-of-somebody", 401)):
            connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {token}"})
            response = connection.getresponse()
            assert (response.status, b"broker_cy_" in response.read()) == (status, status == 200)
            connection.close()
    finally:
        process.close()
    assert "a-token-that" not in process.stdout()


def test_waits_of_clients_are_counted(broker: Metered) -> None:
    """If this fails, an operator does not see which client a quota throttles, and for how long."""
    key = "producer_byte_rate"
    labels = {"quota": key}
    assert value(broker.scrape(), "broker_cy_throttles_total", **labels) == 0
    request = messages.AlterClientQuotasRequest
    part = request.EntityData(entity_type="client-id", entity_name="held back")
    op = request.OpData(key=key, value=1.0, remove=False)
    entry = request.EntryData(entity=[part], ops=[op])
    (altered,) = ask(broker.port, request(entries=[entry]), messages.AlterClientQuotasResponse).entries
    assert altered.error_code == 0
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "held back"})
    producer.produce("orders", b"x" * 10_000)
    assert producer.flush(TIMEOUT_S) == 0
    found = broker.scrape()
    assert value(found, "broker_cy_quotas", **labels) == value(found, "broker_cy_quota_entities", **labels) == 1
    assert value(found, "broker_cy_throttles_total", **labels) == 1
    waited_s = value(found, "broker_cy_throttle_seconds_total", **labels)
    assert waited_s > 60
    assert value(found, "broker_cy_client_throttle_seconds", **labels, user="", client_id="held back") == waited_s
    assert value(found, "broker_cy_connections_throttled") == 1
