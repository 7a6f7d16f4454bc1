"""What certificates say, where they are read from, and which principal they stand for; the library of TLS is
core.openssl.
"""
