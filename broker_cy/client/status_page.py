"""Pages with the state of a process, as a client asks for them: those of broker-mirror and broker-streams.

A page is JSON of dataclasses. Fields that this code does not know are skipped; those that an older process does not
report have their defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar

from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError, Failure, network_reason
from broker_cy.client.http_exchange import HttpAnswer, Unanswered, exchange

ANSWER_BYTES_MAX: Final = 64 << 20
_T = TypeVar("_T")


def built(kind: type[_T], values: Mapping[str, Any]) -> _T:
    """An object of a dataclass from the fields that it knows. Raises TypeError: one without a default is missing."""
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # any dataclass; mypy has no type for them
    return kind(**{name: value for name, value in values.items() if name in known})


async def ask_page(
    address: Address, target: str, timeout_s: float, *, headers: Sequence[tuple[str, str]] = ()
) -> HttpAnswer:
    """The answer to GET, of any status. Raises ClientError: there was none."""
    try:
        async with asyncio.timeout(timeout_s):
            return await exchange(address, "GET", target, headers=headers, answer_bytes_max=ANSWER_BYTES_MAX)
    except TimeoutError:
        raise ClientError(Failure.TIMED_OUT, f"no answer within {timeout_s:g} s", what=str(address)) from None
    except OSError as error:
        raise ClientError(Failure.UNREACHABLE, network_reason(error), what=str(address)) from None
    except Unanswered as error:
        raise ClientError(Failure.UNREACHABLE, str(error), what=str(address)) from None
