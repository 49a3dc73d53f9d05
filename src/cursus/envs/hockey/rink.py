"""The rink in Box2D: walls, goals, two skaters and a puck, made once and put back for every episode."""

from __future__ import annotations

from math import pi
from typing import Any

from cursus.envs._box2d import import_box2d

PIXELS = 60.0
"""Pixels in a unit of length."""

# --- the rink
WIDTH, HEIGHT = 10.0, 8.0
CENTRE_X, CENTRE_Y = WIDTH / 2, HEIGHT / 2
GOAL_X = 255 / PIXELS
"""From the centre of the rink to the middle of a goal."""
GOAL_HALF_DEPTH, GOAL_HALF_WIDTH = 10 / PIXELS, 75 / PIXELS
SIDE_WALL_X = 245 / PIXELS
WALL_FRICTION = 0.1

# --- time
STEPS_PER_S = 50
STEP_S = 1 / STEPS_PER_S
VELOCITY_ITERATIONS, POSITION_ITERATIONS = 180, 60

# --- players
START_X = 3.0
"""From the centre of the rink to where a player starts."""
PLAYER_OUTLINE = tuple(
    (1.2 * x / PIXELS, 1.2 * y / PIXELS) for x, y in ((-10, 20), (5, 20), (5, -20), (-10, -20), (-18, -10), (-21, 0), (-18, 10))
)
PLAYER_DENSITY, PLAYER_FRICTION = 200 / 1.2, 1.0
FORCE, TORQUE = 6000.0, 400.0
MAX_SPEED, MAX_ANGLE = 10.0, pi / 3
DAMPING, STRONG_DAMPING = 5.0, 20.0
SPIN_DAMPING, STRONG_SPIN_DAMPING = 2.0, 10.0
CENTRE_ZONE = 0.5
"""So far in front of the centre line a player is slowed down."""
BACK_LIMIT = 3.5
"""From the centre of the rink to where a player cannot push further back."""
SIDE_LIMIT = 2.8

# --- puck
PUCK_RADIUS = 13 / PIXELS
PUCK_DENSITY, PUCK_FRICTION, PUCK_RESTITUTION = 7.0, 0.1, 0.95
PUCK_DAMPING, FAST_PUCK_DAMPING, FAST_PUCK = 0.05, 10.0, 25.0
SHOT_SPEED = 60.0
KEEP_STEPS = 15
"""A caught puck can be held for one step less."""
CATCH_SPEED = 0.1
"""A puck that moves away faster than this is not caught."""
SHOOT_ABOVE = 0.5

# --- rewards
GOAL_REWARD = 10.0
CLOSENESS_SUM, CLOSENESS_REACH = 30.0, 250 / PIXELS

# --- what Box2D allows: 2 units and a quarter turn per step
TOP_SPEED, TOP_SPIN = 2 / STEP_S, 0.5 * pi / STEP_S


_WALL, _GOAL, _PLAYER, _PUCK = 1, 2, 4, 8
_PARKING = ((-100.0, -100.0), (-100.0, -50.0), (-50.0, -100.0))  # far from the rink and from each other
_TOP_SQUARED = MAX_SPEED * MAX_SPEED


class Rink:
    """A Box2D world for one game at a time.

    What is read at every step are live views of Box2D's own vectors: `position.x` is always the present one.
    `touches` lists, for the step just made, which skater (+1 or -1) the puck began to touch, and its velocity along x then.
    """

    def __init__(self) -> None:
        self._box2d = import_box2d("hockey")
        # A body that sleeps remembers for how long it has been slow: one more thing that could outlive an episode.
        self._world = self._box2d.b2World(gravity=(0.0, 0.0), doSleep=False)
        self._build_walls()
        self.one = Skater(self._build_player(1), 1)
        self.two = Skater(self._build_player(-1), -1)
        self.puck = self._build_puck()
        self.puck_position, self.puck_velocity = self.puck.position, self.puck.linearVelocity
        self.puck_mass = float(self.puck.mass)
        self.touches: list[tuple[int, float]] = []
        self._listener = _listener(self._box2d, self.puck_velocity, self.touches)
        self._world.contactListener = self._listener
        self._step = self._world.Step

    def step(self) -> None:
        """Let the time of one step pass."""
        self.touches.clear()
        self._step(STEP_S, VELOCITY_ITERATIONS, POSITION_ITERATIONS)

    def place(self, one: tuple[float, float], two: tuple[float, float], puck: tuple[float, float]) -> None:
        """Put everything at rest at its position, with no memory of what happened before.

        Box2D keeps contacts with the impulses of the last step. They end when the bodies are seen far apart, and only
        then: hence the visit to the parking place. The bodies themselves, and so the order in which Box2D treats them, stay.
        """
        bodies = (self.one.body, self.two.body, self.puck)
        for body, position in zip(bodies, _PARKING, strict=True):
            _rest(body, position)
        self.step()
        for body, position in zip(bodies, (one, two, puck), strict=True):
            _rest(body, position)

    def _build_walls(self) -> None:
        """All that stands still is one body at the origin.

        Box2D moves the bodies that something hits between the positions before and after the step; for those that stand still
        these are the same, but the rounding is not, and walls would wander by a bit now and then. Zero stays zero.
        """
        walls = self._world.CreateStaticBody(position=(0.0, 0.0))
        for side in (1, -1):
            self._build_wall(walls, 0.0, side, [(-250, 10), (-250, -10), (250, -10), (250, 10)])
            for end in (1, -1):
                post = [(end * x, -side * y) for x, y in ((10, 135), (-10, 128), (-10, -5), (10, -5))]
                self._build_wall(walls, end * SIDE_WALL_X, side, post)
        for end in (1, -1):
            shape = self._box2d.b2PolygonShape()
            shape.SetAsBox(GOAL_HALF_DEPTH, GOAL_HALF_WIDTH, (CENTRE_X + end * GOAL_X, CENTRE_Y), 0.0)
            walls.CreateFixture(shape=shape, friction=WALL_FRICTION, categoryBits=_GOAL, maskBits=_PLAYER)

    def _build_wall(self, walls: Any, x: float, side: int, outline: list[tuple[int, int]]) -> None:
        y = CENTRE_Y + side * (HEIGHT / 2 - 0.5)
        corners = [(CENTRE_X + x + across / PIXELS, y + along / PIXELS) for across, along in outline]
        shape = self._box2d.b2PolygonShape(vertices=corners)
        walls.CreateFixture(shape=shape, friction=WALL_FRICTION, categoryBits=_WALL, maskBits=_PLAYER | _PUCK)

    def _build_player(self, sign: int) -> Any:
        fixture = self._box2d.b2FixtureDef(
            shape=self._box2d.b2PolygonShape(vertices=[(sign * x, y) for x, y in PLAYER_OUTLINE]),
            density=PLAYER_DENSITY,
            friction=PLAYER_FRICTION,
            restitution=0.0,
            categoryBits=_PLAYER,
            maskBits=_WALL | _GOAL | _PLAYER | _PUCK,
            userData=sign,
        )
        return self._world.CreateDynamicBody(position=_PARKING[0], fixtures=fixture)

    def _build_puck(self) -> Any:
        fixture = self._box2d.b2FixtureDef(
            shape=self._box2d.b2CircleShape(radius=PUCK_RADIUS),
            density=PUCK_DENSITY,
            friction=PUCK_FRICTION,
            restitution=PUCK_RESTITUTION,
            categoryBits=_PUCK,
            maskBits=_WALL | _PLAYER,
            userData=0,
        )
        return self._world.CreateDynamicBody(position=_PARKING[2], fixtures=fixture, linearDamping=PUCK_DAMPING)


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
        """Apply a translation, within the limits of speed and position."""
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


def _rest(body: Any, position: tuple[float, float]) -> None:
    body.transform = (position, 0.0)
    body.linearVelocity = (0.0, 0.0)
    body.angularVelocity = 0.0


def _listener(box2d: Any, puck_velocity: Any, touches: list[tuple[int, float]]) -> Any:
    """Notes when the puck and a skater begin to touch. Only the puck carries 0, and only skaters a sign."""

    class ContactListener(box2d.b2ContactListener):  # type: ignore[misc]
        def BeginContact(self, contact: Any) -> None:  # noqa: N802 – Box2D's own name
            first, second = contact.fixtureA.userData, contact.fixtureB.userData
            if first == 0 and second:
                touches.append((second, puck_velocity.x))
            elif second == 0 and first:
                touches.append((first, puck_velocity.x))

    return ContactListener()
