"""Reading of TOML files with overrides `--a.b value`. Unknown keys are refused; each error message is one sentence."""

import difflib
import json
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from turnsmith.config import Section
from turnsmith.errors import UsageError, first_fault
from turnsmith.io.files import read_text
from turnsmith.types import SamplingParams

SHORTHANDS = {"sandbox": "sandbox.kind"}
"""Short options, with the configuration key that each sets."""
REMOVED_KEYS = {
    "agent.max_format_errors": (3, "3 malformed turns in a row end an episode"),
    "agent.grade_unsubmitted": (True, "the working tree is graded without `submit` too"),
    "sandbox.max_output_bytes": (1_000_000, "output of a command is cut at 1,000,000 bytes"),
    "rollouts.max_infrastructure_share": (0.2, "a run stops if over 20 % of an iteration's rollouts are lost"),
    "rollouts.retries": (2, "a rollout lost to the infrastructure is retried twice"),
    "rft.submitted_only": (False, "RFT keeps resolved trajectories that a limit ended"),
    "rft.mask_format_errors": (True, "RFT always masks turns with a format error"),
    "rft.optimizer.schedule": ("cosine", "the learning rate of RFT follows a cosine to zero"),
    "stages.*.optimizer.eps": (1e-8, "eps of AdamW is 1e-8"),
    "stages.*.optimizer.schedule": ("constant", "the learning rate of RL is constant after warm-up"),
    "stages.*.advantage_std": ("population", "advantages use the population standard deviation"),
    "eval.seed": (None, "evaluations use the run's seed"),
    "eval.sets": ([], "evaluations within a stage use all eval_tasks"),
    "logprob_gap.filter_warn": (0.05, "a run warns if mean −log p and entropy differ by 5 %"),
    "logprob_gap.filter_stop": (0.25, "a run stops if mean −log p and entropy differ by 25 %"),
}
"""Removed keys, each with its old default and the rule that replaces it. `*` stands for any position in a list.

This version ignores a removed key, with a warning unless it has the default. The next version refuses it.
"""
MOVED_KEYS = {"runs.keep_checkpoints": ("keep_checkpoints", 2)}
"""Renamed keys, with new name and default. This version accepts the old name; the next one refuses it."""
RENAMED_VALUES = {"trainer.activation_checkpointing": {False: "none", True: "full"}}
"""Keys with values that have new names; the first is the default. This version accepts old names; the next one refuses them."""
C = TypeVar("C", bound=Section)


def load(path: Path, overrides: list[str], kind: type[C]) -> C:
    """Read a TOML file, apply overrides `--a.b value` and validate. Raises UsageError that names file and key."""
    return lay_over(read_toml(path), overrides, path, kind)


def lay_over(data: dict[str, Any], overrides: list[str], path: Path, kind: type[C]) -> C:
    """Apply overrides `--a.b value` to the data of a file and validate. Raises UsageError that names file and key."""
    given = pair_overrides(overrides)
    for key, value in given:
        set_key(data, key, value)
    return validate(data, path, kind, given=[key for key, _ in given])


def validate(data: Any, path: Path, kind: type[C], given: Sequence[str] = ()) -> C:
    """Validate the data of a file. `given` lists the keys that overrides set. Raises UsageError that names file and key."""
    drop_removed_keys(data, path)
    drop_grpo_beta(data, path)
    rename_moved_keys(data, path)
    rename_values(data, path)
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise UsageError(explain(error, path, kind, given)) from None


def drop_removed_keys(data: Any, path: Path) -> None:
    """Delete `REMOVED_KEYS` from nested data, in place. Warn once per key if its value is neither null nor the old default."""
    for key, (default, rule) in REMOVED_KEYS.items():
        *parents, last = key.split(".")
        values = [section.pop(last) for section in _find_sections(data, parents) if last in section]
        if any(value not in (None, default) for value in values):
            warnings.warn(f"{path}: {key} is deprecated: {rule}: remove the key", FutureWarning, stacklevel=3)


def drop_grpo_beta(data: Any, path: Path) -> None:
    """Delete the removed option `beta` of `grpo` if it has its old default 0, in place, and warn. This version refuses others."""
    for stage in _find_sections(data, ["stages", "*"]):
        options = stage.get("algorithm_options")
        if stage.get("algorithm") == "grpo" and isinstance(options, dict) and options.get("beta") == 0:
            del options["beta"]
            key = "stages.*.algorithm_options.beta"
            warnings.warn(
                f"{path}: {key} is deprecated: grpo has no KL term: remove the key", FutureWarning, stacklevel=3
            )


def rename_moved_keys(data: Any, path: Path) -> None:
    """Rename `MOVED_KEYS` in nested data, in place. Warn once per key if its value is not the default."""
    for old, (new, default) in MOVED_KEYS.items():
        section, _, key = old.partition(".")
        for table in _find_sections(data, [section]):
            if key in table:
                data[new] = table.pop(key)
                if not table:
                    del data[section]
                if data[new] != default:
                    warnings.warn(f"{path}: {old} is deprecated: rename it to {new}", FutureWarning, stacklevel=3)


def rename_values(data: Any, path: Path) -> None:
    """Replace `RENAMED_VALUES` in nested data, in place. Warn once per key if its value is not the default."""
    for name, renamed in RENAMED_VALUES.items():
        *parents, key = name.split(".")
        for table in _find_sections(data, parents):
            old = table.get(key)
            if isinstance(old, bool):
                table[key] = renamed[old]
                if old != next(iter(renamed)):
                    message = f"{path}: {name} = {json.dumps(old)} is deprecated: write {json.dumps(renamed[old])}"
                    warnings.warn(message, FutureWarning, stacklevel=3)


def _find_sections(data: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    """Find the tables under nested names; `*` stands for each position of a list."""
    if not names:
        return [data] if isinstance(data, dict) else []
    name, *rest = names
    if name == "*":
        return [found for item in data for found in _find_sections(item, rest)] if isinstance(data, list) else []
    return _find_sections(data.get(name), rest) if isinstance(data, dict) else []


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file. Raises UsageError if it cannot be read or is not valid."""
    remedy = "give the path of a TOML file, e.g. configs/laptop.toml"
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no regular file: {remedy}")
        return tomllib.loads(read_text(path, "", remedy))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}") from None


def pair_overrides(arguments: list[str]) -> list[tuple[str, Any]]:
    """Parse overrides, e.g. `["--a.b", "3", "--c=x"]` → `[("a.b", 3), ("c", "x")]`. Raises UsageError."""
    pairs, rest = [], iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            raise UsageError(f"unexpected argument {argument!r}: overrides are written --section.key value")
        key, has_value, value = argument[2:].partition("=")
        given = value if has_value else next(rest, None)
        if given is None:
            raise UsageError(f"--{key} needs a value")
        pairs.append((SHORTHANDS.get(key, key), parse_value(given)))
    return pairs


def parse_value(text: str) -> Any:
    """Parse a value as JSON; return the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def set_key(data: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a key such as `stages.0.name` in nested data, creating missing tables; None removes an existing key."""
    *parents, last = dotted.split(".")
    node: Any = data
    for name in parents:
        key = _find_place(node, name, dotted)
        node = node.setdefault(key, {}) if isinstance(node, dict) else node[key]
    key = _find_place(node, last, dotted)
    if value is None and isinstance(node, dict) and key in node:
        del node[key]
    else:
        node[key] = value


def _find_place(node: Any, name: str, dotted: str) -> str | int:
    if isinstance(node, dict):
        return name
    if not isinstance(node, list):
        raise UsageError(f"--{dotted}: {name!r} cannot be set, since the key before it is not a section")
    if not name.isdigit() or int(name) >= len(node):
        raise UsageError(f"--{dotted}: {name!r} is not a position in a list of {len(node)} items; positions start at 0")
    return int(name)


def explain(error: ValidationError, path: Path, kind: type[BaseModel], given: Sequence[str]) -> str:
    """Return the first fault as one sentence: file and overrides, key, fault, remedy."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    place = " ".join([str(path), *(f"with --{name}" for name in given if _is_related(name, key))])
    if first["type"] == "extra_forbidden":
        return f"{place}: unknown key {key!r}{_suggestion(str(first['loc'][-1]), kind)}"
    if first["type"] == "model_type":
        return f"{place}: {key or 'the file'} must hold a table of keys (got {_short(first['input'])})"
    if first["type"] == "missing":
        return f"{place}: key {key!r} is missing: add it"
    is_single = (first["type"] == "list_type" or key == "tracking") and isinstance(first["input"], str)
    remedy = f", so write {json.dumps([first['input']])}" if is_single else ""
    message = f"{first_fault(error)}{remedy}"
    return f"{place}: {key}: {message} (got {_short(first['input'])})" if key else f"{place}: {message}"


def _is_related(one: str, other: str) -> bool:
    """Return True if the dotted keys are equal, or if one of them is a section that contains the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _list_sections(parent: type[Section]) -> Iterator[type[Section]]:
    """Yield all sections that derive from `parent`, directly or not."""
    for section in parent.__subclasses__():
        yield section
        yield from _list_sections(section)


def _suggestion(name: str, kind: type[BaseModel]) -> str:
    sections: list[type[BaseModel]] = [kind, SamplingParams, *_list_sections(Section)]
    known = [field for section in sections for field in section.model_fields]
    if name in known:
        return ", a key of another section: move it there (`--dry-run` prints every key in its place)"
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]!r}?" if close else ": remove it (`--dry-run` prints every key there is)"


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
