"""What every client of a Kafka broker needs: addresses, frames, versions, connections, and words for what it shows.

`connection`, `pool`, `deadline`, `outgoing` and `turns` are on asyncio: consoles use them through `admin`, and
brokers talk to brokers with them. The other modules open no socket and read no clock; the load generator puts them on
gevent.
"""
