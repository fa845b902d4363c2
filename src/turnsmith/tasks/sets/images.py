"""Names of container images of rows: given in the row, or derived by a rule of the data set."""

import re
from typing import Any

from turnsmith.tasks.sets.base import Refused, Row

NAME = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)
MAX_TAG = 128
"""Maximum length of an image tag."""
PRO_EXCEPTION = "element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"
"""Instance id whose image name is not shortened like others of its repository."""


def find_image(row: Row, *columns: str) -> str:
    """Return the image named in the first non-empty column. Raises Refused if there is none or it is invalid."""
    named: Any = next((row[column] for column in columns if row.get(column)), None)
    if named is None:
        raise Refused("no image", f"{' and '.join(columns)} {'is' if len(columns) == 1 else 'are'} missing or empty")
    return check_image(named)


def check_image(name: Any) -> str:
    """Return an image name. Raises Refused if it is invalid."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise Refused("bad image", f"{str(name)[:60]!r} is not a valid image name")
    return name


def name_of_swe_smith(named: str) -> str:
    """Convert an image name of SWE-smith, spelled in one of three ways, to the name in its registry."""
    name = named.rpartition("/")[2].lower().replace("__", "_1776_")
    return check_image(f"swebench/{name}")


def name_of_swe_bench_pro(instance_id: str, repo: str) -> str:
    """Return SWE-bench Pro's image: `instance_<tail>`, `Owner/Name` → `jefzda/sweap-images:owner.name-<tail>`."""
    tail, place = instance_id.removeprefix("instance_"), repo.lower().replace("/", ".", 1)
    if tail != PRO_EXCEPTION:
        tail, place = tail.removesuffix("-vnan"), place.replace("element-hq.element-web", "element-hq.element")
    return check_image(f"jefzda/sweap-images:{f'{place}-{tail}'[:MAX_TAG]}")
