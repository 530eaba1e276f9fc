"""All conversations by name."""

from __future__ import annotations

from . import talk_login
from .conversation import Scenario

SCENARIOS: dict[str, Scenario] = {**talk_login.SCENARIOS}
