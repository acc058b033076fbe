"""The page of the Python interface, from signatures and docstrings of what `netproof` exports."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import netproof

HEAD = """# Python

Everything that `import netproof` offers, from its own signatures and docstrings. [Asking in Python](../python.md) shows
how it is used, and [the tutorial](../tutorial.md) what for.
"""

# The order of the page. What is exported and not named here fails a test.
GROUPS = {
    "Ask": ("verify", "bounds", "certify", "largest_eps"),
    "Networks and properties": ("load_network", "load_property", "Network", "Property"),
    "Input regions": ("linf_ball", "l2_ball", "l1_ball", "box", "linear_image", "InputRegion"),
    "Conditions": (
        *("variables", "runs", "when", "every", "some", "between", "maximum", "minimum"),
        *("Condition", "Expression", "Vector"),
    ),
    "Answers": (
        *("Verdict", "Status", "Witness", "TensorValue", "Stats", "OutputBounds"),
        *("Certification", "ImageResult", "ImageStatus", "Radius"),
    ),
    "Watching and stopping": ("Deadline", "Progress", "CertifyProgress"),
    "Errors": ("NetproofError", "UsageError", "ModelError", "UnsupportedOp", "SpecError", "DeviceError"),
}


def page() -> str:
    """Return the page: a section for each group, then for what is exported and in none."""
    named = {name for names in GROUPS.values() for name in names}
    others = [name for name in netproof.__all__ if name not in named and not name.startswith("__")]
    parts = [HEAD]
    for title, names in (*GROUPS.items(), *([("Others", others)] if others else ())):
        parts.append(f"## {title}\n")
        parts += [_section(name, getattr(netproof, name)) for name in names if name in netproof.__all__]
    return "\n".join(parts)


def _section(name: str, what: Any) -> str:
    if inspect.isclass(what):
        return _class(name, what)
    return f"### {name}\n\n```python\n{_signature(name, what)}\n```\n\n{_text(what)}\n"


def _signature(name: str, function: Any, *, method: bool = False) -> str:
    """Return `name(…) -> …`, one parameter a line where it is long."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if not (method and p.name == "self")]
    signature = signature.replace(parameters=parameters)
    short = re.sub(r"(?:\w+\.)+(\w+)", r"\1", str(signature).replace("'", ""))
    if len(name) + len(short) <= 100:
        return f"{name}{short}"
    words = []
    keyword_only = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            words.append("*")
            keyword_only = True
        words.append(re.sub(r"(?:\w+\.)+(\w+)", r"\1", str(parameter).replace("'", "")))
    returns = short.rpartition(" -> ")[2]
    return f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f") -> {returns}"


def _text(what: Any) -> str:
    """Return a docstring as Markdown: stars and underscores of prose are meant literally, code stays as it is."""
    text = inspect.getdoc(what) or ""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_|<])", r"\\\1", p) for p in parts)


def _class(name: str, what: type) -> str:
    bases = [base.__name__ for base in what.__bases__ if base is not object]
    head = f"### {name}\n\n" + (f"*A kind of {', '.join(f'`{base}`' for base in bases)}.* " if bases else "")
    parts = [head + _own_text(what), ""]
    if dataclasses.is_dataclass(what):
        rows = [f"| `{f.name}` | `{_type(f)}` |" for f in dataclasses.fields(what) if not f.name.startswith("_")]
        parts += ["| field | type |", "|---|---|", *rows, ""] if rows else []
    elif hasattr(what, "__members__"):
        parts += ["Values: " + ", ".join(f'`"{member.value}"`' for member in what) + ".", ""]  # type: ignore[attr-defined]
    members = [row for key, value in vars(what).items() if (row := _member(key, value))]
    parts += ["| member | |", "|---|---|", *members, ""] if members else []
    return "\n".join(parts)


def _own_text(what: type) -> str:
    """Return the docstring, unless it is the signature that a dataclass writes for itself."""
    text = vars(what).get("__doc__") or ""
    return "" if text.startswith(f"{what.__name__}(") else _text(what)


def _type(field: dataclasses.Field[Any]) -> str:
    shown = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return shown.replace("|", "\\|")


def _member(key: str, value: Any) -> str:
    """Return the row of a public method or property that says what it does, else nothing."""
    if key.startswith("_"):
        return ""
    if isinstance(value, property):
        shown, text = key, inspect.getdoc(value.fget) or ""
    elif inspect.isfunction(value):
        shown, text = _signature(key, value, method=True), inspect.getdoc(value) or ""
    else:
        return ""
    first = " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")
    return f"| `{' '.join(shown.split()).replace('|', chr(92) + '|')}` | {first} |" if first else ""
