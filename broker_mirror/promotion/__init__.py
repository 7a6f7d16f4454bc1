"""The failover of topics to the target of a flow: `broker-mirror promote`."""
