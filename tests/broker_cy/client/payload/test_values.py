"""The values of records: as the scenario defines them, and equal in each run with the same seed."""

from __future__ import annotations

import itertools
import json
import re
import uuid
import zlib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.payload.settings import Payload
from broker_cy.client.payload.values import ValueSource
from loadgen.scenario.toml_file import read_scenario
from loadgen.verify.prefix import PREFIX_BYTES, prefix_bytes


def some(payload: Payload, count: int, *, seed: int = 1, user: int = 0, stamped: bool = False) -> list[bytes]:
    before_bytes = prefix_bytes(payload, is_stamped=stamped)
    cursor = ValueSource(payload, seed, now=lambda: 1_700_000_000.5, prefix_bytes=before_bytes).cursor(user)
    return [cursor.next() for _ in range(count)]


def json_payload(tmp_path: Path, fields: str) -> Payload:
    """Return a payload as the reader of scenarios makes it."""
    text = f'[[users]]\nkind = "producer"\n[users.payload]\nkind = "json"\n[users.payload.fields]\n{fields}\n'
    (tmp_path / "s.toml").write_text(text)
    return read_scenario(tmp_path / "s.toml").users[0].payload


def objects(tmp_path: Path, fields: str, count: int, user: int = 0) -> list[Any]:
    return [json.loads(each) for each in some(json_payload(tmp_path, fields), count, user=user)]


@pytest.mark.parametrize("payload", [Payload(size=100), Payload("sizes", 0, 32, 2000), Payload("file", lines=(b"a",))])
def test_a_seed_decides_the_values(payload: Payload) -> None:
    """If this fails, a run cannot be repeated with the same load."""
    assert some(payload, 50, seed=3, user=8) == some(payload, 50, seed=3, user=8)
    if payload.kind != "file":
        assert some(payload, 50, seed=3) != some(payload, 50, seed=4)
        assert some(payload, 50, user=1) != some(payload, 50, user=2)


def test_fixed_values_have_their_size_with_the_prefix() -> None:
    """If this fails, records are 32 bytes larger than the scenario says."""
    assert {len(each) for each in some(Payload(size=100), 1000)} == {100}
    assert {len(each) for each in some(Payload(size=100), 1000, stamped=True)} == {100 - PREFIX_BYTES}
    assert set(some(Payload(size=PREFIX_BYTES), 10, stamped=True)) == {b""}


def test_values_are_as_random_as_asked() -> None:
    """If this fails, codecs compress the load much better or worse than the scenario says."""
    for entropy in (0.0, 0.5, 1.0):
        data = b"".join(some(Payload(size=1000, entropy=entropy), 100))
        assert len(zlib.compress(data)) / len(data) == pytest.approx(entropy, abs=0.06)


@pytest.mark.parametrize(("distribution", "mean"), [("uniform", 1066), ("lognormal", 327)])
def test_sizes_follow_their_distribution(distribution: str, mean: float) -> None:
    """If this fails, the bytes of a run are far from what the distribution promises."""
    for stamped in (False, True):
        found = some(Payload("sizes", 0, 32, 2100, distribution), 3000, stamped=stamped)
        sizes = [len(each) + PREFIX_BYTES * stamped for each in found]
        assert min(sizes) >= 32
        assert max(sizes) <= 2100
        assert sum(sizes) / len(sizes) == pytest.approx(mean, rel=0.1)


def test_lines_come_in_turn_and_whole() -> None:
    """If this fails, values are not the lines of the file, or some lines are never sent."""
    lines = tuple(b"line %d" % number for number in range(7))
    payload = Payload("file", 0, lines=lines)
    for user in range(5):
        found = some(payload, 14, user=user, stamped=True)  # a stamp is in a header
        at = lines.index(found[0])
        assert found == [lines[(at + each) % 7] for each in range(14)]
    assert len({some(payload, 1, user=user)[0] for user in range(7)}) > 3


def test_large_values_have_a_small_pool() -> None:
    """If this fails, values of megabytes exhaust the memory before the run begins."""
    assert len(set(some(Payload(size=5 << 20), 10))) == 4


def test_json_has_each_kind_of_field(tmp_path: Path) -> None:
    """If this fails, consumers get values that are not JSON, or not those of the scenario."""
    found = objects(
        tmp_path,
        """
        number = { kind = "int", min = -5, max = 5 }
        price = { kind = "float", min = 1, max = 2, digits = 2 }
        color = { kind = "choice", values = ["red", "blue", 3], weights = [1, 0, 1] }
        "na\\"me %d" = { kind = "string", min = 2, max = 4 }
        fixed = { kind = "constant", value = { a = [1, "ä 100 %s"], b = true } }
        """,
        2000,
    )
    assert {each["number"] for each in found} == set(range(-5, 6))
    assert all(1 <= each["price"] <= 2 and round(each["price"], 2) == each["price"] for each in found)
    assert {each["color"] for each in found} == {"red", 3}
    assert {len(each['na"me %d']) for each in found} == {2, 3, 4}
    assert all(each["fixed"] == {"a": [1, "ä 100 %s"], "b": True} for each in found)


def test_json_fields_that_are_made_for_each_record(tmp_path: Path) -> None:
    """If this fails, ids repeat or times do not advance, and consumers consider records duplicates."""
    fields = """
        id = { kind = "uuid" }
        "per%cent" = { kind = "constant", value = "100 %d \\\\u0000" }
        at = { kind = "timestamp" }
        at_s = { kind = "timestamp", format = "s" }
        at_iso = { kind = "timestamp", format = "iso" }
        number = { kind = "sequence", start = 10, step = -2 }
        other = { kind = "sequence" }
        """
    found = objects(tmp_path, fields, 30_000)
    assert [each["number"] for each in found] == list(itertools.islice(itertools.count(10, -2), 30_000))
    assert [each["other"] for each in found] == list(range(30_000))
    assert {(each["at"], each["at_s"], each["at_iso"]) for each in found} == {
        (1_700_000_000_500, 1_700_000_000, "2023-11-14T22:13:20.500Z")
    }
    assert datetime.fromisoformat(found[0]["at_iso"]).timestamp() == 1_700_000_000.5
    assert {each["per%cent"] for each in found} == {"100 %d \\u0000"}
    ids = {each["id"] for each in found}
    assert len(ids) == 30_000
    assert all(uuid.UUID(each).version == 4 and re.fullmatch("[0-9a-f-]{36}", each) for each in ids)
    assert {uuid.UUID(each).variant for each in ids} == {uuid.RFC_4122}
    assert not ids & {each["id"] for each in objects(tmp_path, fields, 1000, user=1)}
