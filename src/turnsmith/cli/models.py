"""Checks of a model: its files, its tokenizer, and the look of its conversations."""

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.tokenizers import load_renderer
from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes.probes import MachineCheck
from turnsmith.training.directories import check_model, find_model
from turnsmith.training.memory import read_config


def examine_model(path: str, chat: ChatConfig) -> list[MachineCheck]:
    """Report how its conversations look, or why they do not append exactly. Raises UsageError for a missing or broken file."""
    check_model(path)
    kind = read_config(find_model(path)).model_type
    weights = MachineCheck("weights", True, f"of kind {kind}, complete by their headers")
    try:
        renderer = load_renderer(find_model(path), chat)
    except UsageError as error:
        what, _, remedy = str(error).rpartition(": ")
        return [weights, MachineCheck("conversations", False, what, remedy)]
    findings = {"conversations": "they append exactly", **show_template(renderer)}
    return [weights, *(MachineCheck(name, True, detail) for name, detail in findings.items())]


def show_template(renderer: ChatRenderer) -> dict[str, str]:
    """The tokens around contents, as text."""
    tokenizer, after = renderer.tokenizer, renderer.end_of_turn_id
    return {
        "first prompt": repr(tokenizer.decode(renderer.prompt_ids("SYSTEM PROMPT", "ISSUE"))),
        "end of a turn": str(tokenizer.convert_ids_to_tokens(after)),
        "between turns": repr(tokenizer.decode(renderer.observation_ids("OBSERVATION", after))),
        "stop tokens": " ".join(tokenizer.convert_ids_to_tokens(sorted(renderer.stop_token_ids))),
    }
