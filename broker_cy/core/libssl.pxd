# The part of OpenSSL's C interface (>= 3.0) that core.openssl calls. Only that module is linked with the library, so it
# alone may call these functions.
cdef extern from "openssl/bio.h" nogil:
    ctypedef struct BIO:
        pass
    ctypedef struct BIO_METHOD:
        pass
    BIO_METHOD* BIO_meth_new(int type, const char* name)
    int BIO_meth_set_write(BIO_METHOD*, int (*f)(BIO*, const char*, int) noexcept nogil)
    int BIO_meth_set_read(BIO_METHOD*, int (*f)(BIO*, char*, int) noexcept nogil)
    int BIO_meth_set_ctrl(BIO_METHOD*, long (*f)(BIO*, int, long, void*) noexcept nogil)
    int BIO_get_new_index()
    BIO* BIO_new(const BIO_METHOD*)
    BIO* BIO_new_mem_buf(const void* buf, int n)
    int BIO_free(BIO*)
    void BIO_set_init(BIO*, int)
    void BIO_set_data(BIO*, void*)
    void* BIO_get_data(BIO*)
    void BIO_set_retry_read(BIO*)
    void BIO_clear_retry_flags(BIO*)
    int BIO_CTRL_FLUSH, BIO_TYPE_SOURCE_SINK

cdef extern from "openssl/err.h" nogil:
    unsigned long ERR_peek_error()
    void ERR_clear_error()
    const char* ERR_reason_error_string(unsigned long)

cdef extern from "openssl/crypto.h" nogil:
    const char* OpenSSL_version(int what)
    int OPENSSL_VERSION
    void OPENSSL_free(void*)

cdef extern from "openssl/provider.h" nogil:
    ctypedef struct OSSL_PROVIDER:
        pass
    OSSL_PROVIDER* OSSL_PROVIDER_try_load(void* context, const char* name, int retain_fallbacks)

cdef extern from "openssl/x509v3.h" nogil:
    ctypedef struct X509:
        pass
    ctypedef struct X509_STORE:
        pass
    ctypedef struct X509_VERIFY_PARAM:
        pass
    ctypedef struct EVP_PKEY:
        pass
    ctypedef struct STACK "STACK_OF(X509)":
        pass
    X509* d2i_X509(X509**, const unsigned char** at, long size)
    int i2d_X509(X509*, unsigned char** out)
    void X509_free(X509*)
    EVP_PKEY* d2i_AutoPrivateKey(EVP_PKEY**, const unsigned char** at, long size)
    ctypedef struct PKCS8_PRIV_KEY_INFO:
        pass
    PKCS8_PRIV_KEY_INFO* EVP_PKEY2PKCS8(EVP_PKEY*)
    int i2d_PKCS8_PRIV_KEY_INFO(PKCS8_PRIV_KEY_INFO*, unsigned char** out)
    void PKCS8_PRIV_KEY_INFO_free(PKCS8_PRIV_KEY_INFO*)
    void EVP_PKEY_free(EVP_PKEY*)
    int X509_STORE_add_cert(X509_STORE*, X509*)
    int X509_STORE_set_flags(X509_STORE*, unsigned long)
    const char* X509_verify_cert_error_string(long)
    int X509_VERIFY_PARAM_set1_host(X509_VERIFY_PARAM*, const char*, size_t)
    int X509_VERIFY_PARAM_set1_ip_asc(X509_VERIFY_PARAM*, const char*)
    void X509_VERIFY_PARAM_set_hostflags(X509_VERIFY_PARAM*, unsigned int)
    int sk_X509_num(STACK*)
    X509* sk_X509_value(STACK*, int)
    void sk_X509_pop_free(STACK*, void (*f)(X509*) noexcept nogil)
    int X509_V_FLAG_PARTIAL_CHAIN, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, X509_V_OK

cdef extern from "openssl/pem.h" nogil:
    EVP_PKEY* PEM_read_bio_PrivateKey(BIO*, EVP_PKEY**, void* callback, void* password)

cdef extern from "openssl/pkcs12.h" nogil:
    ctypedef struct PKCS12:
        pass
    PKCS12* d2i_PKCS12_bio(BIO*, PKCS12**)
    int PKCS12_parse(PKCS12*, const char* password, EVP_PKEY**, X509**, STACK**)
    void PKCS12_free(PKCS12*)

cdef extern from "openssl/ssl.h" nogil:
    ctypedef struct SSL:
        pass
    ctypedef struct SSL_CTX:
        pass
    ctypedef struct SSL_METHOD:
        pass
    ctypedef struct SSL_CIPHER:
        pass
    ctypedef struct CIPHERS "STACK_OF(SSL_CIPHER)":
        pass
    const SSL_METHOD* TLS_server_method()
    const SSL_METHOD* TLS_client_method()
    SSL_CTX* SSL_CTX_new(const SSL_METHOD*)
    void SSL_CTX_free(SSL_CTX*)
    int SSL_CTX_set_min_proto_version(SSL_CTX*, int)
    int SSL_CTX_set_max_proto_version(SSL_CTX*, int)
    int SSL_CTX_set_cipher_list(SSL_CTX*, const char*)
    int SSL_CTX_set_ciphersuites(SSL_CTX*, const char*)
    CIPHERS* SSL_CTX_get_ciphers(SSL_CTX*)
    int sk_SSL_CIPHER_num(CIPHERS*)
    const SSL_CIPHER* sk_SSL_CIPHER_value(CIPHERS*, int)
    const char* SSL_CIPHER_get_name(const SSL_CIPHER*)
    const char* SSL_CIPHER_standard_name(const SSL_CIPHER*)
    const SSL_CIPHER* SSL_get_current_cipher(SSL*)
    const char* SSL_get_version(SSL*)
    unsigned long SSL_CTX_set_options(SSL_CTX*, unsigned long)
    long SSL_CTX_set_mode(SSL_CTX*, long)
    long SSL_CTX_set_session_cache_mode(SSL_CTX*, long)
    int SSL_CTX_set_num_tickets(SSL_CTX*, size_t)
    int SSL_CTX_set_session_id_context(SSL_CTX*, const unsigned char*, unsigned int)
    void SSL_CTX_set_security_level(SSL_CTX*, int)
    long SSL_CTX_set_dh_auto(SSL_CTX*, int)
    int SSL_CTX_set1_groups_list(SSL_CTX*, const char*)
    void SSL_CTX_set_verify(SSL_CTX*, int mode, void* callback)
    X509_STORE* SSL_CTX_get_cert_store(SSL_CTX*)
    int SSL_CTX_set_default_verify_paths(SSL_CTX*)
    int SSL_CTX_use_certificate(SSL_CTX*, X509*)
    int SSL_CTX_add_client_CA(SSL_CTX*, X509*)
    long SSL_CTX_add1_chain_cert(SSL_CTX*, X509*)
    int SSL_CTX_use_PrivateKey(SSL_CTX*, EVP_PKEY*)
    int SSL_CTX_check_private_key(SSL_CTX*)
    SSL* SSL_new(SSL_CTX*)
    void SSL_free(SSL*)
    void SSL_set_bio(SSL*, BIO* reading, BIO* writing)
    void SSL_set_accept_state(SSL*)
    void SSL_set_connect_state(SSL*)
    long SSL_set_tlsext_host_name(SSL*, const char*)
    X509_VERIFY_PARAM* SSL_get0_param(SSL*)
    X509* SSL_get0_peer_certificate(SSL*)
    long SSL_get_verify_result(SSL*)
    int SSL_do_handshake(SSL*)
    int SSL_read(SSL*, void*, int)
    int SSL_write(SSL*, const void*, int)
    int SSL_pending(SSL*)
    int SSL_shutdown(SSL*)
    int SSL_get_error(SSL*, int)
    int SSL_ERROR_WANT_READ, SSL_ERROR_ZERO_RETURN
    int SSL_VERIFY_NONE, SSL_VERIFY_PEER, SSL_VERIFY_FAIL_IF_NO_PEER_CERT
    unsigned long SSL_OP_NO_TICKET, SSL_OP_NO_RENEGOTIATION, SSL_OP_NO_COMPRESSION, SSL_OP_CIPHER_SERVER_PREFERENCE
    unsigned long SSL_OP_PRIORITIZE_CHACHA
    long SSL_MODE_RELEASE_BUFFERS, SSL_MODE_NO_AUTO_CHAIN, SSL_SESS_CACHE_OFF
    int TLS1_2_VERSION, TLS1_3_VERSION
