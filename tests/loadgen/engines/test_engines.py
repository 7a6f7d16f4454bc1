"""The engines other than gevent, against our broker and Apache Kafka."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gevent
import pytest

from broker_cy.client.payload.settings import Keys, Payload
from loadgen.engines.base import EngineError
from loadgen.engines.raw import is_left_over
from loadgen.scenario.profile import RateProfile
from tests.support.broker import Target
from tests.support.load_rig import Rig

ENGINES = ("raw", "librdkafka")


@contextmanager
def rig(broker: Target, topic: str, **options: Any) -> Iterator[Rig]:
    made = Rig((broker.host, broker.port), topic, **options)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_counted_is_there(either_broker: Target, topic: str, engine: str, codec: str) -> None:
    """If this fails, a run's figures count records that were never written, or only some of the written ones."""
    options = {"engine": engine, "codec": codec, "records": 5, "rate": RateProfile.constant(100), "users": 2}
    with rig(either_broker, topic, **options) as load:
        figures = load.run(0.5)
        assert (figures.requests, figures.records, figures.errors) == (50, 250, {})
        assert figures.latency.count == 50
        assert figures.bytes > 0
        again = load.run(0.5)
        assert again.requests == 50
        found = load.verify()
    assert found.is_good
    assert found.total.acknowledged == found.total.read == 500


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_a_closed_loop_keeps_requests_in_flight(either_broker: Target, topic: str, engine: str, acks: str) -> None:
    """If this fails, a scenario without a rate does not end, or sends one request after the other."""
    options = {"engine": engine, "acks": acks, "is_verified": False, "records": 10, "options": {"in_flight": 20}}
    with rig(either_broker, topic, **options) as load:
        figures = load.run(0.5)
    assert figures.requests >= 20
    assert figures.records == 10 * figures.requests
    assert figures.errors == {}


@pytest.mark.parametrize(
    "payload", [Payload("json", fields={"a": {"kind": "sequence", "start": 0, "step": 1}}), Payload("fixed", 40)]
)
def test_stamps_of_librdkafka_are_found(either_broker: Target, topic: str, payload: Payload) -> None:
    """If this fails, verified values, or JSON with the stamp in a header, count as lost."""
    options = {"engine": "librdkafka", "payload": payload, "keys": Keys("uniform", 10), "idempotent": True}
    with rig(either_broker, topic, rate=RateProfile.constant(200), **options) as load:
        load.run(0.5)
        found = load.verify()
    assert found.is_good
    assert found.total.read == found.total.sent == 100


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
def test_a_stall_is_charged(make_broker: Callable[..., Target], topic: str, engine: str) -> None:
    """If this fails, the latencies of a broker that freezes for a second do not include the freeze."""
    broker = make_broker()
    with rig(broker, topic, engine=engine, rate=RateProfile.constant(200)) as load:

        def freeze() -> None:
            gevent.sleep(0.5)
            os.kill(broker.pid, signal.SIGSTOP)
            try:
                gevent.sleep(1.1)
            finally:
                os.kill(broker.pid, signal.SIGCONT)

        freezing = gevent.spawn(freeze)
        figures = load.run(2.5)
        freezing.join()
        found = load.verify()
    assert figures.requests == 500
    assert figures.latency.highest >= 950_000_000
    # Requests that were due while it was frozen also waited: with equal intervals, half a second on average.
    assert figures.latency.percentile(80) >= 400_000_000
    assert found.is_good


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
def test_a_broker_that_is_killed_loses_nothing(make_broker: Callable[..., Target], topic: str, engine: str) -> None:
    """If this fails, an engine does not recover after an outage, or counts unknown outcomes as acknowledged."""
    broker = make_broker()
    with rig(broker, topic, engine=engine, idempotent=True, rate=RateProfile.constant(200)) as load:

        def kill() -> None:
            gevent.sleep(0.5)
            broker.kill()
            broker.restart()

        killing = gevent.spawn(kill)
        # On a busy machine, the restart alone took over 3 s.
        figures = load.run(10.0)
        killing.join()
        found = load.verify()
    assert found.is_good
    assert found.total.acknowledged == figures.requests > 200
    assert figures.requests + figures.failures == 2000


@pytest.mark.full
def test_an_outage_to_the_end_fails_all_that_was_due(make_broker: Callable[..., Target], topic: str) -> None:
    """If this fails, a run whose broker dies reports fewer failures the earlier it dies."""
    broker = make_broker()
    with rig(broker, topic, engine="raw", rate=RateProfile.constant(200)) as load:
        killing = gevent.spawn_later(0.5, broker.kill)
        figures = load.run(1.5)
        killing.join()
    assert figures.requests >= 50
    assert figures.failures > 0
    assert figures.requests + figures.failures == 300


PATCHED = """
import sys
from gevent import monkey
monkey.patch_all()
from loadgen.scenario.profile import RateProfile
from tests.support.load_rig import Rig
load = Rig(("127.0.0.1", int(sys.argv[1])), sys.argv[2], engine=sys.argv[3], rate=RateProfile.constant(100))
figures = load.run(0.5)
print(figures.requests, figures.errors, load.verify().total.read)
load.close()
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_it_works_where_gevent_has_patched_the_process(either_broker: Target, topic: str, engine: str) -> None:
    """If this fails, the engine blocks or breaks under locust, which patches the process."""
    run = subprocess.run(
        [sys.executable, "-c", PATCHED, str(either_broker.port), topic, engine],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        timeout=60,
        check=False,
    )
    assert (run.stdout, run.stderr) == ("50 {} 50\n", "")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"engine": "raw", "acks": "1"}, "needs acks = \"all\", not '1'"),
        ({"engine": "librdkafka", "idempotent": True, "acks": "0"}, "needs acks = \"all\", not '0'"),
    ],
)
def test_what_an_engine_cannot_do_is_refused(
    either_broker: Target, topic: str, options: dict[str, Any], problem: str
) -> None:
    """If this fails, a scenario that cannot be run as written is run in another way."""
    with pytest.raises(EngineError, match=problem):
        Rig((either_broker.host, either_broker.port), topic, **options)


def test_a_missing_library_is_named(either_broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a scenario with librdkafka ends with a stack trace on a machine without confluent-kafka."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(EngineError, match="pip install confluent-kafka"):
        Rig((either_broker.host, either_broker.port), topic, engine="librdkafka")


@pytest.mark.parametrize(
    ("ended_ms", "measured_ms", "now_ms", "expected"),
    [
        (1_000, 1_000, 1_080, True),  # the last interval of the warm-up, taken a little later
        (1_001, 1_000, 1_080, True),
        (1_250, 1_000, 1_260, False),  # the first one of the measured time
        (1_000, 1_000, 999, False),  # taken during the warm-up, with which it is left out
        (60, 0, 100, False),  # a round without a warm-up
    ],
)
def test_the_end_of_the_warm_up_is_not_measured(ended_ms: int, measured_ms: int, now_ms: int, expected: bool) -> None:
    """If this fails, the engine raw counts a quarter of a second of extra requests: 5 % of a run of 5 s."""
    assert is_left_over(ended_ms * 10**6, measured_ms * 10**6, now_ms * 10**6) is expected
