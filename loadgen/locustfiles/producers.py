"""Producers for plain locust: `locust -f loadgen/locustfiles/producers.py --bootstrap HOST:PORT`."""

from loadgen.plain import use

use(globals(), "produce-throughput")
