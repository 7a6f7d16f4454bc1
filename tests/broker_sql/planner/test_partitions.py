"""The cases again, with four partitions of each topic.

A driver with one partition hides a side of a join or a group that is not repartitioned. Here records of one key meet
only if their bytes are the same and they were sent to the partition of these bytes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from broker_cy.client.partitioner import partition_of
from broker_streams.kernel.settings import TaskSettings
from broker_streams.offline.runner import Runner
from tests.broker_sql.planner.case_files import CaseRecord, Session, SqlCase
from tests.broker_sql.planner.test_cases import ALL

COUNT = 4
# The largest timestamp of a task closes windows, and these cases close one by a record of another key.
BY_TIME_OF_OTHERS = ("EMIT FINAL has one result", "with GRACE PERIOD a record without")
# Offsets and partitions of records are columns.
BY_PLACE = ("pseudo columns and the key",)


def is_comparable(case: SqlCase) -> bool:
    return bool(case.outputs) and not case.name.startswith((*BY_TIME_OF_OTHERS, *BY_PLACE))


def results(session: Session, inputs: tuple[CaseRecord, ...]) -> list[CaseRecord]:
    """Records that the queries write, one query after the other."""
    topics: dict[str, list[tuple[int, Any]]] = defaultdict(list)
    for each in inputs:
        key, value = session.encoded(each)
        partition = 0 if key is None else partition_of(key, COUNT)
        topics[each.topic].append((partition, (key, value, each.at, 0, ())))
    written = []
    for query in session.queries:
        assert query.topology is not None
        assert query.sink is not None
        settings = TaskSettings.of({"application.id": query.query_id, "statestore.cache.max.bytes": 0})
        names = {each.topic for each in session.catalog.sources.values()}
        runner = Runner(query.topology.plan, settings, dict.fromkeys(names, COUNT))
        for topic, partition in runner.inputs:
            records = [record for at, record in topics[topic] if at == partition]
            runner.add(topic, partition, records)
            runner.finish(topic, partition)
        runner.run()
        for result in runner.take():
            if result.topic == query.sink.topic and not result.is_change:
                written.append(session.decoded(result.topic, result.key, result.value, result.timestamp))
                record = (result.key, result.value, result.timestamp, 0, ())
                topics[result.topic].append((result.partition or 0, record))
        runner.close()
    return written


def order(record: CaseRecord) -> tuple[Any, ...]:
    return record.topic, str(record.window), str(record.key)


@pytest.mark.parametrize(
    "case", [pytest.param(each, id=f"{stem}: {each.name}") for stem, each in ALL if is_comparable(each)]
)
def test_results_do_not_depend_on_partitions(case: SqlCase) -> None:
    session = Session(case.properties)
    session.run(case.statements)
    # Records of one key keep their order.
    assert sorted(results(session, case.inputs), key=order) == sorted(case.outputs, key=order)
