"""Options of the command line pass the checks of the file, and errors name the option."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from broker_cy.client.payload.settings import Payload
from loadgen.scenario.model import Scenario
from loadgen.scenario.overrides import OVERRIDES
from loadgen.scenario.profile import RateProfile
from loadgen.scenario.toml_file import SpecError, read_scenario

TWO = """\
duration = "10s"
[[users]]
kind = "producer"
name = "a"
rate = "300/s"
payload = { kind = "sizes", min = "64 B", max = "1 KB", entropy = 0.25 }
[[users]]
kind = "producer"
name = "b"
rate = "0/s to 200/s over 10s"
[[users]]
kind = "consumer"
"""
ONE = '[[users]]\nkind = "producer"\n[[users]]\nkind = "consumer"\n'


def read(tmp_path: Path, text: str, **overrides: str) -> Scenario:
    (tmp_path / "s.toml").write_text(text)
    return read_scenario(tmp_path / "s.toml", {name.replace("_", "-"): value for name, value in overrides.items()})


def test_every_option_arrives(tmp_path: Path) -> None:
    """If this fails, an option is accepted and then ignored."""
    given = {
        "duration": "7s", "warm-up": "1s", "timeout": "9s", "verify": "off", "seed": "11", "topic": "other",
        "partitions": "9", "replication-factor": "2", "keep": "true", "engine": "raw", "acks": "1", "codec": "lz4",
        "idempotent": "false", "records": "3", "size": "77", "users": "a=5,b=6", "rate": "800/s",
    }  # fmt: skip
    # The other payload: test_encoded.py.
    assert {*given, "value-subject"} == set(OVERRIDES)
    (tmp_path / "s.toml").write_text(TWO)
    found = read_scenario(tmp_path / "s.toml", given)
    assert (found.seconds, found.warm_up_s, found.timeout_s, found.verify, found.seed) == (7, 1, 9, "off", 11)
    topic = found.topic
    assert (topic.name, topic.partitions, topic.replication_factor, topic.keep) == ("other", 9, 2, True)
    a, b, consumer = found.users
    assert [(each.engine, each.acks, each.codec, each.records) for each in (a, b)] == [("raw", "1", "lz4", 3)] * 2
    assert (a.payload, b.payload) == (Payload(size=77, entropy=0.25), Payload(size=77))
    assert (a.count, b.count, consumer.count) == (5, 6, 1)
    assert consumer == replace(consumer, engine="gevent", acks="all", codec="none", records=1, payload=Payload())


def test_a_rate_scales_the_mean_of_all(tmp_path: Path) -> None:
    """If this fails, `--rate` makes another rate than given, or another mixture than the scenario's."""
    a, b, consumer = read(tmp_path, TWO, rate="800/s").users
    assert a.rate == replace(RateProfile.constant(600), text="300/s x 2")
    assert b.rate is not None
    assert b.rate.mean_over(10) == pytest.approx(200)
    assert consumer.rate is None


def test_a_rate_for_the_users_that_produce(tmp_path: Path) -> None:
    """If this fails, a closed loop can only be measured at a rate with a custom scenario file."""
    assert read(tmp_path, ONE, rate="50/s").users[0].rate == RateProfile.constant(50)
    assert read(tmp_path, ONE, rate="ramp 1/s to 50/s over 30s").users[0].rate == RateProfile.ramp(1, 50, 30)
    assert read(tmp_path, ONE, rate="50/s").users[1].rate is None


@pytest.mark.parametrize(
    ("text", "option", "value", "reported"),
    [
        (TWO, "duration", "0s", "--duration: '0s' is out of range (allowed: 0.1 s to"),
        (TWO, "partitions", "many", "--partitions: 'many' is not a whole number"),
        (TWO, "partitions", "0", "--partitions: 0 is out of range (allowed: 1 to 10000)"),
        (TWO, "topic", "a b", "--topic: 'a b' is not a name"),
        (TWO, "engine", "rwa", "--engine: 'rwa' is not allowed; did you mean 'raw'?"),
        ('[[users]]\nkind = "consumer"', "engine", "raw", "--engine: no users of this scenario have it (allowed: with"),
        (ONE + '[[users]]\nkind = "hot-key"\nname = "z"', "engine", "raw", "--engine: 'raw' spreads its batches"),
        (TWO, "size", "31", "--size: 31 B is less than the 32 B that identify a record"),
        (TWO, "size", "1 KX", "--size: '1 KX' has the unit 'KX'"),
        (TWO, "acks", "2", "--acks: '2' is not allowed (allowed: \"all\", 1, 0)"),
        (TWO, "keep", "yes", "--keep: 'yes' is not allowed (allowed: true, false)"),
        (TWO, "users", "5", "--users: '5' does not say which users (allowed: NAME=COUNT, NAME: a, b, consumer)"),
        (TWO, "users", "c=5", "--users: unknown users 'c' (allowed: a, b, consumer)"),
        (TWO, "users", "a=0", "--users: 0 is out of range (allowed: 1 to 100000)"),
        (TWO, "rate", "fast", "--rate: 'fast' is not a rate"),
        (TWO, "rate", "1/s to 2/s over 5s", "--rate: '1/s to 2/s over 5s' is for one entry of users, and could be for"),
        (TWO, "rate", "0/s", "--rate: '0/s' is out of range (allowed: above 0/s"),
        (TWO, "rte", "1/s", "--rte: unknown option; did you mean '--rate'?"),
        (ONE + "[search]", "rate", "1/s", "--rate: '1/s' has no effect beside [search]"),
        (ONE + "[search]", "duration", "5s", "--duration: has no effect beside [search]"),
        ("users = 3", "engine", "raw", "--engine: no users"),
        ("topic = 3\n" + ONE, "partitions", "3", "s.toml:1: topic: 3 is not a table"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named(tmp_path: Path, text: str, option: str, value: str, reported: str) -> None:
    """If this fails, the error points to a correct line of the file."""
    with pytest.raises(SpecError) as refused:
        read(tmp_path, text, **{option: value})
    assert re.sub(r"^/.*/", "", str(refused.value)).startswith(reported)
