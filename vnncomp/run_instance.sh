#!/usr/bin/env bash
# run_instance.sh v1 CATEGORY NETWORK SPEC RESULTS TIMEOUT: answer one instance.
#
# NETWORK is a path, or a list such as [('f', 'onnx/a.onnx'), ('g', 'onnx/b.onnx')]. The first line of RESULTS is unsat,
# sat, timeout, unknown or error; after sat comes the witness. The time counts from here and the answer comes a second
# early: what is late counts as no answer. Exits with 0 whenever there is a result, and otherwise with 1.
set -uo pipefail
export LC_ALL=C # a decimal point, whatever the language
began=${EPOCHREALTIME//[!0-9]/} # microseconds

if [ "${1:-}" != v1 ]; then
    echo "run_instance.sh: expected the version 'v1', got '${1:-}'" >&2
    exit 1
fi
if [ $# -ne 6 ]; then
    echo "run_instance.sh: expected v1 CATEGORY NETWORK SPEC RESULTS TIMEOUT, got $# arguments" >&2
    exit 1
fi

here=${BASH_SOURCE[0]%/*}
python=${NETPROOF_PYTHON:-$here/../.venv/bin/python}
network=$3 spec=$4 results=$5 timeout=$6

# End without an answer: with the result `error`, or with 1 where not even that can be written.
fail() {
    echo "run_instance.sh: $1" >&2
    if ! echo error >"$results"; then
        echo "run_instance.sh: cannot write the results file '$results'" >&2
        exit 1
    fi
    exit 0
}

rm -f -- "$results"
if ! : >"$results"; then
    echo "run_instance.sh: cannot write the results file '$results'" >&2
    exit 1
fi
rm -f -- "$results"

# A plain path needs no help; a list is read by Python, one argument a line.
if [[ $network =~ ^[[:space:]]*[\[\(\{] ]] || { [ ! -e "$network" ] && [ ! -e "$network.gz" ]; }; then
    lines=$("$python" "$here/instance.py" "$network" "$spec") || fail "the instance cannot be read"
    mapfile -t asked <<<"$lines"
else
    asked=("$network" "$spec")
fi

# One second early, and at least half of the time; less what has passed already. Whole microseconds: bash has no floats.
if ! [[ $timeout =~ ^([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$ ]]; then
    fail "the timeout '$timeout' is not a number of seconds"
fi
limit=$(printf %.6f "$timeout")
limit=${limit/./}
[ ${#limit} -gt 15 ] && limit=999999999000000 # thirty years: longer numbers do not fit
limit=$((10#$limit))
early=$((limit - 1000000 > limit / 2 ? limit - 1000000 : limit / 2))
left=$((early - ${EPOCHREALTIME//[!0-9]/} + began))
left=$((left > 100000 ? left : 100000))

"$python" -m netproof verify "${asked[@]}" --results-file "$results" --quiet \
    --timeout "$((left / 1000000)).$(printf %06d $((left % 1000000)))" >/dev/null &
child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM INT HUP
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do # a signal ends `wait` early: netproof may still write what it has
    wait "$child"
    code=$?
done

if [ ! -s "$results" ]; then
    fail "netproof ended with exit code $code and no result"
fi
exit 0
