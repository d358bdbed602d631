"""_fields.py - the JSON objects of the library, with their fields as attributes.

A class lists the fields of one kind of object as annotations, and nothing else is said of them:

    class Point(Fields):
        step: int
        live_bytes: Optional[int]

By key, `point["step"]` is the plain data as the library wrote it; by attribute it is converted where
the annotation says so, objects to their classes and lists to tuples. A field that this version of the
library does not write is None. Sizes are bytes; None is what is not known.
"""
from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, Dict, List, Tuple, Union, get_type_hints


@functools.lru_cache(maxsize=None)
def hints_of(kind: type) -> Dict[str, Any]:
    """The fields that a class lists, with their types."""
    return {name: hint for name, hint in get_type_hints(kind).items() if not name.startswith("_")}


def _inner(hint: Any) -> Tuple[Any, ...]:
    return tuple(each for each in getattr(hint, "__args__", ()) if each is not type(None))


def converted(value: Any, hint: Any) -> Any:
    """Plain data as the annotation wants it."""
    origin = getattr(hint, "__origin__", None)
    if value is None:
        return None
    if origin is Union:
        return converted(value, _inner(hint)[0])
    if origin is tuple:
        return tuple(converted(each, _inner(hint)[0]) for each in value)
    if origin is dict:
        return {name: converted(each, _inner(hint)[1]) for name, each in value.items()}
    if isinstance(hint, type) and issubclass(hint, Fields) and not isinstance(value, hint):
        return hint(value)
    return value


class Fields(Dict[str, Any]):
    """One object: a dict, whose fields are attributes too."""

    if not TYPE_CHECKING:  # a type checker knows the annotations alone
        def __getattr__(self, name: str) -> Any:
            hint = hints_of(type(self)).get(name)
            if hint is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return converted(self.get(name), hint)

    def to_dict(self) -> Dict[str, Any]:
        """The same as plain data, as `--json` prints it."""
        return dict(self)

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *hints_of(type(self))})

    def __repr__(self) -> str:
        plain = ", ".join(f"{name}={value!r}" for name, value in self.items()
                          if not isinstance(value, (list, dict)))
        return f"{type(self).__name__}({plain})"


class Result(Fields):
    """What a command found. str() is the report for people, as the program prints it; a notebook
    shows a picture."""

    def __init__(self, data: Dict[str, Any], text: str) -> None:
        super().__init__(data)
        self._text = text

    def __str__(self) -> str:
        return self._text.rstrip("\n")

    def __repr__(self) -> str:
        headline, *rest = str(self).split("\n")
        for line in itertools.takewhile(lambda line: line.startswith("  "), rest):
            headline += " " + line.strip()  # the first sentence goes on in indented lines
        return f"<vramwise.{type(self).__name__}: {headline}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """IPython on a terminal shows the report, too."""
        printer.text(repr(self) if cycle else str(self))

    def _picture(self) -> str:
        """HTML, by _pictures.py."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._picture()
