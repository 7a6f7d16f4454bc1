"""Shared parts of the commands: the options for the registry, and running the body of a command with a client."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec

import click

from broker_cy.admin import ClientError, Failure
from broker_cy.client import options
from broker_cy.client.clusters import REGISTRY_VARIABLE, select
from broker_cy.client.program import exit_code_of
from broker_cy.commands.context import run_job
from broker_cy.commands.output import print_error
from broker_cy.core import extras
from broker_registry.client import RegistryClient, Schema
from broker_registry.client_settings import DEFAULT_URL, settings_of
from broker_registry.schema_types.base import TEXT_BYTES_MAX, Kind, Reference

P = ParamSpec("P")

PROGRAM: Final = "broker-cy schemas"
LIBRARIES: Final = ("fastavro", "jsonschema_rs", "orjson")
"""Libraries of the extra `registry` that parse schemas."""
# These commands need a registry, other programs have none by default.
_DEFAULT: Final = {
    "help": f"Registries to try in turn.  [default: ${REGISTRY_VARIABLE}, or {DEFAULT_URL}]",
}
COMPLETION_S: Final = 1.0
_ENDINGS: Final = {".avsc": Kind.AVRO, ".json": Kind.JSON, ".proto": Kind.PROTOBUF}


@dataclass(frozen=True, slots=True)
class Output:
    """How a command prints its result."""

    as_json: bool


Job = Callable[Concatenate[Output, RegistryClient, P], Awaitable[int | None]]


def registry_command(job: Job[P]) -> Callable[..., None]:
    """Turn a coroutine function into the body of a command. It receives the Output and a client, and returns the exit
    code (None for 0).
    """

    @functools.wraps(job)
    def body(
        *args: Any,
        as_json: bool,
        registry: str | None,
        registry_config: Path | None,
        timeout_s: float | None,
        **more: Any,
    ) -> None:
        try:
            if registry is None and registry_config is None:
                registry, registry_config = _registry_of(more)
            client = RegistryClient(settings_of(registry, registry_config, timeout_s))
        except ClientError as error:
            print_error(error, as_json=as_json)
            raise SystemExit(exit_code_of(error)) from None

        def start() -> int:
            return run_job(lambda: job(Output(as_json), client, *args, **more), as_json)

        raise SystemExit(extras.run(PROGRAM, "registry", LIBRARIES, start))

    # click keeps the last one first: in the help, shared options follow the command's own.
    own = vars(body).pop("__click_params__", [])
    for add in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables."),
        click.option("--timeout", "timeout_s", metavar="SECONDS", type=float, help="Time limit of each request."),
        options.click_options(options.OF_REGISTRY, registry=_DEFAULT),
    ):
        add(body)
    vars(body)["__click_params__"] += own
    return body


def _registry_of(given: dict[str, Any]) -> tuple[str | None, Path | None]:
    """Return the registry of the cluster that a command names, if it names one, else that of the environment. Raises
    ClientError.
    """
    if options.CLUSTERS_FILE.field in given:
        entry = select(options.wanted(given))
        return entry.registry, entry.registry_config
    return os.environ.get(REGISTRY_VARIABLE) or None, None


def complete_subjects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the subjects that begin so, of the registry of the options typed so far; none if it does not answer within
    a second.
    """
    given = {**ctx.params, "timeout_s": None}
    try:
        registry, config = given.get("registry"), given.get("registry_config")
        if registry is None and config is None:
            registry, config = _registry_of(given)
        client = RegistryClient(settings_of(registry, config, COMPLETION_S))
        return sorted(each for each in asyncio.run(client.subjects(incomplete)) if each.startswith(incomplete))
    except (ClientError, OSError):
        return []


def schema_of_file(path: Path, kind: str | None, references: tuple[str, ...]) -> Schema:
    """Return the schema in a file. Without `kind`, the ending names the schema type. Raises ClientError."""
    if kind is None:
        found = _ENDINGS.get(path.suffix)
        if found is None:
            reason = f"the ending of the file names no schema type ({', '.join(_ENDINGS)}): add --type"
            raise ClientError(Failure.INVALID, reason, what=str(path))
        kind = found.value
    try:
        with path.open("rb") as file:
            data = file.read(TEXT_BYTES_MAX + 1)
        text = data.decode()
    except OSError as error:
        raise ClientError(Failure.INVALID, error.strerror or str(error), what=str(path)) from None
    except UnicodeDecodeError:
        raise ClientError(Failure.INVALID, "the file is no UTF-8", what=str(path)) from None
    if len(data) > TEXT_BYTES_MAX:
        raise ClientError(Failure.INVALID, f"the file has more than {TEXT_BYTES_MAX:,} bytes", what=str(path))
    return Schema(kind, text, tuple(map(_reference, references)))


def _reference(text: str) -> Reference:
    try:
        return Reference.of(text)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error), what="--reference") from None


def file_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a schema in a file."""
    for add in (
        click.option(
            "--reference",
            "references",
            multiple=True,
            metavar="NAME=SUBJECT:VERSION",
            help="A schema that the text refers to; may be repeated.",
        ),
        click.option(
            "--type",
            "kind",
            type=click.Choice([each.value for each in Kind], case_sensitive=False),
            help="The schema type.  [default: by the ending .avsc, .json or .proto]",
        ),
        click.argument("file", type=click.Path(path_type=Path, dir_okay=False)),
    ):
        function = add(function)
    return function


version_type: Final = click.IntRange(1, 0x7FFFFFFF)
