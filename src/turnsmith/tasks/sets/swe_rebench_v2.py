"""SWE-rebench V2: twenty languages; passing tests are compared by name."""

from turnsmith.tasks.sets.base import Columns, PublicSet, Row
from turnsmith.tasks.sets.cells import describe_core, read_dict
from turnsmith.tasks.sets.images import find_image
from turnsmith.tasks.sets.swe_rebench import read_command


def describe(row: Row) -> Columns:
    """Map a row to task columns; the tree lies in a folder with the repository's name. Raises Refused."""
    core, config = describe_core(row), read_dict(row, "install_config")
    return core | {
        "image": find_image(row, "image_name"),
        "workdir": f"/{core['repo'].rpartition('/')[2]}",
        "test_command": read_command(config),
        "log_parser": config.get("log_parser") or "",
        "status_rules": "swe-rebench-v2",
        "meta": read_dict(row, "meta"),
    }


SWE_REBENCH_V2 = PublicSet(
    "swe-rebench-v2",
    frozenset({"instance_id", "patch", "test_patch", "install_config", "language", "interface"}),
    describe,
)
