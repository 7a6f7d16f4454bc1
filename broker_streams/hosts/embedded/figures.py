"""The tasks of an embedded host as they are seen from outside."""

from __future__ import annotations

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.streams_status import InputState
from broker_streams.hosts.embedded.tasks import Running, TaskId
from broker_streams.hosts.figures import LATENCY, LATENESS, TaskFigures, rows_of


def figures_of(task_id: TaskId, of: Running) -> TaskFigures:
    """The figures of one task as it is now; counts of times are those that the task goes on with."""
    task, state, stores = of.task, of.task.state, of.store_measures
    is_active_role = of.role.value == "active"
    is_up = of.is_active or (not is_active_role and of.restorer.missing == 0)
    positions = of.positions or {}
    return TaskFigures(
        f"{task_id[0]}_{task_id[1]}",
        of.role.value,
        of.is_active,
        is_up,
        of.measures,
        of.restorer.restored,
        0 if is_active_role and is_up else of.restorer.missing,
        state.dropped_records,
        task.enforced,
        task.waiting(),
        state.stream_time_ms if state.stream_time_ms >= 0 else None,
        tuple(
            InputState(key.topic, key.partition, positions.get(key), of.committed.get(key), _unprocessed(of, key))
            for key in of.inputs
        ),
        {name: rows_of(store) for name, store in task.stores.items()},
        None if of.state is None else of.state.file.size_bytes,
        {LATENESS: [state.lateness], **{f"{LATENCY}{node}": spreads for node, spreads in task.latencies.items()}},
        dict(state.node_counts or {}),
        stores.calls if stores is not None else {},
        {name: (each.lookups, each.hits) for name, each in stores.caches.items()} if stores is not None else {},
    )


def _unprocessed(of: Running, key: TopicPartition) -> int | None:
    """Records of an input that were not processed: those on the broker, and those that wait in the task."""
    beyond = of.lags.get(key)
    return None if beyond is None else beyond + of.task.waiting_of(*key)
