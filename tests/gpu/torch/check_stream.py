"""check_stream.py - an optimizer's state that is streamed to host memory on a real GPU: results are equal bit for bit,
whatever a program does.

    python3 check_stream.py [--only NAME,...]   each program in processes of its own: with PyTorch's allocator and all
                                                the memory it wants, then with 0.85 and 0.5 of it and streams; status 1: a
                                                difference, or a program in which something should have left and did not
    python3 check_stream.py --program NAME      one of them, in this process

What is compared are all losses, weights and states.
"""
import argparse
import contextlib
import gc
import hashlib
import json
import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional

import under

STEPS = 8
WIDTH, LAYERS, ROWS = 2048, 12, 8192  # 192 MiB of weights, twice as much state, 1.5 GiB of activations
SHARES = (0.85, 0.5)  # of the second, state alone is not enough
AT_ONCE = 13  # processes beside each other


class Program:
    """A stack of layers, its optimizer and its data."""

    def __init__(self, torch, kind: str = "fused", dtype=None) -> None:
        self.torch = torch
        layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()) for _ in range(LAYERS)]
        self.model = torch.nn.Sequential(*layers).to(device="cuda", dtype=dtype or torch.float32)
        self.optimizer = self.make(kind, self.model.parameters())
        self.draw = torch.Generator(device="cuda").manual_seed(7)
        self.losses: List[str] = []

    def make(self, kind: str, parameters) -> Any:
        optim = self.torch.optim
        if kind == "sgd":
            return optim.SGD(parameters, lr=1e-3, momentum=0.9)
        return optim.AdamW(parameters, lr=1e-4, fused=True if kind == "fused" else None)

    def batch(self, rows: int = ROWS):
        weight = next(self.model.parameters())
        return self.torch.randn(rows, WIDTH, generator=self.draw, device="cuda", dtype=self.torch.float32).to(weight.dtype)

    def loss(self, rows: int = ROWS, model=None):
        return (model or self.model)(self.batch(rows)).float().square().mean()

    def tell(self, loss) -> None:
        self.losses.append(float(loss.detach()).hex())

    def step(self, rows: int = ROWS, model=None) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(rows, model)
        loss.backward()
        self.optimizer.step()
        self.tell(loss)

    def states(self) -> List[Any]:
        return [value for state in self.optimizer.state.values() for value in state.values()
                if self.torch.is_tensor(value)]


def digest(torch, tensors) -> str:
    total = hashlib.sha256()
    for tensor in tensors:
        total.update(tensor.detach().contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes())
    return total.hexdigest()


# ---- programs: each returns what it trained ------------------------------------------------------------------------


def stepped(program: Program) -> Program:
    for _ in range(STEPS):
        program.step()
    return program


def fused(torch) -> Program:
    return stepped(Program(torch))


def default(torch) -> Program:
    return stepped(Program(torch, "default"))


def bfloat16(torch) -> Program:
    return stepped(Program(torch, dtype=torch.bfloat16))


def momentum(torch) -> Program:
    return stepped(Program(torch, "sgd"))


def changing_shapes(torch) -> Program:
    program = Program(torch)
    for step in range(2 * STEPS):
        program.step((ROWS, ROWS // 4, ROWS // 2)[step % 3])
    return program


def accumulation(torch) -> Program:
    program = Program(torch)
    for _ in range(STEPS):
        program.optimizer.zero_grad(set_to_none=True)
        for _ in range(3):
            loss = program.loss()
            loss.backward()
            program.tell(loss)
        program.optimizer.step()
    return program


def scaler_that_skips(torch) -> Program:
    """Every third step has an infinite gradient, and is left out."""
    for kind in ("default", "fused"):
        program = Program(torch, kind)
        scaler = torch.amp.GradScaler("cuda", init_scale=256.0, growth_interval=4)
        for step in range(STEPS):
            program.optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = program.loss()
            scaler.scale(loss).backward()
            if step % 3 == 2:
                next(program.model.parameters()).grad.fill_(float("inf"))
            scaler.step(program.optimizer)
            scaler.update()
            program.tell(loss)
        if kind == "default":
            first = program.losses
            del program
    program.losses += first
    return program


def closure(torch) -> Program:
    program = Program(torch)

    def evaluate():
        program.optimizer.zero_grad(set_to_none=True)
        loss = program.loss()
        loss.backward()
        return loss
    for _ in range(STEPS):
        program.tell(program.optimizer.step(evaluate))
    return program


def several_optimizers(torch) -> Program:
    program = Program(torch)
    other = Program(torch, "default")
    for _ in range(STEPS):
        program.step()
        other.step(ROWS // 2)
    program.losses += other.losses + [digest(torch, other.model.parameters())]
    return program


def groups_that_change(torch) -> Program:
    program = Program(torch)
    for step in range(2 * STEPS):
        if step == STEPS:
            more = torch.nn.Linear(WIDTH, WIDTH).cuda()
            program.model.append(more)
            program.optimizer.add_param_group({"params": list(more.parameters()), "lr": 1e-5})
        program.step()
    return program


def loaded(torch) -> Program:
    program = Program(torch)
    for step in range(2 * STEPS):
        program.step()
        if step % 4 == 3:
            kept = {name: value.clone() if torch.is_tensor(value) else value
                    for name, value in program.model.state_dict().items()}
            state = program.optimizer.state_dict()
            program.model.load_state_dict(kept)
            program.optimizer.load_state_dict(state)
    return program


def looked_at(torch) -> Program:
    """From everywhere: after the step, in the middle of the passes, on another stream, through views."""
    program = Program(torch)
    side = torch.cuda.Stream()
    sums: List[str] = []

    def look(*_) -> None:
        state = program.states()
        if state:
            sums.append(digest(torch, [state[-1][:64], state[1].view(-1)[:1000]]))
    program.model[LAYERS // 2].register_forward_hook(look)
    program.model[LAYERS // 2].register_full_backward_hook(look)
    for step in range(STEPS):
        program.step()
        look()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # as an asynchronous checkpoint: nobody holds the tensors while it runs
            copies = [state.to("cpu", non_blocking=True) for state in program.states() if state.is_cuda]
        program.loss()
        torch.cuda.current_stream().wait_stream(side)
        side.synchronize()
        sums.append(digest(torch, copies))
    program.losses += sums
    return program


def written(torch) -> Program:
    """Outside of the step, by PyTorch's operators."""
    program = Program(torch)
    for step in range(2 * STEPS):
        program.optimizer.zero_grad(set_to_none=True)
        loss = program.loss()
        if step % 3 == 1:
            for state in program.states():
                state.mul_(0.5)
        loss.backward()
        if step % 3 == 2:
            for state in program.states():
                state.view(-1)[:100].zero_()
        program.optimizer.step()
        if step % 4 == 3:
            for state in program.states():
                state.mul_(0.9)
        program.tell(loss)
    return program


def held(torch) -> Program:
    """By a list of the program's, and by views of it."""
    program = Program(torch)
    program.step()
    kept = program.states()
    views = [state.view(-1) for state in kept[::3]]
    for _ in range(STEPS):
        program.step()
        for view, state in zip(views, kept[::3]):
            assert view.data_ptr() == state.data_ptr()
    del kept
    for _ in range(STEPS):
        program.step()
    program.losses.append(digest(torch, views))
    return program


def failing_steps(torch) -> Program:
    """An exception in the forward pass, in the backward pass, and in the optimizer's step."""
    program = Program(torch)

    def fail(*_) -> None:
        raise KeyError("on purpose")
    for number in range(2 * STEPS):
        handle: Optional[Any] = None
        if number % 4 == 1:
            handle = program.model[LAYERS // 2].register_forward_hook(fail)
        elif number % 4 == 2:
            handle = program.model[LAYERS // 2].register_full_backward_hook(fail)
        elif number % 4 == 3:
            handle = program.optimizer.register_step_pre_hook(fail)
        with contextlib.suppress(KeyError):
            program.step()
        if handle is not None:
            handle.remove()
            gc.collect()  # hooks of the backward pass leave cycles, whose memory would count or not as it happens
    return program


def compiled(torch) -> Program:
    """Its memory is asked for with Python's lock held."""
    program = Program(torch)
    model = torch.compile(program.model)
    for _ in range(STEPS):
        program.step(model=model)
    return program


def graphed(torch) -> Program:
    """Forward and backward pass are CUDA graphs."""
    program = Program(torch)
    half = torch.nn.Sequential(*program.model[:LAYERS // 2])
    sample = torch.randn(ROWS // 4, WIDTH, device="cuda", requires_grad=True)
    graph = torch.cuda.make_graphed_callables(half, (sample,))
    rest = torch.nn.Sequential(*program.model[LAYERS // 2:])
    for _ in range(STEPS):
        program.optimizer.zero_grad(set_to_none=True)
        given = program.batch(ROWS // 4).requires_grad_()
        loss = rest(torch.cat([graph(given)] * 6)).square().mean()
        loss.backward()
        program.optimizer.step()
        program.tell(loss)
    return program


def fitted(torch) -> Program:
    """In four parts of its own at least: how many more it takes depends on the memory, and would change the sums."""
    import vramwise.torch
    program = Program(torch)
    for _ in range(STEPS):
        program.optimizer.zero_grad(set_to_none=True)
        for _ in range(4):
            found = vramwise.torch.fit_batch(lambda part: program.model(part).square().mean(), program.batch(ROWS // 2),
                                             margin=0.0)
            assert found.micro_batch == ROWS // 2, f"split into parts of {found.micro_batch}"
            program.tell(found.loss)
        program.optimizer.step()
    return program


def parked(torch) -> Program:
    """In the middle of a step, where our allocator is in force."""
    import vramwise.torch
    program = Program(torch)
    for step in range(STEPS):
        program.optimizer.zero_grad(set_to_none=True)
        loss = program.loss()
        if step % 3 == 2 and vramwise.torch.in_force():
            vramwise.torch.park()
            vramwise.torch.wake()
        loss.backward()
        program.optimizer.step()
        program.tell(loss)
    return program


def checkpointed(torch) -> Program:
    """By hooks of PyTorch's own, inside of which ours are not called."""
    from torch.utils.checkpoint import checkpoint
    program = Program(torch)
    for _ in range(STEPS):
        program.step(model=lambda rows: program.model[3:](checkpoint(program.model[:3], rows, use_reentrant=False)))
    return program


def kept_graph(torch) -> Program:
    """Two backward passes of one graph, the second with gradients of gradients."""
    program = Program(torch)
    for _ in range(STEPS):
        program.optimizer.zero_grad(set_to_none=True)
        loss = program.loss(ROWS // 2)
        loss.backward(retain_graph=True)
        first, = torch.autograd.grad(loss, next(program.model.parameters()), create_graph=True)
        (first.square().sum() * 1e-6).backward()
        program.optimizer.step()
        program.tell(loss)
    return program


class Doubled:
    """A function of the program's own, which keeps an input, an output and a tensor that is neither."""

    @staticmethod
    def of(torch):
        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx, given):
                found = given.tanh()
                ctx.save_for_backward(given, found, found * 2)
                return found

            @staticmethod
            def backward(ctx, gradient):
                given, found, twice = ctx.saved_tensors
                return gradient * (1 - found * twice / 2) + given * 0
        return Function.apply


def own_function(torch) -> Program:
    program, doubled = Program(torch), Doubled.of(torch)
    for _ in range(STEPS):
        program.step(model=lambda rows: program.model[6:](doubled(program.model[:6](rows))))
    return program


def own_hooks(torch) -> Program:
    """Of the program: around a part of the forward pass, and around a whole step."""
    program = Program(torch)
    save_on_cpu = torch.autograd.graph.save_on_cpu

    def forward(rows):
        with save_on_cpu(pin_memory=True):
            rows = program.model[:3](rows)
        return program.model[3:](rows)
    for step in range(STEPS):
        with save_on_cpu() if step == STEPS // 2 else contextlib.nullcontext():
            program.step(model=forward)
    return program


def functional(torch) -> Program:
    """torch.func forbids hooks while it works."""
    program = Program(torch)
    for _ in range(STEPS):
        program.step()
        found = torch.func.grad(lambda weight: (weight ** 3).sum())(torch.arange(8.0, device="cuda"))
        program.losses.append(digest(torch, [found]))
    return program


def written_between(torch) -> Program:
    """What was saved is written to before the backward pass: an error of the program's, which PyTorch reports."""
    program = Program(torch)
    seen: List[str] = []
    for step in range(STEPS):
        program.optimizer.zero_grad(set_to_none=True)
        kept = program.model[:2](program.batch())
        loss = program.model[2:](kept).square().mean()
        if step % 3 == 2:
            kept.data_ptr()
            with torch.no_grad():
                kept.mul_(1.5)
        try:
            loss.backward()
        except RuntimeError as error:
            seen.append(str(error).split(":")[0])
            continue
        program.optimizer.step()
        program.tell(loss)
    program.losses += seen
    return program


def mixed(torch) -> Program:
    """Autocast: copies of the weights, too, are saved."""
    program = Program(torch)
    for _ in range(STEPS):
        program.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = program.loss()
        loss.backward()
        program.optimizer.step()
        program.tell(loss)
    return program


PROGRAMS: Dict[str, Callable[[Any], Program]] = {program.__name__: program for program in (
    fused, default, bfloat16, momentum, changing_shapes, accumulation, scaler_that_skips, closure, several_optimizers,
    groups_that_change, loaded, looked_at, written, held, failing_steps, compiled, graphed, fitted, parked, checkpointed,
    kept_graph, own_function, own_hooks, functional, written_between, mixed)}
MAY_STAY = ("closure", "held")  # whose state need not leave
# On the second share: not even spilled memory is enough; fit_batch() makes smaller parts, and so other sums.
AS_IT_IS = ("kept_graph", "fitted")


def run_program(name: str) -> int:
    torch = under.enter_again()
    import same_results
    same_results.deterministic(torch)
    limit = float(os.environ.get("CHECK_STREAM_LIMIT", "0"))
    if limit:
        torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    try:
        program = PROGRAMS[name](torch)
    except torch.OutOfMemoryError:
        print(under.stats(), flush=True)
        raise
    torch.cuda.synchronize()
    result = dict(losses=program.losses, weights=digest(torch, program.model.parameters()),
                  states=digest(torch, program.states()), peak=torch.cuda.max_memory_allocated(),
                  stream=under.stats().get("stream", {}), spill=under.stats().get("spill", {}))
    print("@ " + json.dumps(result), flush=True)
    return 0


def start(name: str, allocator: str, limit: float) -> subprocess.Popen:
    variables = under.environment(allocator)
    variables.update(CUBLAS_WORKSPACE_CONFIG=":4096:8", CHECK_STREAM_LIMIT=str(limit),
                     VRAMWISE_SPILL="8GiB" if allocator == "vramwise" else "",
                     VRAMWISE_STREAM=os.environ.get("CHECK_STREAM_ON", "1"))
    return subprocess.Popen([sys.executable, __file__, "--program", name], env=variables, text=True, errors="replace",
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def answer(process: subprocess.Popen) -> Any:
    output, _ = process.communicate()
    found = [line for line in output.splitlines() if line.startswith("@ ")]
    if not found:
        return " / ".join(line for line in output.strip().splitlines() if "^^" not in line)[-1500:]
    given_up = [line for line in output.splitlines() if "streamed to host memory any more" in line]
    return dict(json.loads(found[-1][2:]), given_up=given_up)


def compare(name: str, share: float, usual: Any, streamed: Any) -> str:
    """What is wrong, or ""."""
    if not isinstance(usual, dict) or not isinstance(streamed, dict):
        return f"failed: {usual if not isinstance(usual, dict) else streamed}"
    differing = [what for what in ("losses", "weights", "states") if usual[what] != streamed[what]]
    if differing:
        return "DIFFERENT: " + ", ".join(differing)
    if streamed["given_up"]:
        return " ".join(streamed["given_up"])
    wanted = "all_left_bytes" if share == SHARES[0] else "saved_all_left_bytes"
    if name not in MAY_STAY and not streamed["stream"].get(wanted):
        return f"nothing left the GPU: {streamed['stream']} {streamed['spill']}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--share", type=float)
    parser.add_argument("--program", choices=list(PROGRAMS))
    arguments = parser.parse_args()
    if arguments.program:
        return run_program(arguments.program)
    names = [name for name in PROGRAMS if not arguments.only or name in arguments.only.split(",")]
    is_bad = False
    for first in range(0, len(names), AT_ONCE):
        some = names[first:first + AT_ONCE]
        begun = [start(name, "native", 0) for name in some]
        usual = [answer(process) for process in begun]
        for share in SHARES if arguments.share is None else (arguments.share,):
            known = [(name, found) for name, found in zip(some, usual) if share == SHARES[0] or name not in AS_IT_IS]
            begun = [start(name, "vramwise", share * found["peak"] if isinstance(found, dict) else 0)
                     for name, found in known]
            for (name, before), process in zip(known, begun):
                streamed = answer(process)
                wrong = compare(name, share, before, streamed)
                is_bad = is_bad or wrong != ""
                told = wrong or f"equal; {streamed['stream']}, spills {streamed['spill']['spills']}"
                print(f"{'FAIL' if wrong else 'ok  '} {name} on {share}: {told}", flush=True)
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
