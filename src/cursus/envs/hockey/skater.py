"""How a player's body moves: forces, limits, damping."""

from __future__ import annotations

from typing import Any

from cursus.envs.hockey.constants import (
    BACK_LIMIT,
    CENTRE_X,
    CENTRE_Y,
    CENTRE_ZONE,
    DAMPING,
    FORCE,
    MAX_ANGLE,
    MAX_SPEED,
    SIDE_LIMIT,
    SPIN_DAMPING,
    STEP_S,
    STRONG_DAMPING,
    STRONG_SPIN_DAMPING,
    TORQUE,
)

_TOP_SQUARED = MAX_SPEED * MAX_SPEED


class Skater:
    """A player's body. `sign` is +1 for player one, who plays towards larger x, and -1 for player two.

    Both players see and act in a frame of their own: the centre of the rink is its origin, and the opponent's goal lies
    ahead. For player two this is the rink turned by half, so that x and y change their sign and angles do not.
    """

    __slots__ = ("_per_step", "body", "mass", "position", "sign", "velocity")

    def __init__(self, body: Any, sign: int) -> None:
        self.body, self.sign = body, sign
        self.position, self.velocity = body.position, body.linearVelocity
        self.mass = float(body.mass)
        self._per_step = self.mass / STEP_S
        """The force that changes the speed by one within a step."""

    def push(self, forward: float, sideways: float) -> None:
        """Apply a translation, within the limits of speed and place."""
        sign, body, velocity = self.sign, self.body, self.velocity
        ahead = sign * (self.position.x - CENTRE_X)
        aside = sign * (self.position.y - CENTRE_Y)
        force_x, force_y = FORCE * forward, FORCE * sideways
        damping = STRONG_DAMPING
        if ahead > -CENTRE_ZONE:
            force_x = self._at_the_centre(ahead, sign * velocity.x)
        else:
            speed_x, speed_y = sign * velocity.x, sign * velocity.y
            now = speed_x * speed_x + speed_y * speed_y
            if now < _TOP_SQUARED:
                damping = DAMPING
            elif (speed_x + force_x / self._per_step) ** 2 + (speed_y + force_y / self._per_step) ** 2 >= now:
                force_x = force_y = 0.0
        body.linearDamping = damping
        if (ahead < -BACK_LIMIT and force_x < 0.0) or (ahead > 0.0 and force_x > 0.0):
            velocity.x = force_x = 0.0
        if (aside > SIDE_LIMIT and force_y > 0.0) or (aside < -SIDE_LIMIT and force_y < 0.0):
            velocity.y = force_y = 0.0
        body.ApplyForceToCenter((sign * force_x, sign * force_y), True)

    def _at_the_centre(self, ahead: float, speed: float) -> float:
        """Near the centre line no push counts along x: who comes is thrown back, who leaves is helped."""
        force = -2.0 * speed * self._per_step if speed > 0.0 else 0.0
        return force - ahead * speed * self._per_step

    def turn(self, turn: float) -> None:
        """Apply a rotation; beyond the greatest angle a spring takes over."""
        body = self.body
        angle = body.angle
        if -MAX_ANGLE <= angle <= MAX_ANGLE:
            body.angularDamping = SPIN_DAMPING
            body.ApplyTorque(TORQUE * turn, True)
            return
        spin = body.angularVelocity
        outward = angle if angle * spin <= 0.0 else angle + spin
        body.angularDamping = STRONG_SPIN_DAMPING
        body.ApplyTorque(-0.1 * outward * self._per_step, True)
