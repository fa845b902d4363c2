"""Progress that shows nothing."""

from contextlib import nullcontext


class Silence:
    """Progress and piece of work that show nothing."""

    def work(self, label, total, num_done=0):
        return nullcontext(self)

    def advance(self, num=1, note=""): ...

    def log(self, text): ...

    def show_standing(self, standing): ...
