/* step_log_fields.c - what a name and a number of a log mean together.
 *
 * There is no list of names: every project invents its own. There is a list of words that names are
 * made of (mem, alloc, peak, reserved, gpu; step, iter; free, total, time ...), and rules for what
 * they mean together. A word that turns the meaning ("free memory", "step time", "memory_fraction")
 * makes the field another thing, whatever else the name says: a figure missed costs a point, and a
 * figure mistaken costs the verdict. */
#include "parse/step_log_internal.h"

#include <string.h>

#define KIB 1024.0
#define MIB (1024.0 * KIB)
#define GIB (1024.0 * MIB)
#define TIB (1024.0 * GIB)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { MOST_WORD_BYTES = 24 };

/* ---- words ----------------------------------------------------------------------------------- */

enum {
    STEP = 1 << 0,
    EPOCH = 1 << 1,
    MEMORY = 1 << 2,
    ALLOCATED = 1 << 3, /* says by itself that it is memory */
    RESERVED = 1 << 4,
    PEAK = 1 << 5,
    USED = 1 << 6, /* of memory: what is allocated */
    GPU = 1 << 7,  /* or the number of one */
    RANK = 1 << 8,
    BATCH = 1 << 9,      /* a step where nothing better is there */
    ELSEWHERE = 1 << 10, /* it is about something else */
    GLOBAL = 1 << 11,    /* the step of the whole run */
    UNIT = 1 << 12,
    SHORT = 1 << 13,  /* a word so short that the number must have a unit */
    CACHE = 1 << 14,  /* of memory: what is reserved */
    HOST = 1 << 15,   /* of the host, unless a GPU is named, too */
    FREE = 1 << 16,   /* of memory: what is not used */
    FILES = 1 << 17,  /* a size in a line with such a word is of a file */
    METRIC = 1 << 18, /* every training line has these, and no size is of them */
    TOTAL = 1 << 19,  /* of steps: how many there will be, not which one it is */
    DONE = 1 << 20,   /* but of these, how many there were: num_updates */

    SHOWN = MEMORY | ALLOCATED | RESERVED | PEAK | USED | GPU | CACHE | HOST | FREE /* in names */
};

/* Words that mean the same. */
typedef struct meaning {
    int flags;
    double unit_bytes;
    const char *words;
} meaning;

static const meaning meanings[] = {
    {STEP, 0,
     "it iter iteration iterations iters itr step steps timestep timesteps "
     "update"},
    {STEP | DONE, 0, "updates"},
    {EPOCH, 0, "ep epoch"},
    {BATCH, 0, "batch"},
    {GLOBAL, 0, "global"},
    {TOTAL, 0, "num"},
    {RANK, 0, "rank"},
    {MEMORY | GPU, 0, "vram"},
    {MEMORY | HOST, 0, "ram rss"},
    {ALLOCATED, 0, "alloc allocated"},
    {ALLOCATED | SHORT, 0, "allocation ma"}, /* ma is DeepSpeed's: memory allocated */
    {RESERVED, 0, "reserved"},
    {RESERVED | SHORT, 0, "ca res"}, /* ca is what DeepSpeed calls it: cached */
    {CACHE, 0, "cache cached"},
    {USED, 0, "active usage use used"},
    {FREE, 0, "free"},
    {PEAK, 0, "max maximum peak peaked"},
    {GPU, 0, "cuda device gpu"},
    {HOST, 0, "cpu host sys system"},
    {UNIT, 1, "byte bytes"},
    {UNIT, GIB, "gb gib"},
    {UNIT, KIB, "kb kib"},
    {UNIT, MIB, "mb mib"},
    {ELSEWHERE | METRIC, 0, "acc accuracy eta loss lr min mins minutes ms s sec seconds secs time"},
    {ELSEWHERE | FILES, 0,
     "checkpoint checkpoints ckpt dataset disk download downloaded "
     "downloading file files save saved saves saving upload uploaded write "
     "writing written wrote"},
    {ELSEWHERE, 0,
     "allowed avail available bandwidth bus bw capacity clock count delta "
     "diff efficient flops frac fraction fragmentation freed inactive kv "
     "left limit model oom ooms param parameters params pct per percent "
     "percentage pinned power rate ratio remaining retries shm size swap "
     "temp temperature threshold throughput tokens total tried util "
     "utilisation utilization"},
};

static size_t slot_of(const char *word, size_t size)
{
    uint32_t hash = 2166136261; /* FNV-1a */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)word[i]) * 16777619;
    return hash % VW__STEP_LOG_WORD_SLOTS;
}

/* The slot of a word, or the empty one where it belongs. */
static size_t find_slot(const vw__step_log_words *words, const char *word, size_t size)
{
    size_t slot = slot_of(word, size);
    while (words->slots[slot].text != NULL && (words->slots[slot].size_bytes != size ||
                                               memcmp(words->slots[slot].text, word, size) != 0))
        slot = (slot + 1) % VW__STEP_LOG_WORD_SLOTS;
    return slot;
}

void vw__step_log_words_init(vw__step_log_words *words)
{
    memset(words, 0, sizeof *words);
    for (size_t i = 0; i < COUNT_OF(meanings); i++)
        for (const char *word = meanings[i].words; *word != '\0';) {
            size_t size = strcspn(word, " ");
            words->slots[find_slot(words, word, size)] =
                (vw__step_log_word){word, (uint8_t)size, (uint8_t)i};
            word += size + (word[size] == ' ');
        }
}

static bool ends_with(const char *word, size_t size, const char *ending)
{
    size_t ending_size = strlen(ending);
    return size >= ending_size && memcmp(word + size - ending_size, ending, ending_size) == 0;
}

/* mem, memory, maxmem, gpumemory, memused, memalloc; not member, memcpy or remembered. */
static int memory_flags(const char *word, size_t size)
{
    static const struct {
        const char *word;
        int flags;
    } parts[] = {
        {"", 0},        {"alloc", ALLOCATED},   {"gb", 0},
        {"gpu", GPU},   {"max", PEAK},          {"mb", 0},
        {"peak", PEAK}, {"reserved", RESERVED}, {"usage", USED},
        {"used", USED}, {"use", USED},
    };
    if (ends_with(word, size, "mem") || ends_with(word, size, "memory"))
        return MEMORY | (strncmp(word, "max", 3) == 0 || strncmp(word, "peak", 4) == 0 ? PEAK : 0);
    if (strncmp(word, "mem", 3) != 0)
        return 0;
    const char *rest = word + (strncmp(word, "memory", 6) == 0 ? 6 : 3);
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (strcmp(rest, parts[i].word) == 0)
            return MEMORY | parts[i].flags;
    return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Does another word begin at `at`, in the middle of letters? memUsed is two, MiB is one. */
static bool is_hump(const char *name, size_t at)
{
    return vw__ascii_is_upper(name[at]) && !vw__ascii_is_upper(name[at - 1]) &&
           !(name[at] == 'B' && name[at - 1] == 'i');
}

/* Behind the word at `at`; `at` itself where no letter is there. */
static size_t word_end(vw__line line, size_t at)
{
    size_t begin = at;
    while (vw__line_is_letter(line, at) && (at == begin || !is_hump(line.text, at)))
        at++;
    return at;
}

/* Everything that the words of a name say, without order. */
typedef struct name_words {
    int flags;
    int allocated_count;
    double unit_bytes;
    size_t first, end; /* from the first word about memory to the last */
    int device;        /* gpu.1, cuda:0; -1 = not said */
    bool has_unknown;  /* words that mean nothing here */
} name_words;

static void note_word(const vw__step_log_words *words, name_words *said, const char *name,
                      size_t begin, size_t end)
{
    char word[MOST_WORD_BYTES];
    size_t size = end - begin;
    if (size >= sizeof word) {
        said->has_unknown = true;
        return;
    }
    for (size_t i = 0; i < size; i++)
        word[i] = vw__ascii_to_lower(name[begin + i]);
    word[size] = '\0';
    const vw__step_log_word *found = &words->slots[find_slot(words, word, size)];
    meaning known = {.flags = 0};
    if (found->text != NULL)
        known = meanings[found->meaning];
    else
        known.flags = memory_flags(word, size);
    if (known.flags == 0) {
        said->has_unknown = true;
        return;
    }
    if ((known.flags & SHOWN) != 0) {
        if (said->end == 0)
            said->first = begin;
        said->end = end;
    }
    said->flags |= known.flags;
    said->allocated_count += (known.flags & ALLOCATED) != 0;
    if (known.unit_bytes != 0)
        said->unit_bytes = known.unit_bytes;
}

/* Digits right behind a word for the card, or behind one mark between. */
static int device_behind(vw__line name, size_t at)
{
    enum { MOST_DIGITS = 4 };
    char mark = vw__line_at(name, at);
    at += mark != '\0' && strchr("._/:", mark) != NULL;
    return vw__line_digits(name, &at, MOST_DIGITS);
}

static name_words words_of(const vw__step_log_words *words, vw__line name)
{
    name_words said = {.device = -1};
    for (size_t at = 0; at < name.size_bytes;) {
        if (name.text[at] == '%')
            said.flags |= ELSEWHERE;
        size_t begin = at;
        at = word_end(name, at);
        if (at == begin) {
            at++;
            continue;
        }
        int before = said.flags;
        note_word(words, &said, name.text, begin, at);
        if ((said.flags & GPU) != 0 && (before & GPU) == 0)
            said.device = device_behind(name, at);
    }
    if ((said.flags & GPU) != 0)
        said.flags &= ~HOST; /* GPU RAM, system.gpu */
    return said;
}

static void set_kind(vw__step_log_field *field, vw__step_log_field_kind kind, int weight)
{
    field->kind = kind;
    field->weight = weight;
}

static void weigh_step(const name_words *said, vw__step_log_field *field)
{
    enum { MEMORY_WORDS = MEMORY | ALLOCATED | RESERVED | USED | CACHE | UNIT };
    if ((said->flags & (PEAK | MEMORY_WORDS)) != 0)
        field->kind = VW__STEP_LOG_FIELD_OTHER; /* max_steps, steps_mb */
    else if ((said->flags & STEP) != 0)
        set_kind(field, VW__STEP_LOG_FIELD_STEP, (said->flags & GLOBAL) != 0 ? 7 : 6);
    else if ((said->flags & EPOCH) != 0)
        set_kind(field, VW__STEP_LOG_FIELD_EPOCH, 1);
    else
        set_kind(field, VW__STEP_LOG_FIELD_STEP, 2);
}

static void weigh_memory(const name_words *said, vw__step_log_field *field)
{
    bool is_memory = (said->flags & (MEMORY | ALLOCATED | RESERVED)) != 0;
    bool is_bare = (said->flags & SHORT) != 0 && (said->flags & MEMORY) == 0;
    bool is_reserved = (said->flags & RESERVED) != 0 || ((said->flags & CACHE) != 0 && is_memory);
    field->unit_bytes = said->unit_bytes;
    field->is_peak = (said->flags & PEAK) != 0;
    if (!is_memory) {
        /* "gpu", "peak", "used", "gb" alone: memory if it is measured in bytes. */
        bool has_word = (said->flags & (GPU | PEAK | USED)) != 0;
        bool is_only_unit = !has_word && said->unit_bytes >= MIB && !said->has_unknown;
        if (!(has_word || is_only_unit) || (said->flags & CACHE) != 0)
            return;
        set_kind(field, VW__STEP_LOG_FIELD_ALLOCATED, field->is_peak ? 2 : 3);
        field->needs_unit = said->unit_bytes == 0;
        field->may_be_rank = said->flags == GPU;
        return;
    }
    field->needs_unit = is_bare && said->unit_bytes == 0;
    field->kind = is_reserved ? VW__STEP_LOG_FIELD_RESERVED : VW__STEP_LOG_FIELD_ALLOCATED;
    field->weight = (said->flags & ALLOCATED) != 0 || is_reserved ? 8 : 6;
    if (field->is_peak)
        field->weight -= 3;
}

/* Memory of the host, or what is free on the card. Of the host's, what is free or cached means
 * little: the system keeps files there. */
static void weigh_apart(const name_words *said, vw__step_log_field *field)
{
    bool is_host = (said->flags & HOST) != 0, is_free = (said->flags & FREE) != 0;
    enum { MEASURED = MEMORY | ALLOCATED | UNIT };
    field->unit_bytes = said->unit_bytes;
    field->is_peak = (said->flags & PEAK) != 0;
    if ((is_host && is_free) || (said->flags & (CACHE | RESERVED)) != 0)
        set_kind(field, VW__STEP_LOG_FIELD_OTHER, 0);
    else if (is_host)
        set_kind(field, VW__STEP_LOG_FIELD_HOST, field->is_peak ? 5 : 6);
    else if ((said->flags & (MEASURED | GPU)) != 0)
        set_kind(field, VW__STEP_LOG_FIELD_FREE, 6);
    else
        set_kind(field, VW__STEP_LOG_FIELD_OTHER, 0);
    field->needs_unit = (said->flags & MEASURED) == 0;
}

vw__step_log_field vw__step_log_field_nameless(vw__step_log_field_kind kind, int weight)
{
    return (vw__step_log_field){.kind = kind, .weight = weight, .device = -1, .name = {"", 0}};
}

vw__step_log_field vw__step_log_field_of_name(const vw__step_log_words *words, vw__line name)
{
    name_words said = words_of(words, name);
    vw__step_log_field field = {
        .name = {name.text + said.first, said.end - said.first},
        .has_more = said.has_unknown,
        .device = said.device,
    };
    if ((said.flags & (TOTAL | DONE)) == TOTAL)
        said.flags |= ELSEWHERE;
    if ((said.flags & ELSEWHERE) != 0 || said.allocated_count > 1) { /* two: a running total */
        field.kind = VW__STEP_LOG_FIELD_OTHER;
        return field;
    }
    if ((said.flags & (STEP | EPOCH | BATCH)) != 0 &&
        (said.flags & (MEMORY | ALLOCATED | RESERVED)) == 0)
        weigh_step(&said, &field);
    else if ((said.flags & (HOST | FREE)) != 0)
        weigh_apart(&said, &field);
    else if (said.flags == RANK || said.flags == (RANK | GPU))
        field.kind = VW__STEP_LOG_FIELD_RANK;
    else
        weigh_memory(&said, &field);
    if (field.kind == VW__STEP_LOG_FIELD_NONE && (said.has_unknown || said.flags != 0))
        field.kind = VW__STEP_LOG_FIELD_UNKNOWN;
    return field;
}

vw__step_log_talk vw__step_log_talk_of(const vw__step_log_words *words, vw__line text)
{
    enum {
        OF_STEPS = STEP | EPOCH | BATCH | RANK | GLOBAL | UNIT | METRIC,
        OF_MEMORY = SHOWN | SHORT
    };
    vw__step_log_talk talk = VW__STEP_LOG_TALK_OF_STEPS;
    for (size_t at = 0; at < text.size_bytes;) {
        size_t begin = at;
        at = word_end(text, at);
        if (at == begin) {
            at++;
            continue;
        }
        if (begin != 0 && vw__ascii_is_digit(text.text[begin - 1]))
            continue;
        name_words said = {0};
        note_word(words, &said, text.text, begin, at);
        vw__step_log_talk word = (said.flags & FILES) != 0       ? VW__STEP_LOG_TALK_OF_FILES
                                 : (said.flags & OF_MEMORY) != 0 ? VW__STEP_LOG_TALK_OF_MEMORY
                                 : (said.flags & OF_STEPS) != 0  ? VW__STEP_LOG_TALK_OF_STEPS
                                                                 : VW__STEP_LOG_TALK_OF_ELSE;
        talk = word > talk ? word : talk;
    }
    return talk;
}

/* ---- sightings ------------------------------------------------------------------------------- */

/* A line may name its memory three times (allocated, peak, in use), for several devices, and for
 * the host besides; and its step twice, within the epoch and of the whole run. Fields are offered
 * one by one, in whatever order the line has them. For each thing that a sighting can hold the
 * heavier name stays, and one with a unit before one without. */

enum { MOST_RANKS = 1 << 20 };

void vw__step_log_sighting_init(vw__step_log_sighting *sighting)
{
    *sighting = (vw__step_log_sighting){.rank = -1, .device = -1};
    sighting->memory[VW__STEP_LOG_OF_CARD].device = -1;
}

bool vw__step_log_sighting_has_memory(const vw__step_log_sighting *sighting)
{
    for (size_t i = 0; i < VW__STEP_LOG_MEMORIES; i++)
        if (sighting->memory[i].weight != 0)
            return true;
    return false;
}

/* A field and its number as a reading; weight 0 where they are not memory, such as more bytes than
 * any machine has. */
static vw__step_log_reading reading_of(const vw__step_log_field *field,
                                       const vw__line_number *number)
{
    vw__step_log_reading reading = {
        .value = number->value,
        .unit_bytes = number->unit_bytes != 0 ? number->unit_bytes : field->unit_bytes,
        .device = field->device,
        .is_peak = field->is_peak,
    };
    double bytes = reading.value * (reading.unit_bytes != 0 ? reading.unit_bytes : 1);
    bool has_unit = reading.unit_bytes != 0;
    if ((!field->needs_unit || has_unit) && reading.value >= 0 && bytes <= 1024 * TIB)
        reading.weight = 2 * field->weight + has_unit;
    size_t most = sizeof reading.name - 1;
    memcpy(reading.name, field->name.text,
           field->name.size_bytes < most ? field->name.size_bytes : most);
    return reading;
}

static void keep_heavier(vw__step_log_reading *kept, const vw__step_log_reading *reading)
{
    if (reading->weight > kept->weight)
        *kept = *reading;
}

/* Adds memory of another device than the first. The heavier name is believed here, too. */
static void offer_device(vw__step_log_sighting *sighting, const vw__step_log_reading *reading)
{
    size_t at = 0;
    while (at < sighting->device_count && sighting->devices[at].device != reading->device)
        at++;
    if (at == VW__STEP_LOG_SIGHTING_MOST_DEVICES)
        return;
    if (at == sighting->device_count)
        sighting->devices[sighting->device_count++] = *reading;
    else
        keep_heavier(&sighting->devices[at], reading);
}

/* Is it of another device than what is known already? */
static bool is_of_other_device(const vw__step_log_reading *known,
                               const vw__step_log_reading *reading)
{
    return known->weight != 0 && reading->weight != 0 && known->device >= 0 &&
           reading->device >= 0 && known->device != reading->device;
}

static void offer_allocated(vw__step_log_sighting *sighting, const vw__step_log_field *field,
                            const vw__line_number *number)
{
    vw__step_log_reading *known = &sighting->memory[VW__STEP_LOG_OF_CARD];
    vw__step_log_reading reading = reading_of(field, number);
    if (reading.device < 0)
        reading.device = sighting->device;
    if (is_of_other_device(known, &reading)) {
        offer_device(sighting, &reading);
    } else if (reading.weight > known->weight) {
        *known = reading;
        if (sighting->rank < 0)
            sighting->rank = reading.device;
    }
}

static void offer_rank(vw__step_log_sighting *sighting, const vw__line_number *number)
{
    if (number->is_whole && number->unit_bytes == 0 && number->value < MOST_RANKS &&
        sighting->rank < 0)
        sighting->rank = (int)number->value;
}

static void offer_reading(vw__step_log_sighting *sighting, vw__step_log_memory kind,
                          const vw__step_log_field *field, const vw__line_number *number)
{
    vw__step_log_reading reading = reading_of(field, number);
    keep_heavier(&sighting->memory[kind], &reading);
}

static void offer_step(vw__step_log_sighting *sighting, double step, int weight, bool is_epoch)
{
    if (weight <= sighting->step_weight)
        return;
    sighting->step = step;
    sighting->step_weight = weight;
    sighting->is_epoch = is_epoch;
}

void vw__step_log_sighting_offer(vw__step_log_sighting *sighting, const vw__step_log_field *field,
                                 const vw__line_number *number)
{
    if (number->is_other) {
        /* A percentage of the card's memory; of a GPU alone it would be how busy it is. */
        if (number->is_percent && number->value <= 100 &&
            field->kind == VW__STEP_LOG_FIELD_ALLOCATED && !field->needs_unit &&
            field->unit_bytes == 0)
            offer_reading(sighting, VW__STEP_LOG_OF_SHARE, field, number);
        return;
    }
    switch (field->kind) {
    case VW__STEP_LOG_FIELD_STEP:
    case VW__STEP_LOG_FIELD_EPOCH:
        if (number->unit_bytes == 0)
            offer_step(sighting, number->value, field->weight,
                       field->kind == VW__STEP_LOG_FIELD_EPOCH);
        break;
    case VW__STEP_LOG_FIELD_RANK:
        offer_rank(sighting, number);
        break;
    case VW__STEP_LOG_FIELD_ALLOCATED:
        if (field->may_be_rank && number->is_whole && number->unit_bytes == 0) {
            offer_rank(sighting, number);
            sighting->device = number->value < MOST_RANKS ? (int)number->value : -1;
        }
        offer_allocated(sighting, field, number);
        break;
    case VW__STEP_LOG_FIELD_RESERVED:
        offer_reading(sighting, VW__STEP_LOG_OF_RESERVED, field, number);
        break;
    case VW__STEP_LOG_FIELD_HOST:
        offer_reading(sighting, VW__STEP_LOG_OF_HOST, field, number);
        break;
    case VW__STEP_LOG_FIELD_FREE:
        offer_reading(sighting, VW__STEP_LOG_OF_FREE, field, number);
        break;
    case VW__STEP_LOG_FIELD_NONE:
    case VW__STEP_LOG_FIELD_UNKNOWN:
    case VW__STEP_LOG_FIELD_OTHER:
        break;
    }
}

void vw__step_log_sighting_merge(vw__step_log_sighting *sighting,
                                 const vw__step_log_sighting *other)
{
    if (is_of_other_device(&sighting->memory[VW__STEP_LOG_OF_CARD],
                           &other->memory[VW__STEP_LOG_OF_CARD]))
        offer_device(sighting, &other->memory[VW__STEP_LOG_OF_CARD]);
    for (size_t i = 0; i < other->device_count; i++)
        offer_device(sighting, &other->devices[i]);
    for (size_t i = 0; i < VW__STEP_LOG_MEMORIES; i++)
        keep_heavier(&sighting->memory[i], &other->memory[i]);
    offer_step(sighting, other->step, other->step_weight, other->is_epoch);
    if (sighting->rank < 0)
        sighting->rank = other->rank;
}
