"""test_stream.py - which state is streamed, when, and what a request without room has moved; with an adapter that
notes what it is asked, and counts real references. What it does then is tests/adapter/test_state_stream.cpp."""
import unittest

from world import World

FAKE_TORCH = """
import copy, ctypes, os, sys, types
import torch, vramwise.torch
from vramwise.torch._state import State

class Numbers(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint), ("storage_uses", ctypes.c_uint)]

class View:
    def __init__(self, tensor):
        self.numbers = tensor.numbers
        self.numbers.storage_uses += 1
    def __del__(self):
        self.numbers.storage_uses -= 1

class Tensor:
    is_cuda, requires_grad, layout, offset = True, False, "strided", 0
    device = types.SimpleNamespace(type="cuda", index=0)
    def __init__(self, number, size=1000):
        self.numbers, self.size = Numbers(number, 1), size
    _cdata = property(lambda self: ctypes.addressof(self.numbers))
    def storage_offset(self):
        return self.offset
    def numel(self):
        return self.size
    def element_size(self):
        return 1
    def untyped_storage(self):
        return types.SimpleNamespace(nbytes=lambda: 1000, data_ptr=lambda: 512)
    def detach(self):
        return View(self)

before, after = [], []

class Optimizer:
    def __init__(self, *numbers, **group):
        torch.cuda.state["initialized"] = True  # for its weights
        self.numbers, self.state, self.param_groups = numbers, {}, []
        self.add_param_group(dict(group, params=[]))
    def add_param_group(self, group):
        self.param_groups.append(group)
    def work(self):
        for number in self.numbers:
            if number not in self.state:
                self.state[number] = {"step": 3, "exp_avg": Tensor(number)}
    def step(self, closure=None):
        for hook in before:
            hook(self, (), {})
        if closure is not None:
            closure()
        self.work()
        for hook in after:
            hook(self, (), {})
Optimizer.__module__ = "torch.optim.adamw"

torch.Tensor, torch.strided, torch.empty = Tensor, "strided", lambda count: Tensor(0)
torch.cuda.is_current_stream_capturing = lambda: False
torch.optim = types.SimpleNamespace(Optimizer=Optimizer)
compiling = False
torch.compiler = types.SimpleNamespace(is_compiling=lambda: compiling)
sys.modules["torch.optim.optimizer"] = types.SimpleNamespace(
    register_optimizer_step_pre_hook=before.append, register_optimizer_step_post_hook=after.append)

seen = 0
def told(what=""):
    global seen
    text = vramwise.torch.stats()["streamed"]
    print(what + text[seen:].strip().rstrip(";"))
    seen = len(text)

def request(has_lock, is_ahead=0):
    library = (ctypes.PyDLL if has_lock else ctypes.CDLL)(State.adapter._name)
    return library.fake_stream_request(has_lock, is_ahead)
"""


class Stream(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def run_code(self, code, install="spill='1GiB', stream=True", wanted="1500", **environment):
        code = f"{FAKE_TORCH}\nvramwise.torch.install({install})\n{code}"
        return self.world.run(code, FAKE_ADAPTER_STREAMS=wanted, **environment)

    def lines(self, code, **options):
        output, errors = self.run_code(code, **options)
        self.assertEqual(errors.replace("compiled", "").count("vramwise: no optimizer"), 0, errors)
        return output.splitlines()

    def test_state_is_bound_in_before_a_step_and_copied_out_after_it(self):
        lines = self.lines("""
optimizer = Optimizer(1, 2, 3)
optimizer.step()
told()
optimizer.step()
told()
""")
        ended = "step 1; step 2; step 3; end 0; lacking 0; copy 1; copy 2"  # as much as was wanted
        self.assertEqual(lines, [f"start 1; add 1; add 2; add 3; {ended}",
                                 f"fetch 1; fetch 2; fetch 3; in 1; in 2; in 3; {ended}"])

    def test_a_request_without_room_gets_what_was_copied_out_first(self):
        for has_lock in (0, 1):
            lines = self.lines(f"""
optimizer = Optimizer(1, 2, 3)
optimizer.step()
told()
print(request({has_lock}))
told()
print(request({has_lock}))
told()
""")
            self.assertEqual(lines[1:3], ["1", "out 1; out 2; release 0"])
            # Nothing is on its way any more: new copies.
            self.assertEqual(lines[3:], ["1", "at_once 1; at_once 2; out 1; out 2; release 0"])

    def test_a_request_waits_for_what_it_needs_and_takes_what_is_complete(self):
        for slowly, expected in ((None, "out 1; out 2; out 3; out 4; release 0"),
                                 ("1", "early 1; wait 1; out 1; early 2; wait 2; out 2; early 3; early 4; release 0")):
            lines = self.lines("""
optimizer = Optimizer(1, 2, 3, 4)
optimizer.step()
told()
request(1)
told()
""", wanted="4000", FAKE_ADAPTER_COPIES_SLOWLY=slowly)
            self.assertEqual(lines[1], expected)

    def test_ahead_of_need_only_what_leaves_anyway_is_moved_and_nobody_waits(self):
        for has_lock in (0, 1):
            for slowly, expected in ((None, ["1", "out 1; out 2; later 0", "0"]),
                                     ("1", ["0", "early 1; look 1; early 1; early 2", "0", "early 1; look 1; early 1; early 2"])):
                lines = self.lines(f"""
optimizer = Optimizer(1, 2, 3, 4)
optimizer.step()
told()
print(request({has_lock}, 1))
told()
print(request({has_lock}, 1))
told()
""", wanted="1500", FAKE_ADAPTER_COPIES_SLOWLY=slowly)
                self.assertEqual(lines[1:], expected)

    def test_copies_have_a_thread_until_the_end(self):
        lines = self.lines("""
library = ctypes.CDLL(State.adapter._name)
optimizer = Optimizer(1)
optimizer.step()
print(library.fake_stream_wait_for_pump(1))
library.vramwise_torch_stream_stop()
print(library.fake_stream_wait_for_pump(0))
""", install="spill='1GiB', stream=True, quiet=True")
        self.assertEqual(lines, ["1", "1"])

    def test_what_somebody_holds_is_not_bound_elsewhere(self):
        lines = self.lines("""
optimizer = Optimizer(1, 2)
optimizer.step()
held, view = optimizer.state[1]["exp_avg"], optimizer.state[2]["exp_avg"].detach()
told()
print(request(0))
told()
optimizer.step()
told()
del held, view
print(request(1))
told()
""")
        self.assertTrue(lines[2].startswith("not out 1; wait 1; not out 1; not out 2; wait 2; not out 2; at_once 1"))
        self.assertTrue(lines[3].startswith("fetch 1; fetch 2; not in 1; not in 2; step 1"))
        self.assertEqual(lines[4:], ["1", "out 1; out 2; release 0"])

    def test_new_state_is_seen_and_old_state_forgotten(self):
        lines = self.lines("""
optimizer = Optimizer(1, 2)
optimizer.step()
told()
optimizer.state = {1: {"exp_avg": Tensor(11)}, 2: {"exp_avg": Tensor(12), "both": [Tensor(13)]}}  # loaded
request(1)
told()
optimizer.step()
told()
optimizer.numbers += (4,)  # add_param_group
optimizer.step()
told()
del optimizer
request(0)
told()
""", wanted="0")
        self.assertEqual(lines[1], "")
        self.assertEqual(lines[2], "add 11; add 12; add 13; step 11; step 12; step 13; end 0; lacking 0")
        self.assertEqual(lines[3], "fetch 11; fetch 12; fetch 13; in 11; in 12; in 13; add 4; step 11; "
                                   "step 12; step 13; step 4; end 0; lacking 0")
        self.assertEqual(len(lines), 4)  # nothing is left to move

    def test_state_is_looked_through_only_when_it_has_changed(self):
        lines = self.lines("""
looks = []
from vramwise.torch import _stream
look = _stream.Streamer._look_through
_stream.Streamer._look_through = lambda self, states: looks.append(1) or look(self, states)
optimizer = Optimizer(1, 2)
def step(what):
    optimizer.step()
    print(what, len(looks))
    told()
step("first")
step("as it was")
optimizer.state[2]["exp_avg"] = Tensor(12)
step("another tensor")
optimizer.state[1]["more"] = Tensor(13)
step("one more")
del optimizer.state[1]["more"]
step("one less")
optimizer.state[2]["all"] = [Tensor(14)]
step("a list")
optimizer.state[2]["all"].append(Tensor(15))
step("a longer list")
del optimizer.state[2]["all"]
step("without it")
for _ in range(63):
    optimizer.step()
told()
known = len(looks)
optimizer.step()
print("once in a while", known, len(looks))
""", wanted="0")
        self.assertEqual(lines.pop(), "once in a while 7 8")
        del lines[-1]  # of many steps
        self.assertEqual(lines[-2], "without it 7")
        del lines[-2:]
        self.assertEqual(lines[0::2], ["first 1", "as it was 1", "another tensor 2", "one more 3", "one less 4",
                                       "a list 5", "a longer list 6"])
        self.assertEqual(lines[3], "fetch 1; fetch 2; in 1; in 2; step 1; step 2; end 0; lacking 0")
        self.assertEqual(lines[5], "fetch 1; in 1; add 12; step 1; step 12; end 0; lacking 0")
        self.assertIn("add 15; ", lines[13])

    def test_of_several_optimizers_the_first_ends_steps(self):
        lines = self.lines("""
first, second = Optimizer(1), Optimizer(2)
for _ in range(2):
    first.step()
    second.step()
told()
""", wanted="1000")
        self.assertEqual(lines[0], "start 1; add 1; step 1; end 0; lacking 0; copy 1; add 2; step 2; plan 0; copy 2; "
                                   "fetch 1; in 1; step 1; end 0; lacking 0; copy 1; "
                                   "fetch 2; in 2; step 2; plan 0; copy 2")

    def test_a_step_that_fails_or_is_left_out_is_not_noted_and_the_next_is(self):
        lines = self.lines("""
optimizer = Optimizer(1)
optimizer.step()
told()
work, optimizer.work = optimizer.work, lambda: 1 / 0
try:
    optimizer.step()
except ZeroDivisionError:
    told()
optimizer.work = work
optimizer.step(closure=lambda: request(1))  # which asks in the middle of it
told()
""")
        self.assertEqual(lines[1], "fetch 1; in 1")
        self.assertEqual(lines[2], "fetch 1; in 1; at_once 1; out 1; release 0; "
                                   "step 1; end 0; lacking 0; copy 1")

    def test_what_cannot_be_streamed_is_left_alone(self):
        lines = self.lines("""
class Foreign(Optimizer):
    pass
compiled = Optimizer(6)
compiled.step = types.SimpleNamespace(_torchdynamo_orig_callable=None)
for optimizer in (Optimizer(1, capturable=True), Optimizer(2, differentiable=True), Foreign(3), compiled):
    Optimizer.step(optimizer)
torch.cuda.is_current_stream_capturing = lambda: True
Optimizer(4).step()
torch.cuda.is_current_stream_capturing = lambda: False
compiling = True
Optimizer(5).step()
compiling = False
class Subclass(Tensor):
    pass
def odd(**fields):
    tensor = Tensor(9, fields.pop("size", 1000))
    vars(tensor).update(fields)
    return tensor
optimizer = Optimizer()
optimizer.state = {1: {"step": 5, "all": [Subclass(9), odd(is_cuda=False), odd(requires_grad=True),
                                          odd(layout="sparse"), odd(offset=1), odd(size=999)]}}
optimizer.step()
told()
""")
        # No tensor of theirs is taken in. Steps end all the same, by the first optimizer that is still there.
        self.assertEqual(lines, ["start 1; end 0; lacking 0; end 0; lacking 0"])

    def test_a_step_ends_on_the_gpus_of_the_state_and_on_the_current_one(self):
        lines = self.lines("""
optimizer, beside = Optimizer(1, 2), Optimizer(3)
torch.cuda.state["initialized"] = False
optimizer.step()
told("without CUDA:")
torch.cuda.state["initialized"] = True
torch.cuda.current_device = lambda: 3
optimizer.state[2]["exp_avg"].device = types.SimpleNamespace(type="cuda", index=1)
optimizer.step()
beside.step()
torch.cuda.current_device = lambda: 0  # whose statistics are asked for
told()
""", wanted="0")
        self.assertEqual(lines, ["without CUDA:", "start 1; add 1; add 2; step 1; step 2; end 0; lacking 0; "
                                                  "end 1; lacking 1; end 3; lacking 3; add 3; step 3; plan 0"])

    def test_a_failure_is_told_once_and_what_is_away_still_comes_back(self):
        output, errors = self.run_code("""
optimizer = Optimizer(1)
optimizer.step()
told()
torch.cuda.is_current_stream_capturing = lambda: 1 / 0
for _ in range(3):
    optimizer.step()
    request(1)
told()
""")
        self.assertEqual(output.splitlines()[1], "fetch 1; in 1; fetch 1; in 1; fetch 1; in 1")
        self.assertEqual(errors.count("no optimizer's state is streamed to host memory any more: "
                                      "ZeroDivisionError"), 1, errors)

    def test_where_references_say_nothing_it_is_refused(self):
        for change, reason in (("sys._is_gil_enabled = lambda: False", "this Python has no global lock"),
                               ("Tensor.detach = lambda tensor: None", "references cannot be counted here")):
            code = FAKE_TORCH + change + """
vramwise.torch.install(spill="1GiB", stream=True)
for _ in range(2):
    Optimizer(1).step()
told()
"""
            output, errors = self.world.run(code)
            self.assertNotIn("add", output)
            self.assertEqual(errors.count(reason), 1, errors)

    def test_a_forked_child_leaves_it_be(self):
        lines = self.lines("""
optimizer = Optimizer(1)
optimizer.step()
told()
sys.stdout.flush()
child = os.fork()
if child == 0:
    optimizer.step()
    told("child: ")
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
""")
        self.assertEqual(lines[1], "child:")

    def test_it_is_on_only_where_it_was_asked_for(self):
        for install, environment, is_on in (
                ("spill='1GiB'", {}, False), ("spill='1GiB'", {"VRAMWISE_STREAM": "1"}, True),
                ("spill='1GiB'", {"VRAMWISE_STREAM": "0"}, False), ("", {"VRAMWISE_STREAM": "1"}, False),
                ("", {"VRAMWISE_STREAM": "1", "VRAMWISE_SPILL": "1GiB"}, True),
                ("spill='1GiB', stream=False", {"VRAMWISE_STREAM": "1"}, False)):
            output, _ = self.run_code("Optimizer(1).step()\ntold()", install=install, **environment)
            self.assertEqual("add 1" in output, is_on, (install, environment))
        output, _ = self.world.run("""
import vramwise.torch
try:
    vramwise.torch.install(stream=True)
except ValueError as error:
    print(error)
""")
        self.assertIn("stream=True needs spill=SIZE", output)


if __name__ == "__main__":
    unittest.main()
