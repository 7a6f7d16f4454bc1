"""Every page, in the order of the navigation."""

from __future__ import annotations

from dashboard.context import Page
from dashboard.pages import (
    alerts,
    audit,
    broker,
    brokers,
    clients,
    events,
    group,
    groups,
    moves,
    overview,
    producers,
    quorum,
    rebalance,
    rebalances,
    records,
    requests,
    settings,
    storage,
    topic,
    topics,
    transactions,
)

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    topics.PAGE,
    topic.PAGE,
    settings.TOPIC_PAGE,
    records.PAGE,
    groups.PAGE,
    group.PAGE,
    settings.GROUP_PAGE,
    rebalances.PAGE,
    rebalance.PAGE,
    brokers.PAGE,
    broker.PAGE,
    settings.BROKER_PAGE,
    moves.PAGE,
    quorum.PAGE,
    requests.PAGE,
    clients.PAGE,
    transactions.PAGE,
    producers.PAGE,
    storage.PAGE,
    events.PAGE,
    alerts.PAGE,
    audit.PAGE,
)
