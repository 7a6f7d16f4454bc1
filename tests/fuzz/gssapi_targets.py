"""Messages of a GSSAPI client, and the names of its principals. Kerberos's own library reads its tokens: a context
without tokens replaces it here.
"""

from __future__ import annotations

from broker_cy.security.authenticator import Authenticator, Busy, Mechanisms, Refused, State
from broker_cy.security.kerberos import PrincipalRules, RuleError
from broker_cy.security.sasl.gssapi import GssapiServer
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey
from tests.broker_cy.security.exchanges import FakeContext
from tests.fuzz.mutator import Mutator
from tests.fuzz.target import Target
from tests.fuzz.wire_targets import request_frame

SEPARATOR = b"\xfe"
LAYER = b"proof\x01\x00\x00\x00"
RULES = PrincipalRules(("RULE:[2:$1-$2](.*-admin)s/-admin//L", r"RULE:[1:$1.$0](.*\.Y)s/\./-/g", "DEFAULT"), "X")
WORDS = (b"ctx", b"proof", LAYER, SEPARATOR, b"/", b"@X", b"@Y", b"\\", b"admin")


class Refusal(Exception):
    """The input was refused, as most mutants are."""


def mutate_words(mutator: Mutator, data: bytes, other: bytes) -> bytes:
    """Half of the time insert a word that has a meaning."""
    r = mutator.bits(40)
    if r & 1:
        return bytes(mutator.mutate(data, other))
    at = (r >> 8) % (len(data) + 1)
    return data[:at] + WORDS[(r >> 24) % len(WORDS)] + data[at:]


def login_corpus() -> list[bytes]:
    """A form, then the tokens: 1 is in requests, 2 without an answer to the last token of the context, 4 with two."""
    found = []
    for form in range(8):
        for layer in (LAYER, LAYER + b"alice@X"):
            tokens = [b"ctx"] * (1 + (form >> 2 & 1)) + ([] if form & 2 else [b""]) + [layer]
            found.append(bytes([form]) + SEPARATOR.join(tokens))
    return found


def run_login(data: bytes) -> None:
    """A client that is logged in has completed the context, and has proved it for the offered layer."""
    form = data[0] if data else 0
    context = FakeContext(1 + (form >> 2 & 1), speaks_last=not form & 2)
    begin = {"GSSAPI": lambda: GssapiServer(lambda: context, RULES.user_of)}
    of = Authenticator(Mechanisms(begin, {}), lambda version, request: messages.ApiVersionsResponse())
    of.take(request_frame(ApiKey.SASL_HANDSHAKE, form & 1, messages.SaslHandshakeRequest(mechanism="GSSAPI")), 0)
    for token in data[1:].split(SEPARATOR)[:8]:
        frame = token
        if form & 1:
            frame = request_frame(ApiKey.SASL_AUTHENTICATE, 2, messages.SaslAuthenticateRequest(auth_bytes=token))
        outcome = of.take(frame, 0)
        if isinstance(outcome, Busy):
            assert of.state is State.BUSY
            outcome = of.finish(outcome.run())
        if isinstance(outcome, Refused):
            assert of.session is None
            raise Refusal
        if of.session is not None:
            assert context.is_complete
            assert context.taken
            assert token.startswith(LAYER[:6])
            assert of.session.user == "alice"
            return
    assert of.session is None


def names_corpus() -> list[bytes]:
    return [b"alice@X", b"Carol/admin@X", b"a.b@Y", b"kafka/host.example.com@X", b"a\\/b@X", b"a\\@X@X"]


def run_names(data: bytes) -> None:
    """A user has a plain name, from a principal of a realm with rules, without a quoted part."""
    principal = data.decode("latin-1")
    user = RULES.user_of(principal)
    assert user
    assert not set(user) & {"/", "@", "\\"}
    primary, _, realm = principal.rpartition("@")
    assert realm in ("X", "Y") or primary.endswith("/admin")
    assert set(user.lower()) <= set(principal.lower()) | {"-"}


TARGETS = {
    target.name: target
    for target in (
        Target("gssapi_login", login_corpus, run_login, (Refusal,), 10_000, mutate_words),
        Target("kerberos_names", names_corpus, run_names, (RuleError,), 10_000, mutate_words),
    )
}
