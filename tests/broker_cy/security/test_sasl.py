"""SASL exchanges: both halves, and each way in which a peer may try to get in without the password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
from collections.abc import Callable

import pytest

from broker_cy.core import scram as scram_keys
from broker_cy.security.sasl.exchange import Challenge, Done, Failed, Login, LoginFailed, Passwords, shown
from broker_cy.security.sasl.scram import Credential, Decoys, SaltedPasswords, ScramClient, ScramServer, Token
from tests.broker_cy.security.exchanges import CREDENTIALS, MORE, NONCE, SALT, USERS, client, mechanism, run, server

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SCRAMS = MECHANISMS[1:]


@pytest.mark.parametrize(("name", "user"), list(itertools.product(MECHANISMS, USERS)))
def test_a_user_with_the_password_is_let_in(name: str, user: str) -> None:
    """If this fails, a user cannot log in."""
    at_client = client(name, user, USERS[user])
    done = run(server(name), at_client)
    assert isinstance(done, Done)
    assert done.user == user
    assert at_client.step(done.token) is None
    assert at_client.is_complete


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize(
    ("user", "password"), [("alice", "alice-secre"), ("alice", "alice-secret2"), ("mallory", "x"), ("alice", "\0")]
)
def test_nobody_else_is(name: str, user: str, password: str) -> None:
    """If this fails, a user gets in with a wrong password."""
    if name == "PLAIN" and password == "\0":
        return
    assert isinstance(run(server(name), client(name, user, password)), Failed)


def test_an_empty_password_is_no_password() -> None:
    """If this fails, an unknown user gets in, whose password is compared with none."""
    for token in (b"\0mallory\0", b"\0\0", b"\0\0x", b"mallory\0\0"):
        assert isinstance(server("PLAIN").step(token), Failed)


# Kafka's texts (PlainSaslServer); the first of two users exists, the other does not.
@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0\0alice-secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0alice-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0alice-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\xff\0x", "Invalid SASL/PLAIN response: it is not UTF-8"),
        (b"\0a\0" + b"x" * 5_000, "Invalid SASL/PLAIN response: it is too long"),
    ],
)
def test_texts_of_plain(token: bytes, text: str) -> None:
    """If this fails, clients see another reason than with Kafka, or one that names which part was wrong."""
    failed = server("PLAIN").step(token)
    assert isinstance(failed, Failed)
    assert failed.text == text
    assert "secret" not in failed.reason


def test_the_own_name_as_authorization_id() -> None:
    """If this fails, clients that send their name twice cannot log in."""
    done = server("PLAIN").step(b"alice\0alice\0alice-secret")
    assert done == Done(b"", "alice")
    with_name = f"n,a=alice,n=alice,r={NONCE}".encode()
    assert isinstance(server("SCRAM-SHA-256").step(with_name), Challenge)


def test_the_comparison_of_passwords_takes_the_same_work_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, response times reveal a password character by character, or existing users (CVE-2021-38153)."""
    compared: list[tuple[int, int]] = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for password in ("a", "alice-secre", "alice-secret", "x" * 500):
        for user in ("alice", "mallory"):
            server("PLAIN").step(f"\0{user}\0{password}".encode())
    assert set(compared) == {(64, 64)}
    assert len(compared) == 8
    per_user = {}
    for user in ("alice", "mallory"):
        compared.clear()
        run(server("SCRAM-SHA-512"), client("SCRAM-SHA-512", user, "wrong"))
        per_user[user] = list(compared)
    assert per_user["alice"] == per_user["mallory"]
    assert per_user["alice"][-1] == (64, 64)


# --- SCRAM


def first_of(user: str, extensions: str = "") -> bytes:
    return f"n,,n={user},r={NONCE}{extensions}".encode()


def challenge_of(token: bytes, name: str = "SCRAM-SHA-256") -> tuple[ScramServer, str]:
    at_server = server(name)
    assert isinstance(at_server, ScramServer)
    step = at_server.step(token)
    assert isinstance(step, Challenge), step
    return at_server, step.token.decode()


def final_of(first: bytes, challenge: str, head: str, nonce: str, password: str = USERS["alice"]) -> bytes:
    """Return the third message with a correct proof for its content."""
    kind = mechanism("SCRAM-SHA-256")
    keys = scram_keys.salted_password(kind, password, SALT, 4_096)
    client_key = hmac.digest(keys, b"Client Key", "sha256")
    unproved = f"{head},r={nonce}"
    everything = ",".join((first.decode().split(",", 2)[2], challenge, unproved)).encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), everything, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{unproved},p={base64.b64encode(proof).decode()}".encode()


def test_the_test_can_log_in() -> None:
    """If this fails, the tests below prove nothing."""
    at_server, challenge = challenge_of(first_of("alice"))
    done = at_server.step(final_of(first_of("alice"), challenge, "c=biws", NONCE + MORE))
    assert isinstance(done, Done)


@pytest.mark.parametrize(
    "nonce",
    [
        NONCE,
        MORE,
        "x" + NONCE + MORE,  # Kafka accepted this: it only checked the end
        NONCE + MORE + "x",
        NONCE + "x" * len(MORE),
        (NONCE + MORE).lower(),
    ],
)
def test_the_nonce_is_compared(nonce: str) -> None:
    """If this fails, a recorded login works again (CVE-2024-56128)."""
    at_server, challenge = challenge_of(first_of("alice"))
    failed = at_server.step(final_of(first_of("alice"), challenge, "c=biws", nonce))
    assert failed == Failed("another nonce than that of this exchange", "alice")
    assert isinstance(at_server.step(final_of(first_of("alice"), challenge, "c=biws", NONCE + MORE)), Failed)


def test_a_recorded_login_is_of_no_use() -> None:
    """If this fails, an attacker who records a login can replay it and log in as that user."""
    at_server, challenge = challenge_of(first_of("alice"))
    final = final_of(first_of("alice"), challenge, "c=biws", NONCE + MORE)
    assert isinstance(at_server.step(final), Done)
    assert isinstance(at_server.step(final), Failed)
    other = server("SCRAM-SHA-256", "another-nonce-of-the-server")
    assert isinstance(other.step(first_of("alice")), Challenge)
    assert isinstance(other.step(final), Failed)


@pytest.mark.parametrize("head", ["c=eSws", "c=", "c=biwsYT1hbGljZSw=", "d=biws", "c=biws "])
def test_the_channel_binding_is_compared(head: str) -> None:
    """If this fails, a client that assumes another kind of connection goes unnoticed."""
    at_server, challenge = challenge_of(first_of("alice"))
    assert isinstance(at_server.step(final_of(first_of("alice"), challenge, head, NONCE + MORE)), Failed)


@pytest.mark.parametrize(
    "token",
    [
        b"", b"n", b"n,,", b"n,,n=alice", b"n,,r=x,n=alice", b"y,,n=alice,r=x", b"p=tls-unique,,n=alice,r=x",
        b"n,,n=,r=x", b"n,,n=alice,r=", b"n,,n=a=b,r=x", b"n,,n=a=2c,r=x", b"n,,m=x,n=alice,r=x", b"n,,n=alice,r=x y",
        b"n,,n=alice,r=x,", b"n,,n=alice,r=x,1=2", b"n,,n=alice,r=x,ext", b"n,x,n=alice,r=x", b"n,a=,n=alice,r=x",
        b"n,,n=ali\0ce,r=x", b"n,,n=\xff,r=x", b"n,,n=alice,r=" + b"x" * 9_000,
    ],
)  # fmt: skip
def test_malformed_first_messages_are_refused(token: bytes) -> None:
    """If this fails, a malformed message is parsed as a user name."""
    step = server("SCRAM-SHA-256").step(token)
    assert isinstance(step, Failed)
    assert step.text is None


@pytest.mark.parametrize(
    "bad", ["", "c=biws", "c=biws,r={0}", "c=biws,r={0},p=", "c=biws,r={0},p=AAAA", "c=biws,r={0},p=!"]
)
def test_malformed_third_messages_are_refused(bad: str) -> None:
    """If this fails, a login without a proof succeeds."""
    at_server, _ = challenge_of(first_of("alice"))
    step = at_server.step(bad.format(NONCE + MORE).encode())
    assert isinstance(step, Failed)
    assert step.text is None


def test_another_name_than_the_own_is_refused() -> None:
    """If this fails, a user acts as another one; and the answer must not say which of them exists."""
    for user in ("alice", "mallory"):
        step = server("SCRAM-SHA-256").step(f"n,a=admin,n={user},r=x".encode())
        assert isinstance(step, Failed)
        assert (
            step.text == "Authentication failed: Client requested an authorization id that is different from username"
        )


TOKEN_HMAC = "aGVsbG8="
EXPIRES_MS = 5_000


def with_tokens(name: str = "SCRAM-SHA-256") -> ScramServer:
    """A server with one token, `id` of bob."""
    kind = mechanism(name)

    def find(token_id: str, salt: bytes) -> Token | None:
        if token_id != "id":
            return None
        keys = scram_keys.keys_of(kind, scram_keys.salted_password(kind, TOKEN_HMAC, salt, 4_096))
        return Token(Credential(salt, 4_096, keys), "bob", EXPIRES_MS)

    return ScramServer(kind, lambda user: CREDENTIALS.get((name, user)), Decoys(b"x"), MORE, find)


def token_client(name: str, token_id: str, password: str) -> ScramClient:
    return ScramClient(mechanism(name), SaltedPasswords(Login(name, token_id, password, is_token=True)), NONCE)


@pytest.mark.parametrize("name", SCRAMS)
def test_a_delegation_token_is_its_owner(name: str) -> None:
    """If this fails, a client with a token cannot log in, acts as another principal, or stays logged in forever."""
    step = run(with_tokens(name), token_client(name, "id", TOKEN_HMAC))
    assert isinstance(step, Done)
    assert (step.user, step.expires_ms, step.token_id) == ("bob", EXPIRES_MS, "id")


def test_tokens_and_users_are_apart() -> None:
    """If this fails, the HMAC of a token is accepted as the password of a user with its name, or the reverse; or a
    server accepts a token that it does not know.
    """
    name = "SCRAM-SHA-256"
    wrong = Failed("unknown user or wrong password", "id")
    assert run(with_tokens(), client(name, "id", TOKEN_HMAC)) == wrong
    assert run(with_tokens(), token_client(name, "id", "wrong")) == wrong
    assert run(with_tokens(), token_client(name, "other", TOKEN_HMAC)) == wrong._replace(user="other")
    assert run(with_tokens(), token_client(name, "alice", "alice-secret")) == wrong._replace(user="alice")
    assert run(server(name), token_client(name, "id", TOKEN_HMAC)) == wrong
    for extension in (",tokenauth=false", ",other=1"):
        assert isinstance(server(name).step(first_of("alice", extension)), Challenge)


def test_unknown_tokens_cannot_be_told_from_others() -> None:
    """If this fails, any client can find out whether a token still exists."""
    firsts = []
    for at_server in (with_tokens(), ScramServer(mechanism("SCRAM-SHA-256"), CREDENTIALS.get, Decoys(b"x"), MORE)):  # type: ignore[arg-type]
        step = at_server.step(first_of("id", ",tokenauth=TRUE"))
        assert isinstance(step, Challenge)
        firsts.append(step.token)
    assert firsts[0] == firsts[1]


@pytest.mark.parametrize("name", SCRAMS)
def test_unknown_users_cannot_be_told_from_others(name: str) -> None:
    """If this fails, any client can find out which users exist."""
    challenges = {}
    for user in ("alice", "mallory", "trudy"):
        _, challenges[user] = challenge_of(first_of(user), name)
        assert challenge_of(first_of(user), name)[1] == challenges[user], "the same each time"
        failed = run(server(name), client(name, user, "wrong"))
        assert failed == Failed("unknown user or wrong password", user)
    forms = {tuple((field[:2], len(field) // 4) for field in text.split(",")) for text in challenges.values()}
    assert len(forms) == 1, challenges
    assert len(set(challenges.values())) == 3
    # Kafka makes salts of digits and small letters.
    for text in challenges.values():
        assert base64.b64decode(text.split(",")[1][2:]).isalnum()


def test_decoys_are_those_of_the_cluster() -> None:
    """If this fails, a second broker, or a restart, reveals which users do not exist; or another cluster's decoys are
    known.
    """
    kind = mechanism("SCRAM-SHA-256")
    assert Decoys(b"a").of(kind, "x") == Decoys(b"a").of(kind, "x")
    assert Decoys(b"a").of(kind, "x").salt != Decoys(b"b").of(kind, "x").salt
    assert Decoys(b"a").of(kind, "x").salt != Decoys(b"a").of(mechanism("SCRAM-SHA-512"), "x").salt
    decoys = Decoys(b"a")
    decoys.iterations[kind.name] = 8_192
    assert decoys.of(kind, "x").iterations == 8_192


def test_weak_credentials_are_no_credentials() -> None:
    """If this fails, a credential that was made with little work lets a client in, which Kafka refuses."""
    kind = mechanism("SCRAM-SHA-256")
    keys = scram_keys.keys_of(kind, scram_keys.salted_password(kind, "x", SALT, 4_095))
    weak = ScramServer(kind, lambda user: Credential(SALT, 4_095, keys), Decoys(b""), MORE)
    step = weak.step(first_of("alice"))
    assert isinstance(step, Challenge)
    assert step.token.endswith(b",i=4096")


Change = Callable[[str], str]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda text: text.replace("r=", "r=x"), "another nonce"),
        (lambda text: text.replace(MORE, ""), "another nonce"),
        (lambda text: text.replace("i=4096", "i=4095"), "4095 iterations"),
        (lambda text: text.replace("i=4096", "i=262145"), "262145 iterations"),
        (lambda text: text.replace("i=4096", "i=" + "9" * 5_000), "invalid SCRAM message"),
        (lambda text: text.replace("i=4096", "i=-1"), "invalid SCRAM message"),
        (lambda text: text.replace("s=", "s=!"), "invalid SCRAM message"),
        (lambda text: "m=x," + text, "invalid SCRAM message"),
        (lambda text: "e=unknown-user", "invalid SCRAM message"),
        (lambda text: "x" * 9_000, "invalid SCRAM message"),
    ],
)
def test_clients_refuse_other_challenges(change: Change, error: str) -> None:
    """If this fails, a false server gets a proof that is quickly guessed, or keeps a client busy."""
    at_client = client("SCRAM-SHA-256", "alice", USERS["alice"])
    _, challenge = challenge_of(at_client.first())
    with pytest.raises(LoginFailed, match=error):
        at_client.step(change(challenge).encode())


@pytest.mark.parametrize("answer", [b"", b"v=", b"v=AAAA", b"e=other-error", b"x", b"v=" + base64.b64encode(b"x" * 32)])
def test_clients_refuse_servers_that_do_not_know_the_password(answer: bytes) -> None:
    """If this fails, a client sends its records to any server that answers."""
    at_client = client("SCRAM-SHA-256", "alice", USERS["alice"])
    _, challenge = challenge_of(at_client.first())
    assert at_client.step(challenge.encode()) is not None
    with pytest.raises(LoginFailed):
        at_client.step(answer)
    assert not at_client.is_complete


def test_salted_passwords_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker that connects to many others spends its time on hashes; or it keeps each that it made."""
    kind = mechanism("SCRAM-SHA-512")
    salted = SaltedPasswords(Login(kind.name, "alice", USERS["alice"]))
    count = 0
    real = scram_keys.salted_password

    def counted(*arguments: object) -> bytes:
        nonlocal count
        count += 1
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(scram_keys, "salted_password", counted)
    for number in range(3):
        at_client = ScramClient(kind, salted, f"{NONCE}{number}")
        assert isinstance(run(server(kind.name), at_client), Done)
    assert count == 1
    for number in range(20):
        salted.of(kind, str(number).encode(), 4_096)
    assert "8" in repr(salted)


def test_nothing_shows_a_secret() -> None:
    """If this fails, a log line or a traceback contains a password or something equivalent."""
    at_server, _ = challenge_of(first_of("alice"))
    shown_texts = [
        repr(at_server), repr(server("PLAIN")), repr(Passwords(USERS)), repr(Login("PLAIN", "alice", "alice-secret")),
        repr(CREDENTIALS[("SCRAM-SHA-256", "alice")]),
    ]  # fmt: skip
    for text in shown_texts:
        assert "secret" not in text
        assert "\\x" not in text


def test_names_of_clients_are_bounded_in_logs() -> None:
    """If this fails, a client writes lines of its own into the log, or fills it."""
    assert shown("alice") == "alice"
    assert shown("a\nb\x1b[31m") == "a?b?[31m"
    assert len(shown("x" * 10_000)) < 110
