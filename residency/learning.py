"""What steps and probes teach about a unit's cost."""

from collections.abc import Sequence

from engines.contract import Chunk
from residency.estimates import Estimates
from residency.listener import StepTiming
from residency.probe import Observed
from residency.work import Outcome


def learn_from_probe(estimates: Estimates, observed: Sequence[Observed]) -> None:
    for step in observed:
        estimates.observe_step(
            chars=step.chars,
            first=step.first,
            step_s=step.step_s,
            speech_s=step.audio_s,
            batch=step.batch,
        )


def learn_from_step(
    estimates: Estimates, outcomes: Sequence[Outcome], timing: StepTiming, sample_rate_hz: int
) -> None:
    """Before its turns are finished."""
    made = [(one.turn, one.result) for one in outcomes if isinstance(one.result, Chunk)]
    made = [(turn, chunk) for turn, chunk in made if chunk.samples.size or not chunk.wants_text]
    if not made:
        return
    speech_s = sum(len(chunk.samples) / sample_rate_hz * turn.listener.spec.speed for turn, chunk in made)
    estimates.observe_step(
        chars=sum(len(turn.job.request.text) for turn, _ in made) // len(made),
        first=any(turn.job.steps == 0 for turn, _ in made),
        step_s=timing.ended_s - timing.started_s,
        speech_s=speech_s / len(made),
        batch=len(made),
    )
