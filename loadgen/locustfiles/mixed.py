"""The scenario `mixed` for plain locust: `locust -f loadgen/locustfiles/mixed.py --bootstrap HOST:PORT`."""

from loadgen.plain import use

use(globals(), "mixed")
