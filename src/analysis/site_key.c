/* site_key.c - names places by file and function. */
#include "analysis/site_key.h"

const vw_frame *vw__site_key_frame(const vw_usage *usage)
{
    if (usage->where != NULL)
        return usage->where;
    return usage->frame_count > 0 ? &usage->frames[0] : NULL;
}

/* A slash before a space does not end a folder: plans (plan/plan_record.c) write "layer 7 / mlp".
 */
const char *vw__site_key_file(const char *path)
{
    const char *name = path;
    for (const char *here = path; *here != '\0'; here++)
        if ((*here == '/' || *here == '\\') && here[1] != ' ' && here[1] != '\0')
            name = here + 1;
    return name;
}

void vw__site_key_append(vw__byte_buffer *key, const vw_frame *frame)
{
    if (frame == NULL) {
        vw__append_text(key, "(no stack)");
        return;
    }
    vw__append_text(key, vw__site_key_file(frame->file));
    vw__append_text(key, " ");
    vw__append_text(key, frame->function);
}
