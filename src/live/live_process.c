/* live_process.c - the one page of the process, and who the process is; the names of the fields.
 *
 * The page is made at the first request, once: if that fails, the process goes on without. A child
 * made by fork() may make its own. When the process exits, the page only loses its name: other
 * threads may still write to it. */
#include "live/live_page.h"

#include <errno.h> /* program_invocation_short_name */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fork_guard.h"

static vw__mutex process_lock = VW__MUTEX_INIT(VW__LOCK_PROCESS_PAGE);
static vw_live_page *process_page;
static vw_status first_answer;
static char first_words[256];          /* of a failure */
static uint32_t asked_in = UINT32_MAX; /* the fork generation in which it was made, or tried */

static bool is_over; /* the process ends */

/* Another thread may have held the lock at the fork; the page belongs to the parent. */
static void forget_in_child(void)
{
    vw__mutex_init(&process_lock, VW__LOCK_PROCESS_PAGE);
    process_page = NULL;
    asked_in = UINT32_MAX;
}

static void register_handler(void)
{
    pthread_atfork(NULL, NULL, forget_in_child);
}

/* The first of these variables that holds a whole number, or `none`. */
static int number_in(const char *const *names, int none)
{
    for (; *names != NULL; names++) {
        const char *text = secure_getenv(*names);
        char *end = NULL;
        long number = text == NULL ? -1 : strtol(text, &end, 10);
        if (text != NULL && end != text && *end == '\0' && number >= 0 && number <= 1 << 24)
            return (int)number;
    }
    return none;
}

static const char *text_in(const char *const *names)
{
    for (; *names != NULL; names++) {
        const char *text = secure_getenv(*names);
        if (text != NULL && text[0] != '\0' && strcmp(text, "none") != 0)
            return text;
    }
    return NULL;
}

/* The last bytes that a page has room for: folders of runs that were started in one place differ at
 * the end. */
static const char *end_of(const char *text)
{
    enum { ROOM = VW__PAGE_TEXT_WORDS * sizeof(uint64_t) - 1 };
    size_t length = text != NULL ? strlen(text) : 0;
    return length > ROOM ? text + (length - ROOM) : text;
}

static vw_live_identity identity_of_process(void)
{
    static const char *const ranks[] = {"RANK", "SLURM_PROCID", "LOCAL_RANK", NULL};
    static const char *const local_ranks[] = {"LOCAL_RANK", "SLURM_LOCALID", NULL};
    static const char *const sizes[] = {"WORLD_SIZE", "SLURM_NTASKS", NULL};
    static const char *const jobs[] = {"SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", NULL};
    static const char *const runs[] = {"VRAMWISE_RUN", NULL};
    return (vw_live_identity){
        .struct_size = sizeof(vw_live_identity),
        .program = program_invocation_short_name,
        .job = text_in(jobs),
        .run = end_of(text_in(runs)),
        .rank = number_in(ranks, -1),
        .local_rank = number_in(local_ranks, -1),
        .world_size = number_in(sizes, 0),
    };
}

static bool is_set(const char *name)
{
    const char *text = secure_getenv(name);
    return text != NULL && text[0] != '\0' && strcmp(text, "0") != 0;
}

bool vw_live_is_wanted(void)
{
    const char *wish = secure_getenv("VRAMWISE_LIVE");
    return !is_set("VRAMWISE_DISABLE") && (wish == NULL || strcmp(wish, "0") != 0);
}

/* In the folder that the variable names; or in the machine's, if there is one that has room, and
 * else in shared memory. */
static vw_status make_page_of(const vw_live_identity *identity)
{
    const char *folder = secure_getenv("VRAMWISE_LIVE_DIR");
    if (folder != NULL && folder[0] != '\0')
        return vw_live_page_create(folder, identity, &process_page);
    if (vw__page_folder_is_shared(VW__PAGE_SHARED_FOLDER) &&
        vw_live_page_create(VW__PAGE_SHARED_FOLDER, identity, &process_page) == VW_OK)
        return VW_OK;
    return vw_live_page_create(NULL, identity, &process_page);
}

static vw_status make_page(void)
{
    if (is_over)
        return vw__fail(VW_ERR_WRONG_STATE, "the process ends");
    if (!vw_live_is_wanted())
        return vw__fail(VW_ERR_UNSUPPORTED, "switched off by VRAMWISE_LIVE or VRAMWISE_DISABLE");
    vw_live_identity identity = identity_of_process();
    return make_page_of(&identity);
}

vw_status vw_live_process_page(vw_live_page **out)
{
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a place for the page");
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    vw__fork_guard_start();
    pthread_once(&once, register_handler);
    vw__mutex_lock(&process_lock);
    if (asked_in != vw__fork_generation()) {
        asked_in = vw__fork_generation();
        first_answer = make_page();
        if (first_answer != VW_OK)
            snprintf(first_words, sizeof first_words, "%s", vw_last_error());
    }
    vw_status status = first_answer;
    if (status == VW_OK)
        *out = process_page;
    vw__mutex_unlock(&process_lock);
    return status == VW_OK ? VW_OK : vw__fail(status, "%s", first_words);
}

/* Priority 101: after the destructors of code that may ask for the page. */
__attribute__((destructor(101))) static void remove_at_end(void)
{
    vw__mutex_lock(&process_lock);
    is_over = true;
    if (process_page != NULL)
        (void)unlink(vw_live_page_path(process_page));
    vw__mutex_unlock(&process_lock);
}

/* ---- the names of the fields ----------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *help;
    vw_live_kind kind;
} fields[] = {
#define FIELD_ROW(upper, name, kind, help) {name, help, VW_LIVE_##kind},
    VW_LIVE_FIELD_LIST(FIELD_ROW)
#undef FIELD_ROW
};

size_t vw_live_field_count(void)
{
    return VW_LIVE_FIELD_COUNT;
}

const char *vw_live_field_name(size_t field)
{
    return field < VW_LIVE_FIELD_COUNT ? fields[field].name : NULL;
}

const char *vw_live_field_help(size_t field)
{
    return field < VW_LIVE_FIELD_COUNT ? fields[field].help : NULL;
}

vw_live_kind vw_live_field_kind(size_t field)
{
    return field < VW_LIVE_FIELD_COUNT ? fields[field].kind : VW_LIVE_GAUGE;
}

size_t vw_live_field_find(const char *name)
{
    size_t field = 0;
    while (name != NULL && field < VW_LIVE_FIELD_COUNT && strcmp(fields[field].name, name) != 0)
        field++;
    return name == NULL ? VW_LIVE_FIELD_COUNT : field;
}
