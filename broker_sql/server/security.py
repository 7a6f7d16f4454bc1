"""Logins of clients: a user and a password with each request (RFC 7617), if the settings ask for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.config_def.types import ConfigError
from broker_cy.http.logins import Delayed, Logins, NotLoggedIn, Unchecked
from broker_cy.http.password_file import PasswordFile
from broker_sql.server.config import USERS_FILE, Login
from broker_sql.server.errors import ApiError, Code


class Guard:
    """Identifies clients. `now_s` is a monotonic clock, `wall_s` seconds since 1970."""

    def __init__(self, login: Login, *, now_s: Callable[[], float], wall_s: Callable[[], float]) -> None:
        """Raises ClientError if the file of users cannot be used."""
        self._login = login
        self._skipped = {tuple(each.strip("/").split("/")) for each in login.skip_paths}
        self._logins: Logins | None = None
        if login.users_file is not None:
            try:
                users = PasswordFile(login.users_file, now_s)
            except ConfigError as error:
                raise ClientError(Failure.INVALID, str(error), what=USERS_FILE) from None
            self._logins = Logins(users, None, now_s=now_s, wall_s=wall_s)

    async def user_of(self, segments: tuple[str, ...], authorization: Sequence[bytes], address: str) -> str | None:
        """Return the name of the client; None if no login is needed. Raises ApiError."""
        if self._logins is None or segments in self._skipped:
            return None
        try:
            user = await self._logins.user_of(authorization, address)
        except NotLoggedIn:
            raise self._unauthorized() from None
        except Delayed as error:
            wait = (b"retry-after", str(error.wait_s).encode())
            raise ApiError(Code.TOO_MANY_REQUESTS, f"Too many logins: {error}", headers=[wait]) from None
        except Unchecked as error:
            raise ApiError(Code.NOT_READY, f"The login cannot be checked: {error}") from None
        if self._login.roles and not self._login.roles & user.roles:
            raise ApiError(Code.FORBIDDEN, f"User {user.name} has none of the roles in authentication.roles")
        return user.name

    def _unauthorized(self) -> ApiError:
        realm = self._login.realm.replace("\\", "\\\\").replace('"', '\\"')
        challenge = (b"www-authenticate", f'Basic realm="{realm}", charset="UTF-8"'.encode())
        return ApiError(Code.UNAUTHORIZED, "Unauthorized", headers=[challenge])
