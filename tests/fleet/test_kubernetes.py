#!/usr/bin/python3
"""test_kubernetes.py PROGRAM LIVE_JOB [unittest arguments] - the manifests of docs/fleet/kubernetes, as a node would
run them: their commands, with their users, capabilities and mounts, in namespaces and cgroups as containers have.

A stand-in for a kubelet starts them; there is no cluster. Needs root, cgroups that can be made, and python3-yaml,
and is no part of `make test`: `make test-fleet` runs it.
"""
import os
import pathlib
import signal
import subprocess

import yaml

import live_jobs
from live_jobs import LIMIT_SECONDS, ROOT, Job, Programs, Server, samples
from machines import ANN, BOB, FOLDER, MachineCase, run

MANIFESTS = ROOT / "docs/fleet/kubernetes"
TOKEN = "an-example-token-1234"
PODS = {  # as the kubelet names them
    "exporter": ("vramwise", "vramwise-exporter-x7k2p", "0a1b2c3d-0000-4000-8000-00000000000e", "e" * 64, "besteffort"),
    "train": ("research", "train-0", "1e597579-417e-482f-bf65-5fe170c3aebd", "5eed" * 16, "burstable"),
    "other": ("default", "other", "9f9f9f9f-417e-482f-bf65-5fe170c3aebd", "cafe" * 16, "burstable"),
}


def pod_of(name: str) -> dict:
    return yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text(encoding="utf-8"))["spec"]["template"]["spec"]


def words_of(container: dict) -> list:
    return [*container["command"], *container.get("args", ())]


class Kubernetes(MachineCase):
    def setUp(self) -> None:
        super().setUp()
        self.groups = {}
        run("mount", "-t", "tmpfs", "tmpfs", "/var/log")
        self.addCleanup(run, "umount", "-l", "/var/log")
        for namespace, pod, uid, _, _ in PODS.values():
            pathlib.Path(f"/var/log/pods/{namespace}_{pod}_{uid}").mkdir(parents=True)
        self.addCleanup(run, "rm", "-rf", FOLDER)

    # ---- a container, as a runtime would start it ----

    def enter(self, name: str, pod: dict) -> list:
        """A command that goes into the container's cgroup and namespaces, and becomes what follows."""
        _, _, uid, container, kind = PODS[name]
        slices = f"kubepods.slice/kubepods-{kind}.slice/kubepods-{kind}-pod{uid.replace('-', '_')}.slice"
        group = self.groups[name] = self.cgroup(f"{slices}/cri-containerd-{container}.scope")
        spaces = ["--cgroup"] if pod.get("hostPID") else ["--cgroup", "--pid", "--fork", "--kill-child", "--mount-proc"]
        return ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh", "unshare", "--mount", *spaces, "--"]

    def mount(self, pod: dict, container: dict, secrets: dict) -> list:
        """A command that makes the container's mounts, and becomes what follows."""
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        lines = ["set -e"]
        for wanted in container["volumeMounts"]:
            volume = volumes[wanted["name"]]
            source = volume["hostPath"]["path"] if "hostPath" in volume else secrets[volume["secret"]["secretName"]]
            self.assertTrue(pathlib.Path(source).is_dir(), source)
            if source != wanted["mountPath"]:
                lines.append(f"mkdir -p {wanted['mountPath']}")
            lines.append(f"mount --bind {source} {wanted['mountPath']}")
            if wanted.get("readOnly"):
                lines.append(f"mount -o remount,bind,ro {wanted['mountPath']}")
        return ["sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh"]

    @staticmethod
    def drop(container: dict) -> list:
        """A command with the container's user and capabilities, that becomes what follows."""
        security = container["securityContext"]
        kept = [f"+{name.lower()}" for name in security["capabilities"].get("add", ())]
        assert security["capabilities"]["drop"] == ["ALL"] and not security["allowPrivilegeEscalation"]
        return ["setpriv", "--reuid", str(security["runAsUser"]),
                "--regid", str(security.get("runAsGroup", 0)), "--clear-groups", "--no-new-privs",
                "--bounding-set", ",".join(["-all", *kept]), "--inh-caps=-all", "--"]

    def make_folder(self) -> None:
        pod = pod_of("exporter")
        (container,) = pod["initContainers"]
        host = self.folder / "host"
        host.mkdir()
        command = [word.replace("/host", str(host)) for word in words_of(container)]
        moved = {**container, "volumeMounts": [{**mount, "mountPath": mount["mountPath"].replace("/host", str(host))}
                                               for mount in container["volumeMounts"]]}
        run("unshare", "--mount", "--", *self.mount(pod, moved, {}), *self.drop(container), *command)

    def start_exporter(self) -> Server:
        pod = pod_of("exporter")
        (container,) = pod["containers"]
        secret = self.folder / "secret"
        secret.mkdir()
        (secret / "token").write_text(TOKEN)
        os.chown(secret / "token", 0, pod.get("securityContext", {}).get("fsGroup", 0))  # as the kubelet does
        (secret / "token").chmod(pod["volumes"][-1]["secret"]["defaultMode"])
        words = words_of(container)
        self.assertEqual(words[:2], ["vramwise", "exporter"])
        words[words.index("0.0.0.0:17470")] = "127.0.0.1:0"  # others may have the port
        run("mount", "-t", "tmpfs", "tmpfs", "/mnt")
        self.addCleanup(run, "umount", "-l", "/mnt")
        etc = pathlib.Path("/mnt/vramwise")  # in the place of /etc, which is the node's here
        moved = {**container, "volumeMounts": [{**mount, "mountPath": mount["mountPath"].replace("/etc", "/mnt")}
                                               for mount in container["volumeMounts"]]}
        words[words.index("/etc/vramwise/token")] = str(etc / "token")
        process = subprocess.Popen(
            [*self.enter("exporter", pod), *self.mount(pod, moved, {"vramwise-token": secret}), *self.drop(container),
             Programs.vramwise, *words[1:]], env=self.environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: (process.terminate(), process.communicate(timeout=LIMIT_SECONDS)))
        server = Server(process.stdout.readline().strip())
        server.process = process
        return server

    def start_job(self, name: str, user: int) -> Job:
        pod = pod_of("job")
        (container,) = pod["containers"]
        command = [*self.enter(name, pod), *self.mount(pod, container, {}), "setpriv", "--reuid", str(user), "--regid",
                   str(user), "--clear-groups", "--", Programs.live_job]
        return Job(self, command).tell(f"live_bytes={user}", "program=train.py")

    # ---- tests ----

    def test_jobs_of_pods_are_told_with_their_pods(self):
        self.make_folder()
        facts = FOLDER.stat()
        self.assertEqual((facts.st_uid, facts.st_gid, facts.st_mode & 0o7777), (17470, 17470, 0o3777))
        first, second = self.start_job("train", ANN), self.start_job("other", BOB)
        server = self.start_exporter()
        self.assertEqual(server.ask()[0], 401)
        self.assertEqual(server.ask("/-/healthy")[0], 200)
        status, _, body = server.ask(token=TOKEN)
        self.assertEqual(status, 200)
        found = {value: labels for name, labels, value in samples(body.decode()) if name == "vramwise_live_bytes"}
        for user, name in (ANN, "train"), (BOB, "other"):
            namespace, pod, uid, container, _ = PODS[name]
            expected = {"pid": "1", "uid": str(user), "namespace": namespace, "pod": pod, "pod_uid": uid,
                        "container_id": container}
            self.assertEqual({label: found[str(user)].get(label) for label in expected}, expected)
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual({status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}, {"0" * 16})
        self.assertEqual(set(status["Uid"].split()), {"17470"})
        for process in self.groups["train"].joinpath("cgroup.procs").read_text().split():
            os.kill(int(process), signal.SIGKILL)
        first.process.wait(LIMIT_SECONDS)
        self.wait_until(lambda: b"vramwise_stale_pages 1" in server.ask(token=TOKEN)[2] or
                        len(list(FOLDER.iterdir())) == 1, "the page of a killed pod is removed")
        self.assertEqual([page.name.split("-")[2] for page in FOLDER.iterdir()], [str(BOB)])
        self.assertIsNone(second.process.poll())

    def test_the_manifests_agree_with_the_program(self):
        pod = pod_of("exporter")
        (container,) = pod["containers"]
        said = self.vramwise("help", "exporter").stdout
        for word in words_of(container):
            if word.startswith("--"):
                self.assertIn(f"{word} ", said)
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        self.assertEqual((mounts["pages"], mounts["pod-logs"]), (str(FOLDER), "/var/log/pods"))
        (train,) = pod_of("job")["containers"]
        self.assertEqual([mount["mountPath"] for mount in train["volumeMounts"]], [str(FOLDER)])
        for one in pod, pod_of("job"):
            names = {volume["name"] for volume in one["volumes"]}
            used = {mount["name"] for container in [*one["containers"], *one.get("initContainers", ())]
                    for mount in container["volumeMounts"]}
            self.assertEqual(names, used)


if __name__ == "__main__":
    live_jobs.main()
