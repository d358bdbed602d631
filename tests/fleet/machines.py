"""machines.py - a machine for the jobs of several users, in a mount namespace of its own: the folder of
docs/fleet/systemd, jobs of any user, cgroups. Needs root: without, the tests are skipped.
"""
import contextlib
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from live_jobs import LIMIT_SECONDS, ROOT, FleetCase, Job, Programs, samples

SYSTEMD = ROOT / "docs/fleet/systemd"
FOLDER = pathlib.Path("/run/vramwise")
ANN, BOB = 61001, 61002
CLONE_NEWNS = 0x20000


def run(*command) -> str:
    return subprocess.run([str(word) for word in command], check=True, text=True, stdout=subprocess.PIPE,
                          timeout=LIMIT_SECONDS).stdout


def as_user(user: int) -> list:
    return ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--"]


def system_user() -> int:
    """The number that systemd-sysusers gives the exporter's user; where there is no systemd, any number."""
    if shutil.which("systemd-sysusers") is None:
        return 999
    with tempfile.TemporaryDirectory() as root:
        (pathlib.Path(root) / "etc").mkdir()
        run("systemd-sysusers", f"--root={root}", SYSTEMD / "vramwise.conf")
        (line,) = [line for line in (pathlib.Path(root) / "etc/passwd").read_text().splitlines()
                   if line.startswith("vramwise:")]
        return int(line.split(":")[2])


@unittest.skipUnless(os.geteuid() == 0, "needs root: jobs of several users")
class MachineCase(FleetCase):
    exporter_user = 0

    @classmethod
    def setUpClass(cls) -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
            raise unittest.SkipTest(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
        run("mount", "--make-rprivate", "/")
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
        run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm")
        for number, name in enumerate(("vramwise", "live_job")):  # which users can reach from here
            place = pathlib.Path(f"/run/program{number}")
            place.touch()
            run("mount", "--bind", getattr(Programs, name), place)
            setattr(Programs, name, str(place))
        cls.exporter_user = system_user()

    def setUp(self) -> None:
        super().setUp()
        self.folder.chmod(0o755)
        del self.environment["VRAMWISE_LIVE_DIR"]

    def mount_folder(self) -> None:
        """/run/vramwise, as the unit mounts it."""
        options = re.search(r"^Options=(.*)$", (SYSTEMD / "run-vramwise.mount").read_text(), re.M).group(1)
        FOLDER.mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", options.replace("=vramwise", f"={self.exporter_user}"), "tmpfs", FOLDER)
        self.addCleanup(run, "umount", "-l", FOLDER)

    def job_of(self, user: int, *words, before=(), **variables) -> Job:
        job = Job(self, [*before, *as_user(user), Programs.live_job], **variables)
        return job.tell(f"program=of-{user}.py", "device=0:card", f"live_bytes={user}", *words)

    def live(self, server) -> dict:
        """What is live, by the user whose page it is, and the labels of it."""
        return {value: labels for name, labels, value in samples(server.scrape()) if name == "vramwise_live_bytes"}

    @staticmethod
    def is_removed(folder: pathlib.Path) -> bool:
        with contextlib.suppress(OSError):  # busy, until its process is gone
            folder.rmdir()
        return not folder.exists()

    def cgroup(self, path: str) -> pathlib.Path:
        """A group of that path, in whichever hierarchy this machine lets us make one."""
        for line in pathlib.Path("/proc/mounts").read_text().splitlines():
            _, place, kind, options = line.split()[:4]
            if kind not in ("cgroup", "cgroup2") or "cpuset" in options:
                continue
            with contextlib.suppress(OSError):
                group = pathlib.Path(place)
                for name in path.split("/"):
                    group /= name
                    if not group.exists():
                        group.mkdir()
                        self.addCleanup(self.wait_until, lambda one=group: self.is_removed(one), f"{group} is empty")
                return group
        self.skipTest("no cgroup can be made here")
        return pathlib.Path()
