"""The control plane of one node: it runs the quorum, the controller and the image on files, timers and connections.

`controller_service` is its interface for the server. Its loggers keep the name `broker_cy.server.metadata`, which the
logging configurations of users name.
"""
