"""Frames between a parent and its shards, on a stream that has no boundaries."""

from __future__ import annotations

import socket
import threading

import pytest

from broker_cy.shards.messages import HELLO_BYTES_MAX, Kind, frame, receive


def test_what_follows_a_frame_is_left_to_the_next_reader() -> None:
    """If this fails, a shard that connects while another one ends reads this news as a part of the welcome, and
    continues without a parent.
    """
    one, other = socket.socketpair()
    with one, other:
        one.sendall(frame(Kind.WELCOME) + frame(Kind.ENDED, {"broker": 1, "epoch": 7}))
        assert receive(other.recv) == (Kind.WELCOME, {})
        assert receive(other.recv) == (Kind.ENDED, {"broker": 1, "epoch": 7})


def test_a_frame_in_pieces() -> None:
    """If this fails, a frame that arrives in two pieces is refused."""
    one, other = socket.socketpair()
    content = frame(Kind.HELLO, {"shard": 2})
    with one, other:

        def send() -> None:
            for each in content:
                one.sendall(bytes([each]))

        sender = threading.Thread(target=send)
        sender.start()
        assert receive(other.recv) == (Kind.HELLO, {"shard": 2})
        sender.join()


@pytest.mark.parametrize("content", [b"", frame(Kind.WELCOME)[:-1], frame(Kind.PAGE, bytes(HELLO_BYTES_MAX + 1))])
def test_no_frame(content: bytes) -> None:
    """If this fails, a shard waits forever for a parent that has ended, or reads an unlimited message."""
    one, other = socket.socketpair()
    with other:
        with one:
            one.sendall(content)
        with pytest.raises((ConnectionResetError, ValueError), match=r"closed the connection|at most 4096"):
            receive(other.recv)
