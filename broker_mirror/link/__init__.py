"""Link flows, in which the brokers of the target copy the records: the mirrors of a target, and the tasks that
`broker-mirror start` runs for them.
"""
