"""Each attack does what it says: it beats the naive graders that its header names, in the same sandboxes, on the toy task."""

import asyncio

import pytest

from redteam.arena import isolated_sandboxes, make_target
from redteam.naive import NAIVE, is_fooled
from turnsmith.redteam.scripts import Script, read_scripts
from turnsmith.redteam.trials import NUM_WORKERS

PAIRS = [(script, naive) for script in read_scripts() for naive in script.fools]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def fooled(tmp_path_factory):
    """`(script, naive grader)` → is it fooled?"""
    with isolated_sandboxes() as provider:
        target = make_target("toy", tmp_path_factory.mktemp("redteam"), provider)
        answers = asyncio.run(ask_all(target, provider))
        return {(script.name, naive): answer for (script, naive), answer in zip(PAIRS, answers, strict=True)}


async def ask_all(target, provider):
    free = asyncio.Semaphore(NUM_WORKERS)

    async def ask(script, naive):
        async with free:
            return await is_fooled(naive, script, target, provider)

    return await asyncio.gather(*(ask(script, naive) for script, naive in PAIRS))


@pytest.mark.parametrize(("script", "naive"), [(script.name, naive) for script, naive in PAIRS])
def test_a_naive_grader_is_fooled(fooled, script, naive):
    assert fooled[script, naive]


@pytest.fixture(scope="module")
def fooled_by_nothing(tmp_path_factory):
    """The naive graders that pay for a patch that does nothing, and for one that breaks the import."""
    with isolated_sandboxes() as provider:
        target = make_target("toy", tmp_path_factory.mktemp("nothing"), provider)
        return {
            tried: asyncio.run(ask_each(tried, target, provider))
            for tried in ("true", 'echo "import nowhere" >> $SOURCE')
        }


async def ask_each(text, target, provider):
    script = Script("nothing", "attack", "Nothing.", (), (), text)
    return {naive for naive in NAIVE if await is_fooled(naive, script, target, provider)}


def test_naive_graders_pay_for_something_only(fooled_by_nothing):
    """A broken run is what two of them take for good; whoever names only those has shown no more than a broken run."""
    nothing, broken = fooled_by_nothing.values()
    assert nothing == set()
    assert broken == {"missing", "masks"}


@pytest.mark.parametrize("naive", NAIVE)
def test_every_naive_grader_is_fooled_by_something(naive):
    assert naive in {naive for _, naive in PAIRS}
