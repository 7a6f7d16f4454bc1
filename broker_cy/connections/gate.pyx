"""The gate of all requests.

It makes decisions that depend only on the client and the API: whether the API is served in this version, and those of `rule`. The
handlers authorize operations on a topic, group or transactional id, and report denials in their responses; they know the client's
principal from the context of the request.

A connection with a login (`login`) has its own gate, which admits requests that do not depend on the login; the gate of the listener
decides on all others.
"""

from broker_cy.wire.api_keys import ApiKey

cdef enum:
    API_VERSIONS_KEY = 18

cdef dict API_NAMES = {int(key): key.name for key in ApiKey}


cdef str api_name(int16_t key):
    """Kafka's name, whether the API is served or not; the number if Kafka has no API with this key."""
    return API_NAMES.get(key) or f"api {key}"


cdef class Gate:
    """`registry` has the served APIs by key. `rule(principal, listener, api key, version)` is optional: it returns why a request for
    a served API is refused, or None; the default admits all.
    """

    def __init__(self, registry):
        cdef int key
        for key in range(API_KEYS):
            self.min_version[key] = 0
            self.max_version[key] = -1
        for key, entry in registry.items():
            self.min_version[key] = entry.min_version
            self.max_version[key] = entry.max_version

    cdef Gate without(self, object keys):
        """A gate that passes no request with one of these keys without a check; None: all APIs."""
        cdef Gate gate = Gate({})
        cdef int key
        for key in range(API_KEYS):
            if keys is not None and key not in keys:
                gate.min_version[key] = self.min_version[key]
                gate.max_version[key] = self.max_version[key]
        return gate

    cdef int judge(self, int16_t key, int16_t version, str principal, str listener) except -1:
        cdef int verdict = ADMITTED
        if key < 0 or key >= API_KEYS or self.max_version[key] < 0:
            self.refusal = "this API is not served"
            return REFUSED
        if version < self.min_version[key] or version > self.max_version[key]:
            if key != API_VERSIONS_KEY:
                self.refusal = (f"version {version} is not served; {self.min_version[key]} to {self.max_version[key]} are")
                return REFUSED
            # KIP-511: the response has version 0 and lists the versions that are served.
            verdict = WITHOUT_BODY
        if self.rule is not None:
            self.refusal = self.rule(principal, listener, key, version)
            if self.refusal is not None:
                return REFUSED
        return verdict
