/* fuzz_run_news.c - any bytes as messages of watched processes, as `vramwise run` hears them.
 *
 * Whoever has the job's user can write to its socket. Messages are cut at the byte 0xff, which none
 * has in its grammar. Whatever comes, the account adds up: no more processes and failures than
 * messages, each process once, and the first failure is one of them. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_news.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

static void take_one(run_news *news, const uint8_t *from, size_t size)
{
    char *bytes = malloc(size + 1); /* exactly: a byte too far is seen */
    must(bytes != NULL);
    memcpy(bytes, from, size);
    const char *trouble = run_news_take(news, bytes, size);
    free(bytes);
    must(trouble == NULL || strcmp(trouble, news->troubles[news->trouble_count - 1]) == 0);
}

static void check(const run_news *news, size_t message_count)
{
    const run_process *first = run_news_first_failure(news);
    must(news->process_count <= message_count && news->trouble_count <= message_count);
    must(news->failure_count <= news->process_count);
    must(run_news_find(news, -1) == NULL);
    must(run_news_later_failures(news) <= message_count);
    must(first == NULL ||
         (first >= news->processes && first < news->processes + news->process_count));
    must(news->failure_count == 0 || (first != NULL && first->failure_number == 1));
    for (size_t i = 0; i < news->process_count; i++) {
        must(news->processes[i].id > 0 && news->processes[i].rank >= -1);
        must(run_news_find(news, news->processes[i].id) == &news->processes[i]);
        for (size_t k = 0; k < i; k++)
            must(news->processes[k].id != news->processes[i].id);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run_news news;
    size_t message_count = 0;
    run_news_init(&news);
    for (size_t at = 0; at < size && message_count < 200;) {
        const uint8_t *end = memchr(data + at, 0xff, size - at);
        size_t length = end != NULL ? (size_t)(end - (data + at)) : size - at;
        take_one(&news, data + at, length);
        message_count++;
        at += length + 1;
    }
    check(&news, message_count);
    run_news_deinit(&news);
    return 0;
}
