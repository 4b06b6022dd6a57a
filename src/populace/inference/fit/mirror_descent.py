"""Accelerated mirror descent: the model of least loss, with a bound on what is left to gain."""

from __future__ import annotations

import numpy as np

from populace.inference.factor import Table
from populace.inference.fit.objective import Objective, Point

_CHECK_EVERY = 50


def descend(
    objective: Objective,
    *,
    start: Table,
    steps: int,
    tolerance: float,
    bound: float,
) -> Point:
    """Minimise the loss over all distributions of the graphical model, starting from some potentials.

    A step moves the potentials against the gradient with respect to the probabilities, which is mirror descent in the
    entropy's geometry (McKenna, Sheldon and Miklau 2019); the next gradient is taken ahead of the point reached, by
    Nesterov's momentum, and momentum restarts when the loss rises (O'Donoghue and Candès 2015). The loss therefore
    never rises. A plain step (the first after a restart) must gain half of what its gradient promises, or the step
    size is halved.
    Ends when the loss can fall by no more than tolerance × loss, by the duality gap or because no distribution can be
    below `bound`; when it fell by less than that in the last 50 steps; or after `steps` steps. A loss below 1 counts
    as 1: it is far below the noise.
    """
    here = objective.at(start)
    last, size, age = here.potentials, 1.0 / objective.steepest, 0
    earlier, done = here.loss, 0
    while done < steps and here.loss - bound > tolerance * max(1.0, here.loss):
        done += 1
        moved = here.potentials - size * here.gradient
        ahead = moved + (age / (age + 3)) * (moved - last)
        there = objective.at(ahead)
        promised = float(np.vdot(here.gradient, here.shares - there.shares)) if age == 0 else 0.0
        if here.loss - there.loss >= 0.5 * promised and there.loss <= here.loss:
            here, last, age = there, moved, age + 1
        else:
            if age == 0:
                size /= 2
            last, age = here.potentials, 0
        if done % _CHECK_EVERY == 0:
            if min(objective.gap(here), earlier - here.loss) <= tolerance * max(1.0, here.loss):
                break
            earlier = here.loss
    return here
