"""Figures that consoles compute from the samples and events of several brokers."""

from __future__ import annotations

import pytest

from broker_cy.admin.cluster import BrokerInfo, ClusterDescription
from broker_cy.console.broker_state import newest_about, state_of, state_of_host
from broker_cy.console.event_text import tone_of
from broker_cy.console.figures import RATE_MS, api_rows, busiest, connection_rates, newest_of
from broker_cy.console.rows import BrokerRow, broker_rows, host_rows
from broker_cy.core import shard_ids
from broker_cy.metrics.events import (
    BrokerFenced,
    BrokerStarted,
    BrokerStopped,
    BrokerUnfenced,
    ControllerChanged,
    Event,
    InSyncBelowMin,
    LeadersElected,
    MirrorChanged,
    MirrorFailed,
    MirrorTruncated,
    Stamped,
)
from broker_cy.metrics.sample import Api, Connection, Sample, Topic
from broker_cy.reporting.tone import Tone


def sample(broker: int, time_ms: int, records: int = 0) -> Sample:
    return Sample(
        time_ms=time_ms,
        broker=broker,
        interval_ms=1000,
        topics={"t": Topic(records, records * 10, records * 20)},
        apis={"Produce": Api(requests=records)},
        busy=[Connection(id="same", requests=records)],
    )


def test_rates_of_brokers_are_added() -> None:
    """If this fails, a topic of three brokers seems to have a third of its traffic."""
    samples = [sample(broker, 1000 * second, 100 * broker) for second in range(5) for broker in (1, 2, 3)]
    (topic,) = busiest(samples)
    assert (topic.records_per_s, topic.in_per_s, topic.out_per_s) == pytest.approx((600, 6_000, 12_000))
    (api,) = api_rows(samples)
    assert api.per_s == pytest.approx(600)
    # Each connection belongs to one broker, whatever its id is.
    assert sorted(each.requests for each in connection_rates(samples)) == [100, 200, 300]


def test_the_newest_samples_are_those_of_all_brokers() -> None:
    """If this fails, lists of more than ten brokers omit some, or a removed broker keeps its last figures."""
    samples = [sample(broker, 1000 * second) for second in range(30) for broker in range(30)]
    found = newest_of(samples)
    assert len(found) == 30 * RATE_MS // 1000
    assert found == samples[-len(found) :]
    gone = [each for each in samples if each.broker != 7 or each.time_ms < 10_000]
    info = tuple(BrokerInfo(each, "host", 9092, None, False) for each in range(30))
    rows = broker_rows(ClusterDescription("id", 0, info), None, None, gone)
    assert [row.info.broker_id for row in rows if row.sample is None] == [7]


def row(*, fenced: bool = False, cordoned: bool = False, controller: bool = False) -> BrokerRow:
    return BrokerRow(BrokerInfo(1, "host", 9092, None, fenced), controller, None, None, None, cordoned)


@pytest.mark.parametrize(
    ("shown", "events", "expected"),
    [
        (row(), [], "broker"),
        (row(controller=True), [], "controller"),
        (row(controller=True, cordoned=True), [], "cordoned"),
        (row(fenced=True), [], "fenced"),
        (row(fenced=True), [BrokerFenced(1, 5, "lost")], "fenced (lost)"),
        (row(fenced=True), [BrokerFenced(1, 5, "lost", "session_timeout")], "fenced (session timeout)"),
        (row(fenced=True), [BrokerFenced(1, 5, "started_again")], "fenced (started again)"),
        (row(fenced=True), [BrokerFenced(2, 5, "lost")], "fenced"),
        # Its events may arrive later than the description of the cluster.
        (row(), [BrokerFenced(1, 5, "lost")], "broker"),
        (row(fenced=True), [BrokerFenced(1, 5, "lost"), BrokerUnfenced(1, 6)], "fenced"),
        (row(), [BrokerStarted(), BrokerStopped(5)], "shutting down"),
        (row(), [BrokerStopped(5), BrokerStarted()], "broker"),
    ],
)
def test_the_state_of_a_broker(shown: BrokerRow, events: list[Event], expected: str) -> None:
    """If this fails, an operator cannot tell a controlled shutdown from the loss of a broker."""
    # The broker itself reports starts and stops; the leader of the topic reports the other events.
    stamped = [Stamped(at, 1, each) for at, each in enumerate(events)]
    assert state_of(shown, newest_about(stamped).get(1))[0] == expected


def test_the_state_of_a_host_is_that_of_its_worst_shard() -> None:
    """If this fails, a host whose second shard is lost looks sound in its row."""

    def shown(*fenced: bool) -> tuple[str, Tone]:
        ids = [1 + at * shard_ids.STEP for at in range(len(fenced))]
        infos = [BrokerInfo(broker, "h", 9092, None, each) for broker, each in zip(ids, fenced, strict=True)]
        (host,) = host_rows([BrokerRow(info, info.broker_id == 1, 0, 0, None) for info in infos], ())
        lost = [Stamped(1, 1, BrokerFenced(info.broker_id, 5, "lost")) for info in infos if info.is_fenced]
        return state_of_host(host, newest_about(lost))

    assert shown(False, False) == ("controller", Tone.GOOD)
    assert shown(False, True) == ("1 fenced (lost)", Tone.BAD)
    assert shown(True, True) == ("fenced (lost)", Tone.BAD)


def test_failures_stand_out() -> None:
    """If this fails, lost records and a stop in order look the same in lists and on charts."""
    bad = [BrokerFenced(cause="lost"), LeadersElected("unclean"), LeadersElected("no_leader"), InSyncBelowMin()]
    bad.append(MirrorFailed())
    assert {tone_of(each) for each in bad} == {Tone.BAD}
    warned = [BrokerFenced(cause="stopped"), LeadersElected("failure"), ControllerChanged()]
    warned += [MirrorTruncated(), MirrorChanged(change="promoted")]
    assert {tone_of(each) for each in warned} == {Tone.WARN}
    assert tone_of(BrokerUnfenced()) is Tone.GOOD
    assert tone_of(MirrorChanged(change="paused")) is Tone.PLAIN
