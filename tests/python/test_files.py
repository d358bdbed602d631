"""vramwise._files, which creates every file that the package writes."""
import errno
import fcntl
import os
import stat
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "python"))
from vramwise import _files  # noqa: E402


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def in_child(work):
    """Starts a process that does the work. Its status is 0 if the work raised nothing."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


class FilesCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vramwise-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "run.pickle"
        self.victim = self.folder / "victim"
        self.victim.write_bytes(b"precious")

    def names(self):
        return sorted(path.name for path in self.folder.iterdir() if path != self.victim)

    def assert_nothing_is_left(self, error, call):
        """The call fails, and neither a file nor an open descriptor is left."""
        before = self.names(), len(os.listdir("/proc/self/fd"))
        with self.assertRaises(error):
            call()
        self.assertEqual((self.names(), len(os.listdir("/proc/self/fd"))), before)
        self.assertEqual(self.victim.read_bytes(), b"precious")


class Writing(FilesCase):
    def write(self, content=b"new"):
        _files.write_whole(self.path, lambda file: file.write(content))

    def write_new(self, content=b"new"):
        return _files.write_new(str(self.folder), ("a", "b", "c"), lambda file: file.write(content))

    def test_only_the_user_can_read_a_file_whatever_the_umask(self):
        self.path.write_bytes(b"old")
        self.path.chmod(0o666)
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        modes = []
        _files.write_whole(self.path, lambda file: modes.append(
            stat.S_IMODE(os.fstat(file.fileno()).st_mode)))
        self.write_new()
        _files.create(self.folder / "created")
        modes += [mode_of(self.folder / name) for name in ("run.pickle", "a", "created")]
        self.assertEqual(modes, [0o600] * 4)

    def test_a_part_has_a_random_name_in_the_same_folder(self):
        parts = []
        for _ in range(2):
            _files.write_whole(self.path, lambda file: self.assertTrue(os.path.exists(parts[-1])),
                               lambda part: (parts.append(part),
                                             self.assertFalse(os.path.exists(part))))
        self.assertNotEqual(*parts)
        for part in parts:
            self.assertRegex(part, rf"^{self.folder}/\.vramwise-[0-9a-f]{{16}}\.part$")
        self.assertEqual(self.names(), ["run.pickle"])

    def test_a_relative_path_works(self):
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        _files.write_whole("run.pickle", lambda file: file.write(b"new"))
        self.assertEqual((self.names(), self.path.read_bytes()), (["run.pickle"], b"new"))

    def test_a_link_at_the_name_of_a_part_is_not_followed(self):
        part = self.folder / f".vramwise-{bytes(8).hex()}.part"
        part.symlink_to(self.victim)
        with mock.patch("os.urandom", bytes):
            for write in (self.write, self.write_new):
                self.assert_nothing_is_left(FileExistsError, write)
        self.assertTrue(part.is_symlink())

    def test_a_link_at_the_final_name_is_replaced_and_not_followed(self):
        self.path.symlink_to(self.victim)
        self.write()
        self.assertFalse(self.path.is_symlink())
        self.assertEqual((self.path.read_bytes(), self.victim.read_bytes()), (b"new", b"precious"))

    def test_a_program_that_is_started_does_not_inherit_the_file(self):
        flags = []
        _files.write_whole(self.path, lambda file: flags.append(fcntl.fcntl(file, fcntl.F_GETFD)))
        self.assertEqual(flags, [fcntl.FD_CLOEXEC])

    def test_a_write_that_fails_leaves_nothing_and_keeps_the_file_before(self):
        self.path.write_bytes(b"old")

        def fail(error):
            def write(file):
                file.write(b"half")
                file.flush()
                raise error
            return write

        for error in (OSError(errno.ENOSPC, "made up"), ZeroDivisionError(), KeyboardInterrupt()):
            self.assert_nothing_is_left(type(error), lambda: _files.write_whole(
                self.path, fail(error)))
            self.assert_nothing_is_left(type(error), lambda: _files.write_new(
                str(self.folder), ("a",), fail(error)))
        self.assertEqual(self.path.read_bytes(), b"old")

    def test_a_disk_that_is_full_leaves_nothing(self):
        import resource
        import signal

        def work():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            for size in (1001, 100_000):  # the smaller one is noticed when the file is closed
                for write in (self.write, self.write_new,
                              lambda content: _files.create(self.path, content)):
                    self.assert_nothing_is_left(OSError, lambda: write(bytes(size)))

        _, status = os.waitpid(in_child(work), 0)
        self.assertEqual(status, 0)
        self.assertEqual(self.names(), [])

    def test_a_rename_that_fails_leaves_nothing(self):
        self.path.mkdir()
        self.assert_nothing_is_left(IsADirectoryError, self.write)
        self.assert_nothing_is_left(FileNotFoundError, lambda: _files.write_whole(
            self.folder / "gone" / "run.pickle", lambda file: None))

    def test_two_writers_of_one_name_do_not_disturb_each_other(self):
        def write(file):
            file.write(b"one")
            file.flush()
            _, status = os.waitpid(in_child(lambda: self.write(b"another")), 0)
            self.assertEqual((status, self.path.read_bytes()), (0, b"another"))
            file.write(b" and the same")

        _files.write_whole(self.path, write)
        self.assertEqual((self.path.read_bytes(), self.names()),
                         (b"one and the same", ["run.pickle"]))

    def test_many_writers_at_once_leave_one_whole_file(self):
        contents = [bytes([65 + number]) * 50_000 for number in range(4)]
        children = [in_child(lambda content=content: [self.write(content) for _ in range(25)])
                    for content in contents]
        self.assertEqual([os.waitpid(child, 0)[1] for child in children], [0] * 4)
        self.assertIn(self.path.read_bytes(), contents)
        self.assertEqual(self.names(), ["run.pickle"])


class NewNames(FilesCase):
    def write(self, content=b"new", names=("a", "b", "c")):
        return _files.write_new(str(self.folder), names, lambda file: file.write(content))

    def try_names(self):
        (self.folder / "a").symlink_to("nowhere")  # a link that leads nowhere takes the name too
        (self.folder / "b").write_bytes(b"old")
        self.assertEqual(self.write(), str(self.folder / "c"))
        self.assertEqual((self.folder / "c").read_bytes(), b"new")
        self.assertEqual(((self.folder / "c").stat().st_nlink, mode_of(self.folder / "c")),
                         (1, 0o600))
        self.assert_nothing_is_left(FileExistsError, self.write)
        self.assertEqual((self.names(), (self.folder / "b").read_bytes()),
                         (["a", "b", "c"], b"old"))
        self.assertTrue((self.folder / "a").is_symlink())

    def test_the_first_free_name_is_taken_and_nothing_is_replaced(self):
        self.try_names()

    def test_so_it_is_on_a_file_system_without_hard_links(self):
        with mock.patch("os.link", side_effect=PermissionError(errno.EPERM, "made up")):
            self.try_names()

    def test_a_claim_is_given_up_if_the_rename_fails(self):
        with mock.patch("os.link", side_effect=PermissionError(errno.EPERM, "made up")), \
                mock.patch("os.replace", side_effect=OSError(errno.EIO, "made up")):
            self.assert_nothing_is_left(OSError, self.write)

    def test_a_name_that_another_process_takes_meanwhile_is_left_to_it(self):
        def write(file):
            _, status = os.waitpid(in_child(lambda: self.write(b"theirs")), 0)
            self.assertEqual(status, 0)
            file.write(b"ours")

        self.assertEqual(_files.write_new(str(self.folder), ("a", "b"), write),
                         str(self.folder / "b"))
        self.assertEqual([(self.folder / name).read_bytes() for name in self.names()],
                         [b"theirs", b"ours"])


class Creating(FilesCase):
    def test_of_many_processes_one_creates_the_file(self):
        children = [in_child(lambda: _files.create(self.path, b"mine")) for _ in range(8)]
        statuses = [os.waitpid(child, 0)[1] for child in children]
        self.assertEqual((statuses.count(0), self.path.read_bytes()), (1, b"mine"))

    def test_a_link_is_not_followed(self):
        for target in (self.victim, self.folder / "nowhere"):
            self.path.symlink_to(target)
            self.assert_nothing_is_left(FileExistsError,
                                        lambda: _files.create(self.path, b"mine"))
            self.path.unlink()


class Reading(FilesCase):
    def test_a_file_of_the_users_own_is_read(self):
        self.assertEqual(_files.read_own(self.victim), b"precious")

    def test_anything_else_is_refused(self):
        self.path.symlink_to(self.victim)
        os.mkfifo(self.folder / "pipe")  # opening it must not wait for a writer
        for path in (self.path, self.folder / "pipe", self.folder, self.folder / "gone"):
            self.assert_nothing_is_left(OSError, lambda path=path: _files.read_own(path))
        with mock.patch("os.geteuid", lambda: os.getuid() + 1):
            self.assert_nothing_is_left(PermissionError, lambda: _files.read_own(self.victim))

    def test_pipes_and_devices_are_special_and_files_are_not(self):
        os.mkfifo(self.folder / "pipe")
        (self.folder / "link").symlink_to("pipe")
        for name, expected in (("pipe", True), ("link", True), ("victim", False), ("gone", False),
                               ("/dev/null", True), (".", True)):
            self.assertEqual(_files.is_special(self.folder / name), expected, name)


if __name__ == "__main__":
    unittest.main()
