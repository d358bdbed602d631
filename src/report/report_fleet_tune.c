/* report_fleet_tune.c - the setting for many jobs: which, how many fit with it, what it saves; the
 * setting for each kind; the jobs for which it matters. */
#include "vramwise/fleet.h"

#include <stdio.h>
#include <string.h>

#include "analysis/policies.h"
#include "report/report_fields.h"

/* ---- the fields; vramwise-tune(1) names them --------------------------------------------------
 */

/* "native", "recorded", or the option string. */
static void append_setting(vw__byte_buffer *cell, const void *object)
{
    const vw_fleet_setting *setting = object;
    bool has_conf = setting->conf != NULL && setting->conf[0] != '\0';
    vw__append_text(cell, has_conf                  ? setting->conf
                          : setting->policy != NULL ? setting->policy
                                                    : "(nothing fits)");
}

/* "" for none: a table of zeros hides the others. */
#define COUNT_COLUMN(function, member)                                                             \
    static void function(vw__byte_buffer *cell, const void *object)                                \
    {                                                                                              \
        size_t count = ((const vw_fleet_setting *)object)->member;                                 \
        if (count > 0)                                                                             \
            vw__append_text(cell, vw__report_count(count).text);                                   \
    }
COUNT_COLUMN(append_lost, lost_count)
COUNT_COLUMN(append_retries, retries)
#undef COUNT_COLUMN

static void append_driver(vw__byte_buffer *cell, const void *object)
{
    const vw_fleet_setting *setting = object;
    if (setting->fit_count > 0)
        vw__append_text(cell, vw__report_duration(setting->driver_ns).text);
}

static void append_saved(vw__byte_buffer *cell, const void *object)
{
    int64_t saved_bytes = ((const vw_fleet_setting *)object)->saved_bytes;
    uint64_t size_bytes = saved_bytes < 0 ? 0 - (uint64_t)saved_bytes : (uint64_t)saved_bytes;
    if (saved_bytes != 0)
        vw__append_format(cell, "%s%s", saved_bytes < 0 ? "-" : "",
                          vw__report_size(size_bytes).text);
}

#define SETTING(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_setting, key, member)
static const vw__report_field setting_list[] = {
    {VW__REPORT_COLUMN(6, NAME, "setting"), .append = append_setting},
    {SETTING(TEXT, "policy", policy)},
    {SETTING(TEXT, "conf", conf)},
    {SETTING(COUNT, "jobs", job_count)},
    {SETTING(COUNT, "fit", fit_count), VW__REPORT_COLUMN(1, NUMBER, "fit")},
    {SETTING(COUNT, "gained", gained_count)},
    {SETTING(COUNT, "lost", lost_count), VW__REPORT_COLUMN(2, NUMBER, "lost"),
     .append = append_lost},
    {SETTING(COUNT, "refused", refused_count)},
    {SETTING(INTEGER, "saved_bytes", saved_bytes), VW__REPORT_COLUMN(3, NUMBER, "saved"),
     .append = append_saved},
    {SETTING(BYTES, "peak_reserved_bytes", peak_reserved_bytes)},
    {SETTING(COUNT, "retrying_jobs", retry_count)},
    {SETTING(COUNT, "retries", retries), VW__REPORT_COLUMN(4, NUMBER, "retries"),
     .append = append_retries},
    {SETTING(COUNT, "driver_calls", driver_calls)},
    {SETTING(NANOSECONDS, "driver_us", driver_ns), VW__REPORT_COLUMN(5, NUMBER, "driver\ncalls"),
     .append = append_driver},
};
static const vw__report_fields setting_fields = VW__REPORT_FIELDS(vw_fleet_setting, setting_list);

static void append_kind(vw__byte_buffer *cell, const void *object)
{
    const vw_fleet_kind *kind = object;
    if (kind->name == NULL)
        vw__append_format(cell, "like %s", kind->job);
    else
        vw__append_text(cell, kind->name[0] != '\0' ? kind->name : "(no kind)");
}

static void append_kind_setting(vw__byte_buffer *cell, const void *object)
{
    append_setting(cell, &((const vw_fleet_kind *)object)->best);
}

#define KIND(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_kind, key, member)
static const vw__report_field kind_list[] = {
    {KIND(TEXT, "kind", name)},
    {VW__REPORT_COLUMN(4, WORD, "kind"), .append = append_kind},
    {KIND(TEXT, "job", job)},
    {KIND(COUNT, NULL, best.job_count), VW__REPORT_COLUMN(1, NUMBER, "jobs")},
    {KIND(COUNT, NULL, best.fit_count), VW__REPORT_COLUMN(2, NUMBER, "fit")},
    {KIND(COUNT, NULL, recorded.fit_count), VW__REPORT_COLUMN(3, NUMBER, "as\nrecorded")},
    {KIND(OBJECT, "recorded", recorded), .fields = &setting_fields},
    {KIND(OBJECT, "best", best), .fields = &setting_fields},
    {VW__REPORT_COLUMN(5, NAME, "setting"), .append = append_kind_setting},
};
static const vw__report_fields kind_fields = VW__REPORT_FIELDS(vw_fleet_kind, kind_list);

/* NULL: nothing to see. */
static const char *concern_of(const vw_fleet_tuned_job *job)
{
    if (!job->is_possible)
        return "too large";
    if (job->kind == SIZE_MAX)
        return job->fits_recorded ? "as recorded only" : "no setting fits";
    if (!job->fits)
        return job->fits_recorded ? "lost" : "does not fit";
    if (!job->fits_best)
        return "by its kind only";
    return job->fits_recorded ? NULL : "fits now";
}

static void append_concern(vw__byte_buffer *cell, const void *object)
{
    const char *concern = concern_of(object);
    if (concern != NULL)
        vw__append_text(cell, concern);
}

static void json_kind(vw__report *out, vw__json *json, const char *key, const void *object)
{
    size_t kind = ((const vw_fleet_tuned_job *)object)->kind;
    (void)out;
    vw__json_known(json, key, kind != SIZE_MAX ? kind : VW_UNKNOWN);
}

/* "" where it does not fit. */
static void append_known(vw__byte_buffer *cell, uint64_t size_bytes)
{
    if (size_bytes != VW_UNKNOWN)
        vw__append_text(cell, vw__report_size(size_bytes).text);
}

static void append_recorded_reserved(vw__byte_buffer *cell, const void *object)
{
    append_known(cell, ((const vw_fleet_tuned_job *)object)->recorded_reserved_bytes);
}

static void append_reserved(vw__byte_buffer *cell, const void *object)
{
    append_known(cell, ((const vw_fleet_tuned_job *)object)->reserved_bytes);
}

#define JOB(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_tuned_job, key, member)
static const vw__report_field job_list[] = {
    {JOB(TEXT, "job", name), VW__REPORT_COLUMN(6, PLACE, "job")},
    {.key = "kind", .write = json_kind},
    {JOB(COUNT, "recordings", recording_count), VW__REPORT_COLUMN(1, NUMBER, "recordings")},
    {JOB(COUNT, "skipped", skipped_count)},
    {JOB(BOOLEAN, "possible", is_possible)},
    {JOB(BOOLEAN, "fits_recorded", fits_recorded)},
    {JOB(BOOLEAN, "fits_best", fits_best)},
    {JOB(BOOLEAN, "fits", fits)},
    {JOB(BYTES, "peak_live_bytes", peak_live_bytes), VW__REPORT_COLUMN(2, NUMBER, "live")},
    {JOB(BYTES, "recorded_reserved_bytes", recorded_reserved_bytes),
     VW__REPORT_COLUMN(3, NUMBER, "recorded"), .append = append_recorded_reserved},
    {JOB(BYTES, "reserved_bytes", reserved_bytes), VW__REPORT_COLUMN(4, NUMBER, "reserved"),
     .append = append_reserved},
    {JOB(TEXT, "recorded_conf", recorded_conf)},
    {VW__REPORT_COLUMN(5, WORD, "result"), .append = append_concern},
};
static const vw__report_fields job_fields = VW__REPORT_FIELDS(vw_fleet_tuned_job, job_list);

#define SKIPPED(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_skipped, key, member)
static const vw__report_field skipped_list[] = {
    {SKIPPED(TEXT, "job", job)},
    {SKIPPED(TEXT, "path", path)},
    {SKIPPED(TEXT, "reason", reason)},
};
static const vw__report_fields skipped_fields = VW__REPORT_FIELDS(vw_fleet_skipped, skipped_list);

#define TUNING(kind, key, member) VW__REPORT_FIELD(kind, vw_fleet_tuning, key, member)
#define TUNING_COUNTED(member) VW__REPORT_COUNTED(vw_fleet_tuning, member)
static const vw__report_field files_list[] = {
    {TUNING(COUNT, "all", file_count)},
    {TUNING(COUNT, "recordings", recording_count)},
    {TUNING(COUNT, "skipped", skipped_count)},
    {TUNING(COUNT, "others", foreign_count)},
};
static const vw__report_fields files_fields = VW__REPORT_FIELDS(vw_fleet_tuning, files_list);

static const vw__report_field tuning_list[] = {
    {TUNING(BOOLEAN, "something_to_see", is_something_to_see)},
    {TUNING(BYTES, "card_bytes", card_bytes)},
    {TUNING(TEXT, "variable", variable)},
    {TUNING(COUNT, "too_large_jobs", impossible_count)},
    {TUNING(COUNT, "unfit_jobs", stuck_count)},
    {TUNING(COUNT, "jobs_without_recording", bare_count)},
    {TUNING(BOOLEAN, "recorded_is_best", is_recorded_best)},
    {TUNING(POINTER, "best", best), .fields = &setting_fields},
    {TUNING(OBJECT, "recorded", recorded), .fields = &setting_fields},
    {TUNING(POINTER, "defaults", defaults), .fields = &setting_fields},
    {TUNING(OBJECTS, "settings", settings), TUNING_COUNTED(setting_count),
     .fields = &setting_fields},
    {TUNING(COUNT, "kinds_fit", kinds_fit_count)},
    {TUNING(OBJECTS, "kinds", kinds), TUNING_COUNTED(kind_count), .fields = &kind_fields},
    {TUNING(OBJECTS, "jobs", jobs), TUNING_COUNTED(job_count), .fields = &job_fields},
    {TUNING(OBJECTS, "skipped", skipped), TUNING_COUNTED(skipped_count), .fields = &skipped_fields},
    {.key = "files", .kind = VW__REPORT_FIELD_OBJECT, .fields = &files_fields},
    {TUNING(TEXTS, "notes", notes), TUNING_COUNTED(note_count)},
};
static const vw__report_fields tuning_fields = VW__REPORT_FIELDS(vw_fleet_tuning, tuning_list);

/* ---- the answer ------------------------------------------------------------------------------ */

/* "for all 40 jobs", "for the one job". */
static vw__report_text whom(const vw_fleet_tuning *tuning)
{
    vw__report_text text;
    if (tuning->job_count == 1)
        (void)snprintf(text.text, sizeof text.text, "the one job");
    else
        (void)snprintf(text.text, sizeof text.text, "all %.40s",
                       vw__report_counted(tuning->job_count, "job").text);
    return text;
}

/* "37 fit", "1 fits". */
static vw__report_text fitting(size_t count)
{
    vw__report_text text;
    (void)snprintf(text.text, sizeof text.text, "%.40s fit%s", vw__report_count(count).text,
                   count == 1 ? "s" : "");
    return text;
}

/* What to do, up to the colon. */
static void append_advice(vw__byte_buffer *answer, const vw_fleet_tuning *tuning)
{
    const vw_fleet_setting *best = tuning->best;
    if (best == NULL && !tuning->is_recorded_best)
        vw__append_format(answer, "No setting makes any of %s fit",
                          vw__report_counted(tuning->job_count, "job").text);
    else if (tuning->is_recorded_best)
        vw__append_format(answer, "Keep the recorded settings for %s", whom(tuning).text);
    else if (vw__policy_is_vramwise(best->policy))
        vw__append_format(answer, "Use vramwise run --allocator %s for %s", best->policy,
                          whom(tuning).text);
    else if (best->conf[0] != '\0')
        vw__append_format(answer, "Set %s=%s for %s", tuning->variable, best->conf,
                          whom(tuning).text);
    else
        vw__append_format(answer, "Leave %s unset for %s", tuning->variable, whom(tuning).text);
}

/* With what the answer says. */
static size_t fit_count_of(const vw_fleet_tuning *tuning)
{
    if (tuning->is_recorded_best)
        return tuning->recorded.fit_count;
    return tuning->best != NULL ? tuning->best->fit_count : 0;
}

static void append_fit(vw__byte_buffer *answer, const vw_fleet_tuning *tuning)
{
    const vw_fleet_setting *best = tuning->best;
    size_t recorded_count = tuning->recorded.fit_count, fit_count = fit_count_of(tuning);
    const vw__report_text card = vw__report_size(tuning->card_bytes);
    if (tuning->is_recorded_best)
        vw__append_format(answer, ": %s in %s, and no setting for all does better",
                          fitting(fit_count).text, card.text);
    else if (best == NULL)
        vw__append_format(answer, " in %s", card.text);
    else
        vw__append_format(answer, ": %s in %s (%zu with the recorded settings)",
                          fitting(fit_count).text, card.text, recorded_count);
    if (tuning->kinds_fit_count > fit_count)
        vw__append_format(answer, "; %zu more fit%s with a setting for each kind",
                          tuning->kinds_fit_count - fit_count,
                          tuning->kinds_fit_count - fit_count == 1 ? "s" : "");
    if (tuning->impossible_count > 0)
        vw__append_format(answer, "; %zu need%s more memory whatever the setting",
                          tuning->impossible_count, tuning->impossible_count == 1 ? "s" : "");
    if (tuning->stuck_count > 0)
        vw__append_format(answer, "; %s with none of %zu settings",
                          fitting(tuning->stuck_count).text, tuning->setting_count);
    if (!tuning->is_recorded_best && best != NULL && best->saved_bytes > 0)
        vw__append_format(answer, "; %s less reserved by those that fit with both",
                          vw__report_size((uint64_t)best->saved_bytes).text);
}

static void say_answer(vw__report *out, const vw_fleet_tuning *tuning)
{
    size_t fit_count = fit_count_of(tuning);
    vw__report_style style = fit_count == tuning->job_count ? VW__REPORT_STYLE_GREEN
                             : fit_count > 0                ? VW__REPORT_STYLE_YELLOW
                                                            : VW__REPORT_STYLE_RED;
    vw__byte_buffer answer;
    vw__byte_buffer_init(&answer);
    append_advice(&answer, tuning);
    append_fit(&answer, tuning);
    vw__report_say(out, style, "%s", vw__byte_buffer_text(&answer));
    vw__byte_buffer_deinit(&answer);
    if (tuning->is_recorded_best || tuning->best == NULL)
        return;
    if (vw__policy_is_vramwise(tuning->best->policy))
        vw__report_verbatim(out, "vramwise run --allocator ", tuning->best->policy);
    else if (tuning->best->conf[0] != '\0') {
        char assignment[64];
        (void)snprintf(assignment, sizeof assignment, "%s=", tuning->variable);
        vw__report_verbatim(out, assignment, tuning->best->conf);
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool has_same_figures(const vw_fleet_setting *one, const vw_fleet_setting *other)
{
    return one->fit_count == other->fit_count && one->lost_count == other->lost_count &&
           one->saved_bytes == other->saved_bytes && one->retries == other->retries &&
           one->driver_ns == other->driver_ns;
}

/* True if a better setting has the same figures: the row would say nothing new. */
static bool is_repeated(const vw_fleet_tuning *tuning, size_t place)
{
    for (size_t i = 0; i < place; i++)
        if (has_same_figures(&tuning->settings[i], &tuning->settings[place]))
            return true;
    return false;
}

/* The best; then, wherever they stand, the defaults and what was recorded. */
static void say_settings(vw__report *out, const vw_fleet_tuning *tuning)
{
    size_t shown = 0;
    vw__report_table table;
    vw__report_blank(out);
    vw__report_fields_table(&table, &setting_fields);
    for (size_t i = 0; i < tuning->setting_count; i++) {
        const vw_fleet_setting *setting = &tuning->settings[i];
        bool is_wanted = shown < out->form.most_rows && !is_repeated(tuning, i);
        if (!is_wanted && setting != tuning->defaults)
            continue;
        vw__report_fields_row(
            &table, setting == tuning->best ? VW__REPORT_STYLE_BOLD : VW__REPORT_STYLE_PLAIN,
            &setting_fields, setting);
        shown++;
    }
    vw__report_fields_row(&table, VW__REPORT_STYLE_PLAIN, &setting_fields, &tuning->recorded);
    vw__report_table_end(&table, out);
    if (shown < tuning->setting_count)
        vw__report_say(out, VW__REPORT_STYLE_FAINT, "%s more, worse or with the same figures",
                       vw__report_counted(tuning->setting_count - shown, "setting").text);
}

/* With one kind, the answer has said it all. */
static void say_kinds(vw__report *out, const vw_fleet_tuning *tuning)
{
    if (tuning->kind_count < 2)
        return;
    vw__report_blank(out);
    vw__report_say(out, VW__REPORT_STYLE_BOLD, "with a setting for each kind of job, %s",
                   fitting(tuning->kinds_fit_count).text);
    vw__report_fields_rows(out, &kind_fields, tuning->kinds,
                           vw__report_shown_rows(out, tuning->kind_count));
    vw__report_say_rest(out, tuning->kind_count, "kind");
}

static void say_jobs(vw__report *out, const vw_fleet_tuning *tuning)
{
    size_t count = 0; /* those of concern come first */
    vw__report_table table;
    while (count < tuning->job_count && concern_of(&tuning->jobs[count]) != NULL)
        count++;
    if (count == 0)
        return;
    vw__report_blank(out);
    vw__report_fields_table(&table, &job_fields);
    for (size_t i = 0; i < vw__report_shown_rows(out, count); i++)
        vw__report_fields_row(&table,
                              tuning->jobs[i].fits ? VW__REPORT_STYLE_PLAIN : VW__REPORT_STYLE_RED,
                              &job_fields, &tuning->jobs[i]);
    vw__report_table_end(&table, out);
    vw__report_say_rest(out, count, "such job");
}

static void say_skipped(vw__report *out, const vw_fleet_tuning *tuning)
{
    if (tuning->skipped_count == 0)
        return;
    vw__report_blank(out);
    vw__report_say(out, VW__REPORT_STYLE_BOLD, "%s cannot be replayed",
                   vw__report_counted(tuning->skipped_count, "recording").text);
    for (size_t i = 0; i < vw__report_shown_rows(out, tuning->skipped_count); i++)
        vw__report_prose(out, 0, VW__REPORT_STYLE_PLAIN, "- ", "%s of job %s: %s",
                         tuning->skipped[i].path, tuning->skipped[i].job,
                         tuning->skipped[i].reason);
    vw__report_say_rest(out, tuning->skipped_count, "recording");
}

/* Another allocator is behind all settings, often beyond the rows shown. */
static void say_allocator(vw__report *out, const vw_fleet_tuning *tuning)
{
    for (size_t i = 0; i < tuning->setting_count; i++) {
        const vw_fleet_setting *setting = &tuning->settings[i];
        if (setting != tuning->best && vw__policy_is_vramwise(setting->policy))
            vw__report_fact(out, "allocator", "with vramwise run --allocator %s, %s",
                            setting->policy, fitting(setting->fit_count).text);
    }
}

static void say_tuning(vw__report *out, const void *content)
{
    const vw_fleet_tuning *tuning = content;
    say_answer(out, tuning);
    say_settings(out, tuning);
    say_kinds(out, tuning);
    say_jobs(out, tuning);
    say_skipped(out, tuning);
    vw__report_blank(out);
    say_allocator(out, tuning);
    vw__report_fact(out, "files", "%s: %s, %zu skipped, %s",
                    vw__report_count(tuning->file_count).text,
                    vw__report_counted(tuning->recording_count, "recording").text,
                    tuning->skipped_count, vw__report_counted(tuning->foreign_count, "other").text);
    vw__report_remarks(out, NULL, 0, tuning->notes, tuning->note_count);
}

vw_status vw_report_fleet_tune(const vw_fleet_tuning *tuning, const vw_report_form *form,
                               const vw_output *output)
{
    static const vw__report_kind kind = {"tuning of jobs", say_tuning, &tuning_fields, "settings"};
    return vw__report_as(&kind, tuning, form, output);
}
