"""Training requires `sandbox.min_isolation`; evaluation accepts any tier."""

import pytest

from turnsmith.config import RunConfig, SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.recipe import check_isolation
from turnsmith.sandboxes.subprocesses import SubprocessProvider


def make_config(**parts):
    return RunConfig.model_validate({"train_tasks": {"practice_tasks": 1}, "sandbox": {"kind": "subprocess"}} | parts)


@pytest.mark.parametrize("parts", [{"rft": {}}, {"stages": [{}]}])
def test_training_without_isolation_is_refused(parts):
    config = make_config(**parts)
    with pytest.raises(UsageError, match=r"subprocess .*isolation none .*container-root: .*min_isolation none"):
        check_isolation(config, SubprocessProvider(config.sandbox))


def test_training_is_allowed_if_min_isolation_accepts_the_tier():
    accepted = SandboxConfig(kind="subprocess", min_isolation="none")
    check_isolation(make_config(rft={}, sandbox=accepted), SubprocessProvider(accepted))


def test_evaluation_takes_any_tier():
    config = make_config()
    check_isolation(config, SubprocessProvider(config.sandbox))


def test_a_stricter_min_isolation_than_available_is_refused():
    class Contained:
        isolation = "container-user"

    check_isolation(make_config(rft={}), Contained())
    with pytest.raises(UsageError, match=r"isolation container-user .*namespaces-user"):
        check_isolation(make_config(rft={}, sandbox={"min_isolation": "namespaces-user"}), Contained())
