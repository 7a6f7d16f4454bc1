"""Steps of a join by a foreign key (KIP-213): each row of the left table subscribes to a row of the right one.

    left table > SubscriptionSend > topic > SubscriptionReceive > SubscriptionJoin > topic > ResponseJoin > result
                                                  store
                                   right table > ForeignTableJoin >

The store keeps the subscriptions by the right key and then the left one. A serde of None is the application's default.
`topic` is the plain name of the topic of subscriptions: serdes get names that are derived from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.value_getters import ValueGetter


@dataclass(frozen=True)
class SubscriptionSend(Step):
    """`foreign_key(value)` or `foreign_key(key, value)` returns the right key. `is_left`: of a left join."""

    KIND: ClassVar[str] = "subscription-send.1"
    foreign_key: Function
    with_key: bool
    is_left: bool
    topic: str
    foreign_key_serde: Any = None
    value_serde: Any = None
    reads_versions: bool = False


@dataclass(frozen=True)
class SubscriptionReceive(Step):
    """Keeps the subscriptions."""

    KIND: ClassVar[str] = "subscription-receive.1"
    store: str
    topic: str
    foreign_key_serde: Any = None
    primary_key_serde: Any = None


@dataclass(frozen=True)
class SubscriptionJoin(Step):
    """Answers a subscription with the row that the right table has now."""

    KIND: ClassVar[str] = "subscription-join.1"
    right: ValueGetter


@dataclass(frozen=True)
class ForeignTableJoin(Step):
    """Answers all subscriptions of a row of the right table when it changes."""

    KIND: ClassVar[str] = "foreign-table-join.1"
    store: str
    topic: str
    foreign_key_serde: Any = None
    primary_key_serde: Any = None
    reads_versions: bool = False


@dataclass(frozen=True)
class ResponseJoin(Step):
    """`joiner(left, right)` of an answer, if the left row is still the one that asked."""

    KIND: ClassVar[str] = "response-join.1"
    left: ValueGetter
    joiner: Function
    is_left: bool
    topic: str
    value_serde: Any = None
