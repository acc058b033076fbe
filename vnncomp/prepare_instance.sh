#!/usr/bin/env bash
# prepare_instance.sh v1 CATEGORY NETWORK SPEC: see that all files are there and let the system read what a run reads.
#
# NETWORK is a path, or a list such as [('f', 'onnx/a.onnx'), ('g', 'onnx/b.onnx')]. Exits with 1 where a file is
# missing, so that the instance is skipped. Nothing of the instance is computed here.
set -uo pipefail

if [ "${1:-}" != v1 ]; then
    echo "prepare_instance.sh: expected the version 'v1', got '${1:-}'" >&2
    exit 1
fi
if [ $# -ne 4 ]; then
    echo "prepare_instance.sh: expected v1 CATEGORY NETWORK SPEC, got $# arguments" >&2
    exit 1
fi

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
python=${NETPROOF_PYTHON:-$here/../.venv/bin/python}

"$python" "$here/instance.py" "$3" "$4" >/dev/null || exit 1
"$python" -c 'import netproof.api' # torch and onnxruntime are large: from now on they are in the system's memory
