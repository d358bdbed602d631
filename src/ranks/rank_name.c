/* rank_name.c - see rank_name.h. */
#include "ranks/rank_name.h"

#include <string.h>
#include <strings.h> /* strncasecmp */

#include "base/ascii.h"

enum { MOST_DIGITS = 6 };

typedef struct span {
    const char *text;
    size_t size_bytes;
} span;

static bool ends_with(span name, const char *ending)
{
    size_t length = strlen(ending);
    return name.size_bytes >= length &&
           strncasecmp(name.text + name.size_bytes - length, ending, length) == 0;
}

static bool begins_with(span name, const char *beginning)
{
    size_t length = strlen(beginning);
    return name.size_bytes >= length && strncasecmp(name.text, beginning, length) == 0;
}

static bool is_word(span name, const char *word)
{
    return name.size_bytes == strlen(word) && begins_with(name, word);
}

/* The digits at `at`, of which nothing else may follow: none, or too many, is no number. */
static bool read_number(span name, size_t at, size_t *end, uint64_t *number)
{
    uint64_t value = 0;
    size_t here = at;
    while (here < name.size_bytes && vw__ascii_is_digit(name.text[here]) &&
           here - at <= MOST_DIGITS)
        value = value * 10 + (uint64_t)(name.text[here++] - '0');
    if (here == at || here - at > MOST_DIGITS)
        return false;
    *end = here;
    *number = value;
    return true;
}

/* "lora_rank16" is a setting of the run. */
static bool is_of_adapter(span name, size_t at)
{
    static const char word[] = "lora";
    size_t length = sizeof word - 1;
    return at > length && strncasecmp(name.text + at - length - 1, word, length) == 0;
}

/* `word` at `at`, a number behind it, and one sign between them at most. */
static bool read_word(span name, size_t at, const char *word, bool needs_sign_before,
                      uint64_t *rank)
{
    size_t end, length = strlen(word);
    if (strncasecmp(name.text + at, word, length) != 0 || is_of_adapter(name, at))
        return false;
    char before = at > 0 ? name.text[at - 1] : '.';
    if (needs_sign_before ? at == 0 || strchr("_.-", before) == NULL
                          : vw__ascii_is_letter(before) || vw__ascii_is_digit(before))
        return false;
    at += length;
    if (!needs_sign_before && strchr("_-.=", name.text[at]) != NULL)
        at++;
    return read_number(name, at, &end, rank) &&
           (end == name.size_bytes || !vw__ascii_is_letter(name.text[end]));
}

/* The last one in the name: what adds a rank to a name puts it behind. */
static bool find_word(span name, const char *word, bool needs_sign_before, uint64_t *rank)
{
    size_t length = strlen(word);
    for (size_t at = name.size_bytes; at-- > 0;)
        if (at + length < name.size_bytes && read_word(name, at, word, needs_sign_before, rank))
            return true;
    return false;
}

/* slurm-JOB-RANK.out, slurm-JOB_TASK.out, slurm-JOB_TASK-RANK.out: TASK is that of an array. */
static bool find_slurm(span name, vw__rank_name *out)
{
    size_t job = strlen("slurm-"), at = job, end;
    uint64_t task;
    if (!begins_with(name, "slurm-"))
        return false;
    while (at < name.size_bytes && vw__ascii_is_digit(name.text[at]))
        at++;
    if (at == job || at == name.size_bytes)
        return false;
    if (name.text[at] == '_' && read_number(name, at + 1, &end, &task) && end < name.size_bytes &&
        !vw__ascii_is_letter(name.text[end])) {
        out->array = name.text + job;
        out->array_bytes = end - job;
        at = end;
    }
    return name.text[at] == '-' && read_number(name, at + 1, &end, &out->rank) &&
           end < name.size_bytes && name.text[end] == '.';
}

/* An array's task is noted also where the rank is found in another way. */
static bool find_in_name(span name, vw__rank_name *out)
{
    uint64_t rank;
    bool is_slurm = find_slurm(name, out);
    if (!find_word(name, "rank", false, &rank) &&
        (is_slurm ||
         (!find_word(name, "task", false, &rank) && !find_word(name, "r", true, &rank))))
        return is_slurm;
    out->rank = rank;
    return true;
}

/* The part of `path` before its last slash; empty without one. */
static span folder_of(span path)
{
    while (path.size_bytes > 0 && path.text[path.size_bytes - 1] != '/')
        path.size_bytes--;
    if (path.size_bytes > 0)
        path.size_bytes--;
    return path;
}

static span last_part(span path)
{
    span folder = folder_of(path);
    size_t skipped = folder.size_bytes > 0 || (path.size_bytes > 0 && path.text[0] == '/')
                         ? folder.size_bytes + 1
                         : 0;
    return (span){path.text + skipped, path.size_bytes - skipped};
}

/* <run>/attempt_K/RANK/NAME */
static bool find_torchrun(span path, vw__rank_name *out)
{
    span folder = folder_of(path), attempt = folder_of(folder);
    span number = last_part(folder);
    size_t end;
    if (!begins_with(last_part(attempt), "attempt_") || !read_number(number, 0, &end, &out->rank) ||
        end != number.size_bytes)
        return false;
    out->is_known = out->is_local = true;
    out->run_bytes = folder_of(attempt).size_bytes;
    return true;
}

vw__rank_name vw__rank_of_path(const char *path)
{
    vw__rank_name found = {.is_known = false};
    span whole = {path, strlen(path)};
    if (find_in_name(last_part(whole), &found)) {
        found.is_known = true;
        return found;
    }
    if (find_torchrun(whole, &found))
        return found;
    for (span folder = folder_of(whole); folder.size_bytes > 0; folder = folder_of(folder))
        if (last_part(folder).size_bytes > strlen("rank") &&
            read_word(last_part(folder), 0, "rank", false, &found.rank)) {
            found.is_known = true;
            return found;
        }
    return found;
}

bool vw__is_log_name(const char *path)
{
    static const char *const compressed[] = {".gz", ".xz", ".zst"};
    static const char *const endings[] = {".log", ".out", ".err",    ".txt",   ".jsonl",
                                          ".csv", ".tsv", ".stdout", ".stderr"};
    static const char *const words[] = {"stdout", "stderr", "error.json"};
    span name = last_part((span){path, strlen(path)});
    for (size_t i = 0; i < sizeof compressed / sizeof *compressed; i++)
        if (ends_with(name, compressed[i])) {
            name.size_bytes -= strlen(compressed[i]);
            break;
        }
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_with(name, endings[i]))
            return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(name, words[i]))
            return true;
    return false;
}

bool vw__is_failure_name(const char *path)
{
    return begins_with(last_part((span){path, strlen(path)}), "vramwise-oom-");
}
