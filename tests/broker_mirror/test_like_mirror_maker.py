"""Names, filters, records and merged settings are those of MirrorMaker 2 4.3.1, for random input.

Its answers are recorded; tests marked `full` ask its classes again, and for more seeds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from broker_mirror.translation import PartitionRanges
from tests.broker_mirror import cases
from tests.broker_mirror.cases import ERROR, STORES, Request, stores
from tests.broker_mirror.oracle import mirror_maker
from tests.broker_mirror.transforms import cases as of_transforms
from tests.support import needs, recorded
from tests.support.java_oracle import JavaOracle

FAMILIES = {**cases.FAMILIES, **of_transforms.FAMILIES}
SEEDS_FULL = 10
"""In the full tier, this many times the recorded seeds."""
AT_ONCE = 100


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    with mirror_maker() as found:
        yield found


def theirs(java: JavaOracle, requests: Sequence[Request]) -> list[Any]:
    """Return the answers of MirrorMaker 2's classes."""
    found = []
    for begin in range(0, len(requests), AT_ONCE):
        found += java.ask({"op": "many", "requests": requests[begin : begin + AT_ONCE]})
    return [ERROR if isinstance(answer, dict) and "message" in answer else answer for answer in found]


def is_refused(name: str, request: Request, answer: Any) -> bool:
    """Whether Java takes what we refuse: patterns without an equal here, unknown versions, and texts not in UTF-8."""
    if name == "decodings":
        has_version = request["kind"] != "sync" and not request["value"].startswith("0000")
        return has_version or any("\ufffd" in str(each) for each in answer)
    if name == "transforms":
        return of_transforms.is_refused(request)
    return name == "regexes"


def is_of_version(pattern: str, text: str) -> bool:
    """Whether versions of Java answer differently: before Java 19 (JDK-8264160) every letter was part of a word for
    `\\b`, since then those of ASCII, as for `\\w` and in our patterns.
    """
    return "\\b" in pattern and not text.isascii()


def differences(name: str, answers: list[tuple[Request, Any]]) -> list[str]:
    """Return the requests whose answers differ, except for input that is refused here only (see `is_refused`), and for
    what depends on the version of Java (see `is_of_version`).
    """
    ours = FAMILIES[name][1]
    found = []
    for request, answer in answers:
        mine = recorded.as_recorded(ours(request))
        if name == "literals":
            mine, answer = of_transforms.without_digits(mine), of_transforms.without_digits(answer)
        if name == "regexes" and isinstance(mine, list) and isinstance(answer, list):
            places = [at for at, text in enumerate(request["names"]) if not is_of_version(request["pattern"], text)]
            mine, answer = [mine[at] for at in places], [answer[at] for at in places]
        if mine != answer and not (mine == ERROR and is_refused(name, request, answer)):
            found.append(f"{json.dumps(request)}\n  ours   {json.dumps(mine)}\n  theirs {json.dumps(answer)}")
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_answers_are_equal(name: str) -> None:
    """If this fails, topics, records or settings differ from those of a MirrorMaker 2 that runs beside or before."""
    requests, _, count = FAMILIES[name]
    answers = recorded.of_kafka(f"mirror_{name}")
    assert len(answers) == count
    assert differences(name, list(zip(requests(count), answers, strict=True))) == []


def test_few_patterns_are_refused() -> None:
    """If this fails, patterns that run in Java are refused here, and a file of MirrorMaker 2 does not start."""
    requests, ours, count = FAMILIES["regexes"]
    answers = recorded.of_kafka("mirror_regexes")
    valid = [request for request, answer in zip(requests(count), answers, strict=True) if answer != ERROR]
    refused = [request["pattern"] for request in valid if ours(request) == ERROR]
    assert len(valid) > count // 3
    # Random patterns have many constructs that no filter has, such as repeated assertions.
    assert len(refused) < len(valid) // 6, refused[:20]


def test_no_translation_is_less_exact() -> None:
    """MirrorMaker 2 keeps 64 syncs of a partition. If this fails, a group reads more records again than with it."""
    better = 0
    for request, answers in zip(stores(STORES), recorded.of_kafka("mirror_stores"), strict=True):
        ranges = PartitionRanges()
        for source, target in request["syncs"]:
            ranges.add(source, target)
        first = request["syncs"][0][0]
        for offset, answer in zip(request["offsets"], answers, strict=True):
            found = ranges.translate(offset)
            assert (found is None) == (offset < first)
            # -1: an offset before the oldest sync that is still kept.
            assert found is None or found >= answer, (request["syncs"], offset)
            better += found is not None and found > answer
    assert better > 100


@pytest.mark.full
@needs.java
def test_the_recording_of_stores_is_current(java: JavaOracle) -> None:
    """If this fails, the recorded answers are not those of MirrorMaker 2."""
    recorded.check("mirror_stores", theirs(java, list(stores(STORES))))


@pytest.mark.full
@needs.java
@pytest.mark.parametrize("name", FAMILIES)
def test_the_recording_is_current(name: str, java: JavaOracle) -> None:
    """If this fails, the recorded answers are not those of MirrorMaker 2."""
    requests, _, count = FAMILIES[name]
    recorded.check(f"mirror_{name}", theirs(java, list(requests(count))))
    more = list(requests(SEEDS_FULL * count))[count:]
    assert differences(name, list(zip(more, theirs(java, more), strict=True))) == []
