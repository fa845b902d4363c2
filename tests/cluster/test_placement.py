"""Places of ranks on the nodes of a cluster; Ray's answers are given."""

from types import SimpleNamespace

import pytest

from turnsmith.cluster import placement
from turnsmith.cluster.actor import check_folder
from turnsmith.errors import UsageError


async def test_ranks_of_a_node_are_consecutive(monkeypatch):
    group = SimpleNamespace(wait=lambda seconds: True)
    nodes = {0: "b", 1: "a", 2: "b", 3: "a"}
    listed = [{"NodeID": name, "NodeManagerAddress": name, "NodeManagerPort": port} for port, name in enumerate("abc")]
    monkeypatch.setattr(placement, "placement_group", lambda bundles, strategy: group)
    monkeypatch.setattr(placement, "placement_group_table", lambda group: {"bundles_to_node_id": nodes})
    monkeypatch.setattr(placement.ray, "nodes", lambda: listed)
    places = await placement.reserve(4, {"GPU": 1.0})
    assert places.bundles == [1, 3, 0, 2]
    assert places.daemons == {("a", 0), ("b", 1)}


def test_a_machine_that_does_not_see_the_run_folder_is_named(tmp_path):
    check_folder(tmp_path, "10.0.0.2")
    with pytest.raises(
        UsageError, match=r"the machine 10\.0\.0\.2 does not see .*/nothing: put the run folder on storage"
    ):
        check_folder(tmp_path / "nothing", "10.0.0.2")
