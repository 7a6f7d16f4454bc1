/* CPU time of one server under TLS, with the OpenSSL that this is linked with: per full handshake (TLS 1.3, P-256, without
 * certificates of clients), and per gigabyte that is encrypted in records of 16 KiB. Both ends are in memory: only the
 * library is measured. Prints "VERSION<tab>MICROSECONDS<tab>SECONDS". See openssl_gain.sh. */
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HANDSHAKES = 1000, RECORD_BYTES = 16384, RECORDS = 32768 };

static void need(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "openssl_gain: %s: %s\n", what, ERR_reason_error_string(ERR_peek_error()));
        exit(1);
    }
}

static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

/* A key on P-256 and its certificate, signed by itself. */
static void identify(SSL_CTX *context) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    need(key && certificate, "key");
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"server", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    X509_set_pubkey(certificate, key);
    need(X509_sign(certificate, key, EVP_sha256()) > 0, "certificate");
    need(SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1, "identity");
    X509_free(certificate);
    EVP_PKEY_free(key);
}

/* Connects a new pair, and returns the CPU time that the server's end took. */
static double shake(SSL_CTX *server_context, SSL_CTX *client_context, SSL **server, SSL **client) {
    BIO *to_server = BIO_new(BIO_s_mem()), *to_client = BIO_new(BIO_s_mem());
    double taken = 0, begun = cpu_s();
    *server = SSL_new(server_context);
    taken += cpu_s() - begun;
    *client = SSL_new(client_context);
    need(to_server && to_client && *server && *client, "session");
    BIO_up_ref(to_server);
    BIO_up_ref(to_client);
    SSL_set_bio(*server, to_server, to_client);
    SSL_set_bio(*client, to_client, to_server);
    SSL_set_accept_state(*server);
    SSL_set_connect_state(*client);
    for (int step = 0; step < 10 && !(SSL_is_init_finished(*server) && SSL_is_init_finished(*client)); step++) {
        SSL_do_handshake(*client);
        begun = cpu_s();
        SSL_do_handshake(*server);
        taken += cpu_s() - begun;
    }
    need(SSL_is_init_finished(*server) && SSL_is_init_finished(*client), "handshake");
    return taken;
}

int main(void) {
    SSL_CTX *server_context = SSL_CTX_new(TLS_server_method()), *client_context = SSL_CTX_new(TLS_client_method());
    need(server_context && client_context, "context");
    identify(server_context);
    /* The key exchange that Java's clients and librdkafka offer first, so that both versions do the same. */
    need(SSL_CTX_set1_groups_list(client_context, "X25519") == 1, "group");
    need(SSL_CTX_set_ciphersuites(server_context, "TLS_AES_128_GCM_SHA256") == 1, "cipher");
    SSL_CTX_set_session_cache_mode(server_context, SSL_SESS_CACHE_OFF);

    SSL *server, *client;
    double handshakes_s = 0;
    for (int i = -50; i < HANDSHAKES; i++) {
        double taken = shake(server_context, client_context, &server, &client);
        if (i >= 0) handshakes_s += taken;
        if (i < HANDSHAKES - 1) {
            SSL_free(server);
            SSL_free(client);
        }
    }

    static unsigned char record[RECORD_BYTES];
    memset(record, 'x', sizeof record);
    double bulk_s = 0;
    for (int i = 0; i < RECORDS; i++) {
        double begun = cpu_s();
        need(SSL_write(server, record, sizeof record) == sizeof record, "write");
        bulk_s += cpu_s() - begun;
        BIO_reset(SSL_get_wbio(server));
    }
    printf("%s\t%.1f\t%.3f\n", OpenSSL_version(OPENSSL_VERSION), handshakes_s / HANDSHAKES * 1e6,
           bulk_s / ((double)RECORDS * RECORD_BYTES) * 1e9);
    return 0;
}
