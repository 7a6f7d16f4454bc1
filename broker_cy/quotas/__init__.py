"""Client quotas: what a client may use, what it has used, and how long it has to wait. State machines without a clock:
the time is an argument.
"""
