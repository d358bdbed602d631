"""whole_runs.py - `vramwise run` and the Python package on a real GPU, from end to end.

    python3 whole_runs.py [--vramwise PATH] [-k WORD]

Each scene is a program of its own, written to a folder and run as a user would: a leak that ends in
an out-of-memory error, one that a loop catches, a recording, our allocator, several ranks, workers, a
compiled optimizer, fit_batch, record, safe points, a profile. What must come of it is asserted; the
scenes run side by side, since nothing here is timed. The status is 1 where one failed.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from pathlib import Path

import under

LIMIT_S = 110
SMALL_CARD = "torch.cuda.set_per_process_memory_fraction(0.01)"  # 1.4 GiB of an H200

LEAK = f"""
    import sys, torch
    {SMALL_CARD}
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    kept = []
    def training_step():
        loss = model(torch.randn(4096, 1024, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        return loss
    def keep_too_much():
        kept.append(training_step())  # with its graph
    for step in range(200):
        keep_too_much()
    print("not reached")
    """


class World:
    """One scene: a folder, a program in it, and what a run of it left."""

    def __init__(self, vramwise: str) -> None:
        self.vramwise = vramwise
        self.folder = Path(tempfile.mkdtemp(prefix="whole-run-"))
        self.output = ""

    def program(self, code: str, name: str = "train.py") -> str:
        (self.folder / name).write_text(textwrap.dedent(code), encoding="utf-8")
        return name

    def call(self, *command: str, **variables: str) -> int:
        environment = dict(under.environment("pytorch"), VRAMWISE_PYTHON=str(under.ROOT / "python"),
                           PYTHONUNBUFFERED="1", **variables)
        done = subprocess.run(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=LIMIT_S)
        self.output = done.stdout
        return done.returncode

    def run(self, *options: str, command: tuple = (), **variables: str) -> int:
        return self.call(self.vramwise, "run", *options, "--", *(command or (sys.executable,
                         "train.py")), **variables)

    def files(self, pattern: str) -> list:
        return sorted(self.folder.glob(pattern))

    def doctor(self, path: Path) -> dict:
        done = subprocess.run([self.vramwise, "doctor", "--json", str(path)], text=True,
                              stdout=subprocess.PIPE, check=False)
        return json.loads(done.stdout)

    def expect(self, claim: bool, what: str) -> None:
        if not claim:
            raise AssertionError(f"{what}\n{self.output[-3000:]}")

    def expect_words(self, pattern: str, count: int = 1) -> None:
        found = len(re.findall(pattern, self.output))
        self.expect(found == count, f"expected {pattern!r} {count} times, and found it {found}")


# ---- running out ---------------------------------------------------------------------------------


def a_leak_is_explained_below_its_traceback(world: World) -> None:
    world.program(LEAK)
    world.expect(world.call(sys.executable, "train.py") == 1, "plain: expected status 1")
    world.expect(world.run() == 1, "expected the program's own status, 1")
    world.expect_words(r"vramwise: process \d+ ran out of memory on GPU 0")
    world.expect_words(r"Traceback \(most recent call last\)")
    world.expect(world.output.index("Traceback") < world.output.index("vramwise: process"),
                 "the report comes after the traceback")
    snapshots = world.files("vramwise-oom-train-*.pickle")
    world.expect(len(snapshots) == 1, f"expected one snapshot, found {snapshots}")
    found = world.doctor(snapshots[0])
    world.expect(found["verdict"] in ("leak", "capped"), f"verdict {found['verdict']}")
    places = json.dumps(found["findings"])
    world.expect("train.py" in places, f"no line of the program in {places[:800]}")


def the_whole_history_names_the_line_that_keeps(world: World) -> None:
    world.program(LEAK)
    world.expect(world.run("--history", "200000") == 1, "expected status 1")
    found = world.doctor(world.files("vramwise-oom-train-*.pickle")[0])
    leaks = [one for one in found["findings"] if one["kind"] == "leak"]
    world.expect(bool(leaks), f"no leak among {[one['kind'] for one in found['findings']]}")
    world.expect("training_step" in json.dumps(leaks[0]["where"]), f"{leaks[0]['where']}")


def an_error_that_is_caught_is_reported_once(world: World) -> None:
    world.program(f"""
        import torch
        {SMALL_CARD}
        size = 1 << 32
        while True:
            try:
                block = torch.empty(size, dtype=torch.uint8, device="cuda")
                break
            except torch.OutOfMemoryError:
                size //= 2
        print("served", size >> 20, "MiB")
        """)
    world.expect(world.run() == 0, "expected status 0")
    world.expect_words(r"served \d+ MiB")
    world.expect_words(r"ran out of memory on GPU 0")
    world.expect(len(world.files("vramwise-oom-*.pickle")) == 1, "expected one snapshot")


def our_allocator_runs_out_in_the_same_words(world: World) -> None:
    world.program(LEAK)
    world.expect(world.run("--allocator", "vramwise") == 1, "expected status 1")
    world.expect_words(r"OutOfMemoryError: CUDA out of memory\. Tried to allocate")
    world.expect_words(r"ran out of memory on GPU 0")
    world.expect(world.doctor(world.files("vramwise-oom-*.pickle")[0])["verdict"] in
                 ("leak", "capped"), "verdict")


# ---- recordings ----------------------------------------------------------------------------------

HEALTHY = """
    import torch, vramwise.torch
    print("in force:", vramwise.torch.in_force())
    model = torch.nn.Linear(512, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        model(torch.randn(256 + step, 512, device="cuda")).sum().backward()
        optimizer.step()
    """


def a_recording_verifies(world: World) -> None:
    world.program(HEALTHY)
    for options, force in (((), "pytorch"), (("--allocator", "torch"), "torch via adapter")):
        world.expect(world.run("--record", "run.pickle", *options) == 0, "expected status 0")
        world.expect_words("in force: " + force)
        done = subprocess.run([world.vramwise, "verify", "--json", str(world.folder / "run.pickle")],
                              stdout=subprocess.PIPE, text=True, check=False)
        world.expect(json.loads(done.stdout)["exact"], f"{force}: {done.stdout[:500]}")


def ranks_have_files_of_their_own(world: World) -> None:
    world.program(HEALTHY)
    world.expect(world.run("--allocator", "vramwise", "--record", "run.pickle", command=(
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
        "train.py")) == 0, "expected status 0")
    world.expect_words("in force: vramwise via adapter", 2)
    names = [path.name for path in world.files("run*.pickle")]
    world.expect(names == ["run.rank0.pickle", "run.rank1.pickle"], f"{names}")


def record_is_a_context_manager(world: World) -> None:
    world.program("""
        import torch, vramwise, vramwise.torch
        vramwise.torch.install("vramwise", fallback="error")
        with vramwise.torch.record("part.pickle"):
            kept = [torch.randn(1 << 20, device="cuda") for _ in range(10)]
            del kept[3:]
        recording = vramwise.load("part.pickle")
        assert recording.events > 10, recording.events
        found = vramwise.torch.doctor()
        print("verdict", found.verdict, len(found.findings))
        """)
    world.expect(world.call(sys.executable, "train.py") == 0, "expected status 0")
    world.expect_words(r"verdict [a-z-]+ \d+")


# ---- other programs ------------------------------------------------------------------------------


def workers_of_a_loader_pay_nothing(world: World) -> None:
    world.program("""
        import torch
        class Numbers(torch.utils.data.Dataset):
            def __len__(self): return 64
            def __getitem__(self, i):
                assert not torch.cuda.is_initialized()
                return torch.full((4,), float(i))
        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                loader = torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2,
                                                     multiprocessing_context=method, pin_memory=True)
                print(method, sum(batch.cuda().sum().item() for batch in loader))
        """)
    world.expect(world.run("--allocator", "vramwise") == 0, "expected status 0")
    world.expect_words(r"(fork|spawn) 8064\.0", 2)


def a_compiled_step_stays_whole(world: World) -> None:
    world.program("""
        import torch
        model = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        step = torch.compile(optimizer.step)
        for _ in range(3):
            model(torch.randn(8, 64, device="cuda")).sum().backward()
            step()
        print("breaks", sum(torch._dynamo.utils.counters["graph_break"].values()))
        """)
    counts = []
    for is_observed in (False, True):
        status = world.run() if is_observed else world.call(sys.executable, "train.py")
        world.expect(status == 0, "expected status 0")
        counts.append(re.search(r"breaks (\d+)", world.output).group(1))
    world.expect(counts[0] == counts[1], f"graph breaks plain {counts[0]}, watched {counts[1]}")


def a_batch_that_does_not_fit_is_split(world: World) -> None:
    world.program(f"""
        import logging, torch, vramwise.torch
        logging.basicConfig(level=logging.INFO)
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = False
        model = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.GELU(),
                                    torch.nn.Linear(4096, 256)).cuda()
        batch = torch.randn(16384, 256, device="cuda")
        def step(part): return model(part).square().mean()
        step(batch).backward()
        whole = [p.grad.clone() for p in model.parameters()]
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        limit = torch.cuda.memory_reserved() + (300 << 20)
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(limit / total)
        before = torch.cuda.memory_allocated()
        fitted = vramwise.torch.fit_batch(step, batch)
        print("parts", fitted)
        for one, other in zip(whole, (p.grad for p in model.parameters())):
            assert torch.allclose(one, other, rtol=1e-3, atol=1e-6), (one - other).abs().max()
        held = torch.cuda.memory_allocated() - before - sum(g.numel() * 4 for g in whole)
        assert held <= 4096 * len(whole), held
        model.zero_grad(set_to_none=True)
        again = vramwise.torch.fit_batch(step, batch)
        print("again", again)
        """)
    world.expect(world.call(sys.executable, "train.py") == 0, "expected status 0")
    world.expect_words(r"(?m)^parts ")


def a_safe_point_lets_live_data_move(world: World) -> None:
    world.program("""
        import torch, vramwise.torch
        vramwise.torch.install("vramwise:rescue", gate=False, fallback="error")
        MIB = 1 << 20
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(1024 * MIB / total)
        whole = torch.empty(900 * MIB, dtype=torch.uint8, device="cuda")
        del whole
        blocks = [torch.full((30 * MIB,), i, dtype=torch.uint8, device="cuda") for i in range(30)]
        kept = blocks[::2]
        del blocks
        try:
            torch.empty(440 * MIB, dtype=torch.uint8, device="cuda")
            print("served without copying")
        except torch.OutOfMemoryError:
            print("refused outside")
        torch.cuda.synchronize()
        with vramwise.torch.safe_point():
            large = torch.empty(440 * MIB, dtype=torch.uint8, device="cuda")
        for i, block in enumerate(kept):
            assert int(block.min()) == int(block.max()) == 2 * i  # no room for a mask of its size
        print("moments", vramwise.torch.stats()["safe_moments"], vramwise.torch.stats()["copies"])
        """)
    world.expect(world.call(sys.executable, "train.py") == 0, "expected status 0")
    world.expect_words(r"moments ")


def a_profile_has_kernels_though_the_gate_stood(world: World) -> None:
    world.program("""
        import torch, vramwise.torch
        vramwise.torch.install("vramwise:rescue", fallback="error")
        x = torch.randn(1000, 1000, device="cuda")
        assert vramwise.torch.stats()["safe_moments"]["has_gate"]
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
            for _ in range(5):
                y = x @ x
            torch.cuda.synchronize()
        kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        memory = [e for e in profile.events() if e.name == "[memory]"]
        assert not vramwise.torch.stats()["safe_moments"]["has_gate"]
        print("kernels", len(kernels), "memory", len(memory))
        assert kernels and memory
        """)
    world.expect(world.call(sys.executable, "train.py") == 0, "expected status 0")
    world.expect_words("gives way to the profiler")


SCENES = [value for value in list(globals().values())
          if callable(value) and getattr(value, "__annotations__", {}).get("world") is World]


def play(scene, vramwise: str) -> tuple:
    begin = time.perf_counter()
    try:
        scene(World(vramwise))
        why = ""
    except (AssertionError, subprocess.TimeoutExpired) as error:
        why = str(error)
    except Exception:  # noqa: BLE001: a scene that breaks is a scene that failed
        why = traceback.format_exc()
    return scene.__name__, why, time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vramwise", default=str(under.ROOT / "build" / "vramwise"))
    parser.add_argument("-k", default="", help="only scenes with this word in their name")
    given = parser.parse_args()
    vramwise = os.path.abspath(given.vramwise)
    chosen = [scene for scene in SCENES if given.k in scene.__name__]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        for name, why, seconds in pool.map(lambda scene: play(scene, vramwise), chosen):
            failed += bool(why)
            print(f"{'FAIL' if why else 'ok  '} {name} ({seconds:.1f} s){': ' + why if why else ''}",
                  flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} scenes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
