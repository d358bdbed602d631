/* fuzz_short_texts.c - any bytes as a size or as a version of PyTorch.
 *
 * Both readers take text from a command line. Whatever comes, they end, keep to their memory, leave
 * the result alone when they refuse, and give a size that is printed in some way. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "vramwise/units.h"
#include "base/human_units.h"
#include "engine/torch/torch_versions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';

    uint64_t bytes = 77;
    char printed[VW__HUMAN_SIZE_BYTES];
    if (vw_parse_size(text, &bytes) == VW_OK)
        must(strlen(vw__human_size(bytes, printed)) > 0);
    else
        must(bytes == 77);

    int version = 77;
    vw__torch_rules rules;
    if (vw__torch_parse_version(text, &version) != VW_OK)
        must(version == 77);
    else if (vw__torch_rules_for(version, &rules) == VW_OK)
        must(rules.version >= VW__TORCH_OLDEST_VERSION &&
             rules.version <= VW__TORCH_NEWEST_VERSION);
    free(text);
    return 0;
}
