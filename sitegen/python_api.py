"""The page of the Python interface, from signatures and docstrings of what `netproof` exports."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import netproof
from sitegen.fields import comments, sentence

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
    "Watching and stopping": ("Deadline", "Progress", "CertifyProgress", "progress_bar"),
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
    words = []
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not any(word.startswith("*") for word in words):
            words.append("*")
        if not (method and parameter.name == "self"):
            words.append(_parameter(parameter))
    returns = (
        "" if signature.return_annotation is inspect.Signature.empty else f" -> {_hint(signature.return_annotation)}"
    )
    short = f"{name}({', '.join(words)}){returns}"
    return short if len(short) <= 100 else f"{name}(\n" + "".join(f"    {word},\n" for word in words) + f"){returns}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    known = parameter.annotation is not inspect.Parameter.empty
    hint = f": {_hint(parameter.annotation)}" if known else ""
    default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}{hint}{default if hint else default.replace(' ', '')}"


def _hint(annotation: Any) -> str:
    """Return a type as it is written, without the modules that it comes from."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"(?:\w+\.)+(\w+)", r"\1", text)


def _text(what: Any) -> str:
    """Return a docstring as Markdown, what it says of each parameter as an item of a list."""
    text = inspect.getdoc(what) or ""
    names = [] if inspect.isclass(what) else list(inspect.signature(what).parameters)
    paragraphs = [_items(" ".join(part.split()), names) for part in text.split("\n\n")]
    return "\n\n".join(paragraphs)


def _items(text: str, names: list[str]) -> str:
    """Return a paragraph, its sentences that begin with the name of a parameter and a colon as items."""
    parts = re.split(rf"(?:^|(?<=[.;] ))({'|'.join(names)}): ", text) if names else [text]
    first, rest = _plain(parts[0]), zip(parts[1::2], parts[2::2], strict=True)
    items = [f"- `{name}`: {_plain(said.strip())}" for name, said in rest]
    return "\n".join([first, "", *items] if first.strip() and items else [first, *items]).strip()


def _plain(text: str) -> str:
    """Mark stars, underscores and the like of prose as meant literally; code stays as it is."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_])", r"\\\1", p).replace("<", "&lt;") for p in parts)


def _class(name: str, what: type) -> str:
    bases = [base.__name__ for base in what.__bases__ if base is not object]
    head = f"### {name}\n\n" + (f"*A kind of {', '.join(f'`{base}`' for base in bases)}.* " if bases else "")
    parts = [head + _own_text(what), ""]
    if dataclasses.is_dataclass(what):
        said = comments(what)
        public = [f for f in dataclasses.fields(what) if not f.name.startswith("_")]
        rows = [f"| `{f.name}` | `{_type(f)}` | {_plain(sentence(said.get(f.name, '')))} |" for f in public]
        parts += ["| field | type | |", "|---|---|---|", *rows, ""] if rows else []
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
    return _hint(field.type).replace("|", "\\|")


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
