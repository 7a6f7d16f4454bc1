"""Stream processing: the Streams API in Python, a plan of its topologies, and a kernel that runs them.

    dsl       StreamsBuilder, KStream, KTable: calls that only make a graph of plan steps
    plan      the topology as data: nodes, stores, sub-topologies, internal topics; its description in Kafka's text
    kernel    one task: sources, processors, stores and sinks of a sub-topology for one partition, record by record
    serdes    keys and values as bytes
    testing   the test driver for users' applications

    records   the values that all of them pass on

Imports run one way: dsl > plan; testing > kernel > plan. Plan and kernel have no socket, file, clock or random source.
"""
