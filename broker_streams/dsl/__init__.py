"""The calls of Kafka Streams' DSL under Python names. They only make a graph, and the graph makes a topology."""
