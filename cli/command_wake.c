/* command_wake.c - `vramwise wake PID [REGION]`: a parked job gets its GPU memory back. */
#include "command.h"
#include "park_request.h"

int command_wake(int argc, char **argv)
{
    return park_request_run(VW_JOB_WAKE, argc, argv);
}
