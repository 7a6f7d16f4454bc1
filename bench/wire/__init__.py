"""Kafka's protocol, encoded by hand: addresses, requests and batches, and the compiled load driver that sends them."""
