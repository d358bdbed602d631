/* config_keys.c - fields of a configuration by a table: what each is called, and where it goes. */
#include "plan/config_keys.h"

#include <inttypes.h>

#include "base/error.h"

/* A field's own name, or the other that is taken for it as well. */
static const char *present_name(const vw__config *config, const vw__config_key *key)
{
    const bool has_other = key->other != NULL && !vw__config_has(config, key->name) &&
                           vw__config_has(config, key->other);
    return has_other ? key->other : key->name;
}

static vw_status read_dropout(const vw__config *config, const char *name, bool *has_it)
{
    double probability = *has_it ? 0.1 : 0.0;
    VW__TRY(vw__config_real_if(config, name, 0, 1, &probability));
    *has_it = probability > 0;
    return VW_OK;
}

vw_status vw__config_check_multiple(const vw__config *config, const char *whole_name,
                                    uint64_t whole, const char *part_name, uint64_t part)
{
    if (part == 0 || whole % part == 0)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "%s%s: expected a multiple of %s, which is %" PRIu64 ", found %" PRIu64,
                    config->place, whole_name, part_name, part, whole);
}

static vw_status read_opposite(const vw__config *config, const char *name, bool *flag)
{
    bool opposite = !*flag;
    VW__TRY(vw__config_boolean_if(config, name, &opposite));
    *flag = !opposite;
    return VW_OK;
}

static vw_status read_number_or(const vw__config *config, const vw__config_key *key,
                                uint64_t *field, uint64_t otherwise)
{
    *field = otherwise;
    return vw__config_number_if(config, key->name, 1, key->most, field);
}

static vw_status check_exactly(const vw__config *config, const vw__config_key *key)
{
    uint64_t number;
    return vw__config_number_if(config, key->name, key->most, key->most, &number);
}

static vw_status check_word(const vw__config *config, const vw__config_key *key)
{
    size_t place;
    return vw__config_choice_if(config, key->name, &key->other, 1, &place);
}

static vw_status read_key(const vw__config *config, const vw__config_key *key, void *into)
{
    void *field = (char *)into + key->field, *other_field = (char *)into + key->other_field;
    bool *flag = field;
    switch (key->kind) {
    case VW__CONFIG_KEY_NUMBER:
        if (config->is_part && *(uint64_t *)field > 0)
            return vw__config_number_if(config, present_name(config, key), 1, key->most, field);
        return vw__config_number(config, present_name(config, key), 1, key->most, field);
    case VW__CONFIG_KEY_NUMBER_IF:
        return vw__config_number_if(config, key->name, 1, key->most, field);
    case VW__CONFIG_KEY_COUNT_IF:
        return vw__config_number_if(config, key->name, 0, key->most, field);
    case VW__CONFIG_KEY_NUMBER_OR:
        return read_number_or(config, key, field, *(uint64_t *)other_field);
    case VW__CONFIG_KEY_EXACTLY:
        return check_exactly(config, key);
    case VW__CONFIG_KEY_WORD:
        return check_word(config, key);
    case VW__CONFIG_KEY_FLAG:
        return vw__config_boolean_if(config, key->name, flag);
    case VW__CONFIG_KEY_NOT:
        return read_opposite(config, key->name, flag);
    case VW__CONFIG_KEY_DROPOUT:
        return read_dropout(config, key->name, flag);
    case VW__CONFIG_KEY_CAP:
        *flag =
            vw__config_has(config, key->name) || (*flag && !vw__config_is_null(config, key->name));
        return VW_OK;
    case VW__CONFIG_KEY_FALSE:
        return vw__config_refuse_true(config, key->name);
    case VW__CONFIG_KEY_MULTIPLE:
        return vw__config_check_multiple(config, key->name, *(uint64_t *)field, key->other,
                                         *(uint64_t *)other_field);
    case VW__CONFIG_KEY_CALL:
        return key->call(config, key, into);
    case VW__CONFIG_KEY_ELSEWHERE:
    case VW__CONFIG_KEY_END:
        break;
    }
    return VW_OK;
}

vw_status vw__config_read_keys(const vw__config *config, const vw__config_key *keys, void *into)
{
    for (const vw__config_key *key = keys; key->kind != VW__CONFIG_KEY_END; key++)
        VW__TRY(read_key(config, key, into));
    return VW_OK;
}
