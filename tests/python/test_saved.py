"""test_saved.py - when the hooks for saved tensors are in force, which tensors leave, and how they come back; with an
autograd that has PyTorch's stack of hooks, and an adapter that answers what the test says. What the adapter does then
is tests/adapter/test_saved_stream.cpp."""
import unittest

from world import World

FAKE_TORCH = """
import ctypes, os, sys, threading, types
import torch, vramwise.torch

# ---- PyTorch's stack of hooks, one for each thread ----

class Stack(threading.local):
    def __init__(self):
        self.hooks, self.forbidden = [], None
stack = Stack()

def check():
    if stack.forbidden is not None:
        raise RuntimeError(stack.forbidden)
def push(pack, unpack):
    check()
    stack.hooks.append((pack, unpack))
def pop():
    assert stack.hooks, "PyTorch's own assertion"
    stack.hooks.pop()
def disable(message):
    stack.forbidden = message
    if stack.hooks:
        check()
def enable():
    stack.forbidden = None
def top(ignore_is_tracing):
    return stack.hooks[-1] if stack.hooks else None

class saved_tensors_hooks:
    def __init__(self, pack, unpack):
        self.pack, self.unpack = pack, unpack
    def __enter__(self):
        autograd._push_saved_tensors_default_hooks(self.pack, self.unpack)
    def __exit__(self, *error):
        autograd._pop_saved_tensors_default_hooks()

autograd = types.SimpleNamespace(
    _push_saved_tensors_default_hooks=push, _pop_saved_tensors_default_hooks=pop,
    _top_saved_tensors_default_hooks=top, _saved_tensors_hooks_disable=disable, _saved_tensors_hooks_enable=enable,
    _saved_tensors_hooks_is_enabled=lambda: stack.forbidden is None)
task = -1
torch._C._autograd, torch._C._current_graph_task_id = autograd, lambda: task
torch.autograd = types.SimpleNamespace(graph=types.SimpleNamespace(saved_tensors_hooks=saved_tensors_hooks))
own = saved_tensors_hooks(lambda tensor: tensor, lambda packed: packed)

def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

# ---- tensors: those that share a storage share its numbers ----

class Numbers(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint), ("storage_uses", ctypes.c_uint)]

def kind_of(name, is_complex=False):
    return type("Kind", (), {"__repr__": lambda self: name, "is_complex": is_complex})()
torch.float32, torch.uint8, torch.complex64 = kind_of("float32"), kind_of("uint8"), kind_of("complex64", True)
gpus = [types.SimpleNamespace(type="cuda", index=index) for index in range(2)]

class Tensor:
    is_cuda, is_leaf, requires_grad, layout, _base, _version = True, False, True, "strided", None, 0
    is_nested = is_quantized = is_negative = False
    dtype, device, offset, shape, strides = torch.float32, gpus[0], 0, (512, 512), (512, 1)
    def __init__(self, number, **fields):
        self.numbers = fields.pop("numbers", None) or Numbers(number, 0)
        self.numbers.storage_uses += 1
        vars(self).update(fields)
    def __del__(self):
        self.numbers.storage_uses -= 1
    _cdata = property(lambda self: ctypes.addressof(self.numbers))
    def element_size(self):
        return 4
    def numel(self):
        return self.shape[0] * self.shape[1]
    def storage_offset(self):
        return self.offset
    def stride(self):
        return self.strides
    def is_neg(self):
        return self.is_negative
    def untyped_storage(self):
        return self.numbers
    def detach(self):
        return type(self)(0, numbers=self.numbers, is_leaf=True, requires_grad=False, _version=self._version)
    def set_(self, storage, offset, shape, strides):
        assert is_grad_off
        self.numbers, self.offset, self.shape, self.strides = storage, offset, shape, strides
        self.numbers.storage_uses += 1
        return self

class Parameter(Tensor):
    is_leaf = True

is_grad_off = False
class no_grad:
    def __enter__(self):
        global is_grad_off
        is_grad_off = True
    def __exit__(self, *error):
        global is_grad_off
        is_grad_off = False

def empty(count, dtype=None, device=None):
    return Tensor(0, dtype=dtype, device=device, is_leaf=True, shape=(count, 1))
torch.Tensor, torch.strided, torch.empty, torch.no_grad = Tensor, "strided", empty, no_grad

# ---- steps ----

before, after = [], []
class Optimizer:
    state, param_groups = {}, []
    def add_param_group(self, group):
        pass
    def step(self):
        for hook in before + after:
            hook(self, (), {})
torch.cuda.is_current_stream_capturing = lambda: False
torch.optim = types.SimpleNamespace(Optimizer=Optimizer)
torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
sys.modules["torch.optim.optimizer"] = types.SimpleNamespace(
    register_optimizer_step_pre_hook=before.append, register_optimizer_step_post_hook=after.append)
optimizer = Optimizer()

def step(lacks, times=1):
    torch.cuda.state["initialized"] = True
    os.environ["FAKE_ADAPTER_LACKS"] = str(lacks)
    for _ in range(times):
        optimizer.step()

# ---- what the tests ask ----

def answers(**said):
    for name, answer in said.items():
        os.environ["FAKE_ADAPTER_" + name.upper()] = str(answer)

def save(tensor):
    return stack.hooks[-1][0](tensor)
def want(packed):
    return stack.hooks[-1][1](packed)
def tried(packed):
    try:
        return want(packed)
    except RuntimeError as error:
        return f"RuntimeError: {error}"

seen = 0
def told(what=""):
    global seen
    text = vramwise.torch.stats()["streamed"]
    new = [part for part in text[seen:].strip().rstrip(";").split("; ") if part[:3] not in ("sta", "end", "lac")]
    print(f"{what}: " + "; ".join(new))
    seen = len(text)
def depth():
    return len(stack.hooks)
"""

OLDER = "\ndel autograd._top_saved_tensors_default_hooks  # as before PyTorch 2.8\n"


class Saved(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def run_code(self, code, change=""):
        return self.world.run(f"{FAKE_TORCH}{change}\nvramwise.torch.install(spill='1GiB', stream=True)\n{code}")

    def lines(self, code, change=""):
        output, errors = self.run_code(code, change)
        self.assertNotIn("no optimizer's state is streamed", errors)
        return output.splitlines()

    def check_both(self, code, expected):
        """With the PyTorch that tells whose hooks are in force, and with an older one."""
        for change in ("", OLDER):
            self.assertEqual(self.lines(code, change), expected, change)

    # ---- when they are in force ------------------------------------------------------------------

    def test_they_are_in_force_once_memory_is_lacking(self):
        self.check_both("""
step(0)
print(depth())
step(1000, times=3)
print(depth())
""", ["0", "1"])

    def test_they_leave_after_sixteen_steps_without_need(self):
        self.check_both("""
step(1000)
step(0, times=15)
print(depth())
step(1000)
step(0, times=15)
print(depth())
step(0)
print(depth())
step(0, times=16)
step(1000)
print(depth())
""", ["1", "1", "0", "1"])

    def test_they_leave_with_the_last_tensor_that_does_until_the_step_is_over(self):
        self.check_both("""
step(1000)
unpack = stack.hooks[-1][1]
answers(keeps=7 + (1 << 62))
packed = save(Tensor(1))
print(depth())
print(unpack(packed).numbers.number)
step(1000)
print(depth())
with own:
    packed = stack.hooks[0][0](Tensor(2))  # others are on top: ours stay
    print(depth())
print(depth())
""", ["0", "107", "1", "2", "1"])

    def test_they_stay_away_from_the_hooks_of_the_program(self):
        self.check_both("""
with own:
    with own:
        step(1000)
    step(1000)
    print(depth(), stack.hooks[0][0] is own.pack)
print(depth())
step(1000)
with own:
    step(0, times=20)
    print(depth(), stack.hooks[0][0] is own.pack, stack.hooks[1][0] is own.pack)
print(depth(), stack.hooks[0][0] is own.pack)
step(0)
print(depth())
""", ["1 True", "0", "2 False True", "1 False", "0"])

    def test_hooks_that_are_pushed_without_the_class_are_seen_where_pytorch_tells(self):
        self.assertEqual(self.lines("""
push(own.pack, own.unpack)
step(1000)
print(depth())
pop()
step(1000)
push(own.pack, own.unpack)
step(0, times=20)
print(depth(), stack.hooks[1][0] is own.pack)
"""), ["1", "2 True"])

    def test_they_give_way_where_the_program_forbids_hooks(self):
        self.check_both("""
step(1000)
autograd._saved_tensors_hooks_disable("not here")
print(depth())
autograd._saved_tensors_hooks_disable("nor here")
step(1000)
print(depth())
autograd._saved_tensors_hooks_enable()
print(depth())
autograd._saved_tensors_hooks_enable()
print(depth())
""", ["0", "0", "1", "1"])

    def test_what_was_not_in_force_does_not_come_when_hooks_are_allowed(self):
        self.check_both("""
autograd._saved_tensors_hooks_disable("not here")
step(1000)  # would fail
autograd._saved_tensors_hooks_enable()
print(depth())
step(1000)
print(depth())
""", ["0", "1"])

    def test_a_program_that_forbids_its_own_hooks_fails_as_in_pytorch(self):
        self.check_both("""
step(1000)
with own:
    try:
        autograd._saved_tensors_hooks_disable("not here")
    except RuntimeError as error:
        print(error, depth())
    autograd._saved_tensors_hooks_enable()
print(depth())
""", ["not here 2", "1"])

    def test_another_thread_neither_gets_them_nor_takes_them_away(self):
        self.check_both("""
step(1000)
def beside():
    autograd._saved_tensors_hooks_disable("not here")
    autograd._saved_tensors_hooks_enable()
    print(depth())
in_thread(beside)
print(depth())
autograd._saved_tensors_hooks_disable("not here")
in_thread(beside)  # which allows them there only
autograd._saved_tensors_hooks_enable()
print(depth())
""", ["0", "1", "0", "1"])

    def test_a_thread_of_the_backward_pass_can_forbid_them(self):
        self.assertEqual(self.lines("""
step(1000)
inherited = list(stack.hooks)
def backward():
    stack.hooks = list(inherited)
    autograd._saved_tensors_hooks_disable("not here")
    print(depth())
    autograd._saved_tensors_hooks_enable()
    print(depth(), stack.hooks == inherited)
in_thread(backward)
print(depth())
"""), ["0", "1 True", "1"])

    def test_an_optimizer_that_steps_in_the_backward_pass_pushes_nothing(self):
        self.check_both("""
task = 5
in_thread(lambda: (step(1000), print(depth())))
step(1000)
print(depth())
task = -1
step(1000)
print(depth())
""", ["0", "0", "1"])

    def test_a_pytorch_without_such_hooks_is_left_alone(self):
        for change in ("del torch._C._autograd", "del autograd._push_saved_tensors_default_hooks",
                       "del autograd._saved_tensors_hooks_is_enabled", "del torch._C._current_graph_task_id",
                       OLDER + "del torch.autograd.graph.saved_tensors_hooks", OLDER + "del torch.autograd"):
            lines = self.lines("""
step(1000, times=2)
print(depth(), autograd._saved_tensors_hooks_disable is disable, "__wrapped__" in vars(saved_tensors_hooks.__enter__))
""", "\n" + change)
            self.assertEqual(lines, ["0 True False"], change)

    # ---- what stays ------------------------------------------------------------------------------

    def test_what_stays_is_itself_or_without_its_history(self):
        lines = self.lines("""
step(1000)
for item in (0, -3):
    answers(keeps=item)
    leaf, output = Tensor(1, is_leaf=True, requires_grad=False), Tensor(2)
    kept = save(leaf), save(output)
    print(want(kept[0]) is leaf)
    back = want(kept[1])
    print(back is output, back.is_leaf, back.numbers is output.numbers)
    told("asked")
""")
        self.assertEqual(lines[:3], ["True", "False True True", "asked: keep 1; keep 2"])
        # It could have left: the adapter hears when it is wanted.
        self.assertEqual(lines[3:], ["True", "False True True", "asked: keep 1; keep 2; used 0 2; used 0 2"])

    def test_what_stays_must_not_be_written_to(self):
        lines = self.lines("""
step(1000)
leaf = Parameter(1)
packed = save(leaf)
leaf._version = 1
print(tried(packed))
""")
        self.assertTrue(lines[0].startswith("RuntimeError: one of the variables needed for gradient computation has "
                                            "been modified by an inplace operation: [float32 [512, 512]]."), lines)

    def test_some_never_leave(self):
        lines = self.lines("""
step(1000)
answers(keeps=7)
class Subclass(Tensor):
    pass
weight, frozen = Tensor(1, is_leaf=True), Parameter(1, requires_grad=False)
for tensor in (weight, Tensor(2, _base=weight), Parameter(3), frozen, Tensor(4, _base=frozen), Subclass(5),
               Subclass(5, _base=Tensor(0)), Tensor(6, shape=(512, 511)), Tensor(7, is_cuda=False),
               Tensor(8, layout="sparse"), Tensor(9, dtype=torch.complex64), Tensor(10, is_negative=True),
               Tensor(11, is_nested=True), Tensor(12, is_quantized=True)):
    assert want(save(tensor)).numbers is tensor.numbers
told("odd")
for tensor in (Tensor(20), Tensor(21, is_leaf=True, requires_grad=False), Tensor(22, _base=Tensor(23))):
    save(tensor)
told("plain")
""")
        self.assertEqual(lines[0], "odd: ")
        self.assertEqual([part for part in lines[1].split(" ", 1)[1].split("; ") if "keep" in part],
                         ["keep 20", "keep 21", "keep 22"])

    # ---- what leaves -----------------------------------------------------------------------------

    def test_what_left_comes_back_with_its_place_in_the_storage(self):
        for fetches, numbers, asked in ((0, 107, "fetched 0 7"), (1 << 20, 207, "fetched 0 7; filled 0 7")):
            lines = self.lines(f"""
step(1000)
answers(keeps=7, fetches={fetches})
tensor = Tensor(1, offset=3, strides=(600, 1))
packed = save(tensor)
print(any(part is tensor for part in packed), tensor.numbers.storage_uses)
del tensor
told("saved")
back = want(packed)
print(back.numbers.number, back.dtype, back.offset, back.shape, back.strides, is_grad_off)
print(want(packed).numbers is back.numbers)  # a second backward pass
told("wanted")
del packed
told("over")
""")
            self.assertEqual(lines, ["False 1", "saved: keep 1", f"{numbers} float32 3 (512, 512) (600, 1) False",
                                     "True", f"wanted: {asked}", "over: released 0 7"])

    def test_tensors_of_one_storage_share_what_left(self):
        lines = self.lines("""
step(1000)
answers(keeps=7)
base = Tensor(1)
first, second = save(base), save(Tensor(0, numbers=base.numbers, _base=base, offset=8))
answers(keeps=8)
other = save(Tensor(2))
told("saved")
print(want(first).numbers is want(second).numbers, want(second).offset, want(other).numbers.number)
told("wanted")
del first
told("one")
del second
told("both")
del other
told("other")
""")
        self.assertEqual(lines, ["saved: keep 1; keep 1; keep 2", "True 8 108", "wanted: fetched 0 7; fetched 0 8",
                                 "one: ", "both: released 0 7", "other: released 0 8"])

    def test_each_gpu_has_ids_of_its_own(self):
        lines = self.lines("""
step(1000)
answers(keeps=7)
first, second = save(Tensor(1)), save(Tensor(2, device=gpus[1]))
print(want(first).device.index, want(second).device.index, want(first).numbers is want(second).numbers)
del first, second
told("asked")
""")
        self.assertEqual(lines, ["0 1 False", "asked: keep 1; keep 2; fetched 0 7; fetched 1 7; released 0 7; "
                                              "released 1 7"])

    def test_an_id_that_was_given_up_meanwhile_is_not_taken(self):
        lines = self.lines("""
step(1000)
answers(keeps=7)
tensor = Tensor(1)
packed = save(tensor)
del packed
told("once")
packed = save(tensor)  # the adapter has not forgotten it yet, and will
print(want(packed).numbers is tensor.numbers)
told("again")
answers(keeps=8)
packed = save(tensor)
told("later")
del packed
told("over")
""")
        self.assertEqual(lines, ["once: keep 1; released 0 7", "True", "again: keep 1; released 0 7", "later: keep 1",
                                 "over: released 0 8"])

    def test_what_left_and_was_written_to_or_is_lost_is_an_error(self):
        lines = self.lines("""
step(1000)
answers(keeps=7, fetches=-1)
packed = save(Tensor(1))
print(tried(packed))
answers(fetches=-2)
print(tried(packed))
answers(fetches=1 << 20, fills=0)
print(tried(packed))
answers(fetches=0)
print(want(packed).numbers.number)
told("asked")
""")
        self.assertTrue(lines[0].startswith("RuntimeError: one of the variables needed for gradient computation has "
                                            "been modified by an inplace operation: [float32 [512, 512]]."), lines)
        lost = "RuntimeError: vramwise: a saved tensor could not be copied back from host memory"
        self.assertEqual(lines[1:], [lost, lost, "107", "asked: keep 1; fetched 0 7; fetched 0 7; fetched 0 7; "
                                                        "filled 0 7; fetched 0 7"])

    # ---- the end ---------------------------------------------------------------------------------

    def test_after_a_failure_they_are_gone_and_what_left_still_comes_back(self):
        for change in ("", OLDER):
            output, errors = self.run_code("""
step(1000)
answers(keeps=7)
packed = save(Tensor(1))
hooks = stack.hooks[-1]
torch.cuda.is_current_stream_capturing = lambda: 1 / 0
step(1000)
torch.cuda.is_current_stream_capturing = lambda: False
print(depth())
step(1000)
autograd._saved_tensors_hooks_disable("not here")
autograd._saved_tensors_hooks_enable()
print(depth())
print(hooks[1](packed).numbers.number)
del packed
told("asked")
""", change)
            self.assertEqual(output.splitlines(), ["0", "0", "107", "asked: keep 1; fetched 0 7; released 0 7"])
            self.assertEqual(errors.count("no optimizer's state is streamed to host memory any more: "
                                          "ZeroDivisionError"), 1, errors)

    def test_after_an_end_in_another_thread_nothing_leaves_and_the_next_step_takes_them_away(self):
        for change in ("", OLDER):
            output, errors = self.run_code("""
step(1000)
answers(keeps=7)
torch.cuda.is_current_stream_capturing = lambda: 1 / 0
in_thread(lambda: step(1000))
print(depth())
tensor = Tensor(1)
print(want(save(tensor)).numbers is tensor.numbers)
told("asked")
step(1000)
print(depth())
""", change)
            self.assertEqual(output.splitlines(), ["1", "True", "asked: ", "0"])
            self.assertEqual(errors.count("ZeroDivisionError"), 1, errors)

    def test_after_an_end_no_hooks_return_when_they_are_allowed(self):
        for change in ("", OLDER):
            output, _ = self.run_code("""
step(1000)
autograd._saved_tensors_hooks_disable("not here")
torch.cuda.is_current_stream_capturing = lambda: 1 / 0
step(1000)
autograd._saved_tensors_hooks_enable()
print(depth())
""", change)
            self.assertEqual(output, "0")


if __name__ == "__main__":
    unittest.main()
