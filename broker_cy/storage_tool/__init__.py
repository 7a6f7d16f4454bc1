"""The command `broker-cy storage`: directories before the first start of a node, and tables of features."""
