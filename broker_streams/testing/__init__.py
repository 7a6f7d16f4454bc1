"""Tests of users' applications without a cluster."""
