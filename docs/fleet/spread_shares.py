"""spread_shares.py - what spread_dask.py and spread_ray.py have in common: one share of the work, and what
all shares come to."""
import os
import pathlib
import subprocess
import sys

MANY_JOBS = {"report": ["report", "--jobs"], "tune": ["tune", "--all"]}
FOR_SHARES = ("--card", "--torch", "--max-memory")  # the other options are for what is shown at the end


def examine_share(share: int, shares: int, command: str, jobs: str, out: str, options: list) -> str:
    """Does one share; returns its state. A share that was begun goes on where it was."""
    state = str(pathlib.Path(out) / f"{share}-of-{shares}")
    words = ["vramwise", *MANY_JOBS[command], jobs, *options, "--share", f"{share}/{shares}", "--state", state]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"share {share}: {done.stderr.strip()}")
    return state


def merge(command: str, states: list, options: list) -> int:
    """Writes what all shares come to to standard output."""
    return subprocess.run(["vramwise", command, "--merge", *states, *options], check=False).returncode


def split_options(options: list):
    """Options for each share, and those for the merge."""
    of_shares, of_merge = [], []
    words = iter(options)
    for word in words:
        if word in FOR_SHARES:
            of_shares += [word, next(words, "")]
        else:
            (of_shares if word.startswith(tuple(f"{name}=" for name in FOR_SHARES)) else of_merge).append(word)
    return of_shares, of_merge


def read_arguments(arguments: list, name: str):
    """COMMAND JOBS OUT SHARES [OPTION...], with whole names: elsewhere others would be those of other files."""
    if (len(arguments) < 4 or arguments[0] not in MANY_JOBS or not arguments[3].isdigit()
            or int(arguments[3]) < 1):
        print(f"{name}: expected report or tune, a folder of jobs or a list, a folder for the results, and the "
              "number of shares", file=sys.stderr)
        sys.exit(2)
    command, jobs, out = arguments[0], os.path.abspath(arguments[1]), os.path.abspath(arguments[2])
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    return command, jobs, out, int(arguments[3]), *split_options(arguments[4:])
