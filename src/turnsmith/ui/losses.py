"""What a reader must know of an evaluation beside its figures: lost rollouts, and a decoding that is not the policy's."""

from collections.abc import Iterator
from typing import Any

from turnsmith.ui.terminal import to_line


def list_remarks(result: dict[str, Any]) -> Iterator[str]:
    """A line for each thing. Results of older versions say less."""
    name = f"{to_line(result['stage'])} on {to_line(result['task_set'])}"
    if result["num_lost"]:
        yield f"{name}: {describe_losses(result)}"
    if result["sampling"]:
        settings = ", ".join(f"{key} {value:g}" for key, value in result["sampling"].items())
        yield f"{name}: sampled with {settings}, not from the policy itself"


def describe_losses(result: dict[str, Any]) -> str:
    """`3 rollouts were lost; Pass@1 rests on 37 attempts (60.0 to 67.5 % if none were lost), pass@10 on 2 of 4 tasks (…)`."""
    lost = f"{result['num_lost']} rollouts were lost to the infrastructure"
    if result["pass_at_1_bounds"] is None:
        return lost
    (low, high), (low_at_k, high_at_k) = result["pass_at_1_bounds"], result["pass_at_k_bounds"]
    return (
        f"{lost}; Pass@1 rests on {result['num_attempts']} attempts of {result['num_tasks']} of {result['num_tasks_in_set']} "
        f"tasks ({low:.1%} to {high:.1%} with all), pass@{result['k']} on {result['num_tasks_at_k']} "
        f"({low_at_k:.1%} to {high_at_k:.1%} with all)"
    )
