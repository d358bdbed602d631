/* metrics_text.c - jobs in the text format of Prometheus, version 0.0.4.
 *
 *   # HELP vramwise_live_bytes Bytes handed out to the program.
 *   # TYPE vramwise_live_bytes gauge
 *   vramwise_live_bytes{pid="4711",program="train.py",device="0"} 1073741824
 *
 * All lines of a family stand together, so the families are the outer loop and the devices the
 * inner one. A field of live.h is a family by itself; the other families are in the tables below.
 *
 * Prometheus wants base units and, of a counter, the ending _total: nanoseconds become seconds, by
 * their digits and not by way of a double. A label named `job` would be its own, and rename ours:
 * so it is job_id. What is not known is left out, a label as well as a line.
 *
 * No two lines may have the same labels. Of a process with two pages, or two processes with one
 * number (of two containers that share /dev/shm), all but the first have the label `page`. */
#include "vramwise/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/byte_buffer.h"
#include "base/utf8.h"

#define PREFIX "vramwise_"

/* A device of a job, with its outlook. */
typedef struct row {
    const vw_job *job;
    const vw_job_device *device;
    vw_job_outlook outlook;
} row;

/* The labels of a job, which all its lines have: a part of exposition.labels. */
typedef struct label_part {
    size_t begin, size_bytes;
} label_part;

typedef struct exposition {
    const vw_jobs *jobs;
    const char *run; /* NULL = all */
    row *rows;
    size_t row_count;
    label_part *parts; /* by the job's place */
    vw__byte_buffer labels;
    vw__byte_buffer text;
} exposition;

/* ---- which jobs ------------------------------------------------------------------------------ */

bool vw_job_is_of_run(const vw_job *job, const char *run)
{
    if (job == NULL || run == NULL || job->run[0] == '\0')
        return false;
    size_t length = strlen(run), kept = VW_JOB_TEXT_BYTES - 1;
    return strcmp(job->run, length > kept ? run + (length - kept) : run) == 0;
}

static bool is_meant(const exposition *made, const vw_job *job)
{
    return made->run == NULL || vw_job_is_of_run(job, made->run);
}

static bool is_shown(const exposition *made, const vw_job *job)
{
    return job->state == VW_JOB_RUNNING && is_meant(made, job);
}

/* A damaged page may have a device twice. */
static bool is_first_of_its_number(const vw_job *job, size_t place)
{
    for (size_t i = 0; i < place; i++)
        if (job->devices[i].index == job->devices[place].index)
            return false;
    return true;
}

static vw_status gather(exposition *made)
{
    size_t most = 0;
    for (size_t i = 0; i < made->jobs->job_count; i++)
        most += made->jobs->jobs[i].device_count;
    if (most == 0)
        return VW_OK;
    made->rows = vw__host_alloc(most * sizeof *made->rows);
    if (made->rows == NULL)
        return vw__fail_host_memory(most * sizeof *made->rows, "the devices of all jobs");
    for (size_t i = 0; i < made->jobs->job_count; i++) {
        const vw_job *job = &made->jobs->jobs[i];
        for (size_t j = 0; j < job->device_count && is_shown(made, job); j++) {
            row *next = &made->rows[made->row_count];
            if (!is_first_of_its_number(job, j))
                continue;
            *next = (row){.job = job, .device = &job->devices[j]};
            VW__TRY(vw_job_outlook_find(next->device, &next->outlook));
            made->row_count++;
        }
    }
    return VW_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* `digits` without a point, of which the last `decimals` stand behind it. */
typedef struct number {
    bool is_known;
    uint64_t digits;
    int decimals;
} number;

static number whole(uint64_t value)
{
    return (number){value != VW_LIVE_UNKNOWN, value, 0};
}

static number seconds_of_ns(uint64_t value_ns)
{
    return (number){value_ns != VW_LIVE_UNKNOWN, value_ns, 9};
}

static void append_number(vw__byte_buffer *text, number value)
{
    uint64_t scale = 1;
    for (int i = 0; i < value.decimals; i++)
        scale *= 10;
    vw__append_format(text, "%" PRIu64, value.digits / scale);
    if (value.decimals > 0)
        vw__append_format(text, ".%0*" PRIu64, value.decimals, value.digits % scale);
}

/* ---- labels ---------------------------------------------------------------------------------- */

/* The format escapes three characters. Controls and what is no UTF-8 become U+FFFD: nothing of it
 * reaches a terminal that shows a page, and a scrape never fails for it. */
static void append_escaped(vw__byte_buffer *text, const char *value)
{
    size_t left = strlen(value);
    while (left > 0) {
        uint32_t character = 0;
        size_t length = vw__utf8_next(value, left, &character);
        if (character == '\\' || character == '"')
            vw__append_format(text, "\\%c", (char)character);
        else if (character == '\n')
            vw__append_text(text, "\\n");
        else if (character == VW__UTF8_INVALID || character < 0x20 ||
                 (character >= 0x7F && character < 0xA0))
            vw__append_text(text, "\xEF\xBF\xBD");
        else
            vw__append_bytes(text, value, length);
        value += length;
        left -= length;
    }
}

/* The first of them is pid, which is always there. */
static void append_label(vw__byte_buffer *text, const char *name, const char *value)
{
    if (value[0] == '\0')
        return;
    vw__append_format(text, ",%s=\"", name);
    append_escaped(text, value);
    vw__append_text(text, "\"");
}

static void append_number_label(vw__byte_buffer *text, const char *name, int value, int none)
{
    if (value != none)
        vw__append_format(text, ",%s=\"%d\"", name, value);
}

static bool shares_its_number(const exposition *made, const vw_job *job)
{
    return job != made->jobs->jobs && job[-1].process == job->process; /* by process number */
}

/* Whose it is, where the pages of all users were read: by the kernel, not by the page. */
static void append_owner(vw__byte_buffer *text, const vw_job *job)
{
    const vw_job_container *container = job->container;
    vw__append_format(text, ",uid=\"%lu\"", job->user);
    if (container == NULL)
        return;
    append_label(text, "namespace", container->pod_namespace);
    append_label(text, "pod", container->pod);
    append_label(text, "pod_uid", container->pod_uid);
    append_label(text, "container_id", container->id);
}

/* The time in its name, where a process has several. Of all users it is the whole name, always:
 * that is once in the folder whoever chose it, and stays with the process when others end. */
static const char *name_of_page(const exposition *made, const vw_job *job)
{
    const char *end = strrchr(job->path, made->jobs->is_shared ? '/' : '-');
    bool is_told = end != NULL && (made->jobs->is_shared || shares_its_number(made, job));
    return is_told ? end + 1 : "";
}

static void append_labels(exposition *made, const vw_job *job)
{
    vw__byte_buffer *text = &made->labels;
    vw__append_format(text, "{pid=\"%ld\"", job->process);
    append_label(text, "page", name_of_page(made, job));
    if (made->jobs->is_shared)
        append_owner(text, job);
    append_number_label(text, "rank", job->rank, -1);
    append_label(text, "job_id", job->job);
    append_label(text, "program", job->program);
    append_label(text, "allocator", job->allocator);
}

/* Once for all families. */
static vw_status make_labels(exposition *made)
{
    size_t count = made->jobs->job_count;
    if (count == 0)
        return VW_OK;
    made->parts = vw__host_alloc(count * sizeof *made->parts);
    if (made->parts == NULL)
        return vw__fail_host_memory(count * sizeof *made->parts, "the labels of all jobs");
    for (size_t i = 0; i < count; i++) {
        size_t begin = vw__byte_buffer_size(&made->labels);
        append_labels(made, &made->jobs->jobs[i]);
        made->parts[i] = (label_part){begin, vw__byte_buffer_size(&made->labels) - begin};
    }
    return vw__byte_buffer_has_failed(&made->labels)
               ? vw__fail_host_memory(vw__byte_buffer_size(&made->labels), "the labels of all jobs")
               : VW_OK;
}

static void begin_line(exposition *made, const char *family, const vw_job *job)
{
    const label_part *part = &made->parts[job - made->jobs->jobs];
    vw__append_text(&made->text, PREFIX);
    vw__append_text(&made->text, family);
    vw__append_bytes(&made->text, vw__byte_buffer_text(&made->labels) + part->begin,
                     part->size_bytes);
}

static void end_line(exposition *made, number value)
{
    vw__append_text(&made->text, "} ");
    append_number(&made->text, value);
    vw__append_text(&made->text, "\n");
}

static void append_device_line(exposition *made, const char *family, const row *of, number value)
{
    if (!value.is_known)
        return;
    begin_line(made, family, of->job);
    vw__append_format(&made->text, ",device=\"%d\"", of->device->index);
    end_line(made, value);
}

static void begin_family(exposition *made, const char *family, vw_live_kind kind, const char *help)
{
    vw__append_format(&made->text, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", family, help,
                      family, kind == VW_LIVE_COUNTER ? "counter" : "gauge");
}

/* ---- families: the machine ------------------------------------------------------------------- */

static void append_states(exposition *made)
{
    static const char *const names[] = {
        [VW_JOB_RUNNING] = "running",
        [VW_JOB_OTHER_VERSION] = "other_version",
        [VW_JOB_BUSY] = "busy",
    };
    size_t counts[sizeof names / sizeof names[0]] = {0};
    for (size_t i = 0; i < made->jobs->job_count; i++)
        counts[made->jobs->jobs[i].state] += is_meant(made, &made->jobs->jobs[i]);
    begin_family(made, "jobs", VW_LIVE_GAUGE,
                 "Processes with a page: those that could be read, those of a vramwise whose pages "
                 "this one cannot read, and those whose page kept changing.");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        vw__append_format(&made->text, PREFIX "jobs{state=\"%s\"} %zu\n", names[i], counts[i]);
}

/* Pages that belong to nobody are no part of one run. */
static void append_leftovers(exposition *made)
{
    const struct {
        const char *name, *help;
        size_t count;
    } families[] = {
        {"stale_pages",
         "Pages of ended processes that this scan found, and removed where it could.",
         made->jobs->stale_count},
        {"refused_pages",
         "Files named like a page that are invalid or unreadable, or beyond one user's share.",
         made->jobs->refused_count},
    };
    for (size_t i = 0; i < sizeof families / sizeof families[0] && made->run == NULL; i++) {
        begin_family(made, families[i].name, VW_LIVE_GAUGE, families[i].help);
        vw__append_format(&made->text, PREFIX "%s %zu\n", families[i].name, families[i].count);
    }
}

/* ---- families: jobs -------------------------------------------------------------------------- */

static void append_infos(exposition *made)
{
    begin_family(made, "info", VW_LIVE_GAUGE, "Who the process is; always 1.");
    for (size_t i = 0; i < made->jobs->job_count; i++) {
        const vw_job *job = &made->jobs->jobs[i];
        if (!is_shown(made, job))
            continue;
        begin_line(made, "info", job);
        append_label(&made->text, "version", job->vramwise_version);
        append_number_label(&made->text, "local_rank", job->local_rank, -1);
        append_number_label(&made->text, "world_size", job->world_size, 0);
        end_line(made, whole(1));
    }
}

static void append_start_times(exposition *made)
{
    begin_family(made, "start_time_seconds", VW_LIVE_GAUGE,
                 "When the process made its page, in seconds since 1970.");
    for (size_t i = 0; i < made->jobs->job_count; i++) {
        const vw_job *job = &made->jobs->jobs[i];
        if (!is_shown(made, job))
            continue;
        begin_line(made, "start_time_seconds", job);
        end_line(made, (number){true, job->started_us, 6});
    }
}

/* ---- families: devices ----------------------------------------------------------------------- */

static void append_device_infos(exposition *made)
{
    begin_family(made, "device_info", VW_LIVE_GAUGE, "The name of a device; always 1.");
    for (size_t i = 0; i < made->row_count; i++) {
        const row *of = &made->rows[i];
        if (of->device->name[0] == '\0')
            continue;
        begin_line(made, "device_info", of->job);
        vw__append_format(&made->text, ",device=\"%d\"", of->device->index);
        append_label(&made->text, "device_name", of->device->name);
        end_line(made, whole(1));
    }
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static void append_field(exposition *made, size_t field)
{
    static const char nanoseconds[] = "_nanoseconds";
    char family[64];
    const char *name = vw_live_field_name(field);
    vw_live_kind kind = vw_live_field_kind(field);
    bool is_time = ends_with(name, nanoseconds);
    size_t stem = strlen(name) - (is_time ? strlen(nanoseconds) : 0);
    (void)snprintf(family, sizeof family, "%.*s%s%s", (int)stem, name, is_time ? "_seconds" : "",
                   kind == VW_LIVE_COUNTER ? "_total" : "");
    begin_family(made, family, kind, vw_live_field_help(field));
    for (size_t i = 0; i < made->row_count; i++) {
        uint64_t value = made->rows[i].device->values[field];
        append_device_line(made, family, &made->rows[i],
                           is_time ? seconds_of_ns(value) : whole(value));
    }
}

/* A page that changed after reading began has age 0. */
static number age_of(const exposition *made, const row *of)
{
    uint64_t updated_ns = of->device->updated_ns, read_ns = made->jobs->read_ns;
    if (updated_ns == 0)
        return whole(VW_LIVE_UNKNOWN);
    return seconds_of_ns(read_ns > updated_ns ? read_ns - updated_ns : 0);
}

static number room_of(const exposition *made, const row *of)
{
    (void)made;
    return whole(of->outlook.room_bytes);
}

/* 0 without a leak; unknown without steps. */
static number leak_of(const exposition *made, const row *of)
{
    (void)made;
    if (of->outlook.last_step == 0)
        return whole(VW_LIVE_UNKNOWN);
    double per_step = of->outlook.is_leak ? of->outlook.bytes_per_step : 0;
    return whole(per_step < 1e18 ? (uint64_t)(per_step + 0.5) : VW_LIVE_UNKNOWN);
}

static number steps_left_of(const exposition *made, const row *of)
{
    (void)made;
    uint64_t full_at = of->outlook.full_at_step, last = of->outlook.last_step;
    return whole(full_at != VW_LIVE_UNKNOWN && full_at >= last ? full_at - last : VW_LIVE_UNKNOWN);
}

static void append_outlooks(exposition *made)
{
    static const struct {
        const char *name, *help;
        number (*find)(const exposition *made, const row *of);
    } families[] = {
        {"page_age_seconds", "Time since the process last reported the device.", age_of},
        {"room_bytes",
         "What live bytes can still grow by: idle memory and what the device has free, or less "
         "where there is a limit.",
         room_of},
        {"leak_bytes_per_step",
         "How much live bytes grow with each step, if they have for as long as the steps go back; "
         "0 if not.",
         leak_of},
        {"steps_until_full", "Steps until such a leak has used up the room.", steps_left_of},
    };
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        begin_family(made, families[i].name, VW_LIVE_GAUGE, families[i].help);
        for (size_t j = 0; j < made->row_count; j++)
            append_device_line(made, families[i].name, &made->rows[j],
                               families[i].find(made, &made->rows[j]));
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static vw_status make(exposition *made, const vw_output *output)
{
    VW__TRY(gather(made));
    VW__TRY(make_labels(made));
    append_states(made);
    append_leftovers(made);
    append_infos(made);
    append_start_times(made);
    append_device_infos(made);
    for (size_t field = 0; field < VW_LIVE_FIELD_COUNT; field++)
        append_field(made, field);
    append_outlooks(made);
    return vw__byte_buffer_send(&made->text, output, "a page of metrics");
}

vw_status vw_jobs_metrics(const vw_jobs *jobs, const char *run, const vw_output *output)
{
    if (jobs == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected jobs, found NULL");
    exposition made = {.jobs = jobs, .run = run};
    vw__byte_buffer_init(&made.labels);
    vw__byte_buffer_init(&made.text);
    vw_status status = make(&made, output);
    vw__byte_buffer_deinit(&made.text);
    vw__byte_buffer_deinit(&made.labels);
    vw__host_free(made.parts);
    vw__host_free(made.rows);
    return status;
}
