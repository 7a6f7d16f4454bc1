"""Texts into statements and expressions, and back: a dialect of sqlglot that speaks ksqlDB's SQL."""

from __future__ import annotations
