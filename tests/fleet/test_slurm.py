#!/usr/bin/python3
"""test_slurm.py PROGRAM LIVE_JOB [unittest arguments] - the scripts of docs/fleet on a real Slurm.

A cluster of three nodes runs on this machine: munged, slurmctld, and a slurmd for each node, with ports and
folders of their own. The scripts are submitted as they are. Needs root and the packages slurm-wlm and munge,
and is no part of `make test`: `make test-fleet` runs it.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/report"))
from test_report import OOM, TRACEBACK, snapshot  # noqa: E402

FLEET = ROOT / "docs/fleet"
PROGRAM, LIVE_JOB = "", ""
NODES = ("n1", "n2", "n3")
DOOMED = "n3"
LIMIT_SECONDS = 180

CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={here}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={here}/controller
SlurmdSpoolDir={here}/spool-%n
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd-%n.pid
SlurmctldLogFile={here}/slurmctld.log
SlurmdLogFile={here}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
JobRequeue=1
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# In place of vramwise: on the doomed node it waits until the node is no more.
WRAPPER = """#!/bin/sh
if [ "$SLURMD_NODENAME" = {doomed} ] && [ -n "$SLURM_ARRAY_TASK_ID" ] && [ ! -e "{here}/gone" ]; then
    touch "{here}/held"
    while :; do sleep 1; done
fi
exec "{program}" "$@"
"""

# The training: eight ranks, of which rank 5 runs out of memory.
TRAINER = """#!/bin/sh
if [ "$SLURM_PROCID" = 5 ]; then echo "{oom}"; exit 7; fi
echo "step 1 loss 0.5"
"""


def free_ports(count: int) -> list:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    """Three nodes on this machine, in a folder of their own."""

    def __init__(self, here: pathlib.Path):
        self.here, self.daemons = here, {}
        controller, *ports = free_ports(1 + len(NODES))
        host = socket.gethostname().split(".")[0]
        nodes = "\n".join(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=16000"
                          for node, port in zip(NODES, ports))
        (here / "slurm.conf").write_text(CONF.format(host=host, controller=controller, here=here, nodes=nodes))
        (here / "controller").mkdir()
        for node in NODES:
            (here / f"spool-{node}").mkdir()
        (here / "tools").mkdir()
        self.tool("vramwise", WRAPPER.format(doomed=DOOMED, here=here, program=PROGRAM))
        self.tool("train", TRAINER.format(oom=OOM))
        key = here / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.environment = {**os.environ, "SLURM_CONF": str(here / "slurm.conf"),
                            "PATH": f"{here}/tools:{os.environ['PATH']}:/usr/sbin"}

    def tool(self, name: str, text: str) -> None:
        path = self.here / "tools" / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def daemon(self, name: str, *command) -> None:
        with open(self.here / f"{name}.out", "w", encoding="utf-8") as log:
            self.daemons[name] = subprocess.Popen(command, env=self.environment, cwd=self.here, stdout=log, stderr=log,
                                                  start_new_session=True)

    def begin(self) -> None:
        here = self.here
        self.daemon("munged", "munged", "--foreground", "--force", f"--key-file={here}/munge.key",
                    f"--socket={here}/munge.socket", f"--pid-file={here}/munge.pid", f"--log-file={here}/munge.log",
                    f"--seed-file={here}/munge.seed")
        self.wait_for("munge's socket", (here / "munge.socket").exists)
        self.daemon("slurmctld", "slurmctld", "-D", "-i")
        for node in NODES:
            self.daemon(node, "slurmd", "-D", "-N", node)
        self.wait_for("three idle nodes", lambda: self.ask("sinfo", "-h", "-o", "%D %t").stdout.split() == ["3", "idle"])

    def wait_for(self, what: str, is_so) -> None:
        until = time.monotonic() + LIMIT_SECONDS
        while not is_so():
            if time.monotonic() > until:
                words = [path.read_text()[-2000:] for path in self.here.glob("slurm*.log")]
                raise AssertionError(f"{what}: not within {LIMIT_SECONDS} s\n" + "\n".join(words))
            time.sleep(0.2)

    def ask(self, *command) -> subprocess.CompletedProcess:
        return subprocess.run([str(word) for word in command], env=self.environment, cwd=self.here, capture_output=True,
                              text=True, check=False, timeout=LIMIT_SECONDS)

    def submit(self, *arguments) -> str:
        done = self.ask("sbatch", "--parsable", *arguments)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout.strip()

    def wait_for_job(self, job: str) -> None:
        def is_over() -> bool:
            asked = self.ask("squeue", "-h", "-j", job)  # a controller that is busy does not answer
            return not asked.stdout.strip() and (asked.returncode == 0 or "Invalid job id" in asked.stderr)
        self.wait_for(f"the end of job {job}", is_over)

    def processes_of(self, node: str) -> list:
        """What runs for a node of this cluster, in the order in which it is to be killed: its daemon, then the
        steps, so that none of them can report the end of its tasks, then those."""
        steps, tasks = [], []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if (f"SLURM_CONF={self.here}/slurm.conf".encode() in words and
                    f"SLURMD_NODENAME={node}".encode() in words):
                tasks.append(int(entry.name))
        for task in tasks:
            parent = self.parent_of(task)
            if parent > 1 and parent not in steps and self.command_of(parent).startswith(b"slurmstepd"):
                steps.append(parent)
        return [self.daemons[node].pid, *steps, *tasks] if node in self.daemons else []

    @staticmethod
    def command_of(process: int) -> bytes:
        try:
            return pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            return b""

    @staticmethod
    def parent_of(process: int) -> int:
        try:
            return int(pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            return 0

    def kill_node(self, node: str) -> None:
        for process in self.processes_of(node):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if node in self.daemons:
            self.daemons[node].wait()

    def end(self) -> None:
        for node in NODES:
            self.kill_node(node)
        for name in ("slurmctld", "munged"):
            if name in self.daemons:
                self.daemons[name].kill()
                self.daemons[name].wait()


class Slurm(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="slurm-test-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)
        self.here.chmod(0o755)
        self.cluster = Cluster(self.here)
        self.addCleanup(self.cluster.end)
        self.cluster.begin()

    def put_jobs(self, jobs: int, ranks: int) -> None:
        for job in range(jobs):
            for rank in range(ranks):
                path = self.here / f"jobs/job{job}/run.rank{rank}.pickle"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(snapshot([100, 20 + job])))
            if job % 3 == 0:
                (self.here / f"jobs/job{job}/slurm-7-1.out").write_text(TRACEBACK)

    def lose_the_node(self) -> None:
        """When a task is held on the node, the node is gone."""
        self.cluster.wait_for("a task on the node that is to be lost", (self.here / "held").exists)
        (self.here / "gone").touch()
        self.cluster.kill_node(DOOMED)

    def single(self, *options) -> bytes:
        return subprocess.run([PROGRAM, *options], cwd=self.here, check=False, stdout=subprocess.PIPE).stdout

    def test_a_training_on_two_nodes_ends_with_the_report(self):
        job = self.cluster.submit("--nodes", "2", "--ntasks-per-node", "4", FLEET / "train.sbatch", "train")
        self.cluster.wait_for_job(job)
        report = (self.here / f"vramwise-{job}-report.txt").read_text()
        self.assertIn("rank 5 ran out of memory, alone of 8 ranks", report)
        self.assertTrue((self.here / f"vramwise-{job}-report.html").exists())
        self.assertEqual(len(list((self.here / f"vramwise-{job}").glob(f"slurm-{job}-*.out"))), 8)
        self.assertIn("ExitCode=7:0", self.cluster.ask("scontrol", "show", "job", job).stdout)

    def ranks_told(self, port: int, job: str) -> set:
        """The ranks of a job that an exporter tells of."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT_SECONDS) as answer:
                text = answer.read().decode()
        except OSError:
            return set()
        return set(re.findall(rf'vramwise_live_bytes{{[^}}]*rank="(\d+)",job_id="{job}"[^}}]*}} 77\n', text))

    @staticmethod
    def is_served(port: int) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    def test_the_exporter_of_a_batch_script_tells_of_its_ranks_and_ends_with_it(self):
        text = (FLEET / "README.md").read_text(encoding="utf-8")
        (written,) = [part for part in text.split("```\n") if part.startswith("srun --ntasks-per-node 1")]
        port, script, enough = free_ports(1)[0], self.here / "exporter.sbatch", self.here / "enough"
        script.write_text("#!/bin/bash\n" + written.replace("17470", str(port)).replace(
            "python train.py", f"{LIVE_JOB} live_bytes=77 until={enough}"))
        self.cluster.environment["VRAMWISE_LIVE_DIR"] = str(self.here)
        job = self.cluster.submit("--nodes", "1", "--ntasks", "2", script)
        self.cluster.wait_for("an exporter that tells of both ranks", lambda: self.ranks_told(port, job) == {"0", "1"})
        enough.touch()
        self.cluster.wait_for_job(job)
        self.cluster.wait_for("the end of the exporter", lambda: not self.is_served(port))

    def test_a_replay_array_of_200_recordings_outlives_a_node(self):
        self.put_jobs(jobs=20, ranks=10)
        names = sorted((self.here / "jobs").rglob("*.pickle"))
        (self.here / "list").write_text("".join(f"{name}\n" for name in names))
        job = self.cluster.submit("--array", "0-11", FLEET / "replay-array.sbatch", "list", "out", "--policy", "native")
        self.lose_the_node()
        self.cluster.wait_for_job(job)
        found = sorted((self.here / "out").iterdir())
        self.assertEqual({path.name for path in found}, {f"{number}.json" for number in range(200)})
        for path in found:
            self.assertEqual(len(json.loads(path.read_text())["results"]), 1)

    def lose_a_node_of_an_array(self, *words) -> list:
        """The states of an array over 200 recordings whose node is lost."""
        self.put_jobs(jobs=20, ranks=10)
        job = self.cluster.submit("--array", "1-6", FLEET / "spread-array.sbatch", *words)
        self.lose_the_node()
        self.cluster.wait_for_job(job)
        states = sorted(str(path) for path in (self.here / "out").iterdir())
        said = "".join(path.read_text() for path in self.here.glob("spread-*.out"))
        self.assertEqual(len(states), 6, said + self.cluster.ask("scontrol", "show", "job", job).stdout)
        return states

    def test_a_report_array_that_loses_a_node_is_the_report_of_one_machine(self):
        states = self.lose_a_node_of_an_array("report", "jobs", "out")
        merged = self.single("report", "--merge", *states, "--json", "-o", "slurm.sqlite")
        self.assertEqual(merged, self.single("report", "--jobs", "jobs", "--json", "-o", "single.sqlite"))
        self.assertEqual((self.here / "slurm.sqlite").read_bytes(), (self.here / "single.sqlite").read_bytes())
        self.assertEqual(json.loads(merged)["files"]["recordings"], 200)

    def test_a_tuning_array_that_loses_a_node_is_the_tuning_of_one_machine(self):
        states = self.lose_a_node_of_an_array("tune", "jobs", "out", "--card", "1GiB")
        merged = self.single("tune", "--merge", *states, "--json")
        self.assertEqual(merged, self.single("tune", "--all", "jobs", "--card", "1GiB", "--json"))
        self.assertEqual(json.loads(merged)["files"]["recordings"], 200)


if __name__ == "__main__":
    PROGRAM, LIVE_JOB = os.path.abspath(sys.argv.pop(1)), os.path.abspath(sys.argv.pop(1))
    if os.geteuid() != 0 or shutil.which("slurmctld", path="/usr/sbin:/usr/bin") is None:
        print("test_slurm.py: needs root, and Debian's slurm-wlm and munge", file=sys.stderr)
        sys.exit(3)
    unittest.main(verbosity=2)
