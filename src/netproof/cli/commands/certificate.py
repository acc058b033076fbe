"""`netproof certificate CERT MODEL SPEC --to aptp --out DIR`: a certificate in another tool's format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netproof.cli import options
from netproof.cli.show.output import print_err, print_out
from netproof.errors import UsageError

FORMATS = ("aptp",)


def certificate(
    certificate: Annotated[str, typer.Argument(metavar="CERTIFICATE", help="What `verify --certificate` wrote.")],
    model: Annotated[str, typer.Argument(metavar="MODEL.onnx", help="The model that it is about; .gz too.")],
    spec: Annotated[str, typer.Argument(metavar="SPEC.vnnlib", help="The specification that it is about; .gz too.")],
    out: Annotated[
        str,
        typer.Option(metavar="DIR", help="Where the files go.", callback=options.not_empty, show_default=False),
    ],
    to: Annotated[str, typer.Option(metavar="aptp", help="The format.")] = "aptp",
) -> int:
    """Write a certificate in another format: one file for each disjunct that is proved by splits of ReLUs.

    npcheck checks the certificate first. The names of the files are written to stdout; what has no file, and why, to
    stderr. Exit 2 where nothing can be written.
    """
    from netproof.certificate.installed import require_npcheck

    if to not in FORMATS:
        raise UsageError(f"--to {to}: this format is not known", remedy=f"one of {', '.join(FORMATS)}")
    require_npcheck()
    from netproof.certificate.aptp import export

    exported = export(Path(certificate), Path(model), Path(spec), Path(out))
    for note in exported.notes:
        print_err(f"netproof: no file: {note}")
    print_out("".join(f"{file}\n" for file in exported.files))
    return 0
