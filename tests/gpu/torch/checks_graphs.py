"""checks_graphs.py - CUDA graphs and their private pools, make_graphed_callables, graph trees."""
import random
import threading
import unittest

from case import (ALLOCATOR, DEVICE, MIB, Case, blocks_of, segments_of, take, torch)


def model(width: int = 256, seed: int = 0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(),
                               torch.nn.Linear(width, width)).to(DEVICE)


def capture(function, pool=None):
    """Warms up beside the current stream, captures, returns the graph and what it made."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = function()
    return graph, result


def churn(rounds: int = 200, seed: int = 1) -> None:
    """Allocations and frees of every size, each written full of a value of its own."""
    draw = random.Random(seed)
    kept = []
    for _ in range(rounds):
        size = int(2 ** draw.uniform(9, 25))
        kept.append(torch.full((size,), 255, dtype=torch.uint8, device=DEVICE))
        if len(kept) > 20:
            del kept[draw.randrange(len(kept))]


class Outsiders(Case):
    """Blocks that are no graph's are freed while a stream that uses them is captured."""

    def check(self, is_used_before: bool, clear) -> None:
        static, stream = torch.ones(MIB, device=DEVICE), torch.cuda.Stream()
        outside = [torch.full((MIB,), 3.0, device=DEVICE) for _ in range(4)]
        stream.wait_stream(torch.cuda.current_stream())

        def use():
            for tensor in outside:
                tensor.record_stream(stream)

        def work():
            doubled = static * 2
            if not is_used_before:
                use()
            clear(outside)
            return doubled + torch.ones(MIB, device=DEVICE)

        if is_used_before:
            use()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = work()
        for value in (4, 5):
            churn()
            static.fill_(value)
            graph.replay()
            self.assertEqual(result[7].item(), 2 * value + 1)

    def test_used_in_the_capture(self):
        self.check(False, list.clear)

    def test_used_before_it(self):
        self.check(True, list.clear)

    def test_by_another_thread(self):
        def clear(outside):
            thread = threading.Thread(target=outside.clear)
            thread.start()
            thread.join()

        self.check(True, clear)
        self.check(False, clear)


@unittest.skipUnless(ALLOCATOR == "vramwise", "regions are ours")
class Regions(Case):
    def test_a_graph_in_a_region_runs_after_it_was_parked(self):
        import vramwise
        static = torch.ones(MIB, device=DEVICE)
        with vramwise.torch.region("a graph's"):
            weights = torch.full((MIB,), 2.0, device=DEVICE)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), vramwise.torch.region("a graph's"):
            between = static * weights
            result = between + 1
            del between
        for value, name in ((4, None), (5, "a graph's"), (6, None)):
            vramwise.torch.park(name)
            vramwise.torch.wake(name)
            static.fill_(value)
            graph.replay()
            self.assertEqual(result[7].item(), 2 * value + 1)


class Graphs(Case):
    def test_a_graph_replays_with_new_inputs(self):
        layer, static = model(), torch.zeros(32, 256, device=DEVICE)
        with torch.no_grad():
            graph, result = capture(lambda: layer(static))
            for seed in range(3):
                torch.manual_seed(seed)
                given = torch.randn(32, 256, device=DEVICE)
                static.copy_(given)
                graph.replay()
                torch.testing.assert_close(result, layer(given))

    def test_a_graphs_memory_is_private(self):
        static = torch.ones(4 * MIB, device=DEVICE)
        graph, result = capture(lambda: static * 2 + 1)
        identity = graph.pool()
        self.assertNotEqual(identity, (0, 0))
        mine = segments_of(identity)
        self.assertTrue(mine)
        ranges = [range(s["address"], s["address"] + s["total_size"]) for s in mine]
        others = [take(n * MIB) for n in (1, 4, 16, 16, 32)]
        for tensor in others:
            self.assertFalse(any(tensor.data_ptr() in r for r in ranges))
        self.assertTrue(any(result.data_ptr() in r for r in ranges))

    def test_graphs_amid_churn_keep_their_values(self):
        static = torch.arange(3 * MIB, device=DEVICE, dtype=torch.float32)
        graphs = [capture(lambda k=k: (static + k) * 3 - 1) for k in range(3)]
        expected = [(static + k) * 3 - 1 for k in range(3)]
        for turn in range(4):
            churn(seed=turn)
            if turn == 2:
                torch.cuda.empty_cache()
            for graph, _ in graphs:
                graph.replay()
            churn(seed=turn + 10)
            for (_, result), wanted in zip(graphs, expected):
                self.assertTrue(torch.equal(result, wanted))

    def test_graphs_share_a_pool(self):
        pool = torch.cuda.graph_pool_handle()
        static = torch.ones(MIB, device=DEVICE)
        first, one = capture(lambda: static + 1, pool)
        second, two = capture(lambda: one * 3, pool)
        self.assertEqual((first.pool(), second.pool()), (pool, pool))
        static.fill_(4)
        first.replay()
        second.replay()
        self.assertEqual((one[0].item(), two[-1].item()), (5.0, 15.0))
        third, _ = capture(lambda: static - 1, first.pool())
        self.assertEqual(third.pool(), pool)

    def test_a_graph_that_goes_gives_its_memory_back(self):
        static = torch.ones(16 * MIB, device=DEVICE)
        self.settle()
        graph, result = capture(lambda: static * 2)
        identity = graph.pool()
        held = torch.cuda.memory_reserved()
        del result
        torch.cuda.empty_cache()
        self.assertTrue(segments_of(identity), "while the graph lives, its memory stays")
        del graph
        self.settle()
        self.assertEqual(segments_of(identity), [])
        self.assertLess(torch.cuda.memory_reserved(), held)

    def test_a_result_outlives_its_graph(self):
        static = torch.full((MIB,), 2.0, device=DEVICE)
        graph, result = capture(lambda: static * 2)
        graph.replay()
        torch.cuda.synchronize()
        del graph
        self.settle()
        churn()
        self.assertEqual(result.sum().item(), 4.0 * MIB)

    def test_streams_inside_a_capture(self):
        static = torch.ones(MIB, device=DEVICE)

        def work():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                part = static * 5
            torch.cuda.current_stream().wait_stream(side)
            part.record_stream(torch.cuda.current_stream())
            total = part + 1
            del part
            return total * torch.ones(MIB, device=DEVICE)

        graph, result = capture(work)
        static.fill_(2)
        graph.replay()
        self.assertEqual(result[7].item(), 11.0)

    def test_running_out_in_a_capture_is_survived(self):
        graph = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, "out of memory"):
            with torch.cuda.graph(graph):
                torch.zeros(1 << 40, device=DEVICE)
        del graph
        self.settle()
        static = torch.ones(100, device=DEVICE)
        graph, result = capture(lambda: static + 1)
        graph.replay()
        self.assertEqual(result.sum().item(), 200.0)

    def test_two_generators_and_dropout(self):
        static = torch.ones(10_000, device=DEVICE)
        graph, result = capture(lambda: torch.nn.functional.dropout(static, 0.5))
        graph.replay()
        first = result.clone()
        graph.replay()
        self.assertFalse(torch.equal(first, result))

    def test_statistics_and_snapshots_know_the_pool(self):
        torch.cuda.memory._record_memory_history("all", stacks="python")
        static = torch.ones(5 * MIB, device=DEVICE)
        graph, result = capture(lambda: static + 1)
        snapshot = torch.cuda.memory._snapshot()
        mine = [s for s in snapshot["segments"] if s["segment_pool_id"] == graph.pool()]
        self.assertIn(result.data_ptr(), {b["address"] for b in blocks_of(mine)})
        self.assertEqual(sum(s["total_size"] for s in snapshot["segments"]),
                         torch.cuda.memory_reserved())

    def test_graphed_callables_train_as_eager_code_does(self):
        def train(is_graphed: bool):
            layer = model(64)
            optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
            given = torch.randn(16, 64, device=DEVICE,
                                generator=torch.Generator(DEVICE).manual_seed(3))
            run = torch.cuda.make_graphed_callables(
                layer, (given.clone().requires_grad_(False),)) if is_graphed else layer
            losses = []
            for _ in range(5):
                optimizer.zero_grad(set_to_none=True)
                loss = run(given).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses

        for eager, graphed in zip(train(False), train(True)):
            self.assertAlmostEqual(eager, graphed, places=6)


class Trees(Case):
    """torch.compile with mode="reduce-overhead": captures that share one pool in a tree."""

    def test_a_compiled_model_trains_in_graph_trees(self):
        torch._dynamo.reset()
        layer, other = model(128), model(128)
        compiled = torch.compile(layer, mode="reduce-overhead")
        generator = torch.Generator(DEVICE).manual_seed(5)
        for step in range(5):
            given = torch.randn(32, 128, device=DEVICE, generator=generator)
            torch.compiler.cudagraph_mark_step_begin()
            loss = compiled(given).square().mean()
            loss.backward()
            expected = other(given).square().mean()
            expected.backward()
            self.assertAlmostEqual(loss.item(), expected.item(), places=4)
            for mine, theirs in zip(layer.parameters(), other.parameters()):
                torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-4)
            layer.zero_grad(set_to_none=True)
            other.zero_grad(set_to_none=True)
        from torch._inductor import cudagraph_trees
        manager = cudagraph_trees.get_manager(0, create_if_none_exists=False)
        self.assertIsNotNone(manager, "no graph tree was made: nothing was tested")

    def test_two_paths_through_a_tree(self):
        torch._dynamo.reset()

        @torch.compile(mode="reduce-overhead")
        def first(x):
            return torch.sin(x) * 2

        @torch.compile(mode="reduce-overhead")
        def second(x):
            return torch.cos(x) + 1

        @torch.compile(mode="reduce-overhead")
        def third(x):
            return x.exp() - 1

        given = torch.linspace(0, 1, 5000, device=DEVICE)
        with torch.no_grad():
            for step in range(6):
                torch.compiler.cudagraph_mark_step_begin()
                middle = first(given)
                result = second(middle) if step % 2 else third(middle)
                expected = torch.sin(given) * 2
                expected = torch.cos(expected) + 1 if step % 2 else expected.exp() - 1
                torch.testing.assert_close(result.clone(), expected, rtol=1e-4, atol=1e-5)
                churn(20, step)

    def test_the_compiled_region_is_in_the_trace(self):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: torch.sin(x) + 1)
        given = torch.ones(1000, device=DEVICE)
        compiled(given)
        torch.cuda.memory._record_memory_history("all", stacks="python", compile_context=True)
        kept = compiled(given)
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        contexts = [e["compile_context"] for e in trace if e["action"] == "alloc"]
        self.assertTrue(any(c.startswith("Torch-Compiled Region") for c in contexts), contexts)
        del kept


if __name__ == "__main__":
    unittest.main()
