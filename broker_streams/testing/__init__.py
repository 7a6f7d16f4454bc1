"""Tests of users' applications without a cluster: `TopologyTestDriver`."""

from broker_streams.testing.topology_test_driver import TopologyTestDriver as TopologyTestDriver
