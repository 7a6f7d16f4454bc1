"""A stream processing application that never changes: two instances, one of which restores a store, and one that does
not answer.
"""

from __future__ import annotations

import json
from typing import Any, Final

from broker_cy.admin.group_values import (
    GroupDescription,
    GroupMember,
    InternalTopic,
    StreamsFacts,
    Subtopology,
    Task,
    Tasks,
    Topology,
)
from broker_cy.admin.streams_applications import StreamsApplication, state_of
from broker_cy.client.streams_status import InputState, InstanceState, StoreState, TaskState, TrafficState
from broker_cy.console.streams import ApplicationView
from broker_streams import JSON, LONG, STRING, Materialized, StreamsBuilder, TimeWindows
from broker_streams.plan import codec

NAME: Final = "orders-per-minute"
REPARTITION: Final = f"{NAME}-counts-repartition"
FIRST, SECOND, THIRD = "10.0.0.1:8090", "10.0.0.2:8090", "10.0.0.3:8090"
_AT_MS: Final = 1_700_000_000_000


def _member(number: int, endpoint: str | None, active: tuple[Task, ...], standby: tuple[Task, ...]) -> GroupMember:
    tasks = Tasks(active, standby, ())
    facts = StreamsFacts(f"process-{number}", 0, endpoint, {}, tasks, tasks)
    return GroupMember(
        f"member-{number}", None, NAME, f"/10.0.0.{number}", None, 7, (), None, (), None, "streams", facts
    )


def plan() -> Any:
    """The plan of the application as an instance reports it."""
    builder = StreamsBuilder()
    orders = builder.stream("orders", key=STRING, value=JSON)
    names = builder.table("customers", key=STRING, value=JSON, materialized=Materialized("names"))
    named = orders.filter(lambda key, order: order["price"] > 0).join(names, lambda order, name: {**order, **name})
    big, small = named.filter(lambda key, order: order["price"] > 100), named.filter_not(lambda key, order: False)
    big.to("big-orders", key=STRING, value=JSON)
    grouped = small.group_by(lambda key, order: order["customer"], key=STRING, value=JSON)
    counts = grouped.windowed_by(TimeWindows.of("1m")).count(materialized=Materialized("counts"))
    counts.to_stream().map(lambda window, count: (window.key, count)).to(NAME, key=STRING, value=LONG)
    return json.loads(codec.to_json(builder.build().plan))


def _traffic(topic: str, rate: float) -> TrafficState:
    return TrafficState(topic, int(rate * 3600), int(rate * 3600 * 200), rate, rate * 200)


DESCRIPTION: Final = GroupDescription(
    NAME,
    "streams",
    "Stable",
    "streams",
    "",
    1,
    7,
    7,
    (
        _member(1, FIRST, (Task("0", 0), Task("1", 0)), (Task("1", 1),)),
        _member(2, SECOND, (Task("0", 1), Task("1", 1)), (Task("1", 0),)),
        _member(3, THIRD, (Task("0", 2),), ()),
    ),
    Topology(
        0,
        (
            Subtopology(
                "0", ("orders", "customers"), (), (REPARTITION,), (InternalTopic(f"{NAME}-names-changelog", 3),)
            ),
            Subtopology("1", (), (InternalTopic(REPARTITION, 0),), (), (InternalTopic(f"{NAME}-counts-changelog", 0),)),
        ),
    ),
)
_NODES: Final = {"KSTREAM-FILTER-0000000003": 4_000, "KSTREAM-JOIN-0000000004": 3_900}
STATES: Final = {
    "member-1": InstanceState(
        NAME,
        "RUNNING",
        "1.0",
        guarantee="exactly_once_v2",
        process="process-1",
        endpoint=FIRST,
        records_per_s=6_543.2,
        commits_per_s=9.8,
        tasks=(
            TaskState(
                "0_0", "active", "running", 9_000_000, 4_321.0, 12, 3, _AT_MS, 0, 0,
                (InputState("orders", 0, 105, 100, 5),), (StoreState("names", "timestamped-key-value", 1_200),), _NODES,
            ),
            TaskState(
                "1_0", "active", "running", 4_000_000, 2_222.2, 0, 0, _AT_MS - 5_000, 1_000_000, 0,
                (), (StoreState("counts", "timestamped-window", 54_321),),
            ),
            TaskState("1_1", "standby", "running", restored=900_000),
        ),
        consumed=(_traffic("orders", 4_200.0), _traffic("customers", 1.5), _traffic(REPARTITION, 2_222.2)),
        produced=(_traffic(REPARTITION, 4_100.0), _traffic("big-orders", 17.0), _traffic(NAME, 2_200.0)),
        nodes={name: count / 1.0 for name, count in _NODES.items()},
    ),
    "member-2": InstanceState(
        NAME,
        "REBALANCING",
        "1.0",
        guarantee="exactly_once_v2",
        process="process-2",
        endpoint=SECOND,
        records_per_s=2_000.0,
        commits_per_s=9.5,
        tasks=(
            TaskState(
                "0_1", "active", "running", 5_000_000, 2_000.0, 0, 0, _AT_MS - 1_000, 0, 0,
                (InputState("orders", 1, 50, 50, 0),), (StoreState("names", "timestamped-key-value", 800),),
            ),
            TaskState(
                "1_1", "active", "restoring", restored=250_000, remaining=750_000,
                stores=(StoreState("counts", "timestamped-window", 12_000),),
            ),
        ),
        consumed=(_traffic("orders", 2_000.0),),
        produced=(_traffic(REPARTITION, 1_900.0),),
    ),
}  # fmt: skip
APPLICATION: Final = StreamsApplication(
    NAME,
    state_of(DESCRIPTION, STATES.values()),
    DESCRIPTION,
    {
        ("orders", 0): (100, 105),
        ("orders", 1): (50, 50),
        ("orders", 2): (7, 1_234_574),
        ("customers", 0): (10, 10),
        (REPARTITION, 0): (900, 900),
        (REPARTITION, 1): (None, 44),
        # A topic that an earlier version has read.
        ("old", 0): (5, 9),
    },
    STATES,
    {THIRD: "connection refused"},
)
OF_KAFKA: Final = StreamsApplication(
    "payments",
    "NOT RUNNING",
    GroupDescription("payments", "streams", "Empty", "streams", "", 1, 3, 3, (), DESCRIPTION.topology),
)
APPLICATIONS: Final = (APPLICATION, OF_KAFKA)


def view(*, with_plan: bool = True) -> ApplicationView:
    return ApplicationView(APPLICATION, plan() if with_plan else None)
