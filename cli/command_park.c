/* command_park.c - `vramwise park PID [REGION]`: a job's GPU memory goes to others for a while. */
#include "command.h"
#include "park_request.h"

int command_park(int argc, char **argv)
{
    return park_request_run(VW_JOB_PARK, argc, argv);
}
