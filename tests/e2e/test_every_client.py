"""Real input through every client: each client reads what every other wrote, byte for byte, with every codec."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.support import corpus
from tests.support.broker import Target
from tests.support.clients import CLIENTS, CODECS
from tests.support.topics import create_topic

# Pure Python and JavaScript clients spend milliseconds of CPU on a thousand records; C clients get the whole file.
SLICE_RECORDS = 2_000


def with_codecs(clients: Iterable[str]) -> list[Any]:
    """Each client with each codec; all but one for each client and each codec belong to `make test-all`."""
    return [
        pytest.param(client, codec, marks=() if number == at else pytest.mark.full)
        for number, client in enumerate(clients)
        for at, codec in enumerate(CODECS)
    ]


@pytest.mark.parametrize(("producer", "codec"), with_codecs(CLIENTS))
def test_every_client_reads_what_each_client_wrote(broker: Target, topic: str, producer: str, codec: str) -> None:
    """If this fails, a user who mixes clients reads other records than were written."""
    pairs = corpus.head(SLICE_RECORDS)
    create_topic(broker.bootstrap, topic)
    CLIENTS[producer].produce(broker.bootstrap, topic, pairs, codec)
    expected = corpus.digest(pairs)
    digests = {
        name: corpus.digest(client.consume(broker.bootstrap, topic, len(pairs))) for name, client in CLIENTS.items()
    }
    assert digests == dict.fromkeys(CLIENTS, expected)


@pytest.mark.full
@pytest.mark.parametrize(("producer", "codec"), with_codecs(name for name in CLIENTS if CLIENTS[name].fast))
def test_the_whole_file_through_the_fast_clients(broker: Target, topic: str, producer: str, codec: str) -> None:
    """If this fails, a topic of many fetches is read changed, out of order, or with gaps."""
    pairs = corpus.paragraphs()
    create_topic(broker.bootstrap, topic)
    CLIENTS[producer].produce(broker.bootstrap, topic, pairs, codec)
    expected = corpus.digest(pairs)
    fast = {name: client for name, client in CLIENTS.items() if client.fast}
    digests = {
        name: corpus.digest(client.consume(broker.bootstrap, topic, len(pairs))) for name, client in fast.items()
    }
    assert digests == dict.fromkeys(fast, expected)
