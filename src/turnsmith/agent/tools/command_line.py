"""Parser of tool calls, with the quoting rules of a shell. Quotes group words and may contain newlines.

A heredoc gives the last argument verbatim, whether or not its delimiter is quoted. Variables, globs, pipes and redirections
have no special meaning, so that edit texts arrive unchanged.
"""

import re
import shlex

from turnsmith.agent.tools.base import Call, Tool, ToolError

_HEREDOC = re.compile(r"^(?P<before>[^\n]*?)<<\s*(?P<quote>['\"]?)(?P<delimiter>\w+)(?P=quote)[ \t]*$", re.MULTILINE)


def first_word(command: str) -> str:
    """Return the first word of a command, which selects the tool."""
    return command.split(maxsplit=1)[0]


def read_call(tool: Tool, command: str) -> Call:
    """Parse a tool call: words, options and heredoc. Raises ToolError if the call is malformed."""
    line, heredoc = split_heredoc(command)
    arguments, options = split_options(tool, split_words(line)[1:])
    if heredoc is not None and not tool.heredoc:
        raise ToolError(f"{tool.name} takes no heredoc. {tool.help}")
    _check_number(tool, len(arguments) + (heredoc is not None), options)
    return Call(arguments, options, heredoc)


def split_heredoc(command: str) -> tuple[str, str | None]:
    """Split a command into its command line and heredoc text, if the first line ends with `<< WORD`."""
    opening = _HEREDOC.match(command)
    if opening is None or not _has_closed_quotes(opening["before"]):
        return command, None
    body = command[opening.end() + 1 :].split("\n")
    delimiter = opening["delimiter"]
    if delimiter not in body:
        raise ToolError(f"the heredoc is not closed: no line is just {delimiter}")
    end = body.index(delimiter)
    if any(line.strip() for line in body[end + 1 :]):
        raise ToolError(
            f"there is text after the heredoc's closing {delimiter}: a tool stands alone in its command block"
        )
    return opening["before"], "".join(f"{line}\n" for line in body[:end])


def split_words(line: str) -> list[str]:
    """Split a command line into words, removing quotes."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise ToolError(f"the quoting is not complete ({error}): quote with '…' or \"…\", or use a heredoc") from None


def split_options(tool: Tool, words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Separate a call's words into arguments and the tool's options. Unknown `-` words are arguments; `--` ends the options."""
    arguments: list[str] = []
    options: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "--":
            return [*arguments, *rest], options
        if word == "--help" or word in tool.switches:
            options[word] = ""
        elif word in tool.valued:
            if (value := next(rest, None)) is None:
                raise ToolError(f"{word} needs a value")
            options[word] = value
        else:
            arguments.append(word)
    return arguments, options


def _has_closed_quotes(text: str) -> bool:
    try:
        split_words(text)
    except ToolError:
        return False
    return True


def _check_number(tool: Tool, number: int, options: dict[str, str]) -> None:
    least, most = tool.num_arguments
    if "--help" not in options and not least <= number <= most:
        allowed = str(least) if least == most else f"{least} to {most}"
        # The policy reads these sentences: another wording changes its samples.
        raise ToolError(
            f"{tool.name} takes {allowed} arguments and got {number}. A tool stands alone in its command block "
            f"(no pipes, && or redirections), and text with spaces is quoted.\n{tool.help}"
        )
