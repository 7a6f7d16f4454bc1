"""The parts of a Kafka client: addresses, frames, versions, connections, and the texts that it shows.

`connection`, `pool`, `deadline`, `outgoing` and `turns` use asyncio: consoles use them through `admin`, and brokers use
them for connections to other brokers. The other modules open no socket and read no clock; the load generator runs them
on gevent.
"""
