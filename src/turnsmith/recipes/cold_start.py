"""Cold start: imitation of demonstrations, for a base model that cannot act yet. The paper has none, since its base can."""

from collections.abc import Iterable
from pathlib import Path

from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.chat.parsing import FormatError, parse_turn
from turnsmith.config import COLD_START, ColdStartConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.fine_tuning import fine_tune, load_finished
from turnsmith.recipes.imitation import load_conversations, read_conversations
from turnsmith.types import Conversation


async def run_cold_start(cold_start: ColdStartConfig, run: RunContext) -> None:
    """Run the cold start, or load its checkpoint if it is finished. Raises UsageError if no conversation can be imitated."""
    if not await load_finished(COLD_START, run):
        samples, counts = load_conversations(COLD_START, cold_start.conversations, cold_start, run)
        await fine_tune(COLD_START, cold_start, samples, counts, run)


def check_scaffold(path: str, run: RunContext) -> None:
    """Raise UsageError if conversations for an unfinished cold start were not made with the scaffold of the run."""
    if not run.folder.iteration(COLD_START, 0).metrics.exists():
        refuse_other_scaffold(read_conversations(Path(path), run.config.sandbox.min_isolation), path, run.scaffold)


def refuse_other_scaffold(conversations: Iterable[Conversation], path: str, scaffold: Scaffold) -> None:
    """Raise UsageError if a resolved conversation has another system message than the scaffold, or a turn without a command."""
    wanted = {scaffold.system(), scaffold.system(demonstration=True)}
    for conversation in (each for each in conversations if each.resolved):
        fault = ""
        if conversation.messages[0].text not in wanted:
            fault = "has another system message than agent.scaffold with agent.prompts"
        elif any(isinstance(parse_turn(each.text), FormatError) for each in conversation.messages if each.trains):
            fault = "has a turn to imitate without exactly one command block"
        if fault:
            raise UsageError(
                f"conversation {conversation.conversation_id} of {path} {fault}: make demonstrations with the [agent] of this "
                "run, by `turnsmith tasks demonstrate --config`"
            )
