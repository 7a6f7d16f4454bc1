"""Names of stores and topics that an application must give itself."""

from __future__ import annotations

import pytest

from broker_streams.dsl.builder import StreamsBuilder
from broker_streams.plan.topology import TopologyError
from broker_streams.plan.windows import JoinWindows

CHECKED = {"ensure.explicit.internal.resource.naming": "true"}


def join(name: str | None, store: str | None) -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("a").select_key(lambda key, value: value)
    stream.join(builder.stream("b"), lambda left, right: left, JoinWindows.of(10), name=name, store=store)
    return builder


def test_generated_names_are_refused_if_asked_for() -> None:
    """If this fails, an application with generated names starts, and loses its state with its next change."""
    join(None, None).build()
    with pytest.raises(TopologyError) as raised:
        join(None, None).build(CHECKED)
    assert str(raised.value) == (
        "ensure.explicit.internal.resource.naming is true, and these have generated names:"
        " changelog topics KSTREAM-JOINTHIS-0000000008-store-changelog, KSTREAM-JOINOTHER-0000000009-store-changelog;"
        " state stores KSTREAM-JOINTHIS-0000000008-store, KSTREAM-JOINOTHER-0000000009-store;"
        " repartition topics KSTREAM-KEY-SELECT-0000000001-repartition"
    )


def test_names_of_the_user_are_accepted() -> None:
    """If this fails, the check refuses an application whose names stay the same."""
    topology = join("joining", "kept").build(CHECKED)
    assert [each.name for each in topology.plan.repartition_topics] == ["joining-left-repartition"]
