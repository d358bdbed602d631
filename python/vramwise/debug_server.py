"""vramwise.debug_server - a page for PyTorch's debug server: what holds the GPU memory of each rank.

    import vramwise.debug_server
    from torch.distributed.debug import start_debug_server

    start_debug_server(handlers=vramwise.debug_server.handlers())

On every rank, since importing it lets the rank answer. Needs a PyTorch that has torch.distributed.debug
with handlers; imports it.
"""
from __future__ import annotations

from html import escape
from types import SimpleNamespace
from typing import Any, List, Optional

from torch._C._distributed_c10d import _register_handler
from torch.distributed.debug._frontend import DebugHandler, NavLink, Route, fetch_all

from ._library import VramwiseError
from .torch import doctor

__all__ = ["MemoryHandler", "handlers"]

_NAME = "vramwise"


def _answer(request: Any, response: Any) -> None:
    """In a rank: the doctor's whole report on it."""
    try:
        text, status = doctor().text, 200
    except VramwiseError as error:
        text, status = str(error), 503
    response.set_content(text, "text/plain")
    response.set_status(status)


class _Html(str):
    """Text that is escaped already: PyTorch's template does not escape, and one that did would not
    do it again."""

    def __html__(self) -> str:
        return self


class MemoryHandler(DebugHandler):
    """/vramwise of the debug server, and a file among its dumps."""

    def routes(self) -> List[Any]:
        """The page."""
        return [Route(f"/{_NAME}", self._page)]

    def nav_links(self) -> List[Any]:
        """The link to it."""
        return [NavLink(f"/{_NAME}", "GPU memory (vramwise)")]

    def _page(self, request: Any) -> bytes:
        addresses, responses = fetch_all(_NAME, timeout=self.fetch_timeout)
        shown = [SimpleNamespace(status_code=each.status_code, text=_Html(escape(each.text)))
                 for each in responses]
        page: bytes = request.frontend.render_template(
            "raw_resp.html", title="GPU memory", addrs=[_Html(escape(each)) for each in addresses],
            resps=shown)
        return page

    def dump(self) -> Optional[str]:
        """The reports of all ranks, one below the other."""
        _, responses = fetch_all(_NAME, timeout=self.fetch_timeout)
        return "\n".join(f"=== Rank {rank} ===\n{each.text}" for rank, each in enumerate(responses))

    def dump_filename(self) -> str:
        """Its name, for enabled_dumps."""
        return _NAME


def handlers() -> List[Any]:
    """PyTorch's own, which need tabulate and Jinja2, and this one."""
    from torch.distributed.debug._debug_handlers import default_handlers
    return [*default_handlers(), MemoryHandler()]


_register_handler(_NAME, _answer)
