"""UpdateFeatures: levels of transaction.version, and refused updates."""

from __future__ import annotations

from typing import Any

from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from tests.compat.differential.build import fetch, part
from tests.compat.differential.script import PATIENCE_S, Run, script
from tests.compat.differential.scripts_txn_produce import Writer, described
from tests.compat.differential.transactions import Transactions
from tests.support.wait import until

UPGRADE, SAFE, UNSAFE = 1, 2, 3
TRANSACTION_VERSION = "transaction.version"
# (feature, level, upgrade type)
Update = tuple[str, int, int]


def request(*updates: Update, validate_only: bool = False) -> messages.UpdateFeaturesRequest:
    return messages.UpdateFeaturesRequest(
        timeout_ms=10_000,
        validate_only=validate_only,
        feature_updates=[
            messages.UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
    )


def level(run: Run) -> int:
    """Return the level of transaction.version that clients see."""
    asked = messages.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    found = run.quietly(asked, 4).finalized_features
    return next((one.max_version_level for one in found if one.name == TRANSACTION_VERSION), 0)


def set_level(run: Run, wanted: int) -> None:
    """Set transaction.version to a level, and wait until the broker uses it."""
    now = level(run)
    if now != wanted:
        answer = run.quietly(request((TRANSACTION_VERSION, wanted, UPGRADE if wanted > now else UNSAFE)), 2)
        assert answer.error_code == 0, answer
        until(lambda: level(run) == wanted, f"transaction.version {wanted}", PATIENCE_S)


@script(ApiKey.UPDATE_FEATURES, broker="features")
def refused_updates(run: Run, version: int) -> None:
    """None of these requests changes anything."""
    set_level(run, 2)

    def ask(label: str, *updates: Update) -> None:
        for validate_only in (True, False):
            what = ", looked at" if validate_only else ""
            run.ask(f"{label}{what}", request(*updates, validate_only=validate_only), version)
        assert level(run) == 2

    name = TRANSACTION_VERSION
    ask("nothing")
    for kind in (UPGRADE, SAFE, UNSAFE, 0, 4, -1):
        for at in (-1, 2, 3, 32767):
            ask(f"level {at}, type {kind}", (name, at, kind))
    ask("lower without saying so", (name, 1, UPGRADE))
    ask("lower, no type", (name, 1, 0))
    ask("to nothing without saying so", (name, 0, UPGRADE))
    for other in ("nobody", "", "metadata.versio"):
        for at in (0, 1):
            for kind in (UPGRADE, UNSAFE):
                ask(f"feature {other!r}, level {at}, type {kind}", (other, at, kind))
    ask("good and bad", (name, 2, UPGRADE), ("nobody", 1, UPGRADE))
    ask("bad and good", ("nobody", 1, UPGRADE), (name, 2, UPGRADE))
    ask("twice", (name, 2, UPGRADE), (name, 2, UPGRADE))
    ask("metadata.version as it is", ("metadata.version", 30, UPGRADE))
    ask("metadata.version of a newer one", ("metadata.version", 31, UPGRADE))
    ask("metadata.version too low", ("metadata.version", 6, UNSAFE))
    ask("metadata.version lower", ("metadata.version", 29, SAFE))
    ask("metadata.version lower, unsafe", ("metadata.version", 29, UNSAFE))
    ask("metadata.version lower without saying so", ("metadata.version", 29, UPGRADE))


@script(ApiKey.UPDATE_FEATURES, broker="features")
def transaction_versions(run: Run, version: int) -> None:
    """Up and down, a step or two at a time; dry runs change nothing."""
    set_level(run, 2)
    for wanted, kind in ((1, SAFE), (2, UPGRADE), (0, UNSAFE), (1, UPGRADE), (0, SAFE), (2, UPGRADE)):
        before = level(run)
        update: Any = (TRANSACTION_VERSION, wanted, kind)
        label = f"{before} to {wanted}"
        if run.ask(f"{label}, looked at", request(update, validate_only=True), version) is not None:
            assert level(run) == before
        asked = request(update)
        if version == 0:
            asked.feature_updates[0].upgrade_type = UPGRADE
            asked.feature_updates[0].allow_downgrade = wanted < before
        run.ask(label, asked, version)
        if version == 0:
            # allow_downgrade does not help.
            set_level(run, wanted)
        until(lambda wanted=wanted: level(run) == wanted, f"transaction.version {wanted}", PATIENCE_S)  # type: ignore[misc]
        run.ask(f"{label}, then", messages.ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)


@script(ApiKey.PRODUCE, broker="features", versions=(11,))
def transactions_of_versions(run: Run, version: int) -> None:
    """The responses to a producer of the old protocol at each level. A producer of the new protocol, which it may have
    learned before the level went down, cannot be tested: Kafka then ends no transaction at all.
    """
    for at in (0, 1, 2):
        set_level(run, at)
        topic = run.topic(f"-{at}", partitions=2)
        writer = Writer(run, version, topic, f"-{at}")
        first = writer.epoch
        for commit in (True, False):
            label = f"level {at}, {'commit' if commit else 'abort'}"
            writer.begin(0)
            writer.send(f"{label}: in it", {0: writer.records(0 if writer.adds or commit else 1)})
            writer.end(commit)
            run.record(f"{label}: described", described(run, writer.own))
            run.record(f"{label}: epochs", str(writer.epoch - first))
        writer.begin(1)
        writer.send(f"level {at}: left open", {1: writer.records(0)})
        late = writer.id, writer.epoch
        successor = Transactions(run, f"-{at}").producer()
        run.record(f"level {at}: successor", str(successor[1] - late[1]))
        run.record(f"level {at}: described", described(run, writer.own))
        run.ask(f"level {at}: what was written", fetch(run, 12, {topic: [part(0), part(1)]}), 12)
    set_level(run, 2)
