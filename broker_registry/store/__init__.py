"""The state of the registry: the records of `_schemas`, their replay, and the operations on them. Pure."""
