"""Script that makes Python import an installed project from its working tree instead of site-packages.

An environment's Python runs the script after an installation that is not editable. The project's metadata and scripts stay
installed. Files that only the build made, such as compiled modules, move into the working tree. The script imports no other
module of Turnsmith, because the environment's Python may be as old as 3.6.
"""

import csv
import json
import shutil
import sys
import sysconfig
from pathlib import Path


def main() -> None:
    """Replace the installed modules of the project by a `.pth` file that names their folder below the working directory."""
    tree = Path.cwd()
    packages, metadata = find_metadata(tree)
    with (metadata / "RECORD").open(newline="") as record:
        rows = list(csv.reader(record))
    modules = [row[0] for row in rows if is_module(row[0])]
    root = find_root(tree, modules)
    for path in modules:
        move(packages, root, path)
    (packages / (metadata.stem + ".pth")).write_text(str(root) + "\n")
    kept = [row for row in rows if row[0] not in modules] + [[metadata.stem + ".pth", "", ""]]
    with (metadata / "RECORD").open("w", newline="") as record:
        csv.writer(record).writerows(kept)


def find_metadata(tree: Path) -> "tuple[Path, Path]":
    """Return the site-packages folder and the metadata folder of the project installed from `tree`. Mark it as editable there."""
    for packages in {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}:
        for file in packages.glob("*.dist-info/direct_url.json"):
            origin = json.loads(file.read_text())
            if origin["url"] == tree.as_uri():
                file.write_text(json.dumps(dict(origin, dir_info={"editable": True})))
                return packages, file.parent
    sys.exit("error: no package was installed from " + str(tree))


def is_module(path: str) -> bool:
    """Return True if an installed file belongs to a module, and not to metadata, scripts or `.pth` files."""
    top = path.split("/")[0]
    return not (path.startswith(("..", "/")) or top.endswith((".dist-info", ".data", ".pth")))


def find_root(tree: Path, modules: "list[str]") -> Path:
    """Return the source folder of the installed modules: the working tree, or a folder directly below it, such as `src`."""
    folders = [tree] + [path for path in sorted(tree.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    root = max(folders, key=lambda folder: sum((folder / path).exists() for path in modules))
    tops = {path.split("/")[0] for path in modules if path.endswith(".py")}
    absent = sorted(top for top in tops if not (root / top).exists())
    if absent:
        sys.exit(
            "error: "
            + absent[0]
            + " is installed, but its source is not in the same folder as the project's other modules"
        )
    return root


def move(packages: Path, root: Path, path: str) -> None:
    """Remove an installed file if the source folder has it too, else move it into that folder; remove emptied folders."""
    place, target = packages / path, root / path
    if target.exists():
        place.unlink()
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(str(place), str(target))
    for folder in place.parents:
        if folder == packages or {file.name for file in folder.iterdir()} - {"__pycache__"}:
            break
        shutil.rmtree(str(folder))


if __name__ == "__main__":
    main()
