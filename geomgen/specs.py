"""Plain descriptions of our objects: one form for YAML files, checkpoints and Python.

A spec is ``{"class": "samplers.absorbing.Cosine", "args": {"epsilon": 0.001}}``: the public name of a class of our
packages and its constructor arguments, which are plain values or specs again. Reading a spec runs nothing else: a
name outside our packages, or one that a package does not export, is refused and never imported.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

__all__ = ["from_spec", "to_spec"]

PACKAGES = ("geomgen", "manifolds", "samplers", "vit_registers")
_PLAIN = (str, bool, int, float, type(None))
_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*\.[A-Z][A-Za-z0-9]*")


def to_spec(value: Any) -> Any:
    """Describe an object of our packages, or a plain value, by plain values.

    Constructor arguments are read from the attributes of the same names.

    Args:
        value: such an object; or None, bool, int, float, str, or a list, tuple or dict of these and of objects.

    Returns:
        The spec of an object; other values as they are, with tuples as lists.

    Raises:
        TypeError: a value that is neither plain nor made by a public class of ours.
    """
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, (list, tuple)):
        return [to_spec(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_spec(item) for key, item in value.items()}
    cls = type(value)
    name, arguments = public_name(cls), constructor_arguments(cls)
    missing = [argument for argument in arguments if not hasattr(value, argument)]
    if missing:
        raise TypeError(f"{cls.__name__} does not keep its arguments {missing} as attributes: it has no spec")
    return {"class": name, "args": {argument: to_spec(getattr(value, argument)) for argument in arguments}}


def from_spec(spec: Any, **defaults: Any) -> Any:
    """Build the object that a spec describes.

    Args:
        spec: ``{"class": name, "args": {...}}``; ``args`` may be left out.
        **defaults: arguments for those that the spec does not set; one that the class does not take is left out.

    Raises:
        ValueError: a spec of another form, a class that is not a public one of our packages, or arguments that it
            does not take.
    """
    if not isinstance(spec, dict) or "class" not in spec or not set(spec) <= {"class", "args"}:
        raise ValueError(f"a spec is {{'class': name, 'args': {{...}}}}, got {spec!r}")
    cls = public_class(spec["class"])
    arguments = spec.get("args") or {}
    if not isinstance(arguments, dict):
        raise ValueError(f"'args' of {spec['class']} must map names to values, got {arguments!r}")
    accepted = constructor_arguments(cls)
    unknown = sorted(set(arguments) - set(accepted))
    if unknown:
        raise ValueError(f"{spec['class']} has no argument {unknown}; it takes {list(accepted)}")
    filled = {name: value for name, value in defaults.items() if name in accepted}
    filled |= {name: _value(value) for name, value in arguments.items()}
    absent = [name for name, required in accepted.items() if required and name not in filled]
    if absent:
        raise ValueError(f"{spec['class']} needs the arguments {absent}, which the spec does not give")
    return cls(**filled)


def _value(value: Any) -> Any:
    """Arguments of a spec: nested specs become objects."""
    if isinstance(value, dict):
        return from_spec(value) if "class" in value else {key: _value(item) for key, item in value.items()}
    return [_value(item) for item in value] if isinstance(value, list) else value


def constructor_arguments(cls: type) -> dict[str, bool]:
    """Names of a class's constructor arguments, each with whether it must be given."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {p.name: p.default is p.empty for p in named}


def public_class(name: Any) -> type:
    """Look up ``package.Class`` in the names that our packages export; ValueError for everything else."""
    known = isinstance(name, str) and _NAME.fullmatch(name) and name.partition(".")[0] in PACKAGES
    if known:
        module_name, _, class_name = name.rpartition(".")
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError:
            module = None
        found = getattr(module, class_name, None) if class_name in getattr(module, "__all__", ()) else None
        if inspect.isclass(found) and not inspect.isabstract(found):
            return found
    raise ValueError(f"class {name!r} is refused: only public classes of {', '.join(PACKAGES)} may be named in a spec")


def public_name(cls: type) -> str:
    """The shortest name under which our packages export a class; TypeError if there is none."""
    parts = cls.__module__.split(".")
    if parts[0] in PACKAGES:
        for depth in range(1, len(parts) + 1):
            module = importlib.import_module(".".join(parts[:depth]))
            if cls.__name__ in module.__all__ and getattr(module, cls.__name__) is cls:
                return f"{module.__name__}.{cls.__name__}"
    raise TypeError(f"{cls.__module__}.{cls.__qualname__} is no public class of {', '.join(PACKAGES)}: it has no spec")
