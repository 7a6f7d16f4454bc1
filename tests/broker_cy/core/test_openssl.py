"""Sessions of TLS over a pair of sockets, both ends ours."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from broker_cy.cli import parser
from broker_cy.core.tls_version import openssl_version
from tests.support import needs
from tests.support.certificates import Authority, Holder

needs.require(needs.tls)
from broker_cy.core import openssl  # noqa: E402


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def server(authority: Authority) -> Holder:
    return authority.issue("server")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def key_of(holder: Holder) -> dict[str, Any]:
    return {"chain": [holder.der], "key": openssl.read_key(holder.key_pem().encode(), b"")}


def shake(client: Any, server: Any) -> list[int]:
    """The outcomes, when neither end has anything to do."""
    outcomes = [0, 0]
    for _ in range(10):
        for index, session in enumerate((client, server)):
            if outcomes[index] not in (openssl.SHAKEN, openssl.FAILED):
                outcomes[index] = session.shake()
    return outcomes


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, an operator cannot see which OpenSSL a broker is linked with, nor whether it is vulnerable."""
    assert openssl_version() == openssl.version()
    assert openssl.version().startswith("OpenSSL 3.")
    with pytest.raises(SystemExit):
        parser().parse_args(["--version"])
    assert openssl.version() in capsys.readouterr().out


@pytest.mark.parametrize("newest", ["TLSv1.2", "TLSv1.3"])
def test_a_handshake(
    ends: tuple[socket.socket, socket.socket], authority: Authority, server: Holder, newest: str
) -> None:
    """If this fails, no client can connect."""
    client = authority.issue("alice")
    ours = openssl.TlsContext(
        is_server=True, newest=newest, trusted=[authority.der], asks=True, requires=True, **key_of(server)
    )
    theirs = openssl.TlsContext(is_server=False, trusted=[authority.der], **key_of(client))
    one = openssl.TlsSession(theirs, ends[0].fileno(), "localhost")
    other = openssl.TlsSession(ours, ends[1].fileno())
    assert shake(one, other) == [openssl.SHAKEN, openssl.SHAKEN]
    assert (one.protocol, other.protocol) == (newest, newest)
    assert one.peer_certificate == server.der
    assert other.peer_certificate == client.der
    assert "GCM" in other.cipher


@pytest.mark.parametrize(
    ("host", "trusts", "message"),
    [
        ("localhost", True, None),
        ("127.0.0.1", True, None),
        ("other.example", True, "hostname mismatch"),
        ("10.0.0.1", True, "IP address mismatch"),
        ("localhost", False, "unable to get local issuer certificate"),
    ],
)
def test_a_client_checks_the_server(
    ends: tuple[socket.socket, socket.socket],
    authority: Authority,
    server: Holder,
    host: str,
    trusts: bool,
    message: str | None,
) -> None:
    """If this fails, a client trusts any server that answers at the address."""
    ours = openssl.TlsContext(is_server=True, **key_of(server))
    theirs = openssl.TlsContext(is_server=False, trusted=[(authority if trusts else Authority("Other")).der])
    one, other = openssl.TlsSession(theirs, ends[0].fileno(), host), openssl.TlsSession(ours, ends[1].fileno())
    assert shake(one, other)[0] == (openssl.FAILED if message else openssl.SHAKEN)
    assert (message or "") in one.failure


def test_who_has_no_good_certificate_is_refused(authority: Authority, server: Holder) -> None:
    """If this fails, mTLS accepts every client."""
    ours = openssl.TlsContext(is_server=True, trusted=[authority.der], asks=True, requires=True, **key_of(server))
    stranger, expired = Authority("Stranger").issue("alice"), authority.issue("alice", days=-1)
    for holder, message in (
        (None, "peer did not return a certificate"),
        (stranger, "unable to get local issuer"),
        (expired, "expired"),
    ):
        ends = socket.socketpair()
        keys = {} if holder is None else key_of(holder)
        theirs = openssl.TlsContext(is_server=False, trusted=[authority.der], **keys)
        other = openssl.TlsSession(ours, ends[1].fileno())
        assert shake(openssl.TlsSession(theirs, ends[0].fileno()), other)[1] == openssl.FAILED
        assert message in other.failure
        for end in ends:
            end.close()


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "http request"),
        (b"\0\0\0\x20\0\x12\0\3\0\0\0\1\0\4test" + b"\0" * 16, "wrong version number"),
        (b"", "closed the connection and had sent nothing"),
        (b"\x16\x03\x01\x02\0\1\0\1\xfc\3\3" + b"x" * 40, "closed the connection"),
    ],
)
def test_what_is_no_handshake(
    ends: tuple[socket.socket, socket.socket], server: Holder, sent: bytes, message: str
) -> None:
    """If this fails, an operator cannot see that a client speaks no TLS."""
    session = openssl.TlsSession(openssl.TlsContext(is_server=True, **key_of(server)), ends[1].fileno())
    ends[0].sendall(sent)
    ends[0].shutdown(socket.SHUT_WR)
    assert session.shake() == openssl.FAILED
    assert message in session.failure


def test_an_endless_handshake_ends(ends: tuple[socket.socket, socket.socket], server: Holder) -> None:
    """If this fails, the broker buffers everything that a client sends without finishing its handshake."""
    session = openssl.TlsSession(openssl.TlsContext(is_server=True, **key_of(server)), ends[1].fileno())
    # A ClientHello in many records, whose length says 16 MB.
    record = b"\x16\x03\x01\x40\0" + b"\1\xff\xff\xff" + b"\3\3" + b"x" * 16378
    outcome = openssl.WANTS_READ
    for _ in range(20):
        if outcome == openssl.WANTS_READ:
            ends[0].sendall(record)
            outcome = session.shake()
    assert outcome == openssl.FAILED
    assert session.shake_bytes <= openssl.SHAKE_BYTES_MAX + 16384


def test_ciphers_have_the_names_of_java(authority: Authority, server: Holder) -> None:
    """If this fails, ssl.cipher.suites of an existing configuration is refused, or not obeyed."""
    name = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    ours = openssl.TlsContext(is_server=True, newest="TLSv1.2", ciphers=(name,), suites=(), **key_of(server))
    theirs = openssl.TlsContext(is_server=False, trusted=[authority.der])
    one, other = socket.socketpair()
    with one, other:
        session = openssl.TlsSession(ours, other.fileno())
        assert shake(openssl.TlsSession(theirs, one.fileno()), session)[1] == openssl.SHAKEN
        assert session.cipher == name
    with pytest.raises(openssl.TlsError, match="TLS_NO_SUCH is not known"):
        openssl.TlsContext(is_server=True, ciphers=("TLS_NO_SUCH",))


def test_a_key_of_another_certificate(authority: Authority, server: Holder) -> None:
    """If this fails, a broker starts with a key that no client can use, and every handshake fails."""
    with pytest.raises(openssl.TlsError, match="does not fit"):
        openssl.TlsContext(is_server=True, chain=[authority.issue("other").der], key=key_of(server)["key"])
