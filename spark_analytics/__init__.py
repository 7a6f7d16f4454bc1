"""Analytics of a cluster's events and samples on Apache Spark: the command `broker-analytics` (docs/analytics.md)."""
