"""Site of the documentation: make docs passes, and its pages load nothing from other hosts."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]*\ssrc=\"?(?:https?:)?//|<link[^>]*stylesheet[^>]*href=\"?(?:https?:)?//"
)


def build(folder, place):
    """Build the site of a folder with mkdocs.yml as `make docs` does; return the finished process."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(place)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the built site."""
    place = tmp_path_factory.mktemp("site")
    built = build(ROOT, place)
    assert built.returncode == 0, built.stderr[-3000:]
    return place


def test_make_docs_calls_the_same_program():
    assert "$(BIN)/mkdocs build" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_page_of_the_repository_is_on_the_site(site):
    assert [page.stem for page in ROOT.glob("docs/*.md") if not (site / f"{page.stem}.html").is_file()] == []


def test_no_page_loads_anything_from_another_host(site):
    pages = list(site.rglob("*.html"))
    assert pages
    assert [page.name for page in pages if LOADED.search(page.read_text(encoding="utf-8"))] == []


def test_linked_files_of_the_repository_are_pages(site):
    text = (site / "paper.html").read_text(encoding="utf-8")
    assert 'href="files/src/turnsmith/config.html"' in text
    assert "run.py" in (site / "files/src/turnsmith/config.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["[a](none.md)", "[a](index.md#none)", "[a](../src/none.py)"])
def test_a_broken_link_stops_the_build(text, tmp_path):
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "docs/solve.md").write_text(text, encoding="utf-8")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0 and ("none" in built.stderr)


def test_pictures_are_small():
    sizes = {picture.name: picture.stat().st_size for picture in ROOT.glob("docs/pictures/*.png")}
    assert set(sizes) == {"overview.png", "tasks.png", "group.png", "trajectory.png", "smollm2.png"}
    assert max(sizes.values()) <= 200_000
