"""Statements to topologies of broker_streams: one file for each clause, under ksqlDB's names of topics and stores."""

from broker_sql.planner.plan import OnRow, Planned, plan

__all__ = ["OnRow", "Planned", "plan"]
