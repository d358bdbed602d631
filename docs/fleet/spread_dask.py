#!/usr/bin/env python3
"""spread_dask.py COMMAND JOBS OUT SHARES [OPTION...] - `vramwise report --jobs JOBS` or `vramwise tune --all
JOBS` on the workers of a Dask cluster, whose address is in DASK_SCHEDULER_ADDRESS.

COMMAND is report or tune. The files are cut into SHARES shares, some for each worker. Each keeps what it
finds in OUT; a share whose worker dies is given to another, which goes on where the first one was. What all
come to goes to standard output. OPTION...: --json, --torch 2.4; -o jobs.sqlite of a report; --card 80GiB,
which tune needs. All machines must see JOBS and OUT, and have `vramwise` in their path.
"""
import os
import pathlib
import sys

from distributed import Client

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import spread_shares  # noqa: E402


def main(arguments: list) -> int:
    command, jobs, out, shares, of_shares, of_merge = spread_shares.read_arguments(arguments, "spread_dask.py")
    with Client(os.environ["DASK_SCHEDULER_ADDRESS"], set_as_default=False) as client:
        client.upload_file(spread_shares.__file__)
        futures = client.map(spread_shares.examine_share, range(1, shares + 1), shares=shares, command=command,
                             jobs=jobs, out=out, options=of_shares, retries=3, pure=False)
        states = client.gather(futures)
    return spread_shares.merge(command, states, of_merge)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
