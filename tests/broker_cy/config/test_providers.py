"""Config providers: values of settings from files and from the environment, as Kafka's three classes return them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from broker_cy.config import BrokerConfig, ConfigError, places, sources
from broker_cy.config.describe import broker_entries, topic_entries
from broker_cy.core.config_def.providers import DIRECTORY, ENV, FILE

PASSWORD = "hunter22"


def defined(name: str, kind: str, **parameters: str) -> dict[str, str]:
    """The settings that define a provider; `_` stands for the dot in the name of a parameter."""
    found = {"config.providers": name, f"config.providers.{name}.class": kind}
    return found | {f"config.providers.{name}.param.{key.replace('_', '.')}": text for key, text in parameters.items()}


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with values, and some in the environment."""
    found = tmp_path / "secrets"
    found.mkdir()
    (found / "size").write_text("2097153\n")
    (found / "kafka.properties").write_text(f"# theirs\npassword = {PASSWORD}\nsize=2097153\nname=Zoë\n", "utf-8")
    monkeypatch.setenv("KCY_SIZE", "2097153")
    monkeypatch.setenv("KCY_PASSWORD", PASSWORD)
    monkeypatch.setenv("KCY_EMPTY", "")
    monkeypatch.delenv("KCY_NOT_SET", raising=False)
    return found


def test_each_class_returns_its_values(secrets: Path) -> None:
    """If this fails, a file of Kafka with config providers does not start, or starts with other values."""
    for settings in (
        {**defined("e", ENV), "log.segment.bytes": "${e:KCY_SIZE}"},
        {**defined("f", FILE), "log.segment.bytes": f"${{f:{secrets}/kafka.properties:size}}"},
        {**defined("d", DIRECTORY), "log.segment.bytes": f"${{d:{secrets}:size}}"},
        {**defined("e", ENV, allowlist_pattern="KCY_.*"), "log.segment.bytes": "20${e:KCY_EMPTY}9${e:KCY_EMPTY}7153"},
        {
            **defined("f", FILE, allowed_paths=f"/usr,{secrets}"),
            "log.segment.bytes": f"${{f:{secrets}/kafka.properties:size}}",
        },
    ):
        config = BrokerConfig.from_properties(settings)
        assert config["log.segment.bytes"] == 2097153
        assert config.warnings == []


def test_values_are_replaced_once(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, anyone who can write one value can read any other value through it."""
    monkeypatch.setenv("KCY_NESTED", "${e:KCY_PASSWORD}")
    config = BrokerConfig.from_properties({**defined("e", ENV), "broker.rack": "${e:KCY_NESTED}"})
    assert config["broker.rack"] == "${e:KCY_PASSWORD}"


def test_several_variables_in_one_value(secrets: Path) -> None:
    """A login has the password inside its text; without the newline that ends the file with it."""
    (secrets / "word").write_bytes(b"a b\r\n")
    settings = {**defined("d", DIRECTORY), "broker.rack": f"<${{d:{secrets}:word}}|${{d:{secrets}:size}}>"}
    assert BrokerConfig.from_properties(settings)["broker.rack"] == "<a b|2097153>"


def test_the_name_of_a_node_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """One file serves all nodes of a cluster, if node.id is a variable."""
    monkeypatch.setenv("KCY_ID", "7")
    config = BrokerConfig.from_properties({**defined("e", ENV), "node.id": "${e:KCY_ID}"})
    assert (config.node_id, config["broker.id"]) == (7, 7)


@pytest.mark.parametrize(
    ("definition", "text", "message"),
    [
        ({}, "${e:KCY_SIZE}", "log.dirs: ${e:KCY_SIZE} names an unknown provider: add e to config.providers and set"),
        ({"config.providers": "e"}, "${e:KCY_SIZE}", "set config.providers.e.class"),
        (defined("e", ENV), "${KCY_SIZE}", "log.dirs: ${KCY_SIZE} names no provider"),
        (defined("e", ENV), "${e:KCY_SIZE}${KCY_SIZE}", "log.dirs: ${KCY_SIZE} names no provider"),
        (defined("e", ENV), "a${e:KCY_NOT_SET}", "log.dirs: ${e:KCY_NOT_SET} is not set: export KCY_NOT_SET, or write"),
        (defined("e", ENV), "${e:/p:KCY_SIZE}", "${e:/p:KCY_SIZE} has a path: write ${e:KCY_SIZE}"),
        (defined("e", ENV), "${e:}", "log.dirs: ${e:} names no variable: write ${e:NAME}"),
        (defined("e", ENV), "${:x}", "log.dirs: ${:x} names no provider: write ${env:NAME} with a provider env"),
        (
            defined("e", ENV),
            "${e:KCY_SIZE:-/tmp}",
            "${e:KCY_SIZE:-/tmp} has a default, which config providers do not have: write ${e:KCY_SIZE} and export",
        ),
        (defined("e", ENV), "${e:KCY_SIZE", "log.dirs: ${e:KCY_SIZE has no closing }: write ${e:KCY_SIZE}"),
        (defined("e", ENV), "${KCY ${e:KCY_SIZE}", "log.dirs: a ${ has no closing }"),
        (defined("f", FILE), "${f:HERE/kafka.properties:}", "names no key: write ${f:HERE/kafka.properties:KEY}"),
        (defined("e", ENV, allowlist_pattern="KCY"), "${e:KCY_SIZE}", "allowlist.pattern=KCY does not match KCY_SIZE"),
        (defined("e", ENV, allowlist_pattern="("), "x", "allowlist.pattern=( is no regular expression"),
        (defined("e", ENV, allowlist_patern="x"), "x", "EnvVarConfigProvider has only the parameter allowlist.pattern"),
        (defined("f", FILE), "${f:size}", "${f:size} names no path: write ${f:/PATH:NAME}"),
        (defined("f", FILE), "${f:HERE/none:size}", "cannot be read: No such file or directory"),
        (defined("f", FILE), "${f:HERE:size}", "cannot be read: Is a directory"),
        (defined("f", FILE), "${f:HERE/kafka.properties:none}", "kafka.properties has no none"),
        (defined("f", FILE, allowed_paths="/usr"), "${f:HERE/kafka.properties:size}", "allowed.paths=/usr"),
        (defined("f", FILE, allowed_paths="HERE/si"), "${f:HERE/size:x}", "path HERE/si does not exist"),
        (defined("f", FILE, allowed_paths="usr"), "x", "allowed.paths: path usr is not absolute"),
        (defined("d", DIRECTORY), "${d:HERE:none}", "cannot be read: No such file or directory"),
        (defined("d", DIRECTORY), "${d:HERE:../secrets/size}", "names no file: write ${d:D"),
        (defined("d", DIRECTORY, allowed_paths="HERE"), "${d:HERE/..:secrets}", "is not allowed"),
        (
            defined("s", "io.strimzi.kafka.KubernetesSecretConfigProvider"),
            "x",
            "config.providers.s.class=io.strimzi.kafka.KubernetesSecretConfigProvider cannot run here: only "
            "FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider are built in",
        ),
        ({**defined("e", ENV), "brokercy.automatic.config.providers": FILE}, "x", "is not allowed by brokercy.auto"),
        ({**defined("e", ENV), "brokercy.automatic.config.providers": "none"}, "x", "is not allowed by brokercy.auto"),
    ],
)
def test_refused(definition: dict[str, str], text: str, message: str, secrets: Path) -> None:
    """A variable that stays as it is becomes the password, as in Kafka; a limit that is misread protects nothing."""
    settings = {name: value.replace("HERE", str(secrets)) for name, value in {**definition, "log.dirs": text}.items()}
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties(settings)
    found = str(caught.value)
    assert message.replace("HERE", str(secrets)) in found
    assert "\n" not in found


@pytest.mark.parametrize(
    "name", ["foo", "confluent.license", "ssl.key.password", "zookeeper.connect", "num.io.threads"]
)
@pytest.mark.parametrize("text", ["${LIC}", "${env:PW", "a${env:PW", "${"])
def test_text_that_looks_like_a_variable_is_refused_in_each_setting(name: str, text: str) -> None:
    """If this fails, a missing brace makes the name of a variable the password."""
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({"process.roles": "broker,controller", name: text})
    assert str(caught.value).startswith(f"{name}: ")
    assert "names no provider" in str(caught.value) or "no closing }" in str(caught.value)


def test_an_open_brace_in_a_password_does_not_show_it() -> None:
    """If this fails, a password with a brace is in the log."""
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties({"ssl.key.password": f"a${{{PASSWORD}:{PASSWORD}"})
    assert PASSWORD not in str(caught.value)


def test_open_braces_are_refused_in_dynamic_settings(secrets: Path) -> None:
    """The same while the broker runs."""
    config = BrokerConfig.from_properties(defined("e", ENV))
    for text in ("${X}", "${e:KCY_SIZE", "${e:KCY_SIZE}${X}"):
        with pytest.raises(ConfigError, match=r"names no provider|no closing \}"):
            config.validate_dynamic({"log.segment.bytes": text}, per_broker=False)


def test_a_file_that_is_no_text_is_refused(secrets: Path) -> None:
    """As in Kafka: a file of properties is in UTF-8, and is not large."""
    (secrets / "binary").write_bytes(b"a=\xff\n")
    (secrets / "large").write_bytes(b"a=" + b"x" * (1 << 20))
    for name, message in (("binary", "is not in UTF-8"), ("large", "is larger than 1048576 bytes")):
        with pytest.raises(ConfigError, match=message):
            BrokerConfig.from_properties({**defined("f", FILE), "log.dirs": f"${{f:{secrets}/{name}:a}}"})


def test_variables_of_the_command_line(secrets: Path, tmp_path: Path) -> None:
    """A password need not be typed where every user of the machine sees it; a file with the same text is refused."""
    given = ["log.segment.bytes=${env:KCY_SIZE}", f"broker.rack=${{file:{secrets}/kafka.properties:name}}"]
    config = BrokerConfig.from_properties(sources(overrides=given), places(None, given))
    assert (config["log.segment.bytes"], config["broker.rack"]) == (2097153, "Zoë")
    for overrides in (["log.segment.bytes=${dir:/x:y}"], [*given, "brokercy.automatic.config.providers=none"]):
        with pytest.raises(ConfigError, match="names an unknown provider"):
            BrokerConfig.from_properties(sources(overrides=overrides), places(None, overrides))
    file = tmp_path / "server.properties"
    file.write_text("# mine\nlog.segment.bytes=${env:KCY_SIZE}\n")
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.from_properties(sources(file), places(file, ()))
    assert str(caught.value).startswith(
        f"{file}: line 2: log.segment.bytes: ${{env:KCY_SIZE}} names an unknown provider"
    )


def test_values_of_providers_are_hidden(secrets: Path) -> None:
    """If this fails, a secret that was kept out of the file is in a log, in a message, or in every admin tool."""
    settings = {
        **defined("e", ENV),
        "log.segment.bytes": "${e:KCY_SIZE}",
        "num.io.threads": "${e:KCY_SIZE}",
        "super.users": "User:${e:KCY_PASSWORD}",
        "foo.bar": "${e:KCY_PASSWORD}",
    }
    config = BrokerConfig.from_properties(settings)
    shown = f"{config.warnings} {broker_entries(config)} {topic_entries({}, config)}"
    assert PASSWORD not in shown
    assert "2097153" not in shown
    found = {entry.name: entry for entry in broker_entries(config)}
    assert (found["log.segment.bytes"].is_sensitive, found["log.segment.bytes"].value) == (True, None)
    assert found["num.partitions"].value == "1"
    assert {entry.name: entry.value for entry in topic_entries({"segment.bytes": "3145728"}, config)}[
        "segment.bytes"
    ] == "3145728"
    for name in ("num.partitions", "listeners", "authorizer.class.name", "ssl.provider", "log.cleanup.policy"):
        with pytest.raises(ConfigError) as caught:
            BrokerConfig.from_properties({**defined("e", ENV), name: "${e:KCY_PASSWORD}"})
        assert PASSWORD not in str(caught.value)
        assert "[hidden]" in str(caught.value)


def test_fixed_texts_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a message has holes where nothing secret was, and says less than nothing."""
    monkeypatch.setenv("KCY_ROLES", "broker,controller")
    monkeypatch.setenv("KCY_WORD", "eeper")
    monkeypatch.setenv("KCY_NUMBER", "7777")
    settings = {**defined("e", ENV), "process.roles": "${e:KCY_ROLES}", "foo": "${e:KCY_WORD}"}
    found = BrokerConfig.problems({**settings, "zookeeper.connect": "a", "ssl.provider": "${e:KCY_ROLES}"}, {})
    assert found == [
        "unknown setting foo has no effect: remove it or correct its name",
        "zookeeper.connect was removed in Kafka 4.0 and has no effect: this broker needs no ZooKeeper",
        "ssl.provider=[hidden] chooses cryptography of Java, and this broker uses OpenSSL: remove it",
    ]
    monkeypatch.setenv("KCY_ROLES", "broker")
    with pytest.raises(ConfigError, match=r"^If using process.roles, either controller.quorum.bootstrap.servers must"):
        BrokerConfig.from_properties(settings)
    for name, text, message in (
        ("process.roles", "controllers", "Invalid value [hidden] for configuration process.roles: String must be one"),
        ("log.retention.ms", "broker", "Invalid value [hidden] for configuration log.retention.ms"),
        ("node.id", "hunter22", "Invalid value [hidden] for configuration node.id"),
    ):
        monkeypatch.setenv("KCY_ROLES", text)
        with pytest.raises(ConfigError) as caught:
            BrokerConfig.from_properties({**defined("e", ENV), name: "${e:KCY_ROLES}"})
        assert str(caught.value).startswith(message)


def test_dynamic_settings(secrets: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has the text. Each broker resolves it with its own values, and rejects a text that it cannot resolve."""
    config = BrokerConfig.from_properties(defined("e", ENV))
    text = {"log.segment.bytes": "${e:KCY_SIZE}", "num.io.threads": "1${e:KCY_EMPTY}6"}
    config.validate_dynamic(text, per_broker=False)
    assert "log.segment.bytes" in config.apply_dynamic({}, text)
    assert (config["log.segment.bytes"], config["num.io.threads"]) == (2097153, 16)
    found = {entry.name: entry for entry in broker_entries(config)}
    assert (found["log.segment.bytes"].is_sensitive, found["log.segment.bytes"].value) == (True, None)
    assert {"setting": "num.io.threads", "value": "[hidden]"} in [
        getattr(each, "fields", None) for each in caplog.records
    ]
    assert config.usable_dynamic({**text, "num.partitions": "${e:KCY_NOT_SET}"}, per_broker=False) == text
    for other, message in (
        ({"log.segment.bytes": "${e:KCY_NOT_SET}"}, "is not set: export KCY_NOT_SET"),
        ({"message.max.bytes": "${x:KCY_SIZE}"}, "names an unknown provider"),
        ({"message.max.bytes": "${e:KCY_PASSWORD}"}, r"Invalid value \[hidden\] for configuration message.max.bytes"),
        (defined("s", "a.B"), "config.providers.s.class=a.B cannot run here"),
    ):
        with pytest.raises(ConfigError, match=message):
            config.validate_dynamic(other, per_broker=False)
    # The value of this broker changes: the next change of any setting takes it, as in Kafka.
    monkeypatch.setenv("KCY_SIZE", "3145728")
    assert config.apply_dynamic({}, text) == {"log.segment.bytes"}
    monkeypatch.delenv("KCY_SIZE")
    caplog.clear()
    config.apply_dynamic({}, text)
    assert config["log.segment.bytes"] == 1073741824
    assert "dynamic setting ignored" in caplog.text
    # Without a variable, the value is shown.
    config.apply_dynamic({}, {"log.segment.bytes": "3145728"})
    assert {entry.name: entry.value for entry in broker_entries(config)}["log.segment.bytes"] == "3145728"


def test_providers_that_are_defined_while_the_broker_runs(secrets: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As in Kafka, a level of dynamic settings may define providers, unless the file limits their classes."""
    text = {**defined("e", ENV), "log.segment.bytes": "${e:KCY_SIZE}"}
    config = BrokerConfig.from_properties({})
    with caplog.at_level(logging.WARNING):
        config.apply_dynamic({}, text)
    assert config["log.segment.bytes"] == 2097153
    assert "has no effect" not in caplog.text
    limited = BrokerConfig.from_properties({"brokercy.automatic.config.providers": "none"})
    with pytest.raises(ConfigError, match=r"is not allowed by brokercy.automatic.config.providers"):
        limited.validate_dynamic(text, per_broker=False)
