"""Issue texts written by a language model on an OpenAI-compatible server, with the user's prompt file."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from string import Template

from turnsmith.engines.endpoint.ask import ChatEndpoint
from turnsmith.errors import UsageError
from turnsmith.io.files import read_text
from turnsmith.types import Task


@dataclass(frozen=True)
class EndpointWriter:
    """Issue writer that asks a language model. The model sees the patch and the failing tests."""

    endpoint: ChatEndpoint
    prompt: Template

    async def __call__(self, task: Task) -> str:
        """Write a task's issue text. Raises UsageError if the answer is empty or refused, EngineError if no answer comes."""
        question = self.prompt.substitute(patch=task.patch, failures=task.problem_statement, repo=task.repo)
        issue = (await asyncio.to_thread(self.endpoint.ask, question)).strip()
        if not issue:
            raise UsageError(f"{self.endpoint.url} wrote no issue for {task.instance_id}: try another prompt or model")
        return issue + "\n"


def read_issue_prompt(path: Path) -> Template:
    """Read a prompt file with the placeholders `$patch`, `$failures` and `$repo`. Raises UsageError."""
    remedy = "it may name $patch, $failures, $repo"
    template = Template(read_text(path, "the prompt", remedy))
    try:
        template.substitute(patch="", failures="", repo="")
    except (KeyError, ValueError) as error:
        raise UsageError(f"the prompt {path} cannot be used ({error}): {remedy}") from None
    return template
