"""_ending.py - what is to be done when this process ends."""
import atexit
import sys
from typing import Callable


def at_the_end(function: Callable[[], None]) -> None:
    """Children that multiprocessing started end without atexit; it has a list of its own."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, function, exitpriority=1000)
    else:
        atexit.register(function)
