"""`doctor`: checks of this machine, or of the files, the tokenizer and the chat template of a model."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnsmith.cli.options import Json, answer
from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError
from turnsmith.ui.tables import yes_no_table
from turnsmith.ui.terminal import make_console

if TYPE_CHECKING:
    from turnsmith.chat.renderer import ChatRenderer
    from turnsmith.sandboxes.probes import MachineCheck

Model = Annotated[str, typer.Option("--model.path", metavar="DIR", help="Check this model instead of the machine.")]
Template = Annotated[
    str,
    typer.Option(
        "--model.chat.template",
        metavar="WAY",
        help="Chat template: as-shipped, keep-turns (keeps all turns), or a file.",
    ),
]
SystemPrompt = Annotated[
    Literal["system-message", "first-user-message"],
    typer.Option("--model.chat.system_prompt", help="Message in which the model gets the system prompt."),
]
MAX_PROMPT_SHARE = 0.25
"""Share of a model's positions that the first prompt may take."""


def doctor(
    model: Model = "",
    template: Template = "as-shipped",
    system_prompt: SystemPrompt = "system-message",
    as_json: Json = False,
) -> None:
    """Check this machine or a model, and print remedies.

    With --model.path, check weights, architecture and chat template of that model.
    """
    if model:
        chat = ChatConfig(template=template, system_prompt=system_prompt)
        subject, findings = "this model", examine_model(model, chat)
    else:
        from turnsmith.cli.machine import examine_machine

        subject, findings = "this machine", examine_machine()
    rows = [(finding.ok, (finding.name, finding.detail, finding.remedy)) for finding in findings]
    table = yes_no_table([subject, "", "found", "remedy"], rows)
    answer([dataclasses.asdict(each) for each in findings], lambda: make_console().print(table), as_json=as_json)


def examine_model(path: str, chat: ChatConfig) -> "list[MachineCheck]":
    """Check a model's weights, architecture and chat template, and render an example.

    Raises UsageError if a file is missing or bad.
    """
    from turnsmith.chat.tokenizers import load_renderer  # importing transformers takes seconds
    from turnsmith.sandboxes.probes import MachineCheck
    from turnsmith.training.directories import check_model, find_model

    check_model(path)
    silence_transformers()
    findings = [MachineCheck("weights", True, "complete by their headers"), examine_architecture(find_model(path))]
    try:
        renderer = load_renderer(find_model(path), chat)
    except UsageError as error:
        return [*findings, refuse("conversations", error)]
    texts = {"conversations": "new turns only append tokens", **show_template(renderer)}
    findings += (MachineCheck(name, True, detail) for name, detail in texts.items())
    return [*findings, examine_stop_tokens(renderer), measure_prompts(renderer, find_model(path))]


def silence_transformers() -> None:
    """Keep warnings of transformers, such as on unused settings of a tokenizer, out of the output."""
    from transformers.utils import logging

    logging.set_verbosity_error()


def examine_stop_tokens(renderer: "ChatRenderer") -> "MachineCheck":
    """Check that no stop token is ordinary text, which would end a turn in the middle, such as `#`."""
    from turnsmith.sandboxes.probes import MachineCheck

    tokenizer, ids = renderer.tokenizer, sorted(renderer.stop_token_ids)
    plain = [name for name in tokenizer.convert_ids_to_tokens(ids) if name not in tokenizer.get_added_vocab()]
    names = " ".join(tokenizer.convert_ids_to_tokens(ids))
    if not plain:
        return MachineCheck("stop tokens", True, names)
    remedy = f"remove {plain[0]} from eos_token_id in generation_config.json, or from eos_token of the tokenizer"
    return MachineCheck(
        "stop tokens", False, f"{names}; {plain[0]} is ordinary text, and would end turns early", remedy
    )


def measure_prompts(renderer: "ChatRenderer", directory: Path) -> "MachineCheck":
    """Count the tokens of the packaged prompts without an issue, and compare them with the positions of the model."""
    from turnsmith.agent.prompts import list_packaged
    from turnsmith.agent.scaffolds.base import load_scaffold
    from turnsmith.sandboxes.probes import MachineCheck
    from turnsmith.training.configuration import read_config

    scaffolds = {name: load_scaffold("bash" if name == "bash" else "paper", name) for name in list_packaged()}
    sizes = {name: len(renderer.prompt_ids(each.system(), each.issue("", "/"))) for name, each in scaffolds.items()}
    positions = getattr(read_config(directory), "max_position_embeddings", None)
    found = ", ".join(f"{name} {size:,} tokens" for name, size in sizes.items())
    found += f", of {positions:,} positions" if positions else ""
    if not positions or sizes["paper"] <= MAX_PROMPT_SHARE * positions:
        return MachineCheck("prompts", True, found)
    remedy = "--agent.prompts brief leaves more room for turns"
    return MachineCheck("prompts", sizes["brief"] <= MAX_PROMPT_SHARE * positions, found, remedy)


def examine_architecture(directory: Path) -> "MachineCheck":
    """Check that trainer and engine compute all that a model's configuration asks for. Raises UsageError if it is damaged."""
    from turnsmith.sandboxes.probes import MachineCheck
    from turnsmith.training.configuration import check_supported, read_config

    config = read_config(directory)
    try:
        check_supported(config, directory)
    except UsageError as error:
        return refuse("architecture", error)
    return MachineCheck("architecture", True, f"model type {config.model_type}, plain causal attention")


def refuse(name: str, error: UsageError) -> "MachineCheck":
    """Return a failed check with fault and remedy of an error."""
    from turnsmith.sandboxes.probes import MachineCheck

    fault, _, remedy = str(error).rpartition(": ")
    return MachineCheck(name, False, fault, remedy)


def show_template(renderer: "ChatRenderer") -> dict[str, str]:
    """Return the text that the chat template puts around system prompt, user and model messages."""
    tokenizer, after = renderer.tokenizer, renderer.end_of_turn_id
    return {
        "first prompt": repr(tokenizer.decode(renderer.prompt_ids("SYSTEM PROMPT", "ISSUE"))),
        "end of a turn": str(tokenizer.convert_ids_to_tokens(after)),
        "between turns": repr(tokenizer.decode(renderer.observation_ids("OBSERVATION", after))),
    }
