"""A client of the REST API of a schema registry: ours, Confluent's, or one that is compatible with it.

Each request has a connection of its own. URLs are tried in turn until one can be reached; a request that may have been
performed is not repeated, unless it only reads. Schemas by id and by GUID never change, and are kept.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

from broker_cy.client.errors import ClientError, Failure, network_reason
from broker_cy.client.http_exchange import HttpAnswer, Unanswered, exchange
from broker_registry.client_settings import RegistrySettings, RegistryUrl
from broker_registry.errors import Code
from broker_registry.kept import Kept
from broker_registry.schema_types.base import Kind, Reference

T = TypeVar("T")

ANSWER_BYTES_MAX: Final = 256 << 20
"""The largest answer: a page of the largest schemas that a registry stores by default."""
CACHE_BYTES_MAX: Final = 32 << 20
"""The texts of the schemas that a client keeps."""
PAGE: Final = 200
"""Schemas in one answer to a listing."""
_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND: Final = frozenset(
    (
        HTTPStatus.NOT_FOUND,
        Code.SUBJECT_NOT_FOUND,
        Code.VERSION_NOT_FOUND,
        Code.SCHEMA_NOT_FOUND,
        Code.SUBJECT_COMPATIBILITY_NOT_CONFIGURED,
        Code.SUBJECT_MODE_NOT_CONFIGURED,
    )
)
LATEST: Final = "latest"


class Refused(ClientError):
    """The registry answered with an error. `status` is HTTP's, `error_code` that of the registry (errors.Code)."""

    def __init__(self, status: int, error_code: int, message: str, what: str) -> None:
        super().__init__(Failure.REFUSED, f"{message} (error code {error_code})", what=what)
        self.status = status
        self.error_code = error_code

    @property
    def is_not_found(self) -> bool:
        return self.error_code in _NOT_FOUND


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as requests have it. `more` are its metadata and rules, as the registry has them."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def members(self) -> dict[str, Any]:
        found: dict[str, Any] = {"schema": self.text, **self.more}
        if self.kind != Kind.AVRO.value:
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version} for each in self.references
            ]
        return found


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a subject. `guid` is None if the registry has none: it is older than Confluent's 8."""

    subject: str
    version: int
    id: int
    guid: str | None
    schema: Schema
    is_deleted: bool = False


class Check(NamedTuple):
    """The answer to a check of compatibility."""

    is_compatible: bool
    messages: tuple[str, ...]


def _schema(found: Mapping[str, Any]) -> Schema:
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in found.get("references") or ()
    )
    more = {name: found[name] for name in ("metadata", "ruleSet") if found.get(name) is not None}
    return Schema(found.get("schemaType") or Kind.AVRO.value, str(found["schema"]), references, more)


def _version(found: Mapping[str, Any]) -> Version:
    place = str(found["subject"]), int(found["version"]), int(found["id"])
    return Version(*place, found.get("guid"), _schema(found), bool(found.get("deleted", False)))


class RegistryClient:
    """Calls of the API. They raise Refused for an error that the registry answers, and ClientError otherwise."""

    def __init__(self, settings: RegistrySettings, cache_bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._settings = settings
        self._kept: Kept[tuple[str, str], Schema] = Kept(cache_bytes_max)

    @property
    def name(self) -> str:
        """The addresses, for messages."""
        return ",".join(each.text for each in self._settings.urls)

    async def schema_of(self, schema_id: int, subject: str | None = None) -> Schema:
        """Return the schema with an id, in the context of `subject` if it is given."""
        query = {} if subject is None else {"subject": subject}
        return await self._immutable(f"/schemas/ids/{schema_id}", query)

    async def schema_of_guid(self, guid: UUID) -> Schema:
        return await self._immutable(f"/schemas/guids/{guid}", {})

    async def places_of(self, schema_id: int) -> list[tuple[str, int]]:
        """Return the subjects that have the schema with an id, each with its version."""
        return await self._read(f"/schemas/ids/{schema_id}/versions", _places)

    async def _immutable(self, path: str, query: Mapping[str, str]) -> Schema:
        key = path, query.get("subject", "")
        found = self._kept.get(key)
        if found is None:
            # References name their contexts: the id alone does not.
            found = await self._read(path, _schema, referenceFormat="qualified", **query)
            self._kept.put(key, found, len(found.text))
        return found

    async def subjects(self, prefix: str | None = None, *, deleted: bool = False) -> list[str]:
        """Return the subjects with a prefix; without one, those of all contexts."""
        query = {} if prefix is None else {"subjectPrefix": prefix}
        found: list[str] = await self._read("/subjects", list, deleted=_flag(deleted), **query)
        return found

    async def listed(
        self, prefix: str | None = None, *, latest_only: bool = False, deleted: bool = False
    ) -> AsyncIterator[Version]:
        """Yield versions in the order of subjects and versions."""
        query = {} if prefix is None else {"subjectPrefix": prefix}
        query |= {"latestOnly": _flag(latest_only), "deleted": _flag(deleted), "limit": str(PAGE)}
        offset = 0
        while True:
            page = await self._read(
                "/schemas", lambda found: [_version(each) for each in found], offset=offset, **query
            )
            for each in page:
                yield each
            if len(page) < PAGE:
                return
            offset += len(page)

    async def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        found: list[int] = await self._read(f"{_path(subject)}/versions", list, deleted=_flag(deleted))
        return found

    async def version(self, subject: str, version: int | str = LATEST, *, deleted: bool = False) -> Version:
        return await self._read(f"{_path(subject)}/versions/{version}", _version, deleted=_flag(deleted))

    async def referrers(self, subject: str, version: int) -> list[int]:
        """Return the ids of schemas that refer to a version."""
        found: list[int] = await self._read(f"{_path(subject)}/versions/{version}/referencedby", list)
        return found

    async def register(
        self, subject: str, schema: Schema, *, normalizes: bool = False, place: tuple[int, int] | None = None
    ) -> int:
        """Return the id. `place` is the id and the version that an import keeps."""
        members = schema.members()
        if place is not None:
            members |= {"id": place[0], "version": place[1]}
        path = f"{_path(subject)}/versions"
        return await self._change("POST", path, members, _id, normalize=_flag(normalizes))

    async def look_up(self, subject: str, schema: Schema, *, normalizes: bool = False) -> Version:
        """Return the version of a subject that has this schema."""
        return await self._change("POST", _path(subject), schema.members(), _version, normalize=_flag(normalizes))

    async def check(self, subject: str, schema: Schema, version: int | str | None = None) -> Check:
        """Check a schema against a version; without one, against those that the level of the subject names."""
        path = f"/compatibility{_path(subject)}/versions" + ("" if version is None else f"/{version}")
        return await self._change("POST", path, schema.members(), _check, verbose="true")

    async def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        """Return the versions that were deleted."""
        found: list[int] = await self._change("DELETE", _path(subject), None, list, permanent=_flag(permanent))
        return found

    async def delete_version(self, subject: str, version: int, *, permanent: bool = False) -> int:
        path = f"{_path(subject)}/versions/{version}"
        return await self._change("DELETE", path, None, int, permanent=_flag(permanent))

    async def config(self, subject: str) -> dict[str, Any]:
        """Return the settings that apply to a subject, its own and those of its context and of the registry."""
        path = f"/config/{quote(subject, safe='')}"
        found: dict[str, Any] = await self._read(path, dict, defaultToGlobal="true")
        return found

    async def own_config(self, subject: str | None) -> dict[str, Any] | None:
        """Return the settings of a subject or context itself, None without; of the registry for None."""
        return await self._own(f"/config{_of(subject)}", lambda found: {**found})

    async def set_config(self, subject: str | None, config: Mapping[str, Any]) -> None:
        """Set the settings that `config` has, by the names of `own_config`."""
        members = dict(config)
        if "compatibilityLevel" in members:
            members["compatibility"] = members.pop("compatibilityLevel")
        await self._change("PUT", f"/config{_of(subject)}", members, lambda found: None)

    async def mode(self, subject: str) -> str | None:
        """Return the mode of a subject or context itself; None without one."""
        return await self._own(f"/mode{_of(subject)}", lambda found: str(found["mode"]))

    async def _own(self, path: str, convert: Callable[[Any], T]) -> T | None:
        try:
            return await self._read(path, convert)
        except Refused as error:
            if error.is_not_found:
                return None
            raise

    async def mode_in_effect(self, subject: str) -> str:
        """Return the mode that applies to a subject: its own, or that of its context or of the registry."""
        path = f"/mode/{quote(subject, safe='')}"
        return str(await self._read(path, lambda found: found["mode"], defaultToGlobal="true"))

    async def set_mode(self, subject: str, mode: str | None, *, forced: bool = False) -> None:
        """Set the mode of a subject; None removes it."""
        path = f"/mode/{quote(subject, safe='')}"
        if mode is None:
            await self._change("DELETE", path, None, lambda found: None)
        else:
            await self._change("PUT", path, {"mode": mode}, lambda found: None, force=_flag(forced))

    # --- requests

    async def _read(self, path: str, convert: Callable[[Any], T], **query: Any) -> T:
        return await self._call("GET", path, None, convert, query)

    async def _change(self, method: str, path: str, body: Any, convert: Callable[[Any], T], **query: Any) -> T:
        return await self._call(method, path, body, convert, query)

    async def _call(
        self, method: str, path: str, body: Any, convert: Callable[[Any], T], query: Mapping[str, Any]
    ) -> T:
        """Return the value of an answer, which `convert` takes out of the JSON."""
        target = path + ("?" + urlencode(query) if query else "")
        what = f"{method} {path}"
        answer, url = await self._reached(method, target, b"" if body is None else json.dumps(body).encode())
        try:
            found = json.loads(answer.body or b"null")
        except ValueError:
            found = None
        if answer.status != HTTPStatus.OK:
            raise _refused(answer.status, found, what)
        try:
            return convert(found)
        except (KeyError, TypeError, ValueError):
            reason = f"{url.text} answered what no schema registry answers"
            raise ClientError(Failure.MALFORMED, reason, what=what) from None

    async def _reached(self, method: str, target: str, body: bytes) -> tuple[HttpAnswer, RegistryUrl]:
        headers = [("Accept", f"{_TYPE}, application/json")]
        if body:
            headers.append(("Content-Type", _TYPE))
        if self._settings.authorization is not None:
            headers.append(("Authorization", self._settings.authorization))
        problems = []
        failure = Failure.UNREACHABLE
        for url in self._settings.urls:
            try:
                async with asyncio.timeout(self._settings.timeout_s):
                    answer = await exchange(
                        url.address,
                        method,
                        url.path + target,
                        headers=headers,
                        body=body,
                        context=self._settings.context if url.is_tls else None,
                        answer_bytes_max=ANSWER_BYTES_MAX,
                    )
                return answer, url
            except TimeoutError:
                failure = Failure.TIMED_OUT
                problems.append(f"{url.text}: no answer within {self._settings.timeout_s:g} s")
            except OSError as error:
                problems.append(f"{url.text}: {_reason(error)}")
                continue
            except Unanswered as error:
                problems.append(f"{url.text}: {error}")
            except ValueError as error:
                raise ClientError(Failure.MALFORMED, str(error), what=url.text) from None
            if method != "GET":
                # The request may have been performed.
                break
        raise ClientError(failure, "; ".join(problems), what="the registry")


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    return network_reason(error)


def _refused(status: int, found: Any, what: str) -> Refused:
    if isinstance(found, dict) and isinstance(found.get("error_code"), int):
        return Refused(status, found["error_code"], str(found.get("message", "")).rstrip("."), what)
    return Refused(status, status, "a login is needed" if status == HTTPStatus.UNAUTHORIZED else "refused", what)


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _of(subject: str | None) -> str:
    return "" if subject is None else f"/{quote(subject, safe='')}"


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _id(found: Mapping[str, Any]) -> int:
    return int(found["id"])


def _places(found: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    return [(str(each["subject"]), int(each["version"])) for each in found]


def _check(found: Mapping[str, Any]) -> Check:
    return Check(bool(found["is_compatible"]), tuple(map(str, found.get("messages") or ())))
