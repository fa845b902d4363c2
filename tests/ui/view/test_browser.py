"""Pages of `turnsmith view` in Chromium: use, hostile contents, contrast and width. Screenshots go to TURNSMITH_PICTURES."""

import shutil

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from conftest import make_trajectory
from support.machine.browser import CONTRASTS, WAIT_S, click, find, open_chromium, picture, serve
from turnsmith.runs.folder import IterationFolder, read_json, write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.types import Outcome
from turnsmith.ui.view.opened import find_runs
from turnsmith.ui.view.report import write_report

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("chromedriver"), reason="chromium and chromium-driver are missing: install them"
    ),
]

TASK = "practice-1.swap.1f3a9c04"
RL = "stages/stage1/iteration-0000"
SCRIPT = "<script>window.hacked = 1</script></script><style>* { display: none !important }</style>"
HOSTILE = SCRIPT + "<img src=x onerror='window.hacked = 1'>\x1b[2J\x1b]0;owned\x07\0\u202egnp.exe\u2066\ufffe'\"`&lt;"
HOSTILE_ID = HOSTILE.replace("/", "")


@pytest.fixture(scope="module")
def chromium():
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def show(chromium, run_folder, tmp_path):
    """Return a function that opens a page of the run folder by the parts of its address, and waits for a text."""
    with serve(run_folder.path) as address:

        def open_page(page: str, text: str):
            chromium.get("about:blank")
            chromium.get(f"{address}#/{page}")
            find(chromium, "main", text)
            return chromium

        yield open_page


@pytest.fixture
def group(run_folder):
    """Add two attempts of one group, with rewards and advantages, to an iteration of RL."""
    files = IterationFolder(run_folder.path / RL)
    for index, outcome in enumerate([Outcome.RESOLVED, Outcome.UNRESOLVED]):
        made = make_trajectory(f"stage1-0000/{TASK}/{index}", outcome)
        failing = made.turns[0].model_copy(update={"exit_code": index, "command": f"ls {index}"})
        append_trajectory(files.trajectories, made.grow(turns=[failing, made.turns[1]]))
    rewards = {
        f"stage1-0000/{TASK}/{index}": {"reward": 1.0 - index, "advantage": 1.0 - 2 * index} for index in range(2)
    }
    write_json(files.rewards, rewards)


def wait(browser, condition):
    return WebDriverWait(browser, WAIT_S).until(condition)


def test_three_clicks_lead_from_the_list_to_an_attempt(show, group):
    browser = show("", "stage2")
    click(browser, "main a", "run")
    find(browser, "h2", "Results")
    picture(browser, "overview")
    click(browser, "main a", "Tasks")
    find(browser, "h2", "training")
    picture(browser, "tasks")
    browser.find_elements(By.CSS_SELECTOR, "td.rate a")[-1].click()
    find(browser, "p", "2 attempts: stage1, iteration 1")
    picture(browser, "group")
    click(browser, "main a", "attempt 0")
    find(browser, "h1", f"stage1-0000/{TASK}/0")
    assert find(browser, "#turn-2").text.count("submit")
    picture(browser, "trajectory")


def test_the_table_is_filtered_by_outcome_and_text(show):
    browser = show("trajectories/run", "1 to 8 of 8")
    Select(browser.find_element(By.NAME, "outcome")).select_by_value("unresolved")
    click(browser, "form button")
    find(browser, "main", "1 to 4 of 4")
    assert browser.current_url.endswith("/unresolved/")
    assert Select(browser.find_element(By.NAME, "outcome")).first_selected_option.text == "unresolved"
    assert "rft on practice" in [each.text for each in Select(browser.find_element(By.NAME, "journal")).options]
    browser.find_element(By.NAME, "text").send_keys("nothing" + Keys.ENTER)
    find(browser, "main", "none found")


def test_a_page_begins_at_its_top_and_going_back_keeps_the_place(show):
    browser = show("run/run", "Results")
    wait(browser, lambda _: browser.execute_script("return document.body.scrollHeight > innerHeight + 200"))
    browser.execute_script("scrollTo(0, 150)")
    wait(browser, lambda _: browser.execute_script("return history.state?.top") == 150)
    browser.execute_script("document.querySelector('a[href^=\"#/tasks\"]').click()")
    find(browser, "h1", "Tasks")
    assert browser.execute_script("return scrollY") == 0
    browser.back()
    find(browser, "h2", "Results")
    wait(browser, lambda _: browser.execute_script("return scrollY") == 150)


def test_tasks_are_sorted_by_their_gain_since_a_stage(show, run_folder):
    for stage, outcomes in {"rft": "ruur", "stage2": "uurr"}.items():
        journal = run_folder.eval_trajectories(stage, "practice")
        journal.unlink(missing_ok=True)
        for task, outcome in zip("abcd", outcomes, strict=True):
            made = make_trajectory(
                f"eval-{stage}/{task}.x.1/0", Outcome.RESOLVED if outcome == "r" else Outcome.UNRESOLVED
            )
            append_trajectory(journal, made)
    browser = show("tasks/run", "tasks")
    Select(browser.find_element(By.NAME, "order")).select_by_value("gain since rft")
    click(browser, "form button")
    script = (
        "return [...document.querySelector('main table').querySelectorAll('tbody th')].map(each => each.textContent)"
    )
    wait(browser, lambda _: [task[0] for task in browser.execute_script(script) if task.endswith(".x.1")] == [*"abdc"])


def test_tasks_are_filtered_by_outcome_repository_and_text(show):
    browser = show("tasks/run", "1 of 1 tasks")
    Select(browser.find_element(By.NAME, "outcome")).select_by_value("never resolved")
    click(browser, "form button")
    find(browser, "main", "0 of 1 tasks")
    Select(browser.find_element(By.NAME, "outcome")).select_by_value("sometimes resolved")
    Select(browser.find_element(By.NAME, "repository")).select_by_index(1)
    browser.find_element(By.NAME, "text").send_keys("swap" + Keys.ENTER)
    find(browser, "main", "1 of 1 tasks")
    assert browser.find_elements(By.CSS_SELECTOR, "td.rate")[0].text == "1/2"


def test_a_group_shows_rewards_advantages_and_the_difference_of_two_attempts(show, group):
    browser = show(f"group/run/{RL.replace('/', '%2F')}/{TASK}", "2 attempts")
    rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "tbody tr")]
    assert "+1.00" in rows[0] and "−1.00" in rows[1]
    click(browser, "form button", "Compare")
    lines = find(browser, "pre", "$ submit").text.splitlines()
    assert lines == ["- $ ls 0", "+ $ ls 1", "  $ submit"]
    picture(browser, "difference")


@pytest.mark.parametrize(
    ("colouring", "legend"),
    [
        ("logprob", "above 0.5"),
        ("logprob", "lowest: "),
        ("advantage", "+1.00"),
        ("loss", "in the loss"),
        ("gap", "not recorded"),
    ],
)
def test_tokens_are_coloured(show, group, colouring, legend):
    browser = show(f"trajectory/run/{RL.replace('/', '%2F')}/0", "turn 2")
    Select(browser.find_element(By.NAME, "colour")).select_by_value(colouring)
    find(browser, ".legend", legend)
    spans = wait(browser, lambda _: browser.find_elements(By.CSS_SELECTOR, "#turn-1 .action span"))
    assert "log-prob -1.000" in spans[0].get_attribute("title")
    picture(browser, f"tokens-{colouring}")


def test_search_and_jump_find_turns(show, group, run_folder):
    start = len((run_folder.path / RL / "trajectories.jsonl").read_bytes().splitlines(keepends=True)[0])
    browser = show(f"trajectory/run/{RL.replace('/', '%2F')}/{start}", "turn 2")
    click(browser, "button", "First failing command")
    assert browser.switch_to.active_element.get_attribute("id") == "turn-1"
    browser.switch_to.active_element.send_keys("/")
    browser.switch_to.active_element.send_keys("submit" + Keys.ENTER)
    find(browser, "output", "1 of 1 turns")


def test_every_page_works_by_keyboard(show, group):
    browser = show("", "stage2")
    press = lambda keys: browser.switch_to.active_element.send_keys(keys)  # noqa: E731
    press("j")
    press(Keys.ENTER)
    find(browser, "h2", "Results")
    browser.get(browser.current_url.replace("#/run/", "#/trajectories/"))
    find(browser, "main", "1 to 10 of 10")
    press("jjk")
    assert browser.switch_to.active_element.tag_name == "a"
    press("/")
    assert browser.switch_to.active_element.get_attribute("name") == "text"
    press(Keys.ESCAPE + "j" + Keys.ENTER)
    find(browser, "#turn-1")
    press("jj")
    assert browser.switch_to.active_element.get_attribute("id") == "turn-2"


@pytest.fixture
def hostile(run_folder):
    """Add a trajectory with hostile contents; return its journal and position as part of an address."""
    journal = run_folder.eval_trajectories("base", "practice")
    start = journal.stat().st_size
    made = make_trajectory(f"eval-base/{HOSTILE_ID}/0", Outcome.UNRESOLVED)
    turn = made.turns[0].model_copy(update={"text": HOSTILE, "observation": HOSTILE + "\n" + "x" * 10_000_000})
    grade = made.grade.model_copy(update={"statuses": {HOSTILE: "failed"}, "detail": HOSTILE})
    append_trajectory(journal, made.grow(turns=[turn, made.turns[1]], patch=HOSTILE, grade=grade, detail=HOSTILE))
    return f"evals%2Fbase%2Fpractice/{start}"


def check_hostile(browser, hosts):
    """Check that nothing was executed, became an element, or was loaded from another host."""
    assert browser.execute_script("return window.hacked") is None
    assert not browser.find_elements(By.CSS_SELECTOR, "main script, main style, main img:not([alt^=Curves])")
    assert browser.find_element(By.CSS_SELECTOR, "h1").is_displayed()
    loaded = "return performance.getEntriesByType('resource').map((each) => new URL(each.name).host)"
    assert set(browser.execute_script(loaded)) <= hosts


def test_hostile_contents_stay_text_and_load_nothing(show, hostile, chromium):
    chromium.get_log("browser")
    places = [f"trajectory/run/{hostile}", "trajectories/run", "tasks/run", "run/run"]
    for place in places:
        browser = show(place, "run" if place.startswith("run") else "script>")
        check_hostile(browser, {browser.execute_script("return location.host")})
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 1280
    picture(browser, "hostile")
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_report_works_offline_with_hostile_contents(run_folder, hostile, group, chromium, tmp_path):
    [run] = find_runs(run_folder.path).values()
    write_report(run, tmp_path / "report.html", 10**9)
    chromium.get_log("browser")
    chromium.get(f"file://{tmp_path}/report.html")
    find(chromium, "h2", "Results")
    click(chromium, "#path a", "runs")
    click(chromium, "main a", "run")
    click(chromium, "main a", "Tasks")
    chromium.find_elements(By.CSS_SELECTOR, "td.rate a")[-1].click()
    click(chromium, "form button", "Compare")
    assert "+ $ ls 1" in find(chromium, "pre", "$ submit").text
    chromium.get(f"file://{tmp_path}/report.html#/trajectory/run/{hostile}")
    find(chromium, "main", "script>")
    check_hostile(chromium, {""})
    click(chromium, "#path a", "trajectories")
    Select(chromium.find_element(By.NAME, "outcome")).select_by_value("unresolved")
    click(chromium, "form button", "Filter")
    find(chromium, "main", "of 6")
    picture(chromium, "report")
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 2560])
def test_pages_have_contrast_and_fit_into_narrow_and_wide_windows(show, group, width, scheme):
    journal = RL.replace("/", "%2F")
    pages = {
        "": "stage2", "run/run": "Results", "tasks/run": "training", "trajectories/run": "1 to 10",
        f"group/run/{journal}/{TASK}/0/0": "Difference", f"trajectory/run/{journal}/0": "turn 2",
    }  # fmt: skip
    for page, text in pages.items():
        browser = show(page, text)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        assert browser.execute_script(CONTRASTS) == [], page
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, page
        unnamed = "return [...document.querySelectorAll('input, select')].filter((each) => !each.labels.length).length"
        assert browser.execute_script(unnamed) == 0, page
        picture(browser, f"{page.split('/')[0] or 'runs'}-{width}-{scheme}")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_list_names_a_folder_whose_files_are_damaged(show, run_folder):
    write_json(run_folder.config, {**read_json(run_folder.config), "stages": "none"})
    find(show("", "config.json"), "td", "config.json")
