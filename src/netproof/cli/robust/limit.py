"""Work on an image that may end late: then the image has not been looked at, and may be none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netproof.cli.process.supervisor import Ending, Outcome, supervise
from netproof.cli.robust.question import Question
from netproof.workers.worker import Work


def supervise_image(
    work: Work,
    question: Question | None,
    model: str,
    on_event: Callable[[Any], None],
    on_tick: Callable[[], None],
    started: float,
    timeout: float | None,
) -> Outcome:
    """Supervise the work; where the time was up before it answered, refuse an image that cannot be read.

    question: None where it is not about an image; the rest is what `supervise` takes.
    """
    outcome = supervise(work, started=started, timeout=timeout, on_event=on_event, on_tick=on_tick)
    if question is not None and outcome.ending == Ending.TIMEOUT:
        from netproof.cli.robust.image import refuse_unread

        refuse_unread(question, model)
    return outcome
