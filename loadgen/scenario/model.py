"""The model of a run: its topic, its users, their rates and payloads, and the thresholds of the figures.

Read from TOML by `toml_file`. All of it is plain data: `state_of` turns a Scenario into lists and dicts for another
process, and `scenario_of` reads these.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from broker_cy.client.payload.settings import Keys, Payload
from loadgen.scenario.profile import RateProfile, Search

ENGINES = ("gevent", "raw", "librdkafka")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("all", "1", "0")
# The size of the stamp of each verified record, before the value or in a header.
STAMP_BYTES = 32


@dataclass(frozen=True)
class TopicSpec:
    """The topic of a run; it is created if it does not exist, and deleted afterwards if the run created it and not
    `keep`.
    """

    name: str = "broker-load"
    partitions: int = 4
    replication_factor: int = -1  # the broker's default
    configs: dict[str, str] = field(default_factory=dict)
    keep: bool = False


@dataclass(frozen=True)
class UserSpec:
    """One entry of a run: `count` users of one kind over all workers. `name` is unique in the scenario.

    `rate` is the profile of operations a second of all of them together; without one, each begins its next operation
    when the previous one has ended. `options` are those of the kind (`options.KINDS`), every one with a value.
    """

    kind: str
    name: str
    count: int
    rate: RateProfile | None = None
    engine: str = "gevent"
    payload: Payload = field(default_factory=Payload)
    keys: Keys = field(default_factory=Keys)
    acks: str = "all"
    codec: str = "none"
    idempotent: bool = False
    records: int = 1  # of a request
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def class_name(self) -> str:
        """The name of its user class, by which locust knows the entry."""
        return "".join(part.capitalize() for part in self.name.replace("_", "-").split("-")) + "User"


@dataclass(frozen=True)
class Threshold:
    """A bound of one figure: `operation` is an operation of the result; "" stands for the run's own figures."""

    operation: str
    metric: str
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Scenario:
    """One run. Times in seconds; `seconds` is the measured part, after `warm_up_s`.

    With `search`, `seconds` is the longest time of the search, and exactly one entry has a rate, which the search
    replaces.
    """

    name: str
    description: str = ""
    seconds: float = 60.0
    warm_up_s: float = 2.0
    topic: TopicSpec = TopicSpec()
    users: tuple[UserSpec, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    verify: str = "after"  # or "off"
    search: Search | None = None
    seed: int = 1
    timeout_s: float = 30.0  # of a request


def state_of(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as dicts, lists, numbers, strings and bytes."""
    return dataclasses.asdict(scenario)


def scenario_of(state: dict[str, Any]) -> Scenario:
    """Return the scenario of `state_of`."""
    return Scenario(
        **{
            **state,
            "topic": TopicSpec(**state["topic"]),
            "users": tuple(_user_of(each) for each in state["users"]),
            "thresholds": tuple(Threshold(**each) for each in state["thresholds"]),
            "search": None if state["search"] is None else Search(**state["search"]),
        }
    )


def _user_of(state: dict[str, Any]) -> UserSpec:
    rate = state["rate"]
    payload = {**state["payload"], "lines": tuple(state["payload"]["lines"])}
    return UserSpec(
        **{
            **state,
            "rate": None if rate is None else RateProfile.of_state(rate),
            "payload": Payload(**payload),
            "keys": Keys(**state["keys"]),
        }
    )
