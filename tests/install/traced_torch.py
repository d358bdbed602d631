#!/usr/bin/env python3
"""traced_torch.py - what try_traced.sh runs beside a real PyTorch without a GPU: plans by tracing."""
import sys
import unittest

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import vramwise.torch
from vramwise.torch import _tracer, _tracer_rules

MIB = 1 << 20


class Block(nn.Module):
    def __init__(self, width: int, heads: int, is_checkpointed: bool) -> None:
        super().__init__()
        self.heads, self.is_checkpointed = heads, is_checkpointed
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def inner(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        held = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(held.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.after(x))))

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False) if self.is_checkpointed else self.inner(x)


class Model(nn.Module):
    def __init__(self, is_checkpointed: bool = False, layers: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(5000, 512)
        self.blocks = nn.ModuleList(Block(512, 8, is_checkpointed) for _ in range(layers))
        self.head = nn.Linear(512, 5000, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def batch(size: int, length: int):
    return torch.randint(0, 5000, (size, length))


def planned(**settings) -> dict:
    given = dict(model=Model, batch=batch, optimizer=torch.optim.AdamW, batch_size=8, seq=256)
    return vramwise.torch.plan(**dict(given, **settings))


def traced(function, share: float = 1.0) -> _tracer.Tracer:
    tracer = _tracer.Tracer(_tracer_rules.Card(), _tracer_rules.Policy(share))
    with tracer.tracing():
        function()
    return tracer


class Plans(unittest.TestCase):
    def test_weights_gradients_and_states_are_what_they_must_be(self) -> None:
        parameters = sum(p.numel() for p in Model().parameters())
        parts = planned()["parts"]
        for name, copies in (("weights", 1), ("optimizer", 2)):
            self.assertAlmostEqual(parts[name] / (4 * parameters * copies), 1,
                                   delta=0.02, msg=name)

    def test_settings_change_the_peak_as_they_do_on_a_gpu(self) -> None:
        usual = planned()["peak_allocated_bytes"]
        self.assertLess(planned(precision="amp-bf16")["peak_allocated_bytes"], usual)
        self.assertLess(planned(model=lambda: Model(True))["peak_allocated_bytes"], usual)
        self.assertLess(planned(optimizer=None)["peak_allocated_bytes"], usual / 2)
        self.assertGreater(planned(batch_size=16)["peak_allocated_bytes"], 1.5 * usual)

    def test_a_largest_batch_is_found(self) -> None:
        plan = planned(card="24GiB")
        self.assertTrue(plan["fits"])
        self.assertGreater(plan["largest_batch"], 64)
        self.assertGreater(plan["evidence_steps"], 0)

    def test_optimizers_take_the_way_they_take_on_a_gpu(self) -> None:
        peaks = {name: planned(optimizer=lambda p, kw=kw: torch.optim.AdamW(p, **kw), batch_size=1,
                               seq=8)["peak_allocated_bytes"]
                 for name, kw in (("foreach", {}), ("fused", {"fused": True}),
                                  ("loop", {"foreach": False}))}
        # The roots of all second moments at once, of one parameter, or of none.
        parameters = sum(p.numel() for p in Model().parameters())
        self.assertLess(peaks["fused"], peaks["foreach"] - 2 * parameters)
        self.assertLess(peaks["loop"], peaks["foreach"] - 2 * parameters)

    def test_a_model_of_any_size_takes_no_memory(self) -> None:
        class Huge(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layers = nn.ModuleList(nn.Linear(16384, 16384) for _ in range(40))

            def forward(self, x):
                for layer in self.layers:
                    x = layer(x)
                return x.square().mean()

        plan = planned(model=Huge, batch=lambda size: torch.randn(size, 16384), precision="bf16")
        self.assertGreater(plan["peak_allocated_bytes"], 40 * 16384 * 16384 * 2 * 4)

    def test_a_step_of_ones_own_leaves_the_model_as_it_was(self) -> None:
        model = Model(layers=1)
        optimizer = torch.optim.AdamW(model.parameters())
        weight = model.head.weight

        def step(size: int) -> None:
            model(batch(size, 64).to("cuda")).backward()
            optimizer.step()
            optimizer.zero_grad()

        plan = vramwise.torch.plan(step, batch_size=4)
        self.assertGreater(plan["peak_allocated_bytes"], 4 * 5000 * 512 * 4)
        self.assertIs(model.head.weight, weight)
        self.assertIs(model.words.weight, weight)
        self.assertEqual((weight.device.type, type(weight).__name__), ("cpu", "Parameter"))
        self.assertEqual(len(optimizer.state), 0)
        self.assertFalse(torch.cuda.is_available())

    def test_wrong_use_is_refused(self) -> None:
        for words, settings in (("step=, or model= and batch=", dict(model=None)),
                                ("precision is one of", dict(precision="fp8")),
                                ("no loss", dict(model=lambda: nn.Linear(4, 4),
                                                 batch=lambda: torch.randn(2, 4)))):
            with self.assertRaisesRegex(ValueError, words):
                planned(**settings)
        with self.assertRaisesRegex(ValueError, "refers to no torch.nn.Module"):
            vramwise.torch.plan(lambda: None)


class Layers(unittest.TestCase):
    """Each was measured on an H200 (bench/torch/measure_programs.py, measure_workspaces.py)."""

    def test_recurrent_layers_are_those_of_cudnn(self) -> None:
        def run() -> None:
            cells = nn.LSTM(768, 768, 2, batch_first=True).to("cuda")
            made, (last, _) = cells(torch.ones(64, 256, 768, device="cuda"))
            self.assertEqual((made.shape, last.shape), ((64, 256, 768), (2, 64, 768)))
            made.sum().backward()
            self.assertEqual(cells.weight_hh_l1.grad.shape, (4 * 768, 768))

        events = traced(run).requests.events
        self.assertIn(553_648_384, [e[2] for e in events if e[0] == _tracer.ALLOC])  # the reserve
        hidden = [e for e in events if e[:2] == [_tracer.HIDDEN, "recurrent"]]
        self.assertEqual([e[2] for e in hidden], [0, 1, 1])  # forward; states, weights
        self.assertEqual(hidden[0][3:-1], [4, 1, 0, 4, 64 * 256, 64, 768, 768, 2, 1])

    def test_packed_sequences_and_evaluation(self) -> None:
        def run() -> None:
            cells = nn.GRU(32, 64, bidirectional=True).to("cuda")
            x = torch.ones(9, 3, 32, device="cuda", requires_grad=True)
            made, _ = cells(nn.utils.rnn.pack_padded_sequence(x, [9, 5, 2]))
            self.assertEqual(made.data.shape, (16, 128))
            nn.utils.rnn.pad_packed_sequence(made)[0].sum().backward()
            self.assertEqual(x.grad.shape, x.shape)
            with torch.no_grad():
                cells.eval()(x)

        events = traced(run).requests.events
        self.assertEqual(sum(e[:2] == [_tracer.HIDDEN, "recurrent"] for e in events), 4)

    def test_speech_has_its_loss(self) -> None:
        def run() -> None:
            x = torch.ones(50, 4, 20, device="cuda", requires_grad=True)
            F.ctc_loss(x.log_softmax(-1), torch.ones(4, 10, dtype=torch.long), torch.full((4,), 50),
                       torch.full((4,), 10)).backward()
            self.assertEqual(x.grad.shape, x.shape)

        sizes = [e[2] for e in traced(run).requests.events if e[0] == _tracer.ALLOC]
        self.assertEqual(sizes.count(4 * 4 * 50 * 21), 2)

    def test_a_bias_is_added_in_place(self) -> None:
        def run() -> None:
            with torch.inference_mode():
                nn.Linear(64, 4096).to("cuda")(torch.ones(8, 4, 64, device="cuda").transpose(0, 1))

        sizes = [e[2] for e in traced(run).requests.events if e[0] == _tracer.ALLOC]
        self.assertEqual(sizes.count(4 * 32 * 4096), 1)


class Groups(unittest.TestCase):
    """Programs of several GPUs, one rank of them."""

    def tearDown(self) -> None:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    @staticmethod
    def live_after_two_steps(ranks: int, wrap) -> list:
        """What was alive before each step's end."""
        live = []

        def run() -> None:
            torch.distributed.init_process_group("nccl", rank=0, world_size=ranks)
            model = wrap(Model(layers=2).to("cuda"))
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(2):
                model(batch(2, 32).to("cuda")).backward()
                optimizer.step()
                live.append(tracer.requests.live_bytes)
                optimizer.zero_grad()
            live.append(tracer.requests.live_bytes)

        tracer = _tracer.Tracer(_tracer_rules.Card(), _tracer_rules.Policy())
        with tracer.tracing():
            run()
        return live

    def test_ddp_keeps_buckets(self) -> None:
        parameters = 4 * sum(p.numel() for p in Model(layers=2).parameters())
        live = self.live_after_two_steps(8, nn.parallel.DistributedDataParallel)
        # weights, two states, buckets; the gradients are gone
        self.assertAlmostEqual(live[-1] / parameters, 4, delta=0.05)
        self.assertAlmostEqual(live[0] / parameters, 5, delta=0.05)

    def test_sharded_parameters_leave_and_come_back(self) -> None:
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            self.skipTest("this PyTorch has no fully_shard()")
        parameters = 4 * sum(p.numel() for p in Model(layers=2).parameters())

        def shard(model):
            for block in model.blocks:
                fully_shard(block)
            return fully_shard(model)

        whole, eighth = (self.live_after_two_steps(ranks, shard)[-1] for ranks in (1, 8)
                         if not self.tearDown())
        self.assertAlmostEqual(whole / parameters, 3, delta=0.05)
        self.assertAlmostEqual(eighth / parameters, 3 / 8, delta=0.05)

    def test_objects_are_ones_own(self) -> None:
        def run() -> None:
            torch.distributed.init_process_group(backend="nccl", rank=2, world_size=4)
            found = [None] * 4
            torch.distributed.all_gather_object(found, "mine")
            self.assertEqual(found, ["mine"] * 4)
            group = torch.distributed.new_group([0, 2])
            x = torch.ones(3, device="cuda")
            torch.distributed.all_reduce(x, group=group)
            torch.distributed.barrier()
            self.assertEqual((torch.distributed.get_rank(), torch.distributed.get_world_size()), (2, 4))

        self.assertIn("rank 2 of 4 is traced", traced(run).requests.notes)


class Tensors(unittest.TestCase):
    def test_everything_is_let_go(self) -> None:
        def run() -> None:
            model = Model(layers=2).to("cuda")
            for _ in range(2):
                model(batch(2, 32).to("cuda")).backward()
                model.zero_grad()

        tracer = traced(run)
        frees = sum(event[0] == _tracer.FREE for event in tracer.requests.events)
        self.assertEqual(tracer.requests.live_bytes, 0)
        self.assertEqual(frees, sum(event[0] == _tracer.ALLOC for event in tracer.requests.events))

    def test_kernels_are_whole_as_on_a_gpu(self) -> None:
        def allocated(function) -> list:
            tracer = traced(function)
            return [event[2] for event in tracer.requests.events if event[0] == _tracer.ALLOC]

        def silu() -> None:
            x = torch.ones(1 << 18, device="cuda", requires_grad=True)
            F.silu(x).sum().backward()

        def masked() -> None:
            q = torch.ones(2, 3, 49, 32, device="cuda")
            F.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(2, 3, 49, 49, device="cuda"))

        # The argument, the result, the gradient; the sum's gradient is a view of one number.
        self.assertEqual(allocated(silu).count(4 << 18), 3)
        self.assertIn(4 * 2 * 3 * 49 * 56, allocated(masked))

    def test_data_that_is_not_there(self) -> None:
        shapes = []

        def run() -> None:
            x = torch.ones(100, device="cuda")
            self.assertEqual(x.sum().item(), 1)
            self.assertFalse(torch.isnan(x).any())
            self.assertEqual(torch.zeros((), device="cuda").item(), 0)
            self.assertEqual(x.cpu().numpy().shape, (100,))
            shapes.extend((x[x > 0].shape[0], torch.nonzero(x).shape[0], torch.unique(x).shape[0]))

        tracer = traced(run, share=0.25)
        self.assertEqual(shapes, [25, 25, 25])
        self.assertTrue(any("depends on data" in note for note in tracer.requests.notes))

    def test_an_operator_without_a_fake_is_named(self) -> None:
        library = torch.library.Library("traced_test", "DEF")
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", lambda x: x, "CPU")
        with self.assertRaisesRegex(_tracer.Untraceable, "traced_test.odd"):
            traced(lambda: torch.ops.traced_test.odd(torch.ones(3, device="cuda")))

    def test_what_is_compiled_is_planned_without_it(self) -> None:
        def run() -> None:
            @torch.compile(mode="max-autotune")
            def inside(x):
                return x * 3

            model = torch.compile(nn.Linear(8, 8)).to("cuda")
            model.compile()
            inside(model(torch.ones(4, 8, device="cuda"))).sum().backward()

        tracer = traced(run)
        self.assertTrue(any("torch.compile is not planned" in note for note in tracer.requests.notes))
        self.assertGreater(tracer.requests.peak_bytes, 0)

    def test_the_cpu_is_real(self) -> None:
        def run() -> None:
            self.assertEqual(torch.arange(10).sum().item(), 45)
            self.assertEqual(torch.tensor([1.0, 2.0]).tolist(), [1.0, 2.0])

        self.assertEqual(traced(run).requests.events, [])


if __name__ == "__main__":
    print("torch", torch.__version__)
    sys.exit(not unittest.main(exit=False, verbosity=1).result.wasSuccessful())
