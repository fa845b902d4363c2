"""Cold start: imitation of demonstrations, for a base model that cannot act yet. The paper has none, since its base can."""

from turnsmith.config import COLD_START, ColdStartConfig
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.fine_tuning import fine_tune, load_finished
from turnsmith.recipes.imitation import load_conversations


async def run_cold_start(cold_start: ColdStartConfig, run: RunContext) -> None:
    """Run the cold start, or load its checkpoint if it is finished. Raises UsageError if no conversation can be imitated."""
    if not await load_finished(COLD_START, run):
        samples, counts = load_conversations(COLD_START, cold_start.conversations, cold_start, run)
        await fine_tune(COLD_START, cold_start, samples, counts, run)
