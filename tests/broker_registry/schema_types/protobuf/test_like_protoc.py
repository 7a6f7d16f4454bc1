"""New schemas that protoc takes are taken, and those that it refuses are refused, but for a list of reasons."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_registry.schema_types.base import InvalidSchema, ParseSettings
from broker_registry.schema_types.protobuf import parse
from tests.broker_registry.schema_types.protobuf import corpus, malformed
from tests.support import public_suites
from tests.support.tiers import by_tier

pytestmark = pytest.mark.full
MUTANTS = by_tier(300, 3_000)
NEW = ParseSettings(is_new=True, validates=True)
Protoc = Callable[[str], str]


@pytest.fixture(scope="module")
def protoc() -> Iterator[Protoc]:
    """A function that returns protoc's errors about a text; empty if it takes the text."""
    here = Path(__file__).parent
    python = public_suites.environment("protoc", Path(sys.executable), here / "protoc_requirements.txt")
    with subprocess.Popen(
        [python, here / "protoc_program.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        questions, answers = process.stdin, process.stdout

        def ask(text: str) -> str:
            questions.write(json.dumps(text) + "\n")
            questions.flush()
            answer: str = json.loads(answers.readline())
            return answer

        yield ask
        questions.close()


def ours(text: str) -> str:
    """Return our error about a new schema; empty if it is taken."""
    try:
        parse(text, (), NEW)
    except InvalidSchema as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", corpus.NAMES)
def test_the_corpus(protoc: Protoc, name: str) -> None:
    text = corpus.text_of(name)
    if not protoc(text):
        assert ours(text) == ""


def test_changed_texts(protoc: Protoc) -> None:
    """If this fails, a schema that a producer compiled cannot be registered."""
    source = random.Random(37)
    counts: Counter[tuple[bool, bool]] = Counter()
    for _ in range(MUTANTS):
        text = malformed.mutant(source)
        theirs, mine = protoc(text), ours(text)
        counts[not theirs, not mine] += 1
        # Wire, and Confluent's registry by it, take no empty statement in a group.
        is_of_wire = "group" in text and "expected a word, found ';'" in mine
        assert theirs or not mine or is_of_wire, (text, mine)
    assert counts[True, True] > MUTANTS // 50
