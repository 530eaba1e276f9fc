"""All conversations by name."""

from __future__ import annotations

from . import talk_backup, talk_login, talk_query, talk_subscription, talk_tls, talk_wal
from .conversation import Scenario

SCENARIOS: dict[str, Scenario] = {
    **talk_login.SCENARIOS,
    **talk_query.SCENARIOS,
    **talk_wal.SCENARIOS,
    **talk_backup.SCENARIOS,
    **talk_subscription.SCENARIOS,
    **talk_tls.SCENARIOS,
}
