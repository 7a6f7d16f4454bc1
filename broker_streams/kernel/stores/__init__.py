"""State stores: typed > caching > change logging > bytes. All of them hold bytes in Kafka's formats."""
