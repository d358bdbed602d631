"""trace_plan.py - the cases of measure_plan.py, traced without a GPU.

    python3 trace_plan.py OUT [PART OF] [--only WORDS] [--newer]

Runs the code that was measured on tensors without data, and writes a trace for each case to the folder
OUT. A line of JSON a case: what the trace holds, or why there is none. Shards, which need a process group,
and generation, token by token, are left out.
"""
import argparse
import contextlib
import gc
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
os.environ["PYTORCH_JIT"] = "0"  # as _trace.py has it
import torch  # noqa: E402
from torch.optim.optimizer import register_optimizer_step_post_hook  # noqa: E402

import measure_plan  # noqa: E402
from vramwise.torch import _tracer, _tracer_rules  # noqa: E402


@contextlib.contextmanager
def steps_marked(requests):
    """A step ends with the optimizer's."""
    def end(*_) -> None:
        requests.end_step()
        requests.begin_step()

    handle = register_optimizer_step_post_hook(end)
    try:
        requests.begin_step()
        yield
        requests.end_step()
    finally:
        handle.remove()


def trace(chosen: tuple, path: str) -> dict:
    tracer = _tracer.Tracer(_tracer_rules.Card(), _tracer_rules.Policy())
    begin = time.perf_counter()
    with tracer.tracing(), steps_marked(tracer.requests):
        result = measure_plan.measure(*chosen[0], **chosen[1])
    tracer.requests.write(path, torch=torch.__version__)
    result.update(traced_s=round(time.perf_counter() - begin, 2), notes=tracer.requests.notes,
                  events=len(tracer.requests.events), peak=tracer.requests.peak_bytes)
    result.pop("config")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("part", nargs="?", type=int, default=0)
    parser.add_argument("of", nargs="?", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--newer", action="store_true")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    cases = [c for c in measure_plan.CASES[measure_plan.FIRST_NEWER if arguments.newer else 0:]
             if arguments.only in measure_plan.name_of(c) and "sharding" not in c[1]
             and c[1].get("offload") != "weights" and not c[1].get("generate")]
    for chosen in cases[arguments.part::arguments.of]:
        gc.collect()
        name = measure_plan.name_of(chosen)
        path = os.path.join(arguments.out, name.replace(" ", "_") + ".trace.json")
        try:
            result = trace(chosen, path)
        except Exception as error:  # noqa: BLE001: one case that fails is one line
            result = dict(error=repr(error)[:600])
            if os.environ.get("VRAMWISE_TRACEBACK"):
                import traceback
                traceback.print_exc()
        print(json.dumps(dict(case=name, **result)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
