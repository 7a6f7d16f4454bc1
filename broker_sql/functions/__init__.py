"""Scalar, aggregate and table functions of SQL.

    calls        the results of resolution: types, and Python functions that take values
    patterns     types of parameters, and the texts of signatures
    definitions  how a module defines functions
    registry     names and types to calls

`standard(environment)` returns the registry of all functions. Functions do no I/O; clock, random source and settings
are in the Environment.
"""

from __future__ import annotations

from broker_sql.functions.calls import (
    INTERVAL_UNIT,
    Aggregate,
    ArgumentType,
    Environment,
    LambdaShape,
    ScalarCall,
    TableCall,
)
from broker_sql.functions.registry import ArgumentInfo, FunctionInfo, FunctionRegistry, SignatureInfo
from broker_sql.functions.standard import standard
from broker_sql.types import LambdaType

__all__ = [
    "INTERVAL_UNIT",
    "Aggregate",
    "ArgumentInfo",
    "ArgumentType",
    "Environment",
    "FunctionInfo",
    "FunctionRegistry",
    "LambdaShape",
    "LambdaType",
    "ScalarCall",
    "SignatureInfo",
    "TableCall",
    "standard",
]
