import itertools

import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from turnsmith.config import RunConfig
from turnsmith.runs.folder import RunFolder, claim, read_json, write_json
from turnsmith.ui.curves import STYLE, compose, draw_curves, lay_out
from turnsmith.ui.reading import FinishedIteration, read_iterations, read_outline, read_results


def test_stages_follow_each_other_and_rl_begins_at_zero():
    iterations = [FinishedIteration(stage, n, {}) for stage, count in (("rft", 1), ("stage1", 3)) for n in range(count)]
    assert lay_out(["base", "rft", "stage1"], iterations) == {
        "base": (-1, -1),
        "rft": (-1, 0),
        "stage1": (0, 3),
    }
    assert lay_out(["base"], []) == {"base": (0, 0)}


def test_cold_start_and_rft_end_before_zero():
    names = ["base", "cold_start", "rft", "stage1"]
    spans = lay_out(names, [FinishedIteration(name, 0, {}) for name in names[1:]])
    assert spans == {"base": (-2, -2), "cold_start": (-2, -1), "rft": (-1, 0), "stage1": (0, 1)}


def test_the_curves_of_an_imitation_alone_are_drawn(tmp_path):
    folder = RunFolder(tmp_path / "run")
    claim(folder, RunConfig(cold_start={"conversations": "demos"}).model_dump(mode="json"))
    write_json(folder.iteration("cold_start", 0).metrics, {"optimizer/steps": 4, "loss/nll_last": 0.2})
    assert draw_curves(folder).is_file()


def test_the_curves_of_a_whole_run_are_drawn(run_folder):
    picture = imread(draw_curves(run_folder))
    height, width, _ = picture.shape
    assert (width, height) == (1840, 1152)
    assert 0.02 < (picture[..., :3].min(axis=2) < 0.9).mean() < 0.5


def test_titles_and_labels_do_not_overlap(run_folder):
    with rc_context(STYLE):
        figure = compose(read_outline(run_folder).stage_names, read_iterations(run_folder), read_results(run_folder))
        FigureCanvasAgg(figure).draw()
    texts = [text for axes in figure.axes for text in (axes.title, axes._left_title, *axes.texts) if text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    colliding = [
        (one.get_text(), other.get_text())
        for (one, box), (other, other_box) in itertools.combinations(zip(texts, boxes, strict=True), 2)
        if box.overlaps(other_box)
    ]
    assert len(texts) == 1 + 3 + 5
    assert colliding == []


@pytest.mark.parametrize("gap", [0.0, 2e-7, float("nan")])
def test_unusual_values_are_drawn_without_warnings(run_folder, gap):
    write_json(run_folder.iteration("stage1", 0).metrics, {"rollouts/resolved_rate": 0.0, "logprob_gap/mean": gap})
    for stage in ("stage1", "stage2"):
        for number in range(5):
            write_json(
                run_folder.iteration(stage, number).metrics, {"rollouts/resolved_rate": 0.5, "logprob_gap/mean": gap}
            )
    assert draw_curves(run_folder).exists()


def test_the_curves_of_an_evaluation_alone_are_drawn(run_folder, tmp_path):
    folder = RunFolder(tmp_path / "eval")
    claim(folder, read_json(run_folder.config) | {"rft": None, "stages": []})
    write_json(folder.result("base", "practice"), {**_any_result(run_folder), "sem": None})
    assert draw_curves(folder).exists()


def test_the_curves_of_an_unfinished_run_are_empty(run_folder, tmp_path):
    folder = RunFolder(tmp_path / "new")
    claim(folder, read_json(run_folder.config))
    assert draw_curves(folder).exists()


def _any_result(folder):
    import json

    return json.loads(folder.result("base", "practice").read_text())
