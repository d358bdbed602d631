"""doctor_driver.py - GPU memory taken past PyTorch, by this process or by another.

Needs the driver alone: the process that only holds memory starts in a moment.
"""
import ctypes
import sys


class Driver:
    """Memory taken past PyTorch, as a library would take it."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def check(self, result):
        if result != 0:
            raise RuntimeError(f"the driver answered {result}")

    def make_context(self):
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.library.cuInit(0))
        self.check(self.library.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.check(self.library.cuCtxSetCurrent(context))

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.check(self.library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return free.value

    def take(self, size_bytes):
        address = ctypes.c_uint64()
        self.check(self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size_bytes)))
        return address

    def give_back(self, address):
        self.check(self.library.cuMemFree_v2(address))


def hold_all_but(size_bytes):
    """What `record_doctor.py --hold SIZE` does: another process, until its input ends."""
    driver = Driver()
    driver.make_context()
    driver.take(driver.free_bytes() - size_bytes)
    print("held", flush=True)
    sys.stdin.read()
