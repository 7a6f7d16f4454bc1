"""Queries that run: persistent ones, push queries and pull queries."""
