"""sitecustomize.py - how `vramwise run` enters a Python program.

Python imports `sitecustomize` when it starts, and `vramwise run` puts this file's folder first in
PYTHONPATH, so this is the one that is found. It does as little as it can, since every Python
process below `vramwise run` passes here: it takes its folder off sys.path again, leaves word that
it was here, asks to be told when torch has been imported, and lets the `sitecustomize` run that
would have been found without it (Debian, conda and virtual environments have one).

A job may have tools of any Python, 2.7 too, so this file is written in what they have in common.

What happens once torch is there is in ../_watch.py. VRAMWISE_DISABLE=1 switches all of it off.
Nothing here may be the end of somebody's program: what goes wrong is said in one line.
"""
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _say(error):
    try:
        os.write(2, b"vramwise: this program is not watched: %s: %s\n" % (
            type(error).__name__.encode(), str(error).encode("utf-8", "replace")))
    except Exception:
        pass  # standard error is closed or full, or the error has no words


class _Loader:
    """Stands for torch's loader until torch is there, then for nothing at all."""

    def __init__(self, loader, spec):
        self._loader = loader
        self._spec = spec

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _WaitForTorch)]
        _arm(module)


class _WaitForTorch:
    """A finder that finds nothing, except torch, by asking those behind it.

    It stays until torch has been imported: many libraries look for torch's spec first and import
    it later, or never.
    """

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        spec = _ask_finders(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, spec)
        return spec


def _ask_finders(name, path=None, target=None):
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if find is None or isinstance(finder, _WaitForTorch):
            continue
        spec = find(name, path, target)
        if spec is not None:
            return spec
    return None


def _arm(torch):
    try:
        if sys.version_info < (3, 8):
            raise RuntimeError("expected Python 3.8 or later, and this is %d.%d"
                               % sys.version_info[:2])
        from importlib import util
        path = os.path.join(os.path.dirname(_HERE), "_watch.py")
        spec = util.spec_from_file_location("_vramwise_watch", path)
        watch = util.module_from_spec(spec)
        sys.modules["_vramwise_watch"] = watch
        spec.loader.exec_module(watch)
        watch.arm(torch)
    except Exception as error:  # whatever it is, the program goes on
        _say(error)


def _enter():
    folder = os.environ.get("VRAMWISE_RUN", "")
    if folder:
        try:
            if os.path.islink(folder) or os.lstat(folder).st_uid != os.geteuid():
                raise OSError("another user's")  # who made it after the run
            flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY  # as in ../_files.py
            flags |= getattr(os, "O_CLOEXEC", 0)  # Python 2.7 does not know it
            os.close(os.open(os.path.join(folder, "entered"), flags, 0o600))
        except OSError:
            pass  # another process has left it, or the run is over, or on another machine
    if "torch" in sys.modules:  # a .pth file has imported it
        _arm(sys.modules["torch"])
    elif sys.version_info >= (3, 4):  # there are no finders like ours before, and no PyTorch now
        sys.meta_path.insert(0, _WaitForTorch())


def _next_sitecustomize_of_python_2():
    this = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # pylint: disable=unused-import
    except ImportError:
        sys.modules["sitecustomize"] = this


def _next_sitecustomize():
    """Runs the one that was hidden by this one, and leaves it where Python looks for it."""
    spec = _ask_finders("sitecustomize")
    if spec is None or spec.loader is None:
        return
    try:
        from _frozen_importlib import module_from_spec  # is there already, always
    except ImportError:
        from importlib.util import module_from_spec  # takes milliseconds
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)  # what it raises, Python reports as it always does


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
if os.environ.get("VRAMWISE_DISABLE", "0") in ("", "0"):
    try:
        _enter()
    except Exception as _error:
        _say(_error)
if sys.version_info >= (3, 4):
    _next_sitecustomize()
else:
    _next_sitecustomize_of_python_2()  # last: where it finds another, this module is gone
