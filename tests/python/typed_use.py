"""How a program uses the package, for a type checker: test_types.py holds its words against the lines
with `# reveals`, and expects an error on those with `# error`. Nothing here is run."""
from pathlib import Path

import vramwise
import vramwise.torch

found = vramwise.doctor(RuntimeError("CUDA out of memory"), card="24GiB")
reveal_type(found)  # reveals Diagnosis
reveal_type(found.findings[0].remedies[0].saves_bytes)  # reveals Union[builtins.int, None]
reveal_type(found.numbers.tried_bytes)  # reveals Union[builtins.int, None]
reveal_type(found.to_dict())  # reveals dict[builtins.str, Any]
reveal_type(found.verdct)  # error
vramwise.doctor("error.log", crad="24GiB")  # error

with vramwise.load(Path("run.pickle")) as recording:
    reveal_type(recording)  # reveals Recording
    reveal_type(recording.replay("native", empty_cache=2).results[0].ratio)  # reveals Union[builtins.float, None]
    reveal_type(recording.tune("24GiB").best)  # reveals Union[vramwise._results.ReplayRun, None]
    reveal_type(recording.stats().devices[0].peak)  # reveals Union[vramwise._results.Moment, None]
    reveal_type(recording.verify().exact)  # reveals bool
    reveal_type(recording.check("main.json").worse)  # reveals bool
    reveal_type(recording.diff(recording).changes[0].where)  # reveals Union[builtins.str, None]
    reveal_type(recording.diff("main.pickle").same)  # reveals bool
    recording.tune()  # error

reveal_type(vramwise.plan("gpt2", batch=8, seq=512, zero=3, gpus=8))  # reveals _results.Plan
reveal_type(vramwise.plan(from_recording="run.pickle", batch_now=8))  # reveals ScaledPlan
vramwise.plan("gpt2", seq="512")  # error
vramwise.plan("gpt2", batch_now=8)  # error
reveal_type(vramwise.plan_models()[0].parameters)  # reveals int
reveal_type(vramwise.jobs()[0].devices[0].outlook.full_at_step)  # reveals Union[builtins.int, None]
reveal_type(vramwise.__version__)  # reveals str

reveal_type(vramwise.torch.install("vramwise", spill="16GiB"))  # reveals Installed
reveal_type(vramwise.torch.doctor())  # reveals Diagnosis
reveal_type(vramwise.torch.plan(lambda: None))  # reveals ScaledPlan
reveal_type(vramwise.torch.fit_batch(lambda part: part, [1]).micro_batch)  # reveals int
with vramwise.torch.record("run.pickle", max_entries="many"):  # error
    pass
