"""Certificates: their contents, their stores, and their principals; the library of TLS is core.openssl."""
