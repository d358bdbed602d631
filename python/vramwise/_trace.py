"""_trace.py - a training script, run without a GPU until some steps were seen; for `vramwise plan --trace`.

    python3 -m vramwise._trace [--steps N] [--share X] SCRIPT OUT.json [ARGUMENT...]

The script is not changed: it finds a GPU that has no memory behind it, and ends after N steps of its
optimizers. What it asked for is in OUT.json. Status 0: written; 1: the script failed by itself; 3: an
operator or a line cannot run without data, which is said on standard error.
"""
from __future__ import annotations

import argparse
import linecache
import os
import runpy
import sys
import traceback
from typing import Any, List, Optional

_UNTRACEABLE = 3
_CARD = "VRAMWISE_TRACE_CARD"  # "rtx4090 89 25254407700": name, compute capability, bytes


class EnoughSteps(BaseException):
    """Ends the script; no handler of errors takes it for one."""


class _Counted:
    """Marks the steps, and ends the script after the last."""

    def __init__(self, requests: Any, wanted: int) -> None:
        self.requests, self.wanted = requests, wanted
        requests.begin_step()

    def __call__(self, *_: Any) -> None:
        self.requests.end_step()
        if self.requests.steps >= self.wanted:
            raise EnoughSteps
        self.requests.begin_step()


def place_of(error: BaseException, script: str) -> str:
    """"train.py:88: loss.backward()", the innermost line of the program itself."""
    frames = traceback.extract_tb(error.__traceback__)
    library = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep,
               os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(os.__file__) + os.sep,
               "<frozen")
    own = [f for f in frames if not any(word in f.filename for word in library)]
    if not own:
        return script
    last = own[-1]
    code = (last.line or linecache.getline(last.filename, last.lineno or 0)).strip()
    return f"{os.path.relpath(last.filename)}:{last.lineno}: {code}"


def _run_script(script: str, arguments: List[str]) -> None:
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    runpy.run_path(script, run_name="__main__")


def _traced(script: str, out: str, arguments: List[str], steps: int, share: float) -> int:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from .torch import _tracer, _tracer_rules
    tracer = _tracer.Tracer(_tracer_rules.stated_card(os.environ.get(_CARD)),
                            _tracer_rules.Policy(share))
    status = 0
    with tracer.tracing():
        handle = register_optimizer_step_post_hook(_Counted(tracer.requests, steps))
        try:
            _run_script(script, arguments)
        except EnoughSteps:
            pass
        except SystemExit as end:
            status = 0 if end.code in (None, 0) else 1
        except _tracer.Untraceable as error:
            print(f"vramwise: {place_of(error, script)}\n  {error}", file=sys.stderr)
            return _UNTRACEABLE
        except Exception:
            traceback.print_exc()
            status = 1
        finally:
            handle.remove()
        done = tracer.requests.steps
        if done < steps:
            tracer.requests.end_step()
    if status == 0:
        import torch
        tracer.requests.write(out, torch=torch.__version__, steps=done)
    return status


def main(words: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="vramwise plan --trace", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("script")
    parser.add_argument("out")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if given.steps < 1:
        parser.error(f"--steps is at least 1, not {given.steps}")
    if not os.path.isfile(given.script):
        parser.error(f"{given.script}: no such file")
    os.environ.setdefault("PYTORCH_JIT", "0")  # scripted functions ask for a GPU that is not there
    try:
        import torch  # noqa: F401
    except ImportError as error:
        print(f"vramwise: tracing needs PyTorch: {error}", file=sys.stderr)
        return _UNTRACEABLE
    return _traced(given.script, os.path.abspath(given.out), given.arguments, given.steps, given.share)


if __name__ == "__main__":
    sys.exit(main())
