"""Addresses as the admin client takes them: a wrong one is an ClientError."""

from __future__ import annotations

from broker_cy.client import address
from broker_cy.client.address import Address
from broker_cy.client.errors import ClientError, Failure

__all__ = ["Address", "parse_address", "parse_addresses"]


def parse_address(text: str) -> Address:
    """Parse as `client.address.parse_address`. Raises ClientError, which says what is allowed."""
    try:
        return address.parse_address(text)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error)) from None


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parse addresses separated by commas, at least one. Raises ClientError as `parse_address`."""
    return tuple(parse_address(part) for part in text.split(","))
