"""Run folder whose run uses the trackers of a test."""

import json

import pytest

from support.episodes.silence import Silence
from turnsmith.config import RunConfig


class Listener(Silence):
    """Progress that records its messages."""

    def __init__(self):
        self.said = []

    def log(self, text):
        self.said.append(text)


@pytest.fixture
def listener():
    return Listener()


@pytest.fixture
def tracked(run_folder):
    """Make a run with given trackers: base, RFT, two stages of five iterations, two evaluations after each."""
    config = json.loads(run_folder.config.read_text())
    return lambda *names: RunConfig.model_validate(config | {"tracking": list(names)})
