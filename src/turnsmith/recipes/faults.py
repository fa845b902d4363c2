"""Checks of the configuration and of this machine before a run starts. Imports no torch."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from turnsmith.agent.names import SCAFFOLDS, TOOLS
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.algo.algorithm import choose_algorithm
from turnsmith.algo.names import ALGORITHMS
from turnsmith.chat.template import OWN, read_template
from turnsmith.config import RunConfig
from turnsmith.config.extras import EXTRAS, require
from turnsmith.config.names import NameTable
from turnsmith.errors import UsageError
from turnsmith.git.diff import check_git
from turnsmith.grading.logparse import PARSERS
from turnsmith.recipes.plan import check_hardware
from turnsmith.recipes.policy.base import find_chat_facts
from turnsmith.recipes.policy.names import ENGINES, TRAINERS
from turnsmith.recipes.policy.ranks import FSDP, check_placement, check_ranks
from turnsmith.runs.folder import find_stage
from turnsmith.sandboxes.names import SANDBOXES, load_provider
from turnsmith.synthesis.sources import check_source
from turnsmith.tasks.task_set import read_task_set
from turnsmith.tracking.feed import check_tracker
from turnsmith.tracking.names import TRACKERS
from turnsmith.training.directories import check_model


def check_names(config: RunConfig) -> None:
    """Check every name and import path of a configuration, importing nothing. Raises UsageError that names the key."""
    for key, table, name in list_names(config):
        try:
            table.check(name)
        except UsageError as error:
            raise UsageError(f"{key}: {error}") from None


def list_names(config: RunConfig) -> Iterator[tuple[str, NameTable, str]]:
    """Yield each key whose value is a built-in name or import path, with the table of built-in names and the value."""
    yield "sandbox.kind", SANDBOXES, config.sandbox.kind
    yield "engine.kind", ENGINES, config.engine.kind
    yield "trainer.kind", TRAINERS, config.trainer.kind
    yield "agent.scaffold", SCAFFOLDS, config.agent.scaffold
    yield from (("agent.tools", TOOLS, name) for name in config.agent.tools)
    yield from (("tracking", TRACKERS, name) for name in config.tracking)
    yield from ((f"stages.{at}.algorithm", ALGORITHMS, stage.algorithm) for at, stage in enumerate(config.stages))


def find_faults(config: RunConfig) -> Iterator[UsageError]:
    """Yield an error for each file, program or setting that a run needs and that is missing or wrong."""
    for check in list_checks(config):
        try:
            check()
        except UsageError as fault:
            yield fault


def list_checks(config: RunConfig) -> Iterator[Callable[[], object]]:
    """Yield a check for each file, program or setting that the configuration needs. Checks raise UsageError."""
    yield check_git
    if chat := find_chat_facts(config.engine.kind):
        yield partial(refuse_training, config)
        yield partial(chat.check, config)
    else:
        yield partial(require, *EXTRAS["train"].packages, subject=f"engine.kind {config.engine.kind}")
        yield partial(check_model, config.model.path)
        if config.model.chat.template not in OWN:
            yield partial(read_template, config.model.chat.template)
    yield partial(load_scaffold, config.agent.scaffold, config.agent.prompts, config.agent.tools)
    yield partial(check_sandbox, config)
    parts = (
        ("engine", ENGINES, config.engine),
        ("trainer", TRAINERS, config.trainer),
        ("sandbox", SANDBOXES, config.sandbox),
    )
    for section, table, part in parts:
        if part.options or part.kind not in table.paths:  # the built-in ones import torch
            yield partial(table.bind, part.kind, part.options, f"{section}.options")
    if config.engine.placement:
        yield partial(check_placement, config)
    if config.trainer.kind == FSDP:
        yield partial(check_ranks, config)
        yield partial(check_hardware, config)
    for stage in config.stages:
        yield partial(choose_algorithm, stage)
        if stage.curriculum_from:
            yield partial(find_stage, stage.curriculum_from)
    needed = config.task_sets if config.collects else config.eval_tasks
    for name, task_set in needed.items():
        if task_set.path:
            yield partial(read_task_set, name, Path(task_set.path), PARSERS, task_set)
        if task_set.package:
            yield partial(check_source, task_set.package)
    for tracker, options in config.tracking.items():
        yield partial(check_tracker, tracker, options)


def refuse_training(config: RunConfig) -> None:
    """Raise UsageError if the configuration trains with an engine that exchanges messages instead of token ids."""
    if config.training:
        raise UsageError(
            f"engine.kind {config.engine.kind} gives text without token ids and log-probs, which training needs: to train on "
            "samples of a vLLM server, use engine.kind vllm with engine.vllm.address; to imitate this model, evaluate it by "
            "`turnsmith eval` on training tasks, and name that run folder in rft.conversations of a run of another engine"
        )


def check_sandbox(config: RunConfig) -> None:
    """Raise UsageError if settings do not fit the sandbox kind, or `sandbox.image` is missing for tasks that the run makes."""
    provider = load_provider(config.sandbox)
    made = [name for name, tasks in config.task_sets.items() if not tasks.path]
    if provider.takes_images and made and not config.sandbox.image:
        raise UsageError(
            f"sandbox.image is missing: the tasks that this run makes for {made[0]} name no image; "
            "set sandbox.image to the name of an image, or to the path of a root file system"
        )
