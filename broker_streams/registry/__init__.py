"""Schema registries for the serdes of an application: the one room of its serialization that does I/O.

opening   the registry that the settings of an application name          remote   one behind a REST API
ahead     schemas are asked for before records are processed, so that no record waits for the registry
"""
