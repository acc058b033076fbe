"""The page of exit codes. Each constant of `netproof.cli.exits` stands on it."""

from __future__ import annotations

from netproof.cli import exits

MEANINGS = {
    "EXIT_BUG": "A bug in netproof: an internal error, or evidence that contradicts itself, which is never an answer. "
    "`bench` and `report`: an answer contradicts another one or what is known; `doctor`: something is wrong.",
    "EXIT_USAGE": "Bad input: a wrong option, a file that cannot be read, an unsupported operator (`inspect` too), a "
    "result file that could not be written. stderr has one line that says which and what to do.",
    "EXIT_BELOW": "`certify --at-least SHARE`: less than that is certified.",
    "EXIT_INTERRUPTED": "Ctrl-C. What was known by then is written all the same.",
}


def page() -> str:
    """Return the page."""
    codes = {value: name for name, value in vars(exits).items() if name.startswith("EXIT_")}
    rows = [f"| {code} | {MEANINGS[codes[code]]} |" for code in sorted(codes)]
    done = "| 0 | There is an answer, whatever it is: `sat`, `unknown` and `timeout` too. |"
    head = "# Exit codes\n\nA script that wants the verdict reads line 1 of stdout, not the exit code.\n\n"
    return head + "\n".join(["| code | meaning |", "|---|---|", done, *rows, ""])
