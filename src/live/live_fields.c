/* live_fields.c - the names of what a page tells. */
#include "headroom/live.h"

#include <string.h>

static const struct {
    const char *name;
    const char *help;
    hr_live_kind kind;
} fields[] = {
#define FIELD_ROW(upper, name, kind, help) {name, help, HR_LIVE_##kind},
    HR_LIVE_FIELD_LIST(FIELD_ROW)
#undef FIELD_ROW
};

size_t hr_live_field_count(void)
{
    return HR_LIVE_FIELD_COUNT;
}

const char *hr_live_field_name(size_t field)
{
    return field < HR_LIVE_FIELD_COUNT ? fields[field].name : NULL;
}

const char *hr_live_field_help(size_t field)
{
    return field < HR_LIVE_FIELD_COUNT ? fields[field].help : NULL;
}

hr_live_kind hr_live_field_kind(size_t field)
{
    return field < HR_LIVE_FIELD_COUNT ? fields[field].kind : HR_LIVE_GAUGE;
}

size_t hr_live_field_find(const char *name)
{
    size_t field = 0;
    while (name != NULL && field < HR_LIVE_FIELD_COUNT && strcmp(fields[field].name, name) != 0)
        field++;
    return name == NULL ? HR_LIVE_FIELD_COUNT : field;
}
