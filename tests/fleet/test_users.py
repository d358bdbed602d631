#!/usr/bin/env python3
"""test_users.py PROGRAM LIVE_JOB [unittest arguments] - one exporter for the jobs of all users: real users, the
folder of docs/fleet/systemd, and pods by real cgroups and process namespaces.

A method's name is the sentence that is true when it passes.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

import live_jobs
from live_jobs import LIMIT_SECONDS, Programs, samples
from machines import ANN, BOB, FOLDER, SYSTEMD, MachineCase, as_user, run

TOKEN = "an-example-token-1234"


class Users(MachineCase):
    def setUp(self) -> None:
        super().setUp()
        self.mount_folder()

    def system_exporter(self, *options):
        return self.exporter("0", "--all-users", *options, before=as_user(self.exporter_user))

    def test_the_exporter_sees_all_and_a_user_their_own(self):
        self.job_of(ANN)
        self.job_of(BOB)
        for user in ANN, BOB:
            (page,) = FOLDER.glob(f"vramwise-live-{user}-*")
            facts = page.stat()
            self.assertEqual((facts.st_uid, facts.st_gid, facts.st_mode & 0o7777), (user, self.exporter_user, 0o640))
        text = self.system_exporter().scrape()
        self.promtool("check", "metrics", input=text)
        found = {labels["uid"]: value for name, labels, value in samples(text) if name == "vramwise_live_bytes"}
        self.assertEqual(found, {str(ANN): str(ANN), str(BOB): str(BOB)})
        self.assertIn("\nvramwise_refused_pages 0\n", text)
        for user in ANN, BOB:
            seen = self.live(self.exporter(before=as_user(user)))
            self.assertEqual(list(seen), [str(user)])
            self.assertNotIn("uid", seen[str(user)])
            told = json.loads(self.vramwise("top", "--once", "--json", before=as_user(user)).stdout)
            self.assertEqual([row["device"]["live_bytes"] for row in told["rows"]], [user])
            self.assertEqual(list(self.live(self.exporter("0", "--all-users", before=as_user(user)))), [str(user)])
        self.assertEqual(self.live(self.exporter()), {})  # root's own

    def test_nobody_reads_changes_or_removes_the_page_of_another(self):
        self.job_of(ANN)
        (page,) = FOLDER.iterdir()
        change = ["open(page, 'r+')", "os.truncate(page, 0)"]
        for user, attempts in ((BOB, [*change, "open(page)", "os.unlink(page)", "os.rename(page, page + 'x')"]),
                               (self.exporter_user, change)):
            for attempt in attempts:
                result = subprocess.run([*as_user(user), sys.executable, "-c",
                                         f"import os, sys; page = sys.argv[1]; {attempt}", str(page)],
                                        check=False, stderr=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS)
                self.assertIn("PermissionError", result.stderr, (user, attempt))
        self.assertEqual(list(self.live(self.system_exporter())), [str(ANN)])

    def test_the_page_of_a_killed_job_is_removed_by_the_exporter(self):
        server, job = self.system_exporter(), self.job_of(ANN)
        self.job_of(BOB)
        self.assertEqual(set(self.live(server)), {str(ANN), str(BOB)})
        job.process.kill()
        job.process.wait()
        self.assertIn("\nvramwise_stale_pages 1\n", server.scrape())
        self.assertEqual([page.name.split("-")[2] for page in FOLDER.iterdir()], [str(BOB)])

    def test_a_full_folder_keeps_no_job_from_a_page_of_its_own(self):
        before = self.job_of(ANN)
        flood = ("import os, itertools\n"
                 "for number in itertools.count():\n"
                 "    try: os.close(os.open(f'/run/vramwise/vramwise-live-{number}', os.O_CREAT | os.O_WRONLY))\n"
                 "    except OSError: break\n")
        run(*as_user(BOB), sys.executable, "-c", flood)
        later = self.job_of(ANN, "live_bytes=777")
        server = self.system_exporter()
        self.assertEqual(list(self.live(server)), [str(ANN)])
        self.assertEqual({path.name.split("-")[3] for path in pathlib.Path("/dev/shm").iterdir()},
                         {str(later.process.pid)})
        seen = self.live(self.exporter(before=as_user(ANN)))
        self.assertEqual({value: labels["pid"] for value, labels in seen.items()},
                         {str(ANN): str(before.process.pid), "777": str(later.process.pid)})

    def test_what_is_no_page_harms_nobody(self):
        self.job_of(ANN)
        (page,) = FOLDER.iterdir()
        harm = ("import os, sys, fcntl, struct\n"
                "name = '/run/vramwise/vramwise-live-harm-'\n"
                "os.mkfifo(name + '1'); os.symlink('/etc/shadow', name + '2'); os.mkdir(name + '3')\n"
                "open(name + '4', 'wb').truncate(1 << 40)\n"
                "for number in range(5, 40):\n"
                "    file = open(name + str(number), 'wb', 0)\n"
                "    file.write(struct.pack('=10Q', 0x314556494c575624, 1, 20480, 4096, 64, 512, 1, 0, 0, 16))\n"
                "    file.truncate(4096 + 16 * 20480 if number % 2 else 1 << 24)\n"
                "    os.chmod(name + str(number), 0o644)\n"
                "    fcntl.fcntl(os.dup(file.fileno()), 37, struct.pack('hhqqi4x', 1, 0, 0, 0, 0))\n"
                "print('ready', flush=True); sys.stdin.read()\n")
        with subprocess.Popen([*as_user(BOB), sys.executable, "-c", harm], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            server = self.system_exporter()
            for _ in range(3):
                text = server.scrape()
                self.promtool("check", "metrics", input=text)
                found = [labels["uid"] for name, labels, value in samples(text)
                         if name == "vramwise_live_bytes" and value == str(ANN)]
                self.assertEqual(found, [str(ANN)])
            process.stdin.close()
        self.assertTrue(page.exists())

    def users_seen_beside(self, first: int, count: int) -> set:
        """Whose pages are served, where `count` users from `first` on have a page of 16 devices each."""
        pages = ("import os, sys, fcntl, struct\n"
                 "for user in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):\n"
                 "    file = os.open(f'/run/vramwise/vramwise-live-{user}-1-1', os.O_RDWR | os.O_CREAT, 0o644)\n"
                 "    os.write(file, struct.pack('=10Q', 0x314556494c575624, 1, 20480, 4096, 64, 512, 1, user, 0, 16))\n"
                 "    for slot in range(16):\n"
                 "        os.pwrite(file, struct.pack('=2Q', 0, slot), 4096 + slot * 20480)\n"
                 "    os.ftruncate(file, 4096 + 16 * 20480)\n"
                 "    os.fchown(file, user, -1)\n"
                 "    fcntl.fcntl(file, 37, struct.pack('hhqqi4x', 1, 0, 0, 0, 0))\n"
                 "print('ready', flush=True); sys.stdin.read()\n")
        run("mount", "-o", "remount,size=256M", FOLDER)
        with subprocess.Popen([sys.executable, "-c", pages, str(first), str(count)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            text = self.system_exporter().scrape()
            process.stdin.close()
        return {labels["uid"] for name, labels, _ in samples(text) if name == "vramwise_live_bytes"}

    @unittest.skipUnless(pathlib.Path("/etc/subuid").is_file(), "there is no file to put another in the place of")
    def test_a_user_with_a_range_of_users_has_one_share(self):
        self.job_of(ANN)
        ranges = self.folder / "subuid"
        ranges.write_text("bob:200000:65536\n")
        ranges.chmod(0o644)
        run("mount", "--bind", ranges, "/etc/subuid")
        self.addCleanup(run, "umount", "-l", "/etc/subuid")
        seen = self.users_seen_beside(200000, 500)
        self.assertIn(str(ANN), seen)
        self.assertEqual(len(seen - {str(ANN)}), 1024 // 17 + 1)

    def test_an_answer_has_an_end_whoever_fills_the_folder(self):
        self.assertEqual(len(self.users_seen_beside(300000, 600)), 8192 // 17 + 1)

    def test_who_sees_what_is_said(self):
        server = self.system_exporter()
        self.assertIn("every user of this machine can connect and see the jobs of all", server.end()[1])
        file = self.folder / "token"
        file.write_text(TOKEN)
        self.assertNotIn("can connect", self.system_exporter("--token-file", str(file)).end()[1])

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "there is no systemd")
    def test_systemd_accepts_the_units(self):
        for name in "run-vramwise.mount", "vramwise-exporter.service":
            text = (SYSTEMD / name).read_text().replace("/usr/bin/vramwise", Programs.vramwise)
            (self.folder / name).write_text(text)
        result = subprocess.run(["systemd-analyze", "verify", "--man=no", *map(str, self.folder.glob("*.[ms]*"))],
                                check=False, text=True, capture_output=True, timeout=LIMIT_SECONDS)
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        self.assertNotIn("vramwise", result.stderr)

    def test_a_pod_is_known_by_its_cgroup_and_named_by_its_logs(self):
        container, uid = "5eed" * 16, "1e597579-417e-482f-bf65-5fe170c3aebd"
        group = self.cgroup(f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid.replace('-', '_')}.slice/"
                            f"cri-containerd-{container}.scope")
        logs = self.folder / "pods"
        (logs / f"research_train-0_{uid}").mkdir(parents=True)
        logs.chmod(0o755)
        enter = ["sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh",
                 "unshare", "--pid", "--fork", "--kill-child", "--"]
        self.job_of(ANN, before=enter)
        self.job_of(BOB)
        found = self.live(self.system_exporter("--pod-logs", str(logs)))
        labels = {name: found[str(ANN)].get(name) for name in
                  ("pid", "uid", "namespace", "pod", "pod_uid", "container_id")}
        self.assertEqual(labels, {"pid": "1", "uid": str(ANN), "namespace": "research", "pod": "train-0",
                                  "pod_uid": uid, "container_id": container})
        self.assertFalse({"pod", "pod_uid", "container_id"} & set(found[str(BOB)]))


if __name__ == "__main__":
    live_jobs.main()
