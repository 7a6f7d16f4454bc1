"""The group and the transaction coordinator of this broker: their state machines, their logs, their timers."""
