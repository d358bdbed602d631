/* serve_token.h - a secret that clients must know: "Authorization: Bearer TOKEN", as Prometheus
 * sends it with `authorization: credentials_file`. */
#ifndef VRAMWISE_CLI_SERVE_TOKEN_H
#define VRAMWISE_CLI_SERVE_TOKEN_H

#include <stdbool.h>

enum { SERVE_TOKEN_BYTES = 256, SERVE_TOKEN_LEAST = 16 };

/* Reads the token from a file: one word of SERVE_TOKEN_LEAST to SERVE_TOKEN_BYTES - 1 printable
 * characters. False: a message is on standard error. */
bool serve_token_read(const char *command_name, const char *path, char token[SERVE_TOKEN_BYTES]);

/* Returns whether that header has the token; in a time that does not depend on what it has instead.
 * `header` may be NULL. */
bool serve_token_is_in(const char *header, const char *token);

#endif /* VRAMWISE_CLI_SERVE_TOKEN_H */
