"""Constants of the game. Lengths in units of 60 pixels, times in seconds."""

from __future__ import annotations

from math import pi

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
