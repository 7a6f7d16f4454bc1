"""Transactional copiers for plain locust: `locust -f loadgen/locustfiles/transactions.py --bootstrap HOST:PORT`."""

from loadgen.plain import use

use(globals(), "transactions")
