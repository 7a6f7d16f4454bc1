"""Kafka Connect's transforms of records whose keys, values and headers are bytes, and their settings.

chain.py           transforms and predicates of one record, and their order       pure
literals.py        the literals of InsertHeader, as Values of Connect has them    pure
configuration.py   `transforms`, `predicates` and the settings of each of them    pure

MirrorMaker 2's records have bytes and no schema of fields. So the classes that work on fields are refused by name, and
so are the classes that change the topic.
"""
