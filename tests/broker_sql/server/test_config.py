"""ksql-server.properties as it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.core.config_def.types import ConfigError
from broker_cy.http.listeners import Listener
from broker_sql.functions.standard import standard
from broker_sql.server.commands import Action, Command, CommandId, Type
from broker_sql.server.config import config_of, load_config, streams_of
from broker_sql.server.engine import Engine


def test_a_file_of_ksqldb_keeps_its_meaning(tmp_path: Path) -> None:
    """If this fails, a server in the place of ksqlDB's has another service id, brokers or queries."""
    path = tmp_path / "ksql-server.properties"
    path.write_text(
        "listeners=http://0.0.0.0:8088,https://[::1]:8443\n"
        "bootstrap.servers=broker-1:9092,broker-2:9092\n"
        "ksql.service.id=orders_\n"
        "ksql.schema.registry.url=http://registry:8081\n"
        "ksql.schema.registry.basic.auth.user.info=ann:secret\n"
        "ksql.streams.auto.offset.reset=earliest\n"
        "ksql.streams.producer.compression.type=zstd\n"
        "ksql.persistence.default.format.value=JSON\n"
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nssl.truststore.location=/trust.jks\n"
        "ksql.streams.sasl.mechanism=SCRAM-SHA-256\n"
        "compression.type=snappy\n"
    )
    found = load_config(path)
    assert found.listeners == (Listener("0.0.0.0", 8088), Listener("::1", 8443, is_tls=True))
    assert found.bootstrap == "broker-1:9092,broker-2:9092"
    assert found.command_topic == "_confluent-ksql-orders__command_topic"
    assert found.query_prefix == "_confluent-ksql-orders_query_"
    assert found.streams == {"auto.offset.reset": "earliest", "producer.compression.type": "zstd"}
    assert found.registry["schema.registry.url"] == "http://registry:8081"
    assert found.registry["basic.auth.user.info"] == "ann:secret"
    assert found.client_settings["sasl.mechanism"] == "SCRAM-SHA-256"
    assert found.client_settings["ssl.truststore.location"] == "/trust.jks"
    assert found.tls is None
    assert found.values["ksql.persistence.default.format.value"] == "JSON"
    assert found.warnings == (f"{path}: compression.type has no effect",)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ksql.queries.file": "/a.sql"}, "headless"),
        ({"listeners": "ftp://0.0.0.0:1"}, "ftp is no protocol; http or https is"),
        ({"ksql.max.push.queries": "many"}, "ksql.max.push.queries"),
        ({"authentication.method": "BASIC"}, "needs brokercy.sql.users.file"),
        ({"brokercy.sql.users.file": "/users"}, "has no effect without authentication.method=BASIC"),
        ({"authentication.method": "BEARER"}, "authentication.method"),
        ({"ssl.endpoint": "x"}, "protects connections or logins"),
        ({"ksql.hidden.topics": "("}, "no regular expression"),
        ({"enable.fips": "true"}, "FIPS"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        config_of(settings)


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "wrong.properties"
    path.write_text("ksql.max.push.queries=-1\n")
    with pytest.raises(ClientError, match=str(path)):
        load_config(path)


def test_requests_change_what_the_server_leaves_to_them() -> None:
    """If this fails, a client changes a setting of the whole server, or of the denylist."""
    config = config_of({"ksql.properties.overrides.denylist": "ksql.streams.num.stream.threads"})
    assert config.problem_of({"ksql.streams.auto.offset.reset": "earliest"}) == ""
    assert "[ksql.service.id]" in config.problem_of({"ksql.service.id": "x", "a": 1})
    assert "[num.stream.threads]" in config.problem_of({"num.stream.threads": 4})
    assert streams_of({"ksql.streams.a": 1, "a": 2, "b": 3, "ksql.max.push.queries": 4}) == {"a": 1, "b": 3}


def test_internal_topics_are_hidden() -> None:
    config = config_of({"ksql.hidden.topics": "_confluent.*,secret"})
    assert [config.is_hidden(each) for each in ("_confluent-x", "secret", "secrets", "orders")] == [1, 1, 0, 0]


def test_requests_cannot_allow_functions_in_python() -> None:
    """If this fails, every client may run code with the rights of the server."""
    assert "ksql.functions.python.enabled" in config_of({}).problem_of({"ksql.functions.python.enabled": "true"})
    engine = Engine(standard(), {"ksql.functions.python.enabled": False})
    text = "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS $$ return a $$;"
    key = CommandId(Type.FUNCTION, "F", Action.CREATE)
    engine.apply(
        Command(key, text, {"ksql.functions.python.enabled": "true"}, {"ksql.functions.python.enabled": "true"}, 0)
    )
    assert [each.offset for each in engine.set_aside] == [0]
    allowed = Engine(standard(), {"ksql.functions.python.enabled": True})
    allowed.apply(Command(key, text, {}, {}, 0))
    assert allowed.set_aside == []
