"""Values and keys of records by the schemas of a registry.

framing.py      the header with the id or GUID       strategies.py   subjects of topics and records
values.py       bytes to JSON's values, and back
records.py      whole records, for tools     encoder.py      values to bytes, for tools
tools.py        the client, the decoder and the encoders of a tool
"""
