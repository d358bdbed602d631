/* gate_refusal.h - why there is no launch gate: kept for who asks, and said once. */
#ifndef VRAMWISE_TORCH_GATE_REFUSAL_H
#define VRAMWISE_TORCH_GATE_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

enum { VW__REFUSAL_BYTES = 300 };

/* One line; "": nothing was refused. */
void vw__refusal_set(const char *reason);
bool vw__refusal_is_set(void);

/* Copies it, "" where there is none. Returns vw__refusal_is_set(). */
bool vw__refusal_get(char *reason, size_t capacity);

/* Writes it to standard error when first called after it was let, else nothing. */
void vw__refusal_say(void);
void vw__refusal_let_say(bool is_let);

/* In a child of fork(): nobody else is in here. */
void vw__refusal_begin_child(void);

#endif /* VRAMWISE_TORCH_GATE_REFUSAL_H */
