"""TLS of one connection, and the readers of keys that need a cipher; the .pxd describes the ownership.

The broker is linked with a static OpenSSL of its own (tools/openssl.sh) or with the library of the system, >= 3.0. A build
without either lacks this module. Keys, contexts and sessions stay in one file because a second module would hold a second copy of
the static library; the declarations of the library are in libssl.pxd.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, EPROTO, errno
from libc.limits cimport INT_MAX
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

# As #include: the declarations of the library.
from broker_cy.core.libssl cimport *

cdef extern from "sys/socket.h" nogil:
    ssize_t c_recv "recv"(int fd, void* buf, size_t n, int flags)
    ssize_t c_send "send"(int fd, const void* buf, size_t n, int flags)
    int MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL

cdef extern from "unistd.h" nogil:
    ssize_t pread(int fd, void* buf, size_t n, long offset)

cdef enum:
    RECEIVE_BYTES = 131072              # received in one call
    # The most records that one call takes: a peer may send many key updates or records of one byte, which cost some us each.
    RECORDS_MAX = 256
    SHAKE_READ_BYTES = 16384
    # Includes the bytes that TLS adds to each record, rounded up, and an alert or a key update.
    OUTPUT_BYTES = SEND_BYTES_MAX + (SEND_BYTES_MAX / 16384 + 4) * 512
    SHAKE_OUTPUT_BYTES_MAX = 1048576    # of a flight: the chain of certificates, and the names of the trusted ones
    # Why a handshake failed, besides an error of the library.
    PEER_ENDED = 1
    SOCKET_FAILED = 2
    TOO_LONG = 3
    LIBRARY = 4

VERSIONS = {"TLSv1.2": TLS1_2_VERSION, "TLSv1.3": TLS1_3_VERSION}

# The buffers of all sessions in the thread of the loop.
cdef uint8_t* shared_input = NULL
cdef uint8_t* shared_output = NULL
cdef uint8_t* shared_plain = NULL


class TlsError(Exception):
    """The message says what is wrong; it has no secrets."""


def version():
    """The library that is really loaded, such as "OpenSSL 3.5.5 27 Jan 2026"."""
    return OpenSSL_version(OPENSSL_VERSION).decode()


cdef str reason_of(unsigned long code):
    cdef const char* text = ERR_reason_error_string(code)
    return text.decode() if text != NULL else f"error {code:#x}"


cdef str take_reason():
    """The text of the first error of this thread, which is the cause of the others."""
    cdef unsigned long code = ERR_peek_error()
    ERR_clear_error()
    return reason_of(code) if code else "no reason given"


# ---- the ends of the library ----

cdef int wire_read(BIO* bio, char* into, int room) noexcept nogil:
    cdef Wire* wire = <Wire*>BIO_get_data(bio)
    cdef size_t n = wire.left
    BIO_clear_retry_flags(bio)
    if n == 0 or wire.reads_left <= 0:
        BIO_set_retry_read(bio)
        return -1
    wire.reads_left -= 1
    if n > <size_t>room:
        n = room
    memcpy(into, wire.input, n)
    wire.input += n
    wire.left -= n
    return <int>n


cdef int wire_write(BIO* bio, const char* data, int size) noexcept nogil:
    cdef Wire* wire = <Wire*>BIO_get_data(bio)
    cdef size_t wanted = wire.size + size
    cdef uint8_t* grown
    BIO_clear_retry_flags(bio)
    if wanted > wire.capacity:
        if not wire.may_grow or wanted > SHAKE_OUTPUT_BYTES_MAX:
            return -1
        wanted += 4096
        grown = <uint8_t*>realloc(wire.output, wanted)
        if grown == NULL:
            return -1
        wire.output = grown
        wire.capacity = wanted
    memcpy(wire.output + wire.size, data, size)
    wire.size += size
    return size


cdef long wire_control(BIO* bio, int command, long number, void* pointer) noexcept nogil:
    return 1 if command == BIO_CTRL_FLUSH else 0


cdef BIO_METHOD* wire_method() except NULL:
    cdef BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, b"wire")
    if made == NULL:
        raise MemoryError("no memory for TLS")
    BIO_meth_set_read(made, wire_read)
    BIO_meth_set_write(made, wire_write)
    BIO_meth_set_ctrl(made, wire_control)
    return made


cdef BIO_METHOD* WIRE = wire_method()


cdef int have_shared() except -1:
    global shared_input, shared_output, shared_plain
    if shared_input == NULL:
        shared_input = <uint8_t*>malloc(RECEIVE_BYTES)
        shared_output = <uint8_t*>malloc(OUTPUT_BYTES)
        shared_plain = <uint8_t*>malloc(SEND_BYTES_MAX)
        if shared_input == NULL or shared_output == NULL or shared_plain == NULL:
            raise MemoryError("no memory for TLS")
    return 0


# ---- keys and certificates ----

cdef X509* certificate_of(bytes der) except NULL:
    cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(der)
    cdef X509* found = d2i_X509(NULL, &at, PyBytes_GET_SIZE(der))
    if found == NULL:
        raise TlsError(f"a certificate cannot be read: {take_reason()}")
    return found


cdef bytes der_of_certificate(X509* certificate):
    cdef unsigned char* data = NULL
    cdef int size = i2d_X509(certificate, &data)
    if size < 0:
        raise TlsError(f"a certificate cannot be written: {take_reason()}")
    try:
        return PyBytes_FromStringAndSize(<char*>data, size)
    finally:
        OPENSSL_free(data)


cdef bytes der_of_key(EVP_PKEY* key):
    cdef unsigned char* data = NULL
    cdef PKCS8_PRIV_KEY_INFO* info = EVP_PKEY2PKCS8(key)
    cdef int size = -1 if info == NULL else i2d_PKCS8_PRIV_KEY_INFO(info, &data)
    PKCS8_PRIV_KEY_INFO_free(info)
    if size < 0:
        raise TlsError(f"a private key cannot be written: {take_reason()}")
    try:
        return PyBytes_FromStringAndSize(<char*>data, size)
    finally:
        OPENSSL_free(data)


def read_key(bytes pem not None, bytes password not None):
    """The private key of a text in PEM, which may be encrypted, in DER (PKCS8). Raises TlsError."""
    cdef BIO* source = BIO_new_mem_buf(PyBytes_AS_STRING(pem), <int>PyBytes_GET_SIZE(pem))
    cdef EVP_PKEY* key
    ERR_clear_error()
    key = PEM_read_bio_PrivateKey(source, NULL, NULL, PyBytes_AS_STRING(password))
    BIO_free(source)
    if key == NULL:
        raise TlsError(take_reason())
    try:
        return der_of_key(key)
    finally:
        EVP_PKEY_free(key)


def read_pkcs12(bytes data not None, bytes password not None):
    """(the private key in DER or None, certificates in DER: that of the key first). Raises TlsError."""
    cdef BIO* source = BIO_new_mem_buf(PyBytes_AS_STRING(data), <int>PyBytes_GET_SIZE(data))
    cdef PKCS12* store
    cdef EVP_PKEY* key = NULL
    cdef X509* own = NULL
    cdef STACK* others = NULL
    cdef int i
    ERR_clear_error()
    store = d2i_PKCS12_bio(source, NULL)
    BIO_free(source)
    if store == NULL:
        ERR_clear_error()
        raise TlsError("it is no key store of the type PKCS12")
    try:
        if not PKCS12_parse(store, PyBytes_AS_STRING(password), &key, &own, &others):
            # Key stores of older programs are encrypted with RC2.
            ERR_clear_error()
            OSSL_PROVIDER_try_load(NULL, b"legacy", 1)
            ERR_clear_error()
            if not PKCS12_parse(store, PyBytes_AS_STRING(password), &key, &own, &others):
                raise TlsError(take_reason())
        found = [] if own == NULL else [der_of_certificate(own)]
        if others != NULL:
            for i in range(sk_X509_num(others)):
                found.append(der_of_certificate(sk_X509_value(others, i)))
        return (None if key == NULL else der_of_key(key)), found
    finally:
        ERR_clear_error()
        PKCS12_free(store)
        EVP_PKEY_free(key)
        X509_free(own)
        if others != NULL:
            sk_X509_pop_free(others, X509_free)


# ---- common to all sessions ----

cdef class TlsContext:
    """Versions, ciphers, certificates: of all connections of one listener, or to one kind of peer."""

    def __init__(self, *, bint is_server, str oldest="TLSv1.2", str newest="TLSv1.3", ciphers=None, suites=None,
                 chain=(), bytes key=None, trusted=None, bint asks=False, bint requires=False):
        """`ciphers` of TLS 1.2 and `suites` of TLS 1.3 are standard names (IANA), best first; None: good ones. `chain`: our
        certificate, then those that lead to a root; `trusted`: roots. All in DER. A server asks for a certificate of the client
        if `asks`, and refuses clients without one if `requires`; a client always checks that of the server, against the roots of
        the system if `trusted` is None. Raises TlsError.
        """
        self.is_server = is_server
        self.context = SSL_CTX_new(TLS_server_method() if is_server else TLS_client_method())
        if self.context == NULL:
            raise TlsError(f"TLS is not available: {take_reason()}")
        ERR_clear_error()
        SSL_CTX_set_security_level(self.context, 2)
        # Resumption saves little and skips the checks of certificates, so there are no tickets and no cache.
        SSL_CTX_set_options(self.context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION
                            | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA)
        # The chain is that of the key store, as in Java: the library would otherwise look for it among the trusted certificates,
        # and check it, in each handshake.
        SSL_CTX_set_mode(self.context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN)
        SSL_CTX_set_session_cache_mode(self.context, SSL_SESS_CACHE_OFF)
        SSL_CTX_set_session_id_context(self.context, <const unsigned char*>b"broker-cy", 9)
        SSL_CTX_set_num_tickets(self.context, 0)
        SSL_CTX_set_dh_auto(self.context, 1)
        # The first is hybrid (ML-KEM), which libraries before 3.5 do not know.
        if not SSL_CTX_set1_groups_list(self.context, b"X25519MLKEM768:X25519:P-256:P-384"):
            SSL_CTX_set1_groups_list(self.context, b"X25519:P-256:P-384")
            ERR_clear_error()
        if not SSL_CTX_set_min_proto_version(self.context, VERSIONS[oldest]) or not SSL_CTX_set_max_proto_version(
                self.context, VERSIONS[newest]):
            raise TlsError(f"the versions {oldest} to {newest} are not available: {take_reason()}")
        self.choose_ciphers(ciphers, suites)
        self.trust(trusted)
        if key is not None:
            self.identify(chain, key)
        if not is_server:
            SSL_CTX_set_verify(self.context, SSL_VERIFY_PEER, NULL)
        elif asks:
            SSL_CTX_set_verify(self.context, SSL_VERIFY_PEER | (SSL_VERIFY_FAIL_IF_NO_PEER_CERT if requires else 0), NULL)

    def __dealloc__(self):
        SSL_CTX_free(self.context)

    def choose_ciphers(self, ciphers, suites):
        """Forward secrecy and authenticated encryption by default; the fastest first."""
        if ciphers is None:
            names = "ECDHE+AESGCM:ECDHE+CHACHA20"
        else:
            known = self.known_ciphers()
            absent = [name for name in ciphers if name not in known]
            if absent:
                raise TlsError(f"the cipher suite {absent[0]} is not known")
            names = ":".join(known[name] for name in ciphers)
        if names and not SSL_CTX_set_cipher_list(self.context, names.encode()):
            raise TlsError(f"no cipher suite can be used: {take_reason()}")
        if suites is None:
            suites = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
        if suites and not SSL_CTX_set_ciphersuites(self.context, ":".join(suites).encode()):
            raise TlsError(f"no cipher suite of TLS 1.3 can be used: {take_reason()}")

    def known_ciphers(self):
        """The library's names of the ciphers of TLS 1.2, by their standard names."""
        cdef CIPHERS* ciphers
        cdef const SSL_CIPHER* cipher
        cdef int i
        SSL_CTX_set_cipher_list(self.context, b"ALL")
        ciphers = SSL_CTX_get_ciphers(self.context)
        found = {}
        for i in range(sk_SSL_CIPHER_num(ciphers)):
            cipher = sk_SSL_CIPHER_value(ciphers, i)
            found[SSL_CIPHER_standard_name(cipher).decode()] = SSL_CIPHER_get_name(cipher).decode()
        return found

    def trust(self, trusted):
        cdef X509* certificate
        cdef X509_STORE* store = SSL_CTX_get_cert_store(self.context)
        if trusted is None:
            if not self.is_server:
                SSL_CTX_set_default_verify_paths(self.context)
            return
        # As in Java, each certificate of a trust store is trusted, also one that others have signed.
        X509_STORE_set_flags(store, X509_V_FLAG_PARTIAL_CHAIN)
        for der in trusted:
            certificate = certificate_of(der)
            try:
                if not X509_STORE_add_cert(store, certificate) or (
                        self.is_server and not SSL_CTX_add_client_CA(self.context, certificate)):
                    raise TlsError(f"a trusted certificate cannot be used: {take_reason()}")
            finally:
                X509_free(certificate)

    def identify(self, chain, bytes key not None):
        cdef X509* certificate
        cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(key)
        cdef EVP_PKEY* own
        cdef int done
        if not chain:
            raise TlsError("the private key has no certificate")
        for index, der in enumerate(chain):
            certificate = certificate_of(der)
            if index == 0:
                done = SSL_CTX_use_certificate(self.context, certificate)
            else:
                done = SSL_CTX_add1_chain_cert(self.context, certificate)
            X509_free(certificate)
            if not done:
                raise TlsError(f"the certificate cannot be used: {take_reason()}")
        own = d2i_AutoPrivateKey(NULL, &at, PyBytes_GET_SIZE(key))
        if own == NULL:
            raise TlsError(f"the private key cannot be read: {take_reason()}")
        done = SSL_CTX_use_PrivateKey(self.context, own)
        EVP_PKEY_free(own)
        if not done or not SSL_CTX_check_private_key(self.context):
            raise TlsError(f"the private key does not fit the certificate: {take_reason()}")


# ---- one connection ----

cdef class TlsSession:
    def __cinit__(self):
        self.ssl = NULL
        self.carry = self.unsent = NULL
        memset(&self.wire, 0, sizeof(self.wire))

    def __init__(self, TlsContext context not None, int fd, str host=None, bint checks_host=True):
        """`host` is the name or address of the server, whose certificate must be of it if `checks_host`. `fd` stays the
        caller's. Raises TlsError.
        """
        cdef BIO* bio
        cdef bytes name
        have_shared()
        self.context = context
        self.fd = fd
        ERR_clear_error()
        self.ssl = SSL_new(context.context)
        bio = BIO_new(WIRE)
        if self.ssl == NULL or bio == NULL:
            BIO_free(bio)
            raise TlsError(f"no session: {take_reason()}")
        BIO_set_data(bio, &self.wire)
        BIO_set_init(bio, 1)
        SSL_set_bio(self.ssl, bio, bio)
        if context.is_server:
            SSL_set_accept_state(self.ssl)
            return
        SSL_set_connect_state(self.ssl)
        if host is None:
            return
        name = host.encode("idna") if not host.isascii() else host.encode()
        is_address = ":" in host or host.replace(".", "").isdecimal()
        if not is_address:
            SSL_set_tlsext_host_name(self.ssl, name)
        if checks_host:
            X509_VERIFY_PARAM_set_hostflags(SSL_get0_param(self.ssl), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS)
            if is_address:
                done = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(self.ssl), name)
            else:
                done = X509_VERIFY_PARAM_set1_host(SSL_get0_param(self.ssl), name, len(name))
            if not done:
                raise TlsError(f"{host} is no name of a host")

    def __dealloc__(self):
        SSL_free(self.ssl)
        free(self.carry)
        free(self.unsent)

    # ---- the handshake ----

    def shake(self):
        """Go on with the handshake as far as the peer has, without the GIL. Returns SHAKEN, WANTS_READ, WANTS_WRITE, or FAILED."""
        cdef int outcome
        with nogil:
            outcome = self.shake_once()
        return outcome

    cdef int shake_once(self) noexcept nogil:
        cdef uint8_t[SHAKE_READ_BYTES] received
        cdef ssize_t n
        cdef int result, outcome
        n = self.flush()
        if n < 0:
            return WANTS_WRITE if n == -EAGAIN else self.fail_shake(SOCKET_FAILED, <int>-n)
        self.wire.input = self.carry
        self.wire.left = self.carry_size
        # SHAKE_BYTES_MAX bounds them.
        self.wire.reads_left = INT_MAX
        while True:
            self.wire.output = NULL
            self.wire.size = self.wire.capacity = 0
            self.wire.may_grow = True
            ERR_clear_error()
            result = SSL_do_handshake(self.ssl)
            if result != 1 and SSL_get_error(self.ssl, result) != SSL_ERROR_WANT_READ:
                self.fail_shake(LIBRARY, 0)
                self.answer_shake()
                return FAILED
            outcome = self.answer_shake()
            if outcome == FAILED:
                return FAILED
            if result == 1:
                self.is_shaken = True
                if not self.keep_shaken():
                    return self.fail_shake(SOCKET_FAILED, 0)
                # The peer waits for the last message.
                return WANTS_WRITE if outcome == WANTS_WRITE else SHAKEN
            if outcome == WANTS_WRITE:
                # All input is taken: the library wanted more.
                self.drop_carry()
                return WANTS_WRITE
            n = c_recv(self.fd, received, SHAKE_READ_BYTES, MSG_DONTWAIT)
            if n < 0 and errno == EINTR:
                continue
            if n <= 0:
                self.drop_carry()
                if n < 0 and errno == EAGAIN:
                    return WANTS_READ
                return self.fail_shake(SOCKET_FAILED, errno) if n < 0 else self.fail_shake(PEER_ENDED, 0)
            self.shake_bytes += n
            if self.shake_bytes > SHAKE_BYTES_MAX:
                return self.fail_shake(TOO_LONG, 0)
            self.wire.input = received
            self.wire.left = n

    cdef int fail_shake(self, int kind, int number) noexcept nogil:
        self.failure_kind = kind
        self.failure_errno = number
        if kind == LIBRARY:
            self.failure_code = ERR_peek_error()
            self.verify_result = SSL_get_verify_result(self.ssl)
            ERR_clear_error()
        return FAILED

    cdef void drop_carry(self) noexcept nogil:
        free(self.carry)
        self.carry = NULL
        self.carry_size = 0
        self.wire.input = NULL
        self.wire.left = 0

    cdef bint keep_shaken(self) noexcept nogil:
        """Keep the bytes behind the handshake: they begin the first request."""
        cdef uint8_t* rest = NULL
        cdef size_t size = self.wire.left
        if size > 0:
            rest = <uint8_t*>malloc(size)
            if rest == NULL:
                return False
            memcpy(rest, self.wire.input, size)
        self.drop_carry()
        self.carry = rest
        self.carry_size = size
        return True

    cdef int answer_shake(self) noexcept nogil:
        """Send the output of the library; the rest that the socket does not take becomes `unsent`. FAILED, WANTS_WRITE or 0."""
        cdef ssize_t n
        self.unsent = self.wire.output
        self.unsent_at = 0
        self.unsent_size = self.wire.size
        self.wire.output = NULL
        self.wire.size = self.wire.capacity = 0
        self.wire.may_grow = False
        n = self.flush()
        if n >= 0:
            return 0
        return WANTS_WRITE if n == -EAGAIN else self.fail_shake(SOCKET_FAILED, <int>-n)

    @property
    def has_peer_left(self):
        """Whether the handshake failed because the connection ended, without a refusal by either side."""
        return self.failure_kind == PEER_ENDED or self.failure_kind == SOCKET_FAILED

    @property
    def failure(self):
        """Why the handshake failed."""
        if self.failure_kind == PEER_ENDED:
            return "the peer closed the connection" if self.shake_bytes else "the peer closed the connection and had sent nothing"
        if self.failure_kind == TOO_LONG:
            return f"the peer sent more than {SHAKE_BYTES_MAX} bytes"
        if self.failure_kind == SOCKET_FAILED:
            import os
            return f"the connection failed: {os.strerror(self.failure_errno)}" if self.failure_errno else "no memory"
        if self.failure_kind != LIBRARY:
            return ""
        text = reason_of(self.failure_code) if self.failure_code else "the library gives no reason"
        if self.verify_result != X509_V_OK:
            text += f" ({X509_verify_cert_error_string(self.verify_result).decode()})"
        return text

    @property
    def peer_certificate(self):
        """In DER; None if the peer has shown none."""
        cdef X509* found = SSL_get0_peer_certificate(self.ssl)
        return None if found == NULL else der_of_certificate(found)

    @property
    def protocol(self):
        """Such as "TLSv1.3"."""
        return SSL_get_version(self.ssl).decode()

    @property
    def cipher(self):
        """Its standard name."""
        cdef const SSL_CIPHER* cipher = SSL_get_current_cipher(self.ssl)
        return "" if cipher == NULL else SSL_CIPHER_standard_name(cipher).decode()

    # ---- input ----

    cdef ssize_t recv(self, void* into, size_t room) except? -1:
        cdef size_t total = 0, wanted
        cdef ssize_t received
        cdef int n
        cdef bint is_drained = False
        self.wire.input = self.carry
        self.wire.left = self.carry_size
        self.wire.reads_left = 2 * RECORDS_MAX
        # The library may have to answer with an alert.
        self.begin_output()
        ERR_clear_error()
        while total < room:
            n = SSL_read(self.ssl, <uint8_t*>into + total, <int>min(room - total, <size_t>RECEIVE_BYTES))
            if n > 0:
                total += n
                continue
            n = SSL_get_error(self.ssl, n)
            if n == SSL_ERROR_ZERO_RETURN:
                self.has_ended = True
                break
            if n != SSL_ERROR_WANT_READ:
                # The data was modified, or it is an alert: the connection is over.
                ERR_clear_error()
                self.wire.left = 0
                self.has_ended = True
                break
            if is_drained or self.has_ended or self.wire.reads_left <= 0:
                break
            # About as much as the caller has room for: the rest must be kept.
            wanted = room - total + 1024
            if wanted > RECEIVE_BYTES:
                wanted = RECEIVE_BYTES
            received = c_recv(self.fd, shared_input, wanted, MSG_DONTWAIT)
            while received < 0 and errno == EINTR:
                received = c_recv(self.fd, shared_input, wanted, MSG_DONTWAIT)
            if received <= 0:
                if received == 0:
                    self.has_ended = True
                elif errno != EAGAIN:
                    self.has_ended = True
                break
            is_drained = received < <ssize_t>wanted
            self.wire.input = shared_input
            self.wire.left = received
        self.answer()
        self.keep_rest()
        if total > 0:
            return total
        return 0 if self.has_ended else -EAGAIN

    cdef void begin_output(self) noexcept nogil:
        self.wire.output = shared_output
        self.wire.size = 0
        self.wire.capacity = OUTPUT_BYTES
        self.wire.may_grow = False

    cdef void end_output(self) noexcept nogil:
        """Outside of these calls the library cannot write."""
        self.wire.output = NULL
        self.wire.size = self.wire.capacity = 0

    cdef void answer(self) noexcept nogil:
        """Send the alerts that the library wrote while it read. A peer that provokes some and takes none is done."""
        if self.wire.size > 0:
            if self.unsent_size > 0 or c_send(self.fd, shared_output, self.wire.size,
                                              MSG_NOSIGNAL | MSG_DONTWAIT) != <ssize_t>self.wire.size:
                self.has_ended = True
        self.end_output()

    cdef int keep_rest(self) except -1:
        """Keep the input that the library has not taken."""
        cdef size_t size = self.wire.left
        cdef uint8_t* rest = NULL
        if size > 0:
            rest = <uint8_t*>malloc(size)
            if rest == NULL:
                raise MemoryError("no memory for TLS")
            memcpy(rest, self.wire.input, size)
        if self.carry != NULL:
            free(self.carry)
        self.carry = rest
        self.carry_size = size
        self.wire.input = NULL
        self.wire.left = 0
        return 0

    cdef bint has_input(self) noexcept:
        return self.carry_size > 0 or self.has_ended or SSL_pending(self.ssl) > 0

    # ---- output ----

    cdef ssize_t flush(self) noexcept nogil:
        """Send the output that the socket did not take before. 0, or a negative errno."""
        cdef ssize_t n
        while self.unsent_size > 0:
            n = c_send(self.fd, self.unsent + self.unsent_at, self.unsent_size, MSG_NOSIGNAL | MSG_DONTWAIT)
            if n < 0:
                if errno == EINTR:
                    continue
                return -errno
            self.unsent_at += n
            self.unsent_size -= n
        free(self.unsent)
        self.unsent = NULL
        return 0

    cdef ssize_t put(self, const void* data, size_t size, bint more) except? -1:
        """Encrypt all of it, up to SEND_BYTES_MAX, and send it. 0, -EAGAIN if a part became `unsent`, or a negative errno."""
        cdef ssize_t n
        cdef size_t rest
        self.begin_output()
        ERR_clear_error()
        n = SSL_write(self.ssl, data, <int>size)
        if n != <ssize_t>size:
            ERR_clear_error()
            self.end_output()
            return -EPROTO
        n = c_send(self.fd, shared_output, self.wire.size, MSG_NOSIGNAL | MSG_DONTWAIT | (MSG_MORE if more else 0))
        while n < 0 and errno == EINTR:
            n = c_send(self.fd, shared_output, self.wire.size, MSG_NOSIGNAL | MSG_DONTWAIT | (MSG_MORE if more else 0))
        if n < 0:
            if errno != EAGAIN:
                n = -errno
                self.end_output()
                return n
            n = 0
        rest = self.wire.size - n
        self.end_output()
        if rest == 0:
            return 0
        self.unsent = <uint8_t*>malloc(rest)
        if self.unsent == NULL:
            raise MemoryError("no memory for TLS")
        memcpy(self.unsent, shared_output + n, rest)
        self.unsent_at = 0
        self.unsent_size = rest
        return -EAGAIN

    cdef ssize_t send(self, const void* data, size_t size, bint more) except? -1:
        return self.send_chunks(<const uint8_t*>data, -1, 0, size, more)

    cdef ssize_t send_file(self, int fd, long position, size_t size) except? -1:
        return self.send_chunks(NULL, fd, position, size, False)

    cdef ssize_t send_chunks(self, const uint8_t* data, int fd, long position, size_t size, bint more) except? -1:
        """Send the bytes at `data`, or, if it is NULL, those of a file from `position` on."""
        cdef size_t taken = 0
        cdef ssize_t chunk
        cdef const uint8_t* at
        cdef ssize_t n = self.flush()
        if n < 0:
            return n
        if self.owes:
            self.owes = False
            taken = 1
        while taken < size:
            chunk = min(size - taken, <size_t>SEND_BYTES_MAX)
            if data != NULL:
                at = data + taken
            else:
                at = shared_plain
                chunk = pread(fd, shared_plain, chunk, position + taken)
                if chunk < 0:
                    if errno == EINTR:
                        continue
                    return -errno
                if chunk == 0:
                    break
            n = self.put(at, chunk, more or taken + chunk < size)
            if n == -EAGAIN:
                self.owes = True
                taken += chunk - 1
                return taken if taken > 0 else -EAGAIN
            if n < 0:
                return n
            taken += chunk
        return taken

    cdef int goodbye(self) except -1:
        """Report the end to the peer, if that is possible without waiting."""
        if not self.is_shaken or self.flush() < 0:
            return 0
        self.begin_output()
        ERR_clear_error()
        SSL_shutdown(self.ssl)
        ERR_clear_error()
        if self.wire.size > 0:
            c_send(self.fd, shared_output, self.wire.size, MSG_NOSIGNAL | MSG_DONTWAIT)
        self.end_output()
        return 0
