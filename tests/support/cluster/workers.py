"""Objects for ranks in tests: a vector that the ranks sum, and methods that fail in many ways."""

import os
import signal
import time

import torch
from torch import distributed

from turnsmith.errors import TrainingError


class Adder:
    """Running sum over all ranks. Each step adds the number of the rank plus a value."""

    def __init__(self, rank, num_ranks):
        self.rank, self.num_ranks, self.total = rank, num_ranks, torch.zeros(3)

    def add(self, value):
        part = torch.full((3,), float(value) + self.rank)
        distributed.all_reduce(part)
        self.total += part
        return self.total.tolist()

    async def add_later(self, value):
        return self.add(value)

    def measure(self, array):
        return array.nbytes

    def count(self, limit):
        for number in range(limit):
            part = torch.tensor([float(number)])
            distributed.all_reduce(part)
            yield part

    def wait_for_file(self, path):
        while not os.path.exists(path):  # noqa: PTH110
            time.sleep(0.01)
        return self.add(0)

    def refuse(self):
        raise TrainingError("the loss is nan")

    def fail(self):
        raise KeyError("reward")

    def fail_alone(self):
        if self.rank == self.num_ranks - 1:
            raise ValueError("only here")
        self.add(0)

    def die(self, victim, signal_number=signal.SIGKILL):
        if self.rank == victim:
            os.kill(os.getpid(), signal_number)
        self.add(0)

    def say(self, text):
        print(text)
        os.write(2, f"{text} by descriptor\n".encode())
