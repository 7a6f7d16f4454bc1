"""What every client of a Kafka broker needs below its input and output: frames, correlation, versions, and
words for what it shows.

No module here opens a socket or reads a clock: `admin` puts it on asyncio, and the load generator on gevent.
"""
