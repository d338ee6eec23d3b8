"""Data sets in zips are found where the user says, unpacked safely, and have the published counts."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from gnpool.data import tudataset as module
from gnpool.data.tudataset import at_hand, folder_name, tudataset, unpack, zip_of
from tests.real_data import use_real_data

FILES = {  # a triangle of class 5, and a path of two with a lonely node of class 9
    "TINY_A.txt": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n5, 6\n6, 5\n",
    "TINY_graph_indicator.txt": "1\n1\n1\n2\n2\n2\n",
    "TINY_graph_labels.txt": "5\n9\n",
    "TINY_node_labels.txt": "2\n3\n2\n4\n2\n2\n",
}


def write_zip(path: Path, files: dict[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def tiny(folder: Path, **more: str) -> Path:
    return write_zip(folder / "tudataset" / "TINY.zip", {**{f"TINY/{k}": v for k, v in FILES.items()}, **more})


def test_a_zip_is_read_as_pyg_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(tmp_path / "data", **{"TINY/README.txt": "not unpacked"})
    monkeypatch.setenv("GNPOOL_DATA", str(tmp_path / "data"))
    assert at_hand("TINY", tmp_path / "cache")
    graphs = tudataset("TINY", tmp_path / "cache")
    assert [graph.num_nodes for graph in graphs] == [3, 3]
    assert [int(graph.y) for graph in graphs] == [0, 1]
    assert graphs[0].x.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    assert graphs[1].edge_index.tolist() == [[1, 2], [2, 1]]
    assert not (tmp_path / "cache" / "TINY" / "raw" / "README.txt").exists()
    monkeypatch.delenv("GNPOOL_DATA")  # unpacked once, it stays
    assert at_hand("TINY", tmp_path / "cache")
    assert torch.equal(tudataset("TINY", tmp_path / "cache")[1].x, graphs[1].x)


@pytest.mark.parametrize("member", ["../TINY_A.txt", "TINY/../../TINY_A.txt", "/TINY/TINY_A.txt", "TINY\\TINY_A.txt"])
def test_a_member_that_points_out_of_its_folder_is_refused(tmp_path: Path, member: str) -> None:
    archive = write_zip(tmp_path / "TINY.zip", {member: "1, 2\n"})
    with pytest.raises(OSError, match="points out of its folder"):
        unpack(archive, "TINY", tmp_path / "in" / "raw")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["TINY.zip"]


def test_a_zip_of_something_else_is_an_error(tmp_path: Path) -> None:
    files = {f"TINY/{name}": text for name, text in FILES.items() if "labels" not in name}
    with pytest.raises(OSError, match=r"there is no TINY/TINY_graph_labels\.txt in it"):
        unpack(write_zip(tmp_path / "TINY.zip", files), "TINY", tmp_path / "raw")
    (tmp_path / "broken.zip").write_bytes(b"PK nothing")
    with pytest.raises(OSError, match=r"broken\.zip"):
        unpack(tmp_path / "broken.zip", "TINY", tmp_path / "raw")
    assert not (tmp_path / "raw").exists()


def test_without_zip_and_network_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNPOOL_DATA", str(tmp_path))

    def offline(*_: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(module, "TUDataset", offline)
    assert zip_of("PROTEINS") is None
    assert not at_hand("PROTEINS", tmp_path)
    with pytest.raises(OSError, match=r"'PROTEINS' is not at hand .*no route to host.*set GNPOOL_DATA"):
        tudataset("PROTEINS", tmp_path)


def test_what_another_process_has_read_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(tmp_path / "data")
    monkeypatch.setenv("GNPOOL_DATA", str(tmp_path / "data"))
    original = module.unpack

    def meanwhile(*arguments: object) -> None:
        monkeypatch.setattr(module, "unpack", original)
        tudataset("TINY", tmp_path / "cache")  # the other is faster
        original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "unpack", meanwhile)
    assert len(tudataset("TINY", tmp_path / "cache")) == 2
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["TINY"]


def test_a_zip_that_pyg_cannot_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny(tmp_path, **{"TINY/TINY_A.txt": "one, two\n"})
    monkeypatch.setenv("GNPOOL_DATA", str(tmp_path))
    with pytest.raises(OSError, match=r"TINY\.zip: PyG cannot read it"):
        tudataset("TINY", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "", "a/b", "a b"])
def test_names_are_checked(name: str) -> None:
    with pytest.raises(ValueError, match="'name' must be that of a set"):
        folder_name(name)


@pytest.mark.parametrize(("name", "graphs", "features"), [("D&D", 1178, 89), ("PROTEINS", 1113, 3), ("NCI1", 4110, 37)])
def test_the_real_sets(name: str, graphs: int, features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    use_real_data(monkeypatch)
    found = tudataset(name)
    assert len(found) == graphs
    assert found[0].num_features == features
    assert {int(graph.y) for graph in found} == {0, 1}
