"""Values and keys of records by the schemas of a registry.

framing.py      the header with the id or GUID       strategies.py   subjects of topics and records
values.py       bytes to JSON's values, and back
records.py      whole records, for tools   tools.py        the client and the decoder of a tool
"""
