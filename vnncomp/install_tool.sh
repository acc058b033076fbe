#!/usr/bin/env bash
# install_tool.sh v1: install netproof into .venv beside this folder, with the versions that it is tested with.
#
# Nothing needs root where Python 3.11 or later and its venv module are there. Where they are not, on Ubuntu, they are
# installed with apt-get, by root or by sudo without a password. TORCH_INDEX=https://download.pytorch.org/whl/cpu
# takes torch without CUDA, PYTHON=/path/to/python another Python.
set -euo pipefail

if [ "${1:-}" != v1 ]; then
    echo "install_tool.sh: expected the version 'v1', got '${1:-}'" >&2
    exit 1
fi

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv

usable() {  # whether a Python is new enough and can make environments
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local name
    for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if command -v "$name" >/dev/null && usable "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        return 1
    fi
}

if ! python=$(find_python); then
    echo "install_tool.sh: no Python 3.11 or later that can make environments; trying apt-get" >&2
    as_root apt-get update -qq || true
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3 python3-venv || true
    if ! python=$(find_python); then
        echo "install_tool.sh: install Python 3.11 or later with its venv module, or set PYTHON" >&2
        exit 1
    fi
fi

"$python" -m venv "$venv"
pip() {
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$root/constraints.txt" "$@"
}
if [ -n "${TORCH_INDEX:-}" ]; then
    pip torch --index-url "$TORCH_INDEX"
fi
pip "$root"
"$venv/bin/python" -m compileall -q "$venv/lib" >/dev/null 2>&1 || true # so that no instance pays for it
"$venv/bin/netproof" doctor
