"""The logins of connections on listeners with SASL: they drive their authenticators (security.authenticator) with
frames, time and users.

Calls of Kerberos, which may block, run in threads (login_calls), and the connection is not read meanwhile. A connection
has one call, which is dropped with it if it still waits.

Bounds: `brokercy.authentication.timeout.ms` from the first byte to the end of a login, also of a second one; and
`connection.failed.authentication.delay.ms` from a failure to its answer; meanwhile the connection is not read.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import registrations
from broker_cy.client.login import WITHOUT_KERBEROS
from broker_cy.controller.scram_ops import SECRET, secret_of
from broker_cy.core import scram as scram_keys
from broker_cy.core.config_def.types import ConfigError
from broker_cy.metadata.image import SCRAM
from broker_cy.security.authenticator import Admitted, Answer, Authenticator, Busy, Mechanisms, Outcome, Refused
from broker_cy.security.jaas import GSSAPI, OAUTHBEARER, PLAIN
from broker_cy.security.sasl.exchange import Failed
from broker_cy.security.sasl.plain import PlainServer
from broker_cy.security.sasl.scram import NONCE_BYTES, Credential, Decoys, ScramServer, nonce_of
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import ModuleType

    from broker_cy.access.login_calls import LoginCall
    from broker_cy.access.tokens import Tokens
    from broker_cy.broker.broker import Broker
    from broker_cy.config.sasl import SaslListener
    from broker_cy.connections.connection import Connection
    from broker_cy.core.randomness import Randomness
    from broker_cy.core.scram import Mechanism
    from broker_cy.security.sasl.exchange import ServerExchange, ServerStep
    from broker_cy.wire import messages

# The largest age of the most common number of iterations, and of the decoys' secret if it comes from a user: both need
# a search of all users.
TYPICAL_S: Final = 60.0
_KEY_BYTES: Final = 32


class ScramUsers:
    """The credentials in the metadata image; a change applies from the next login on."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # The secret of the decoys while the metadata has none: without users, decoys protect no user name.
        self._no_secret = broker.randomness.take_bytes(_KEY_BYTES)
        self._secret = self._no_secret
        self._decoys = Decoys(self._secret)
        self._looked_s = -TYPICAL_S

    def find(self, mechanism: Mechanism, user: str) -> Credential | None:
        record = self._broker.image.kept.get((SCRAM, user, mechanism.type))
        if record is None:
            return None
        keys = scram_keys.Keys(record.stored_key, record.server_key)
        return Credential(record.salt, record.iterations, keys)

    def decoys(self) -> Decoys:
        """The decoys of this cluster, derived from a secret in its metadata (controller.scram_ops)."""
        kept = self._broker.image.kept
        own = kept.get(SECRET)
        now_s = self._broker.clock.monotonic()
        if now_s - self._looked_s >= TYPICAL_S:
            self._looked_s = now_s
            self._take(secret_of(kept) or self._no_secret)
            for mechanism in scram_keys.MECHANISMS:
                counts = Counter(
                    record.iterations
                    for key, record in kept.items()
                    if key[0] == SCRAM and key[2] == mechanism.type and key != SECRET
                )
                for iterations, _ in counts.most_common(1):
                    self._decoys.iterations[mechanism.name] = iterations
        elif own is not None:
            self._take(own.server_key)
        return self._decoys

    def _take(self, secret: bytes) -> None:
        if secret != self._secret:
            iterations = self._decoys.iterations
            self._secret, self._decoys = secret, Decoys(secret)
            self._decoys.iterations.update(iterations)


class Logins:
    """The logins of one listener."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        settings: SaslListener,
        users: ScramUsers,
        *,
        randomness: Randomness,
    ) -> None:
        config = broker.config
        self.broker = broker
        self.name = name
        self.counts = broker.login_counts
        self.receive_bytes_max = settings.receive_bytes_max
        self.delay_s = config["connection.failed.authentication.delay.ms"] / 1000
        self.timeout_s = config["brokercy.authentication.timeout.ms"] / 1000
        self._settings = settings
        self._users = users
        self._randomness = randomness
        self._key = randomness.take_bytes(_KEY_BYTES)
        self.mechanisms = Mechanisms(
            {mechanism: self._beginning(mechanism) for mechanism in settings.mechanisms}, settings.lifetime_ms
        )

    @property
    def tokens(self) -> Tokens:
        assert self.broker.tokens is not None  # there is a listener with SASL
        return self.broker.tokens

    def begin(self, connection: Connection) -> Login:
        return Login(self, connection)

    def _beginning(self, name: str) -> Callable[[], ServerExchange]:
        if name == PLAIN:
            return partial(PlainServer, self._settings.users, self._key)
        if name == OAUTHBEARER:
            return self._oauthbearer()
        if name == GSSAPI:
            return self._gssapi()
        mechanism = scram_keys.of_name(name)
        assert mechanism is not None  # config.sasl allows no others
        return partial(self._scram, mechanism)

    def _oauthbearer(self) -> Callable[[], ServerExchange]:
        """Reads the provider's keys, and blocks for that. Raises ConfigError."""
        try:
            from broker_cy.client.jwks import validator_of
            from broker_cy.security.sasl.oauthbearer import OAuthBearerServer
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"OAUTHBEARER needs the extra oauth: pip install 'broker-cy[oauth]' (missing: {error.name})"
            ) from None

        oauth = self._settings.oauth
        assert oauth is not None  # config.sasl demands it
        validator = validator_of(oauth, self.broker.loop, self.broker.clock.wall_ms)
        return partial(OAuthBearerServer, validator.validate)

    def _gssapi(self) -> Callable[[], ServerExchange]:
        """Reads the key file, and blocks for that. Raises ConfigError."""
        from broker_cy.security.kerberos import PrincipalRules, RuleError
        from broker_cy.security.sasl.gssapi import GssapiServer, GssError

        kerberos = kerberos_of_the_machine()
        settings = self._settings.kerberos
        assert settings is not None  # config.sasl demands it
        try:
            acceptor = kerberos.Acceptor(settings.login)
            rules = PrincipalRules(settings.rules, kerberos.default_realm())
        except GssError as error:
            raise ConfigError(f"listener {self.name}: GSSAPI: {error}") from None
        except RuleError as error:
            raise ConfigError(f"setting sasl.kerberos.principal.to.local.rules: {error}") from None
        return partial(GssapiServer, acceptor.begin, rules.user_of)

    def _scram(self, mechanism: Mechanism) -> ServerExchange:
        nonce = nonce_of(self._randomness.take_bytes(NONCE_BYTES))
        find, find_token = partial(self._users.find, mechanism), partial(self.tokens.find, mechanism)
        return ScramServer(mechanism, find, self._users.decoys(), nonce, find_token)


def kerberos_of_the_machine() -> ModuleType:
    """Raises ConfigError if its library is not installed."""
    try:
        from broker_cy.client import kerberos
    except ImportError as error:
        raise ConfigError(f"{WITHOUT_KERBEROS} ({error})") from None
    return kerberos


class Login:
    """The login of one connection, which calls it with each frame until it is logged in (Connection.logging_in)."""

    def __init__(self, logins: Logins, connection: Connection) -> None:
        self._logins = logins
        self._connection = connection
        self._loop: asyncio.AbstractEventLoop = logins.broker.loop
        self._authenticator = Authenticator(logins.mechanisms, self._versions)
        # The timer of the login's deadline, then of the session's end, or of the answer to a failure.
        self._timer: asyncio.TimerHandle | None = None
        self.has_expired = False
        # The id of the delegation token that the client has logged in with.
        self._token_id = ""
        # A call that runs in a thread, or waits for one.
        self._running: LoginCall | None = None
        self._wait()

    def take(self, data: bytes) -> None:
        """A frame, without its size."""
        self._do(self._authenticator.take(data, self._now_ns(), self._logins.broker.clock.wall_ms()))

    def _do(self, outcome: Outcome) -> None:
        if isinstance(outcome, Refused):
            self._refuse(outcome)
        elif isinstance(outcome, Answer):
            self._connection.answer_login(outcome.key, outcome.payload)
        elif isinstance(outcome, Admitted):
            self._admit(outcome)
        else:
            self._call(outcome)

    def _call(self, busy: Busy) -> None:
        self._running = self._logins.broker.login_calls.begin(busy.run, self._called)
        if self._running is None:
            self._do(self._authenticator.finish(Failed("too many logins wait for calls of Kerberos")))
            return
        self._connection.pause_login()

    def _called(self, step: ServerStep) -> None:
        self._running = None
        outcome = self._authenticator.finish(step, self._logins.broker.clock.wall_ms())
        self._connection.resume_login()
        self._do(outcome)

    def begins_again(self) -> bool:
        """Whether this client, whose SaslHandshake has arrived, logs in again (KIP-368); then that is taken next."""
        if not self._authenticator.may_begin_again(self._now_ns()):
            return False
        self._connection.begin_login(self._logins.receive_bytes_max)
        self._wait()
        return True

    def expired(self) -> None:
        """The connection ends, because the session has."""
        self._logins.counts.expired[self._logins.name] += 1

    def closed(self) -> None:
        """The connection has ended."""
        self._stop_timer()
        self._leave_token()
        if self._running is not None:
            self._running.drop()

    def end_by(self, expires_ms: int | None) -> None:
        """See tokens.TokenSession. A session does not become longer: clients log in again for that."""
        session = self._authenticator.session
        if session is None or self._timer is None or self._connection.logging_in:
            return
        left_s = 0.0 if expires_ms is None else (expires_ms - self._logins.broker.clock.wall_ms()) / 1000
        if self._loop.time() + left_s < self._timer.when():
            self._set_timer(max(left_s, 0.0), self._expire)

    def _leave_token(self) -> None:
        if self._token_id:
            self._logins.tokens.ended(self._token_id, self)
            self._token_id = ""

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _admit(self, outcome: Admitted) -> None:
        session = outcome.session
        self._logins.counts.successes[self._logins.name, outcome.again] += 1
        self.has_expired = False
        self._connection.admit(session.principal, bool(session.token_id))
        self._connection.answer_login(outcome.key, outcome.payload)
        self._set_timer(session.lifetime_ms / 1000 if session.lifetime_ms else None, self._expire)
        self._leave_token()
        if session.token_id and not self._connection.closed:
            self._token_id = session.token_id
            self._logins.tokens.begin(session.token_id, self)

    def _refuse(self, outcome: Refused) -> None:
        connection, logins = self._connection, self._logins
        logins.counts.failures[logins.name, outcome.again] += 1
        host, again = connection.client_host, outcome.again
        what = (outcome.mechanism, outcome.user, outcome.reason)
        logins.broker.log_events.login_failed(logins.name, host, connection.client_port, *what, again=again)
        logins.broker.denials.login_failed(logins.name, host, *what, again=again)
        if not outcome.is_delayed:
            connection.close()
            return
        connection.pause_login()
        end = partial(connection.end_refused, outcome.key, outcome.payload)
        self._set_timer(logins.delay_s, end)

    def _expire(self) -> None:
        self.has_expired = True
        self._connection.expire()

    def _wait(self) -> None:
        self._set_timer(self._logins.timeout_s, self._overdue)

    def _overdue(self) -> None:
        session = self._authenticator.session
        self._refuse(Refused(-1, b"", "no login in time", is_delayed=False, again=session is not None))

    def _set_timer(self, after_s: float | None, call: Callable[[], None]) -> None:
        self._stop_timer()
        if after_s is not None and not self._connection.closed:
            self._timer = self._loop.call_later(after_s, call)

    def _now_ns(self) -> int:
        return self._logins.broker.clock.monotonic_ns()

    def _versions(self, version: int, request: messages.ApiVersionsRequest | None) -> messages.ApiVersionsResponse:
        connection = self._connection
        context = RequestContext(
            self._logins.broker,
            ApiKey.API_VERSIONS,
            version,
            None,
            connection.client_host,
            connection.listener,
            connection.connection_id,
        )
        response: messages.ApiVersionsResponse = registrations()[ApiKey.API_VERSIONS].function(context, request)
        return response
