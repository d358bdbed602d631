/* paged_habit.h - does the program take again what it gives back? See paged_habit.c. */
#ifndef VW_ENGINE_PAGED_PAGED_HABIT_H
#define VW_ENGINE_PAGED_PAGED_HABIT_H

#include "engine/paged/paged_engine.h"

/* The program asks for all idle memory to be given back, and a survey has listed it. Returns how
 * many bytes of it to keep: 0 unless the program has the habit of taking it again. */
uint64_t vw__paged_kept_by_habit(vw__paged_engine *engine);

#endif /* VW_ENGINE_PAGED_PAGED_HABIT_H */
