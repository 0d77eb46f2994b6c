"""Whether torch.compile pays for a trial: measured, not believed.

On CPUs `auto` never compiles: eager channels_last is as fast there (ratio 1.0 for ResNet-50 at 224×224, torch 2.13, 2-core
AVX-512 machine, where compiling took 35–59 s). On CUDA it tries, where so much work lies ahead that the usual gain would
repay the usual cost; it keeps the compiled network only if its step measured faster; and what was measured is what is
expected of the next trial.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expectation:
    """What compiling costs and gains, as last measured on this worker."""

    seconds: float = 90.0
    """Before the first measurement: a guess for a ResNet-50, rather too much than too little."""
    gain: float = 1.15
    """Eager step time divided by compiled step time; a guess before the first measurement."""

    def pays(self, step_seconds: float, steps_ahead: int) -> bool:
        """Whether the steps ahead, now at `step_seconds`, would be shortened by more than compiling takes.

        >>> Expectation(seconds=60, gain=1.25).pays(0.1, 2000), Expectation(seconds=60, gain=1.25).pays(0.1, 5000)
        (False, True)
        """
        return self.gain > 1.0 and step_seconds * steps_ahead * (1.0 - 1.0 / self.gain) > self.seconds

    def learn(self, seconds: float, eager_step: float, compiled_step: float) -> Expectation:
        """After a measurement."""
        return Expectation(seconds, eager_step / compiled_step)
