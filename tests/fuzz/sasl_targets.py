"""Bytes that a client sends before it is logged in, and the settings of logins: exchanges, frames and JAAS."""

from __future__ import annotations

import base64
import struct
from functools import partial

from broker_cy.security import jaas
from broker_cy.security.authenticator import TOKENS_MAX, Authenticator, Mechanisms, Refused, State
from broker_cy.security.jaas import JaasError
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, LoginFailed
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from tests.broker_cy.security.exchanges import MORE, NONCE, USERS, client, server
from tests.fuzz.mutator import Mutator
from tests.fuzz.target import Target, text_mutation
from tests.fuzz.wire_targets import request_frame

NAMES = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SHA_256 = NAMES[1]
SEPARATOR = b"\xfe"
# Words that the parsers look for.
WORDS = (b"n,", b",", b"n=", b"r=", b"p=", b"c=biws", b"=2C", b"=3D", b"=", b"\0", b"a=", b"m=x,", b"tokenauth=true")


class Refusal(Exception):
    """The input was refused, as most mutants are."""


def mutate_texts(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """Half of the time insert a word that the parsers look for."""
    r = mutator.bits(40)
    if r & 1:
        return text_mutation(mutator, data, other)
    at = (r >> 8) % (len(data) + 1)
    return data[:at] + WORDS[(r >> 24) % len(WORDS)] + data[at:]


# --- exchanges: the number of the mechanism, then tokens


def exchange_corpus() -> list[bytes]:
    found = []
    for number, name in enumerate(NAMES):
        for user, password in (*USERS.items(), ("mallory", "x")):
            at_server, at_client = server(name), client(name, user, password)
            tokens = [at_client.first()]
            step = at_server.step(tokens[0])
            if isinstance(step, Challenge):
                tokens.append(at_client.step(step.token) or b"")
            found.append(bytes([number]) + SEPARATOR.join(tokens))
    return found


def run_exchange(data: bytes) -> None:
    """A client that is logged in has a password, and has sent the nonce of this exchange."""
    name = NAMES[data[0] % len(NAMES)] if data else NAMES[0]
    at_server = server(name)
    for token in data[1:].split(SEPARATOR)[:4]:
        step = at_server.step(token)
        if isinstance(step, Failed):
            raise Refusal
        if isinstance(step, Done):
            assert step.user in USERS
            if name == "PLAIN":
                assert token.endswith(f"\0{step.user}\0{USERS[step.user]}".encode())
            else:
                assert MORE.encode() in token
            assert isinstance(at_server.step(token), Failed) or name == "PLAIN"
            return


# --- the answers of a server to our client


def answer_corpus() -> list[bytes]:
    at_server, at_client = server(SHA_256), client(SHA_256, "alice", USERS["alice"])
    step = at_server.step(at_client.first())
    assert isinstance(step, Challenge)
    final = at_client.step(step.token)
    assert final is not None
    done = at_server.step(final)
    assert isinstance(done, Done)
    return [step.token, SEPARATOR.join((step.token, done.token))]


def run_answer(data: bytes) -> None:
    """Our client only accepts a server that has proved that it knows the password."""
    at_client = client(SHA_256, "alice", USERS["alice"])
    at_client.first()
    for token in data.split(SEPARATOR)[:3]:
        if b"i=4096" not in token and b"i=" in token:
            # Other iteration counts only cost time, and are not tested here.
            raise Refusal
        at_client.step(token)
        if at_client.is_complete:
            assert b"r=" + NONCE.encode() in data
            assert len(base64.b64decode(token.split(b",")[0][2:])) == 32
            return


# --- frames before the login


def login_corpus() -> list[bytes]:
    """Frames with their sizes."""
    frames = []
    handshake = messages.SaslHandshakeRequest
    token = messages.SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")
    software = messages.ApiVersionsRequest(client_software_name="x", client_software_version="1")
    for version in range(5):
        frames.append(
            [request_frame(ApiKey.API_VERSIONS, version, software if version >= 3 else messages.ApiVersionsRequest())]
        )
    for name in NAMES:
        for version in (0, 1):
            start = request_frame(ApiKey.SASL_HANDSHAKE, version, handshake(mechanism=name))
            first = client(name, "alice", "alice-secret").first()
            if version:
                first = request_frame(ApiKey.SASL_AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=first))
            frames.append([start, first])
    for version in range(3):
        start = request_frame(ApiKey.SASL_HANDSHAKE, 1, handshake(mechanism="PLAIN"))
        frames.append([start, request_frame(ApiKey.SASL_AUTHENTICATE, version, token)] * 2)
    frames.append([*frames[4], *frames[-1]])
    return [b"".join(struct.pack(">i", len(each)) + each for each in of) for of in frames]


def _versions(version: int, request: messages.ApiVersionsRequest | None) -> messages.ApiVersionsResponse:
    return messages.ApiVersionsResponse(error_code=35 if request is None else 0)


MECHANISMS = Mechanisms({name: partial(server, name) for name in NAMES}, {})


def run_login(data: bytes) -> None:
    """Frames are answered or refused, and no client is logged in without a password."""
    of = Authenticator(MECHANISMS, _versions)
    at, now_ns = 0, 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        if at + 4 + size > len(data):
            break
        if of.state is State.COMPLETE and not of.may_begin_again(now_ns):
            break
        outcome = of.take(data[at + 4 : at + 4 + size], now_ns)
        assert len(outcome.payload) < 9_000
        if isinstance(outcome, Refused):
            assert of.state is State.FAILED
            raise Refusal
        assert (of.session is None) or of.session.user in USERS
        at += 4 + size
        now_ns += 600_000_000
    assert TOKENS_MAX > 2


# --- settings

_MODULE = b"org.apache.kafka.common.security.plain.PlainLoginModule"


def jaas_corpus() -> list[bytes]:
    return [
        _MODULE + b' required username="admin" password="a-\\"secret\\101" user_alice=\'b\';',
        _MODULE + b" requisite // comment\n a=b /* other */ c = d_1.e-f;\n",
        _MODULE + b" optional;",
        b'org.apache.kafka.common.security.scram.ScramLoginModule required username="x" password="y" tokenauth=true;',
        b"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"a\" scope='b c';",
    ]


def run_jaas(data: bytes) -> None:
    """A setting is read or refused; a setting that is read can be written and read back unchanged."""
    module = jaas.parse(data.decode("latin-1"))
    text = f"{_MODULE.decode()} required " + " ".join(
        f"{_in_quotes(k)}={_in_quotes(v)}" for k, v in module.options.items()
    )
    assert jaas.parse(text + ";").options == module.options


def _in_quotes(text: str) -> str:
    escaped = "".join(f"\\{ord(sign):03o}" if sign in '"\\\r\n' else sign for sign in text)
    return f'"{escaped}"'


TARGETS = {
    target.name: target
    for target in (
        Target("sasl_exchange", exchange_corpus, run_exchange, (Refusal,), 20_000, mutate_texts),
        Target("sasl_answer", answer_corpus, run_answer, (Refusal, LoginFailed), 5_000, mutate_texts),
        Target("sasl_login", login_corpus, run_login, (Refusal,), 30_000),
        Target("jaas", jaas_corpus, run_jaas, (JaasError,), 30_000, text_mutation),
    )
}
