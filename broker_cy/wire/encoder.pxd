from broker_cy.core.writer cimport Writer
from broker_cy.wire.layout cimport Node


cdef int write_struct(Node node, Writer writer, object message) except -1
