/* process_look.h - what /proc says of any process; or a folder that looks like it, in tests. */
#ifndef VW_WATCH_PROCESS_LOOK_H
#define VW_WATCH_PROCESS_LOOK_H

#include "vramwise/process.h"

/* Returns false if there is no such process in `folder`, which is "/proc". */
bool vw__watch_process_look(const char *folder, long process, vw_process *out);

#endif /* VW_WATCH_PROCESS_LOOK_H */
