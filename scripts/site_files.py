"""Hook of mkdocs: files outside docs/ that a page links to become pages of the site, with their text highlighted.

A page links to such a file by a relative path, so its links also work when the page is read in the repository.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(\.\./([^)#\s]+)\)")
"""Link from a page to a path outside docs/."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file or folder outside docs/ that a page links to."""
    pages = [file.content_string for file in files.documentation_pages()]
    for name in sorted({name for page in pages for name in LINK.findall(page)}):
        if (ROOT / name).exists():
            files.append(File.generated(config, name_page(name), content=write_page(name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its links to files outside docs/ replaced by links to their pages."""
    return LINK.sub(lambda found: f"]({name_page(found[1])})" if (ROOT / found[1]).exists() else found[0], markdown)


def name_page(name: str) -> str:
    """Return the site's path of a repository file's page."""
    return f"files/{name.rstrip('/')}.md"


def write_page(name: str) -> str:
    """Return the Markdown of a file's text, or of a folder's list of names."""
    path = ROOT / name
    text = "\n".join(sorted(list_names(path))) if path.is_dir() else path.read_text(encoding="utf-8")
    return f"# {name}\n\n`````{path.suffix.lstrip('.') or 'text'}\n{text}\n`````\n"


def list_names(folder: Path) -> list[str]:
    """Return the paths of the files below a folder, relative to it, without hidden and compiled ones."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in paths if not any(part.startswith((".", "__pycache__")) for part in path.parts)]
