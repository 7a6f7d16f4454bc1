"""Kafka's protocol over gevent's sockets."""
