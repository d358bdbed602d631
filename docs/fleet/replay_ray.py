#!/usr/bin/env python3
"""replay_ray.py LIST OUT [OPTION...] - `vramwise replay --json OPTION...` on every recording that a
line of LIST names, on the machines of a Ray cluster.

The n-th line, counted from 0, becomes OUT/n.json, or OUT/n.failed with the reason. What has a result
is left alone. Exits with 1 if a recording could not be replayed. All machines must see the recordings
and OUT, and have `vramwise` in their path.
"""
import os
import pathlib
import subprocess
import sys

import ray

IN_FLIGHT_PER_CORE = 2  # tasks that wait beside each one that runs


def replay(number: int, recording: str, out: str, options: list) -> bool:
    """One recording; False if it could not be replayed. 1 is no failure: a policy does not fit the card."""
    result = pathlib.Path(out) / str(number)
    command = ["vramwise", "replay", recording, "--json", *options]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
        status, words = done.returncode, done.stderr
    except OSError as error:
        status, words, done = 3, str(error).encode(), None
    failed = result.with_suffix(".failed")
    if done is None or status not in (0, 1):
        failed.write_bytes(words)
        return False
    part = result.with_suffix(".part")
    part.write_bytes(done.stdout)
    os.replace(part, result.with_suffix(".json"))
    failed.unlink(missing_ok=True)
    return True


def main(arguments: list) -> int:
    if len(arguments) < 2:
        print("replay_ray.py: expected a list of recordings and a folder for the results", file=sys.stderr)
        return 2
    listed, out, options = pathlib.Path(arguments[0]), pathlib.Path(arguments[1]).resolve(), arguments[2:]
    out.mkdir(parents=True, exist_ok=True)
    # Elsewhere a name that is not whole would be that of another file.
    wanted = [(number, os.path.abspath(name)) for number, name in enumerate(listed.read_text().splitlines())
              if not (out / f"{number}.json").exists()]
    ray.init()
    task = ray.remote(replay)
    most = max(1, int(ray.cluster_resources().get("CPU", 1))) * IN_FLIGHT_PER_CORE
    running, failures = [], 0
    for number, name in wanted:
        if len(running) >= most:
            done, running = ray.wait(running)
            failures += sum(not is_done for is_done in ray.get(done))
        running.append(task.remote(number, name, str(out), options))
    failures += sum(not is_done for is_done in ray.get(running))
    print(f"{failures} recordings could not be replayed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
