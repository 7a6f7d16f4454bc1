"""The admin core: one async client for broker-cy and Apache Kafka, on which every console is built.

async with AdminClient("127.0.0.1:9092") as client:
    for topic in await client.topics.list_all():
        ...
"""

from broker_cy.admin.client import AdminClient
from broker_cy.client.errors import ClientError, Failure

__all__ = ["AdminClient", "ClientError", "Failure"]
