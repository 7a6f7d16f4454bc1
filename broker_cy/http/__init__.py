"""The edge of programs that serve HTTP: the ASGI side of the dashboard, and of every REST interface.

`server` listens, with TLS or without; `edge` is the middleware that refuses everything that is not explicitly allowed
(`requests`, `addresses` and `limits` are its parts); `answers` has endpoints with JSON, `compressed` files, and
`own_requests` the requests of a program to itself. The libraries are in requirements/http.in; the extra of each program
that serves HTTP contains them.
"""
