"""Our quotas and Kafka's own quota managers, over the same uses at the same times: the same waits."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from broker_cy.core.errors import KafkaError
from broker_cy.quotas.bucket import Bucket, MutationQuota
from broker_cy.quotas.entities import Entities
from broker_cy.quotas.rate import Rate
from broker_cy.wire import messages
from tests.support import kafka_tools, needs

pytestmark = needs.java

RUNS, STEPS = 60, 250
TIMEOUT_S = 240.0
# Kafka's clock: its buckets are full at first because much time has passed since 1970.
START_MS = 1_700_000_000_000
USERS, CLIENT_IDS = ("alice", "bob", "a-b/*"), ("app", "other", "-")
LIMITS: dict[str, tuple[float, ...]] = {
    # So that no wait passes an int32: there Kafka overflows.
    "bytes": (50.0, 100.0, 5000.0),
    "time": (0.5, 10.0, 200.0),
    "changes": (0.1, 1.0, 10.0),
}


class Ours:
    """The commands of KafkaQuotas.java, on our machines."""

    def __init__(self) -> None:
        self._kinds: dict[str, Entities[Any]] = {}

    def run(self, line: str) -> str | None:
        word, *rest = line.split(" ")
        commands: dict[str, Callable[..., str | None]] = {
            "new": self._renew,
            "quota": self._quota,
            "change": self._change,
            "use": self._use,
            "note": self._note,
        }
        return commands[word](*rest)

    def _renew(self, samples: str, seconds: str) -> None:
        windows, window_ms = int(samples), int(seconds) * 1000
        self._kinds = {
            "bytes": Entities(lambda tags, limit, now: Rate(tags, limit, windows, window_ms, now)),
            "time": Entities(lambda tags, limit, now: Rate(tags, limit, windows, window_ms, now, window_ms)),
            "changes": Entities(lambda tags, limit, now: Bucket(tags, limit, windows, window_ms, now)),
        }

    def _quota(self, kind: str, user: str, client_id: str, limit: str) -> None:
        part = messages.ClientQuotaRecord.EntityData
        parts = [
            part(entity_type=what, entity_name=None if name == "*" else name)
            for what, name in (("user", user), ("client-id", client_id))
            if name != "-"
        ]
        self._kinds[kind].limits.set(parts, None if limit == "-" else float(limit))
        self._kinds[kind].renew()

    def _meter(self, kind: str, user: str, client_id: str, ms: str) -> Any:
        return self._kinds[kind].of(user, "" if client_id == "-" else client_id, int(ms))

    def _use(self, kind: str, user: str, client_id: str, value: str, ms: str) -> str:
        meter = self._meter(kind, user, client_id, ms)
        return "0" if meter is None else str(meter.charge(float(value), int(ms)))

    def _note(self, kind: str, user: str, client_id: str, value: str, ms: str) -> None:
        meter = self._meter(kind, user, client_id, ms)
        if meter is not None:
            meter.record(float(value), int(ms))

    def _change(self, how: str, user: str, client_id: str, count: str, ms: str) -> str:
        bucket = self._meter("changes", user, client_id, ms)
        if bucket is None:
            return "done 0"
        quota = MutationQuota(bucket, strict=how == "strict")
        done = "done"
        try:
            quota.take(int(count), int(ms))
        except KafkaError:
            done = "refused"
        return f"{done} {quota.wait_ms(int(ms))}"


def story(draw: random.Random) -> Iterator[str]:
    """Yield quotas that are set and removed, and the use of clients in between."""
    yield f"new {draw.choice([1, 2, 11, 11, 11])} {draw.choice([1, 1, 1, 5])}"
    now_ms = START_MS
    # Some runs have few kinds of entities, because Kafka then looks quotas up differently.
    users, client_ids = draw.choice(
        [((*USERS, "*"), ("-",)), (("-",), ("app", "other", "*")), ((*USERS, "*", "-"), (*CLIENT_IDS, "*"))]
    )
    # Quotas are set first, and only changed later. If others have a quota, Kafka counts what a client used while it had
    # none; this broker does not.
    entities = [
        (kind, draw.choice(users), draw.choice(client_ids)) for kind in LIMITS for _ in range(draw.randint(0, 6))
    ]
    chosen = [each for each in dict.fromkeys(entities) if each[1:] != ("-", "-")]
    for kind, user, client_id in chosen:
        if draw.random() < 0.2:
            yield f"quota {kind} {user} {client_id} 3.0"
            yield f"quota {kind} {user} {client_id} -"
        yield f"quota {kind} {user} {client_id} {draw.choice(LIMITS[kind])}"
    for _ in range(STEPS):
        now_ms += draw.choice([0, 1, 7, 50, 400, 999, 1000, 1001, 3000, 12_000]) if draw.random() < 0.9 else 100_000
        if chosen and draw.random() < 0.05:
            kind, user, client_id = draw.choice(chosen)
            yield f"quota {kind} {user} {client_id} {draw.choice(LIMITS[kind])}"
            continue
        kind = draw.choice(list(LIMITS))
        who = f"{draw.choice(USERS)} {draw.choice(CLIENT_IDS)}"
        if kind == "changes":
            how = draw.choice(["strict", "permissive"])
            yield f"change {how} {who} {draw.choice([1, 5, 30, 200])} {now_ms}"
        else:
            value = draw.choice(LIMITS[kind]) * draw.choice([0.0, 0.1, 0.9, 1.0, 3.7, 40.0])
            word = "use" if draw.random() < 0.8 else "note"
            yield f"{word} {kind} {who} {value if draw.random() < 0.9 else -value} {now_ms}"


def test_the_same_waits(tmp_path: Path) -> None:
    """If this fails, a client waits longer or shorter than with Kafka, or the quota of another one counts for it."""
    lines = [line for seed in range(RUNS) for line in story(random.Random(f"quotas {seed}"))]
    source = Path(__file__).with_name("KafkaQuotas.java")
    done = kafka_tools.run_program(source, stdin=("\n".join(lines) + "\n").encode(), timeout_s=TIMEOUT_S)
    theirs = done.stdout.decode().splitlines()
    ours = Ours()
    asked = [line for line in lines if line.split(" ")[0] in ("use", "change")]
    assert len(theirs) == len(asked), done.stderr[-2000:].decode()
    answers = iter(theirs)
    waited = refused = 0
    for number, line in enumerate(lines):
        answer = ours.run(line)
        if answer is not None:
            expected = next(answers)
            before = "\n".join(lines[max(0, number - 30) : number])
            assert answer == expected, f"{before}\n{line}: {answer}, Kafka {expected}"
            waited += answer.split(" ")[-1] != "0"
            refused += answer.startswith("refused")
    assert waited > 100
    assert refused > 20
