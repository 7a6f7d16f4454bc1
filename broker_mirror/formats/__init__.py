"""The records of MirrorMaker 2's internal topics, byte for byte Kafka's, in both directions. Pure."""
