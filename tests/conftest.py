"""What holds for all tests."""

from __future__ import annotations

import gc

import pytest
from hypothesis import HealthCheck, settings

# How busy the machine is says nothing about what is tested.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there before the first test stays to the end: collecting garbage need not look at it again
    and again, which took a fifth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """What the tests leave ends with the process: looking for garbage in it takes longer than a process of
    several is given to end."""
    gc.freeze()
