"""_names.py - earlier names of arguments, which still work."""
from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, Dict, TypeVar, Union, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])
Today = Union[str, Callable[[Any], Dict[str, Any]]]


def _warn(function: Callable[..., Any], name: str, said: Dict[str, Any]) -> None:
    words = ", ".join(f"{new}={value!r}" for new, value in said.items()) or "the default"
    warnings.warn(f"{function.__name__}({name}=...) is an earlier name: it is now {words}",
                  DeprecationWarning, stacklevel=3)


def renamed(**earlier: Today) -> Callable[[_Function], _Function]:
    """A decorator: the function takes earlier names of arguments as well, with a DeprecationWarning.
    Each is today's name, or a function from the value to arguments of today."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapper(*arguments: Any, **given: Any) -> Any:
            for name in [name for name in given if name in earlier]:
                today, value = earlier[name], given.pop(name)
                said = {today: value} if isinstance(today, str) else today(value)
                for new in said:
                    if new in given:
                        raise TypeError(f"{name} is an earlier name of {new}: expected one of them")
                _warn(function, name, said)
                given.update(said)
            return function(*arguments, **given)
        return cast(_Function, wrapper)
    return decorate
