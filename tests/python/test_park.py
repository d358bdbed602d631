"""test_park.py - vramwise.torch.park(), wake() and region(), with an adapter that only notes what it is asked."""
import unittest

from world import World

FAKE_POOLS = """
import contextlib
import torch.cuda
import vramwise
import vramwise.torch

class MemPool:
    count = 0
    def __init__(self):
        MemPool.count += 1
        self.id = (0, MemPool.count)

torch.cuda.MemPool = MemPool
torch.cuda.use_mem_pool = lambda pool: contextlib.nullcontext()

def tried(call):
    try:
        return call()
    except (vramwise.VramwiseError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
"""


class Park(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()

    @classmethod
    def tearDownClass(cls):
        cls.world.close()

    def run_lines(self, code, **environment):
        return self.world.run(FAKE_POOLS + code, **environment)[0].splitlines()

    def test_everything_and_regions_reach_the_allocator(self):
        lines = self.run_lines("""
vramwise.torch.install(quiet=True)
print(vramwise.torch.park(wait=1.5))
vramwise.torch.wake()
vramwise.torch.park(to="/folder", wait=True)
with vramwise.torch.region("weights"):
    pass
with vramwise.torch.region("cache", keep=False):
    pass
with vramwise.torch.region("weights"):
    pass
vramwise.torch.park("cache")
vramwise.torch.wake("cache")
vramwise.torch.park_ahead(2000)
vramwise.torch.park(wait=float("inf"))
print(tried(lambda: vramwise.torch.park(wait=-1)))
print(vramwise.torch.stats()["parked"])
""")
        self.assertEqual(lines[0], "Parked(moved_bytes=1000000000, copied_bytes=2000000000, "
                                   "dropped_bytes=3000000000, stayed_bytes=4000000000, seconds=5.0)")
        self.assertEqual(lines[1], "ValueError: wait is a number of seconds from 0 on, or True, not -1")
        self.assertEqual(lines[2].strip().rstrip(";").split("; "), [
            "park 0.0 - 1500", "wake 0.0 -", "park 0.0 /folder 18446744073709551615", "keep 0.1 weights",
            "drop 0.2 cache", "keep 0.1 weights", "park 0.2 - 0", "wake 0.2 -", "ahead 2000.0 -",
            "park 0.0 - 18446744073709551615"])

    def test_what_cannot_be_says_why(self):
        lines = self.run_lines("""
vramwise.torch.install(quiet=True)
print(tried(lambda: vramwise.torch.park(timeout=0)))
print(tried(lambda: vramwise.torch.park("none")))
print(tried(lambda: vramwise.torch.park("none", to="/tmp")))
print(tried(lambda: vramwise.torch.wake()))
print(tried(lambda: vramwise.torch.park_ahead("1GiB")))
with vramwise.torch.region("cache", keep=False):
    pass
def other_kind():
    with vramwise.torch.region("cache"):
        pass
print(tried(other_kind))
def no_name():
    with vramwise.torch.region(""):
        pass
print(tried(no_name))
del torch.cuda.MemPool
def no_pools():
    with vramwise.torch.region("more"):
        pass
print(tried(no_pools))
print(tried(lambda: vramwise.torch.park_ahead("20")))
print(tried(lambda: vramwise.torch.park(wait=-1)))
""", FAKE_ADAPTER_IS_FULL="1")
        self.assertEqual(lines[0], "ParkError: no safe moment")
        self.assertEqual(lines[1], "ParkError: no region is called 'none': no region has been made")
        self.assertTrue(lines[2].startswith("ValueError: a region stays in reach"))
        self.assertEqual(lines[3], "ParkError: to wake takes 20.00 GiB")
        self.assertEqual(lines[4], "ParkError: more than the machine has")
        self.assertEqual(lines[5], "ValueError: region 'cache' was made with keep=False")
        self.assertEqual(lines[6], "ValueError: a region needs a name")
        self.assertIn("has no torch.cuda.MemPool", lines[7])
        self.assertIn("ValueError: size: expected a size with a unit, such as 24GiB, not '20'", lines[8])
        self.assertEqual(lines[9], "ValueError: wait is a number of seconds from 0 on, or True, not -1")

    def test_without_our_allocator_regions_do_nothing_and_parking_is_refused(self):
        lines = self.run_lines("""
with vramwise.torch.region("weights"):
    print("inside")
print(tried(vramwise.torch.park))
print(tried(vramwise.torch.wake))
""")
        self.assertEqual(lines[0], "inside")
        self.assertTrue(lines[1].startswith("ParkError: nothing can be parked here"))
        self.assertTrue(lines[2].startswith("ParkError: nothing can be parked here"))


if __name__ == "__main__":
    unittest.main()
