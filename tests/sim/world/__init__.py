"""The whole broker in one simulated world: real brokers, clients and faults in one thread, under virtual time, from one
seed. docs/simulation.md says how to add an act, a fault or a check, and how to replay a seed.
"""
