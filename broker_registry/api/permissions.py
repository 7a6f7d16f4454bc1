"""The permission that each route needs. The names are those of Kafka's operations on the topic of the subject:

    Describe    read schemas, settings and modes; look a schema up; check one
    Write       register
    Delete      delete versions and subjects
    Alter       change settings and modes

Settings, modes and deletions of a context or of the registry need the same on the cluster, and so does the mode IMPORT
of a subject: ids are shared by all subjects of a context, and an import chooses them.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_cy.security.acls import Operation
from broker_registry.api.requests import Request
from broker_registry.subject_names import normalized

Permission = Callable[[Request], None]
"""Raises RegistryError unless the client may send the request."""


def anyone(request: Request) -> None:
    """For routes that tell nothing about subjects."""


def listed(request: Request) -> None:
    """For routes whose handlers leave out what the client may not see."""


def reads(request: Request) -> None:
    _require(request, Operation.DESCRIBE)


def registers(request: Request) -> None:
    _require(request, Operation.WRITE)


def deletes(request: Request) -> None:
    _require(request, Operation.DELETE)


def alters(request: Request) -> None:
    _require(request, Operation.ALTER)


def alters_registry(request: Request) -> None:
    request.access.require(Operation.ALTER, None)


def _require(request: Request, operation: Operation) -> None:
    subject = request.path.get("subject")
    request.access.require(operation, None if subject is None else normalized(subject), request.asked)
