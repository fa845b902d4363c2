"""Checks of a model for `doctor`: its files, its tokenizer, and its chat template."""

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.tokenizers import load_renderer
from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes.probes import MachineCheck
from turnsmith.training.directories import check_model, find_model
from turnsmith.training.memory import read_config


def examine_model(path: str, chat: ChatConfig) -> list[MachineCheck]:
    """Check weights and chat template, and show the rendered tokens. Raises UsageError for a missing or broken file."""
    check_model(path)
    kind = read_config(find_model(path)).model_type
    weights = MachineCheck("weights", True, f"model type {kind}, complete by their headers")
    try:
        renderer = load_renderer(find_model(path), chat)
    except UsageError as error:
        fault, _, remedy = str(error).rpartition(": ")
        return [weights, MachineCheck("conversations", False, fault, remedy)]
    findings = {"conversations": "new turns only append tokens", **show_template(renderer)}
    return [weights, *(MachineCheck(name, True, detail) for name, detail in findings.items())]


def show_template(renderer: ChatRenderer) -> dict[str, str]:
    """Return the tokens that the chat template puts around contents, as text."""
    tokenizer, after = renderer.tokenizer, renderer.end_of_turn_id
    return {
        "first prompt": repr(tokenizer.decode(renderer.prompt_ids("SYSTEM PROMPT", "ISSUE"))),
        "end of a turn": str(tokenizer.convert_ids_to_tokens(after)),
        "between turns": repr(tokenizer.decode(renderer.observation_ids("OBSERVATION", after))),
        "stop tokens": " ".join(tokenizer.convert_ids_to_tokens(sorted(renderer.stop_token_ids))),
    }
