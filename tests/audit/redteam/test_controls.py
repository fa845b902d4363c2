"""Controls of the attacks: each fools the naive graders in its header, in the same sandboxes."""

import asyncio

import pytest

from support.grading.naive import NAIVE, find_fooled, is_fooled
from turnsmith.audit.redteam.scripts import CHECKOUT, Script, read_scripts
from turnsmith.audit.redteam.trials import NUM_WORKERS

SCRIPTS = read_scripts(CHECKOUT)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def fool_all(scripts, target, provider):
    """Return script name → naive graders of its header that it fools."""
    free = asyncio.Semaphore(NUM_WORKERS)

    async def ask(script, naive):
        async with free:
            return await is_fooled(naive, script, target, provider)

    async def ask_all(script):
        answers = await asyncio.gather(*(ask(script, naive) for naive in find_fooled(script)))
        return {naive for naive, answer in zip(find_fooled(script), answers, strict=True) if answer}

    async def gather():
        return await asyncio.gather(*map(ask_all, scripts))

    return {script.name: fooled for script, fooled in zip(scripts, asyncio.run(gather()), strict=True)}


def test_each_attack_fools_the_naive_graders_in_its_header(provider, toy):
    fooled = fool_all(SCRIPTS, toy, provider)
    assert {script.name: set(find_fooled(script)) - fooled[script.name] for script in SCRIPTS} == {
        script.name: set() for script in SCRIPTS
    }


@pytest.mark.parametrize(
    ("text", "fooled"), [("true", set()), ('echo "import nowhere" >> $SOURCE', {"missing", "masks"})]
)
def test_a_broken_run_fools_only_graders_that_accept_missing_results(provider, toy, text, fooled):
    """Two naive graders accept a broken run, so fooling only these proves nothing."""
    script = Script("nothing", "attack", "Nothing.", "verdict", "", f"# fools: {', '.join(NAIVE)}\n{text}")
    assert fool_all([script], toy, provider) == {"nothing": fooled}


def test_some_attack_fools_every_naive_grader():
    assert {naive for script in SCRIPTS for naive in find_fooled(script)} == set(NAIVE)


def test_most_attacks_fool_a_naive_grader():
    attacks = [script for script in SCRIPTS if script.kind == "attack"]
    assert sum(bool(find_fooled(script)) for script in attacks) >= 0.75 * len(attacks)
