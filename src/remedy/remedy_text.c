/* remedy_text.c - the code of a remedy, with the reader's own words in it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "remedy/remedy.h"

enum { MOST_TEXT_BYTES = 2048, DIGITS_BYTES = 24, USUAL_BATCH_PARTS = 2 };

typedef struct text_draft {
    char bytes[MOST_TEXT_BYTES];
    size_t length;
} text_draft;

static const char *word_or(const char *word, const char *usual)
{
    return word != NULL ? word : usual;
}

static void append(text_draft *draft, const char *text, size_t length)
{
    size_t room = sizeof draft->bytes - 1 - draft->length;
    size_t kept = length < room ? length : room;
    memcpy(draft->bytes + draft->length, text, kept);
    draft->length += kept;
}

/* The word behind a "$"; NULL for unknown names. `digits` keeps numbers. */
static const char *word_for(const char *name, size_t length, const vw__remedy_words *words,
                            char digits[DIGITS_BYTES])
{
    const struct {
        const char *name, *word;
    } known[] = {
        {"module", word_or(words->module, "cuda")},
        {"type", word_or(words->type, "bfloat16")},
        {"sample", word_or(words->sample, "batch")},
        {"loss", word_or(words->loss, "loss_of(model, batch)")},
        {"output", word_or(words->output, "model(inputs)")},
        {"batch_size", word_or(words->batch_size, "batch_size // $parts")},
        {"rows", word_or(words->rows, "hidden, labels = hidden.flatten(0, 1), labels.flatten()  # "
                                      "shifted as in your loss")},
        {"head", word_or(words->head, "lm_head(hidden).float()")},
        {"attention", word_or(words->attention, "sdpa")},
        {"settings", word_or(words->settings, "PYTORCH_CUDA_ALLOC_CONF")},
        {"storage", word_or(words->storage, "")},
        {"fraction", word_or(words->fraction, "1.0")},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i].name) == length && memcmp(known[i].name, name, length) == 0)
            return known[i].word;
    bool is_parts = length == strlen("parts") && memcmp(name, "parts", length) == 0;
    bool is_rank = length == strlen("rank") && memcmp(name, "rank", length) == 0;
    if (!is_parts && !is_rank)
        return NULL;
    uint64_t number = is_parts ? words->parts : words->rank;
    uint64_t usual = is_parts ? USUAL_BATCH_PARTS : VW__REMEDY_LORA_RANK;
    (void)snprintf(digits, DIGITS_BYTES, "%" PRIu64, number != 0 ? number : usual);
    return digits;
}

static size_t name_length(const char *name)
{
    return strspn(name, "abcdefghijklmnopqrstuvwxyz_");
}

/* Words may have words in them, but no further ones. */
static void expand(text_draft *draft, const char *text, const vw__remedy_words *words,
                   bool is_in_word)
{
    char digits[DIGITS_BYTES];
    while (*text != '\0') {
        size_t plain = strcspn(text, "$");
        append(draft, text, plain);
        text += plain;
        if (*text == '\0')
            return;
        size_t length = name_length(text + 1);
        const char *word = word_for(text + 1, length, words, digits);
        if (word == NULL)
            append(draft, text, 1 + length);
        else if (is_in_word)
            append(draft, word, strlen(word));
        else
            expand(draft, word, words, true);
        text += 1 + length;
    }
}

const char *vw__remedy_text(vw__arena *arena, const char *text, const vw__remedy_words *words)
{
    static const vw__remedy_words usual = {.parts = 0};
    text_draft draft = {.length = 0};
    if (strchr(text, '$') == NULL)
        return text;
    expand(&draft, text, words != NULL ? words : &usual, false);
    return vw__arena_copy(arena, draft.bytes, draft.length);
}
