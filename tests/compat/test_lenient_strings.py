"""Invalid strings that Kafka still reads."""

from __future__ import annotations

import struct

import pytest

from tests.support.broker import Target
from tests.support.raw_wire import METADATA, Connection, Reader, array, frame, i32, receive_frame, string
from tests.support.topics import create_topic


@pytest.mark.parametrize("client_id_size", [-1, -5, -32768])
def test_negative_length_of_the_client_id(broker: Target, topic: str, client_id_size: int) -> None:
    """Kafka reads any negative length of the client id as null; otherwise a client that sends one is disconnected."""
    create_topic(broker.bootstrap, topic)
    with Connection((broker.host, broker.port)) as connection:
        body = array([string(topic)])
        connection.sock.sendall(frame(struct.pack(">hhih", METADATA, 1, 7, client_id_size) + body))
        assert Reader(receive_frame(connection.sock)).i32() == 7


def test_a_client_id_that_is_not_utf8(broker: Target) -> None:
    """If this fails, a client whose id is in Latin-1 is disconnected."""
    with Connection((broker.host, broker.port)) as connection:
        connection.sock.sendall(
            frame(struct.pack(">hhih", METADATA, 1, 7, 4) + "Zoë".encode("latin-1") + b"!" + i32(-1))
        )
        assert Reader(receive_frame(connection.sock)).i32() == 7
