"""registered.py - memory that others accept, on a real GPU: NCCL, dma-buf, another process in a container.

    python3 registered.py                 all checks, each in a process of its own; status 1: one failed
    python3 registered.py --check NAME    one of them, in this process
    python3 registered.py --allocator A   under another allocator of vramwise; "vramwise" if not given

One GPU and one rank are enough: what is checked is that NCCL, the driver and the kernel take the memory,
and that results are right. Where this machine's kernel refuses a dma-buf for any memory, the check says
what it answered and passes. Takes less than a minute once the adapter is compiled.
"""
import argparse
import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Callable, Dict, List, Tuple

import under

MIB = 1 << 20
LONGEST_CHECK_S = 40
PIDFD_OPEN, PIDFD_GETFD = 434, 438  # system calls, with these numbers on every machine


# ---- libraries ---------------------------------------------------------------------------------

class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Nccl:
    """So much of NCCL as a program that registers buffers uses; from the library that torch has loaded."""
    FLOAT, SUM = 7, 0

    def __init__(self) -> None:
        self.library = self.find()
        self.library.ncclGetErrorString.restype = ctypes.c_char_p
        version = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(version))
        self.version = version.value

    @staticmethod
    def find() -> ctypes.CDLL:
        try:
            return ctypes.CDLL("libnccl.so.2")
        except OSError:  # in no folder that is searched: beside torch
            beside = pathlib.Path(sys.modules["torch"].__file__).parents[1].glob("nvidia/nccl/lib/libnccl.so*")
            return ctypes.CDLL(str(next(beside)))

    def call(self, name: str, *arguments) -> None:
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {self.library.ncclGetErrorString(result).decode()}")

    def communicator(self) -> ctypes.c_void_p:
        """Of one rank."""
        unique, made = UniqueId(), ctypes.c_void_p()
        self.call("ncclGetUniqueId", ctypes.byref(unique))
        self.library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
        self.call("ncclCommInitRank", ctypes.byref(made), 1, unique, 0)
        return made

    @contextlib.contextmanager
    def registered(self, communicator, address: int, size_bytes: int):
        handle = ctypes.c_void_p()
        self.call("ncclCommRegister", communicator, ctypes.c_void_p(address), ctypes.c_size_t(size_bytes),
                  ctypes.byref(handle))
        yield
        self.call("ncclCommDeregister", communicator, handle)

    def all_reduce(self, communicator, send: int, receive: int, count: int, stream: int) -> None:
        self.call("ncclAllReduce", ctypes.c_void_p(send), ctypes.c_void_p(receive), ctypes.c_size_t(count),
                  self.FLOAT, self.SUM, communicator, ctypes.c_void_p(stream))


class Driver:
    """libcuda, for what the driver itself says about an address."""
    DMA_BUF = 1  # CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

    def __init__(self) -> None:
        self.library = ctypes.CDLL(os.environ.get("VRAMWISE_CUDA_DRIVER", "libcuda.so.1"))

    def range_of(self, address: int) -> Tuple[int, int]:
        """cuMemGetAddressRange(): the allocation around an address."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        result = self.library.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(size),
                                                      ctypes.c_uint64(address))
        if result != 0:
            raise RuntimeError(f"cuMemGetAddressRange({address:#x}): error {result}")
        return base.value, size.value

    def plain_dma_buf(self) -> str:
        """What the driver says of a dma-buf for memory of its own: "" if it makes one."""
        address, file = ctypes.c_uint64(), ctypes.c_int(-1)
        result = self.library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(2 * MIB))
        if result == 0:
            result = self.library.cuMemGetHandleForAddressRange(
                ctypes.byref(file), address, ctypes.c_size_t(2 * MIB), self.DMA_BUF, ctypes.c_ulonglong(0))
            self.library.cuMemFree_v2(address)
        if result != 0:
            name = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(name))
            return (name.value or b"").decode() or f"error {result}"
        os.close(file.value)
        return ""


# ---- checks under PyTorch ----------------------------------------------------------------------

def in_pool(torch, pool, count: int):
    with torch.cuda.use_mem_pool(pool):
        return torch.arange(count, dtype=torch.float32, device="cuda")


def segment_around(torch, tensor) -> Tuple[int, int]:
    address = tensor.data_ptr()
    for segment in torch.cuda.memory_snapshot():
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return segment["address"], segment["total_size"]
    raise AssertionError(f"{address:#x} is in no segment")


def nccl_registers_a_segment(torch) -> None:
    """ncclCommRegister() on a pool's segment, an allreduce from and to it, ncclCommDeregister()."""
    torch.cuda.init()
    torch.cuda.set_device(0)
    nccl, driver = Nccl(), Driver()
    pool = torch.cuda.MemPool()
    count = 40 * MIB
    send, receive = in_pool(torch, pool, count), in_pool(torch, pool, count)
    paged = torch.arange(count, dtype=torch.float32, device="cuda")
    print(f"NCCL {nccl.version}; a pool's segment {segment_around(torch, send)}, the driver's allocation "
          f"{driver.range_of(send.data_ptr())}; a default block of {4 * count} bytes at "
          f"{paged.data_ptr()}, the driver's allocation {driver.range_of(paged.data_ptr())}")
    for tensor in (send, receive):
        assert driver.range_of(tensor.data_ptr() + 4 * count - 1) == segment_around(torch, tensor), \
            "the driver sees more than one allocation under a pool's segment"
    communicator = nccl.communicator()
    stream = torch.cuda.current_stream().cuda_stream
    with nccl.registered(communicator, *segment_around(torch, send)), \
            nccl.registered(communicator, *segment_around(torch, receive)):
        receive.zero_()
        nccl.all_reduce(communicator, send.data_ptr(), receive.data_ptr(), count, stream)
        torch.cuda.synchronize()
        assert torch.equal(receive, paged), "the allreduce gave something else"
        nccl.all_reduce(communicator, send.data_ptr(), send.data_ptr(), count, stream)  # in place
        torch.cuda.synchronize()
        assert torch.equal(send, paged), "the allreduce in place gave something else"
    try:  # for the record: what NCCL says of memory of many pieces
        with nccl.registered(communicator, paged.data_ptr(), 4 * count):
            print("NCCL also registers a default block, of many pieces, with one rank")
    except RuntimeError as error:
        print(f"NCCL refuses a default block, of many pieces: {error}")
    nccl.call("ncclCommDestroy", communicator)


def a_process_group_registers_pools(torch) -> None:
    """register_mem_pool() with memory before and after it, collectives, deregister_mem_pool()."""
    import torch.distributed as dist

    torch.cuda.set_device(0)
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1,
                                device_id=torch.device("cuda:0"))
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda:0"))
        dist.all_reduce(torch.ones(1, device="cuda"))
        pools = {"our own memory": torch.cuda.MemPool()}
        try:
            pools["ncclMemAlloc"] = torch.cuda.MemPool(backend.mem_allocator)
        except (AttributeError, RuntimeError, TypeError) as error:
            print(f"no pool of ncclMemAlloc here: {error}")
        for name, pool in pools.items():
            before = in_pool(torch, pool, 30 * MIB)
            backend.register_mem_pool(pool)
            after = [in_pool(torch, pool, count) for count in (100, 20 * MIB, 33 * MIB)]
            for tensor in [before, *after]:
                wanted = tensor.clone()
                dist.all_reduce(tensor)
                torch.cuda.synchronize()
                assert torch.equal(tensor, wanted), f"{name}: the allreduce gave something else"
            print(f"{name}: {len(pool.snapshot())} segments registered")
            del before, after, tensor
            torch.cuda.empty_cache()
            backend.deregister_mem_pool(pool)
            backend.register_mem_pool(pool)  # and again; it ends with the pool this time
        del pool
        reserved = torch.cuda.memory_reserved()
        pools.clear()
        assert torch.cuda.memory_reserved() < reserved, "the pools' memory did not go back"
        dist.destroy_process_group()


def forbid_descriptors() -> str:
    """As in a container: pidfd_open and pidfd_getfd answer EPERM from now on. "": done, or why not."""
    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8),
                    ("k", ctypes.c_uint32)]

    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Filter))]

    load_number, refuse = Filter(0x20, 0, 0, 0), Filter(0x06, 0, 0, 0x00050001)  # SECCOMP_RET_ERRNO | EPERM
    allow = Filter(0x06, 0, 0, 0x7fff0000)
    filters = (Filter * 5)(load_number, Filter(0x15, 1, 0, PIDFD_OPEN), Filter(0x15, 0, 1, PIDFD_GETFD),
                           refuse, allow)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        return f"prctl: {os.strerror(ctypes.get_errno())}"
    if libc.prctl(22, 2, ctypes.byref(Program(len(filters), filters)), 0, 0) != 0:  # PR_SET_SECCOMP
        return f"seccomp: {os.strerror(ctypes.get_errno())}"
    if libc.syscall(PIDFD_GETFD, -1, 0, 0) != -1 or ctypes.get_errno() != 1:
        return "the filter does not hold"
    return ""


def receive_tensors(inbox, outbox, done) -> None:
    """The other process. Sends what it found, or a text."""
    try:
        torch = under.enter_again()
        refusal = forbid_descriptors()
        if refusal:
            outbox.put(f"SKIP {refusal}")
            return
        tensors = inbox.get()
        sums = [tensor.double().sum().item() for tensor in tensors]
        for tensor in tensors:
            tensor.add_(1)
        torch.cuda.synchronize()
        outbox.put(sums)
        done.wait(LONGEST_CHECK_S)
        del tensors
        torch.cuda.ipc_collect()
    except Exception as error:  # noqa: BLE001: the other process prints it
        outbox.put(f"{type(error).__name__}: {error}")


def another_process_receives_tensors_without_pidfd_getfd(torch) -> None:
    """Tensors of the default pool and of a MemPool, sent where pidfd_getfd is forbidden."""
    context = torch.multiprocessing.get_context("spawn")
    inbox, outbox, done = context.Queue(), context.Queue(), context.Event()
    process = context.Process(target=receive_tensors, args=(inbox, outbox, done))
    process.start()
    try:
        pool = torch.cuda.MemPool()
        tensors = [torch.arange(1000, dtype=torch.float32, device="cuda"),
                   torch.ones(100 * MIB, dtype=torch.float32, device="cuda"), in_pool(torch, pool, 5 * MIB)]
        wanted = [tensor.double().sum().item() for tensor in tensors]
        torch.cuda.synchronize()
        inbox.put(tensors)
        found = outbox.get(timeout=LONGEST_CHECK_S)
        if isinstance(found, str) and found.startswith("SKIP"):
            print(found)
            return
        assert found == wanted, found
        for tensor, before in zip(tensors, wanted):
            assert tensor.double().sum().item() == before + tensor.numel(), "the receiver wrote elsewhere"
        done.set()
        process.join(LONGEST_CHECK_S)
        assert process.exitcode == 0, process.exitcode
    finally:
        process.kill()


# ---- a check of the library alone --------------------------------------------------------------

class PoolOptions(ctypes.Structure):  # the first fields of vw_pool_options: struct_size says how many
    _fields_ = [("struct_size", ctypes.c_size_t), ("engine", ctypes.c_char_p)]


class PrivateOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("use_on_oom", ctypes.c_bool), ("no_split", ctypes.c_bool),
                ("take", ctypes.c_void_p), ("give_back", ctypes.c_void_p), ("source_context", ctypes.c_void_p),
                ("one_handle", ctypes.c_bool), ("padding", ctypes.c_char * 7)]


class PrivateId(ctypes.Structure):
    _fields_ = [("first", ctypes.c_uint64), ("second", ctypes.c_uint64)]


def a_dma_buf_is_made_of_one_piece(_torch) -> None:
    """vw_pool_export_dma_buf() for memory of one handle; of several, it says so."""
    folder = os.environ.get("VRAMWISE_LIBRARY_DIR")
    vramwise = ctypes.CDLL(os.path.join(folder, "libvramwise.so") if folder else "libvramwise.so")
    vramwise.vw_last_error.restype = ctypes.c_char_p

    def call(name: str, *arguments) -> None:
        assert getattr(vramwise, name)(*arguments) == 0, f"{name}: {vramwise.vw_last_error().decode()}"

    def export(address: int, size_bytes: int) -> str:
        file = ctypes.c_int(-1)
        if vramwise.vw_pool_export_dma_buf(pool, ctypes.c_uint64(address), ctypes.c_uint64(size_bytes),
                                           ctypes.byref(file)) != 0:
            return vramwise.vw_last_error().decode()
        os.close(file.value)
        return ""

    def alloc(size_bytes: int) -> int:
        made = ctypes.c_uint64()
        call("vw_alloc", pool, ctypes.c_uint64(size_bytes), ctypes.c_uint64(0), ctypes.byref(made))
        return made.value

    device, pool, name = ctypes.c_void_p(), ctypes.c_void_p(), PrivateId(0, 1)
    call("vw_cuda_device_open", 0, ctypes.byref(device))
    call("vw_pool_create", device, ctypes.byref(PoolOptions(ctypes.sizeof(PoolOptions), b"vramwise")),
         ctypes.byref(pool))
    options = PrivateOptions(ctypes.sizeof(PrivateOptions), one_handle=True)
    call("vw_private_pool_retain", pool, name, ctypes.byref(options))
    call("vw_private_pool_begin", pool, name, None, None)
    whole = alloc(64 * MIB)
    call("vw_private_pool_end", pool, name)
    paged = alloc(512 * MIB)
    many = export(paged, 512 * MIB)
    assert "one_handle" in many or "makes no dma-buf" in many, many
    print(f"memory of many pieces: {many}")
    answers: Dict[str, str] = {"all of it": export(whole, 64 * MIB), "a page inside": export(whole + 4096, 4096)}
    driver, context = Driver(), ctypes.c_void_p()
    driver.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    driver.library.cuCtxPushCurrent_v2(context)
    of_its_own = driver.plain_dma_buf()
    print(f"the driver, for memory from cuMemAlloc: {of_its_own or 'a dma-buf'}")
    for what, answer in answers.items():
        print(f"one handle, {what}: {answer or 'a dma-buf'}")
        assert answer == "" or of_its_own != "", f"refused, though the driver makes dma-bufs: {answer}"
    call("vw_free", pool, ctypes.c_uint64(whole))
    call("vw_free", pool, ctypes.c_uint64(paged))
    vramwise.vw_pool_destroy(pool)
    vramwise.vw_device_destroy(device)


# ---- all of them -------------------------------------------------------------------------------

CHECKS: List[Callable] = [nccl_registers_a_segment, a_process_group_registers_pools,
                          another_process_receives_tensors_without_pidfd_getfd, a_dma_buf_is_made_of_one_piece]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", choices=[check.__name__ for check in CHECKS])
    parser.add_argument("--allocator", default="vramwise")
    arguments = parser.parse_args()
    if arguments.check:
        check = next(check for check in CHECKS if check.__name__ == arguments.check)
        check(None if check is a_dma_buf_is_made_of_one_piece else under.enter(arguments.allocator))
        return 0
    failed = 0
    for check in CHECKS:
        begin = time.perf_counter()
        command = [sys.executable, os.path.abspath(__file__), "--allocator", arguments.allocator, "--check",
                   check.__name__]
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=LONGEST_CHECK_S, check=False)
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            status, output = 124, str(error.stdout)
        print(f"{'ok  ' if status == 0 else 'FAIL'} {check.__name__} ({time.perf_counter() - begin:.1f} s)")
        print("".join(f"     {line}\n" for line in output.splitlines()), end="", flush=True)
        failed += status != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
