"""Suppressed: how long `suppress` holds changes of a table back, and what it does when its buffer is full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from broker_streams.dsl.graph import GraphNode, StepNode, checked_name
from broker_streams.dsl.table_origins import SuppressOrigin
from broker_streams.plan.durations import milliseconds
from broker_streams.plan.steps.suppression import Suppress
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import TopologyError

if TYPE_CHECKING:
    from broker_streams.dsl.ktable import KTable

SUPPRESS: Final = "KTABLE-SUPPRESS-"
EMIT: Final = "emit"
SHUT_DOWN: Final = "shut_down"


@dataclass(frozen=True)
class Suppressed:
    """Made by `until_window_closes` or `until_time_limit`. `limit_ms` None: until the window of the key closes."""

    limit_ms: int | None
    max_records: int | None
    max_bytes: int | None
    when_full: str
    name: str | None
    logging: bool
    topic_config: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises ValueError or TopologyError: an option has a value that is not allowed."""
        if self.name is not None:
            checked_name(self.name)
        if self.limit_ms is not None and self.limit_ms < 0:
            raise ValueError(f"the time limit is {self.limit_ms} ms; at least 0 is allowed")
        for what, bound in (("max_records", self.max_records), ("max_bytes", self.max_bytes)):
            if bound is not None and bound < 0:
                raise ValueError(f"{what} is {bound}; at least 0 is allowed, and None for no bound")
        if self.when_full not in (EMIT, SHUT_DOWN):
            raise ValueError(f"when_full is {self.when_full!r}; {EMIT!r} and {SHUT_DOWN!r} are allowed")
        if self.topic_config and not self.logging:
            raise ValueError("topic_config is for the changelog topic, and logging=False leaves that out")

    @classmethod
    def until_window_closes(
        cls,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        name: str | None = None,
        logging: bool = True,
        topic_config: Mapping[str, str] | None = None,
    ) -> Suppressed:
        """One result for each window, when its grace period is over. The application ends if the buffer is full: a
        result that is passed on early would not be the final one.
        """
        return cls(None, max_records, max_bytes, SHUT_DOWN, name, logging, topic_config or {})

    @classmethod
    def until_time_limit(
        cls,
        limit: int | str,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
        when_full: str = EMIT,
        name: str | None = None,
        logging: bool = True,
        topic_config: Mapping[str, str] | None = None,
    ) -> Suppressed:
        """At most one change of a key in `limit`. `when_full`: "emit" passes the earliest changes on, "shut_down" ends
        the application.
        """
        limit_ms = milliseconds(limit, "the time limit")
        return cls(limit_ms, max_records, max_bytes, when_full, name, logging, topic_config or {})


def window_grace_ms(node: GraphNode, below: str = "") -> int:
    """The longest grace period of the windows above a node. Raises TopologyError: a table above it has no windows."""
    grace_ms: int | None = getattr(node, "grace_ms", None)
    if grace_ms is not None:
        return grace_ms
    chain = f"{node.name}->{below}" if below else node.name
    parents = [parent for parent in node.parents if parent.name != "root"]
    if not parents:
        raise TopologyError(f"until_window_closes needs the result of a windowed aggregation; this is {chain}")
    return max(window_grace_ms(parent, chain) for parent in parents)


def suppress(table: KTable, suppressed: Suppressed) -> KTable:
    """See KTable.suppress."""
    from broker_streams.dsl.ktable import KTable

    if not isinstance(suppressed, Suppressed):
        raise TypeError(f"{suppressed!r} is no Suppressed; use Suppressed.until_window_closes or until_time_limit")
    if table.node.is_versioned:
        raise TopologyError(VERSIONS_REFUSED)
    graph = table.graph
    # A name given by the user counts as no call here, other than in all other operations.
    name = suppressed.name or graph.new_name(SUPPRESS)
    wait_ms = window_grace_ms(table.node) if suppressed.limit_ms is None else suppressed.limit_ms
    store = Store(
        graph.new_store_name(SUPPRESS) if suppressed.name is None else checked_name(f"{suppressed.name}-store"),
        StoreKind.SUPPRESSION_BUFFER,
        table.key_serde,
        table.value_serde,
        persistent=False,
        logging=suppressed.logging,
        topic_config=dict(suppressed.topic_config),
    )
    step = Suppress(
        store.name,
        wait_ms,
        suppressed.limit_ms is None,
        suppressed.max_records,
        suppressed.max_bytes,
        suppressed.when_full == EMIT,
    )
    # The buffer keeps the row before the change, for readers of the suppressed table.
    table.enable_old_values(True)
    node = StepNode(name, step, (store,))
    node.is_versioned = False
    node.versions_refused = VERSIONS_REFUSED
    graph.add(node, table.node)
    origin = SuppressOrigin(table, store.name)
    return KTable(graph, node, name, table.key_serde, table.value_serde, table.sources, origin)


VERSIONS_REFUSED: Final = "suppress works on tables that are not versioned, also not by a table above"
