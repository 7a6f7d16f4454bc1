"""The copy path of a flow: batches of the source are produced into the target as they are.

restamp.pyx       fetched batches as batches to produce: a new header, where possible         pure
transforms.py     the records of a batch after the transforms of a flow                 pure
message_sets.py   message sets of magic 0 and 1, from before Kafka 0.11                       pure
status.py         the state of a flow for people and metrics                                  pure
actions.py        stages, actions and verdicts of the machine                                 pure
assignment.py     the partitions of the machine                                               pure
flow.py           positions, transactions and problems of the partitions of a flow            pure
partition.py      one partition of a flow                                                     pure
topic_ids.py      topics that were deleted and created again                                  pure
positions.py      the committed offsets of a flow, and the topics of its own records
loading.py        where partitions begin
producer.py       batches that are already encoded, as a part of transactions
fetching.py       raw records of the source, by leader
announcing.py     offset syncs outside transactions
sending.py        batches to the leaders of the target
host.py           the flow between two clusters: CopyFlow
"""
