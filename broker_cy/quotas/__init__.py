"""Client quotas: the limits, the use and the throttle times of clients. State machines without a clock: the time is an
argument.
"""
