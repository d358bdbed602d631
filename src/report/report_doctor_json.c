/* report_doctor_json.c - a diagnosis for programs; the fields are in vramwise-doctor(1). */
#include "report/report_doctor.h"

#include "export/json_write.h"
#include "report/report_frames.h" /* vw__json_texts */

static void json_numbers(vw__json *json, const vw_memory_numbers *numbers)
{
    vw__json_begin_object(json, "numbers");
    vw__json_known(json, "tried_bytes", numbers->tried_bytes);
    vw__json_known(json, "total_bytes", numbers->total_bytes);
    vw__json_known(json, "free_bytes", numbers->free_bytes);
    vw__json_known(json, "allocated_bytes", numbers->allocated_bytes);
    vw__json_known(json, "reserved_bytes", numbers->reserved_bytes);
    vw__json_known(json, "process_bytes", numbers->process_bytes);
    vw__json_known(json, "allowed_bytes", numbers->allowed_bytes);
    if (numbers->device >= 0)
        vw__json_integer(json, "device", numbers->device);
    else
        vw__json_null(json, "device");
    vw__json_end_object(json);
}

static void json_parts(vw__json *json, const vw_finding *finding)
{
    vw__json_begin_array(json, "parts");
    for (size_t i = 0; i < finding->part_count; i++) {
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "name", finding->parts[i].name);
        vw__json_known(json, "bytes", finding->parts[i].bytes);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static void json_remedies(vw__json *json, const vw_finding *finding)
{
    vw__json_begin_array(json, "remedies");
    for (size_t i = 0; i < finding->remedy_count; i++) {
        const vw_remedy *remedy = &finding->remedies[i];
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "action", remedy->action);
        vw__json_known(json, "saves_bytes", remedy->saves_bytes);
        vw__json_known(json, "saves_at_most_bytes", remedy->saves_at_most_bytes);
        vw__json_text(json, "basis", vw_basis_name(remedy->basis));
        if (remedy->enough == VW_ENOUGH_UNKNOWN)
            vw__json_null(json, "enough");
        else
            vw__json_boolean(json, "enough", remedy->enough == VW_ENOUGH_YES);
        vw__json_text(json, "cost", remedy->cost);
        vw__json_text(json, "how", remedy->how);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static void json_finding(vw__json *json, const vw_finding *finding)
{
    vw__json_begin_object(json, NULL);
    vw__json_text(json, "kind", finding->kind);
    vw__json_text(json, "title", finding->title);
    vw__json_known(json, "bytes", finding->bytes);
    vw__json_texts(json, "where", finding->where, finding->where_count);
    vw__json_texts(json, "evidence", finding->evidence, finding->evidence_count);
    json_parts(json, finding);
    json_remedies(json, finding);
    vw__json_end_object(json);
}

void vw__doctor_json(vw__report *report, const vw_diagnosis *diagnosis)
{
    vw__json json;
    vw__json_init(&json, &report->buffer);
    vw__json_begin_object(&json, NULL);
    vw__json_unsigned(&json, "schema", 1);
    vw__json_text(&json, "file", report->form.file);
    vw__json_text(&json, "verdict", vw_verdict_name(diagnosis->verdict));
    vw__json_text(&json, "confidence", vw_confidence_name(diagnosis->confidence));
    vw__json_text(&json, "source", vw_doctor_source_name(diagnosis->source));
    vw__json_text(&json, "sentence", diagnosis->sentence);
    vw__json_unsigned(&json, "errors", diagnosis->error_count);
    vw__json_texts(&json, "reasoning", diagnosis->reasoning, diagnosis->reasoning_count);
    json_numbers(&json, &diagnosis->numbers);
    vw__json_begin_array(&json, "findings");
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        json_finding(&json, &diagnosis->findings[i]);
    vw__json_end_array(&json);
    vw__json_end_object(&json);
    vw__append_text(&report->buffer, "\n");
}
