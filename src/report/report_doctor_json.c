/* report_doctor_json.c - a diagnosis for programs; the fields are in headroom-doctor(1). */
#include "report/report_doctor.h"

#include "export/json_write.h"
#include "report/report_frames.h" /* hr__json_texts */

static void json_numbers(hr__json *json, const hr_memory_numbers *numbers)
{
    hr__json_begin_object(json, "numbers");
    hr__json_known(json, "tried_bytes", numbers->tried_bytes);
    hr__json_known(json, "total_bytes", numbers->total_bytes);
    hr__json_known(json, "free_bytes", numbers->free_bytes);
    hr__json_known(json, "allocated_bytes", numbers->allocated_bytes);
    hr__json_known(json, "reserved_bytes", numbers->reserved_bytes);
    hr__json_known(json, "process_bytes", numbers->process_bytes);
    hr__json_known(json, "allowed_bytes", numbers->allowed_bytes);
    if (numbers->device >= 0)
        hr__json_integer(json, "device", numbers->device);
    else
        hr__json_null(json, "device");
    hr__json_end_object(json);
}

static void json_parts(hr__json *json, const hr_finding *finding)
{
    hr__json_begin_array(json, "parts");
    for (size_t i = 0; i < finding->part_count; i++) {
        hr__json_begin_object(json, NULL);
        hr__json_text(json, "name", finding->parts[i].name);
        hr__json_known(json, "bytes", finding->parts[i].bytes);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static void json_remedies(hr__json *json, const hr_finding *finding)
{
    hr__json_begin_array(json, "remedies");
    for (size_t i = 0; i < finding->remedy_count; i++) {
        const hr_remedy *remedy = &finding->remedies[i];
        hr__json_begin_object(json, NULL);
        hr__json_text(json, "action", remedy->action);
        hr__json_known(json, "saves_bytes", remedy->saves_bytes);
        hr__json_known(json, "saves_at_most_bytes", remedy->saves_at_most_bytes);
        hr__json_text(json, "basis", hr_basis_name(remedy->basis));
        hr__json_text(json, "cost", remedy->cost);
        hr__json_text(json, "how", remedy->how);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static void json_finding(hr__json *json, const hr_finding *finding)
{
    hr__json_begin_object(json, NULL);
    hr__json_text(json, "kind", finding->kind);
    hr__json_text(json, "title", finding->title);
    hr__json_known(json, "bytes", finding->bytes);
    hr__json_texts(json, "where", finding->where, finding->where_count);
    hr__json_texts(json, "evidence", finding->evidence, finding->evidence_count);
    json_parts(json, finding);
    json_remedies(json, finding);
    hr__json_end_object(json);
}

void hr__doctor_json(hr__report *report, const hr_diagnosis *diagnosis)
{
    hr__json json;
    hr__json_init(&json, &report->buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "schema", 1);
    hr__json_text(&json, "file", report->form.file);
    hr__json_text(&json, "verdict", hr_verdict_name(diagnosis->verdict));
    hr__json_text(&json, "confidence", hr_confidence_name(diagnosis->confidence));
    hr__json_text(&json, "source", hr_doctor_source_name(diagnosis->source));
    hr__json_text(&json, "sentence", diagnosis->sentence);
    hr__json_unsigned(&json, "errors", diagnosis->error_count);
    hr__json_texts(&json, "reasoning", diagnosis->reasoning, diagnosis->reasoning_count);
    json_numbers(&json, &diagnosis->numbers);
    hr__json_begin_array(&json, "findings");
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        json_finding(&json, &diagnosis->findings[i]);
    hr__json_end_array(&json);
    hr__json_end_object(&json);
    hr__append_text(&report->buffer, "\n");
}
