"""A run folder whose run tracks to what a test asks for."""

import json

import pytest

from silence import Silence
from turnsmith.config import RunConfig


class Listener(Silence):
    """Hears what is said."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def tracked(run_folder):
    """Its configuration with the trackers given: base, RFT, and two stages of five iterations, two evaluations after each."""
    config = json.loads(run_folder.config.read_text())
    return lambda *names: RunConfig.model_validate(config | {"tracking": list(names)})
