/* golden.h - the wording of a report, in one file: tests/data/golden/<report>.txt.
 *
 * A test keeps the texts it makes, each under a heading, and compares all of them with the file at
 * the end. Tests themselves assert kinds, numbers and order, so that improving a sentence takes one
 * change in the source and one renewed file:
 *
 *     VRAMWISE_RENEW=1 ctest --test-dir build -R unit.report
 */
#ifndef VW_TESTS_GOLDEN_H
#define VW_TESTS_GOLDEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"

typedef struct golden {
    char text[256 * 1024];
    size_t size_bytes;
} golden;

static inline void golden_append(golden *kept, const char *text)
{
    const size_t size_bytes = strlen(text);
    assert_true(size_bytes < sizeof kept->text - kept->size_bytes);
    memcpy(kept->text + kept->size_bytes, text, size_bytes + 1);
    kept->size_bytes += size_bytes;
}

static inline void golden_keep(golden *kept, const char *heading, const char *text)
{
    golden_append(kept, kept->size_bytes > 0 ? "\n==== " : "==== ");
    golden_append(kept, heading);
    golden_append(kept, "\n");
    golden_append(kept, text);
}

/* Which line differs first: from 1. */
static inline size_t golden_line_that_differs(const char *text, const char *other)
{
    size_t line = 1;
    for (; *text != '\0' && *text == *other; text++, other++)
        line += *text == '\n';
    return line;
}

/* Fails where the file has other texts; with VRAMWISE_RENEW set, writes it. */
static inline void golden_compare(const golden *kept, const char *name)
{
    static golden stored;
    char path[4096];
    snprintf(path, sizeof path, VW_TEST_DATA "/golden/%s.txt", name);
    FILE *file = fopen(path, getenv("VRAMWISE_RENEW") != NULL ? "w" : "r");
    if (file == NULL)
        fail_msg("%s cannot be opened", path);
    if (getenv("VRAMWISE_RENEW") != NULL) {
        assert_int_equal(fwrite(kept->text, 1, kept->size_bytes, file), kept->size_bytes);
    } else {
        stored.size_bytes = fread(stored.text, 1, sizeof stored.text - 1, file);
        stored.text[stored.size_bytes] = '\0';
        if (strcmp(stored.text, kept->text) != 0)
            fail_msg("the wording is not that of %s, from its line %zu on. If it is better: "
                     "VRAMWISE_RENEW=1. All of it:\n%s",
                     path, golden_line_that_differs(stored.text, kept->text), kept->text);
    }
    assert_int_equal(fclose(file), 0);
}

#endif /* VW_TESTS_GOLDEN_H */
