/* site_key.h - the place in a program that asked for memory, by a name that survives edits.
 *
 * People ask which function of theirs holds the memory. The name of that place is the file's name
 * without folders and the function: "train.py step". It has no line numbers, so code that is added
 * above, and callers that change, leave it as it is; and no folders, so two checkouts agree.
 *
 * The frame that is named is the innermost one of the program (vw_usage.where): attribution.c has
 * the rule which frames are the program's. */
#ifndef VW_ANALYSIS_SITE_KEY_H
#define VW_ANALYSIS_SITE_KEY_H

#include "vramwise/analysis.h" /* vw_usage, vw_frame */
#include "base/byte_buffer.h"

/* The frame that names the place of these blocks: the innermost of the program; without one, the
 * innermost of all; NULL without frames. */
const vw_frame *vw__site_key_frame(const vw_usage *usage);

/* The file's name without its folders, as a part of `path`. A place of a plan is no path and stays
 * whole: "layer 7 / mlp". */
const char *vw__site_key_file(const char *path);

/* Appends the key of a frame: "train.py step". NULL: "(no stack)". Equal for equal places, in
 * different recordings too. */
void vw__site_key_append(vw__byte_buffer *key, const vw_frame *frame);

#endif /* VW_ANALYSIS_SITE_KEY_H */
