"""What holds for every test: asyncio as the loop, no blocking call on it, and how hard hypothesis looks."""

import os
from collections.abc import Iterator

import pytest
from blockbuster import BlockBuster
from hypothesis import HealthCheck, settings

PACKAGES = ["protocol", "engines", "residency", "voices", "pcm_cache", "web_demo", "ws_server", "saystream"]

# Loaded by name, since hypothesis picks its own profile, one without chance, where it sees a CI.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", deadline=None, max_examples=40, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "here"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def no_blocking_calls() -> Iterator[None]:
    """A file, a sleep or a blocking lock of the product on a running loop raises BlockingError."""
    detector = BlockBuster(PACKAGES)
    detector.activate()
    yield
    detector.deactivate()
