"""The engines by name."""

from __future__ import annotations

from loadgen.engines.base import Engine, EngineError, Work


def engine_of(work: Work) -> Engine:
    """Return the engine that the scenario names for these users. Raises EngineError."""
    # Engines are imported when needed, because each has its own libraries.
    name = work.spec.engine
    if name == "gevent":
        from loadgen.engines.greenlets import GeventEngine

        return GeventEngine(work)
    if name == "raw":
        from loadgen.engines.raw import RawEngine

        return RawEngine(work)
    if name == "librdkafka":
        from loadgen.engines.librdkafka import LibrdkafkaEngine

        return LibrdkafkaEngine(work)
    raise EngineError(f"there is no engine {name!r}")
