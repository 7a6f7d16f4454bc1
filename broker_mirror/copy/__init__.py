"""The copy path of a flow: batches of the source are produced into the target as they are.

restamp.pyx   fetched batches as batches to produce: header and checksum only, where possible   pure
status.py     the state of a flow for people and metrics                                        pure
flow.py       positions, transactions and problems of the partitions of a flow                  pure
partition.py  one partition of a flow                                                           pure
producer.py   batches that are already encoded, as a part of transactions
fetching.py   raw records of the source, by leader
host.py       the flow between two clusters: CopyFlow
"""
