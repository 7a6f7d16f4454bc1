"""The operations of the registry: pure functions of the state and a request.

An operation returns a `Plan`: the answer, and the records that must be in the topic before it. The state changes by the
replay of those records only. One that checks schemas is a generator: it yields the checks, which its host runs on the
event loop or in a worker, gets their results, and returns the plan. A refusal is a RegistryError.
"""
