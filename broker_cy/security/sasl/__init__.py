"""SASL mechanisms, one file each, with the half of the server and the half of the client (`exchange` has their common
types).
"""
