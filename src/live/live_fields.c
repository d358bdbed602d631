/* live_fields.c - the names of what a page tells. */
#include "vramwise/live.h"

#include <string.h>

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
