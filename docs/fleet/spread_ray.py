#!/usr/bin/env python3
"""spread_ray.py COMMAND JOBS OUT SHARES [OPTION...] - `vramwise report --jobs JOBS` or `vramwise tune --all
JOBS` on the machines of a Ray cluster.

COMMAND is report or tune. The files are cut into SHARES shares, some for each core. Each keeps what it finds
in OUT; a share whose worker dies is given to another, which goes on where the first one was. What all come
to goes to standard output. OPTION...: --json, --torch 2.4; -o jobs.sqlite of a report; --card 80GiB, which
tune needs. All machines must see JOBS, OUT and this file, and have `vramwise` in their path.
"""
import pathlib
import sys

import ray

FOLDER = str(pathlib.Path(__file__).resolve().parent)
sys.path.insert(0, FOLDER)
import spread_shares  # noqa: E402


def examine_share(*words) -> str:
    return spread_shares.examine_share(*words)


def main(arguments: list) -> int:
    command, jobs, out, shares, of_shares, of_merge = spread_shares.read_arguments(arguments, "spread_ray.py")
    ray.init(runtime_env={"env_vars": {"PYTHONPATH": FOLDER}})
    task = ray.remote(max_retries=3)(examine_share)
    states = ray.get([task.remote(share, shares, command, jobs, out, of_shares) for share in range(1, shares + 1)])
    return spread_shares.merge(command, states, of_merge)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
