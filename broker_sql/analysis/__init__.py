"""Statements checked against the catalog: names, types, keys, windows, properties. Nothing here runs."""
