"""The messages between the conductor and its workers, over locust's own connection (or within one process).

name      direction     content
plan      to a worker   its part of the run: Plan, as plain data
prepared  to conductor  {problem, host, pid}
ready     to conductor  {ready, problem}: how many users have connected
begin     to workers    {rates, warm_up_s, seconds}
interval  to conductor  Book.take: one second
finish    to workers    {timeout_s, now, with_ledger}: the round ends by itself, or `now`
result    to conductor  {ledger, complete}
close     to workers    {}
late      to a worker   {}: the run has begun without it
"""

PLAN = "broker_load_plan"
PREPARED = "broker_load_prepared"
READY = "broker_load_ready"
BEGIN = "broker_load_begin"
INTERVAL = "broker_load_interval"
FINISH = "broker_load_finish"
RESULT = "broker_load_result"
CLOSE = "broker_load_close"
LATE = "broker_load_late"
