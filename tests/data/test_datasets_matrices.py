"""Faces and graphs: complete matrices."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from dataset_files import tar_bytes, write_zip

from accams.data.datasets import _base, _graphs, as_graph, edge_list, faces, gml
from accams.data.datasets._faces import pgm
from accams.errors import InputError

pytestmark = pytest.mark.usefixtures("no_local_data")


# -- faces --------------------------------------------------------------------------------------------------


def plain_pgm(pixels):
    rows = "\n".join(" ".join(map(str, row)) for row in pixels)
    return f"P2\n{len(pixels[0])} {len(pixels)}\n255\n{rows}\n".encode()


IMAGES = {
    "faces/an2i/an2i_left_angry_open.pgm": plain_pgm([[1, 2, 3], [4, 5, 6]]),
    "faces/an2i/an2i_left_angry_open_2.pgm": plain_pgm([[9]]),
    "faces/an2i/an2i_left_angry_open_4.pgm": plain_pgm([[9]]),
    "faces/at33/at33_up_sad_open.bad": b"P5\n# by xv\n3 2\n255\n" + bytes([10, 20, 30, 40, 50, 60]),
    "faces/at33/at33_up_sad_open_2.bad": plain_pgm([[9]]),
    "faces/at33/core": b"junk",
}


def assert_faces(data):
    assert data.image_shape == (2, 3)
    assert data.observations.shape == (2, 6)
    assert data.observations.row_index.ids.tolist() == ["an2i_left_angry_open", "at33_up_sad_open"]
    assert data.observations.values.tolist() == [1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60]


def test_faces_from_everywhere(tmp_path, monkeypatch):
    write_zip(tmp_path / "cmu+face+images.zip", {"faces.tar.gz": tar_bytes(IMAGES), "faces.html": "about"})
    assert_faces(faces(tmp_path))
    (tmp_path / "cmu+face+images.zip").unlink()
    (tmp_path / "cmu-faces.tar.gz").write_bytes(tar_bytes(IMAGES))
    monkeypatch.setenv("ACCAMS_DATA", str(tmp_path))
    assert_faces(faces())
    for name, content in IMAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert_faces(faces(tmp_path / "faces"))
    write_zip(tmp_path / "loose.zip", IMAGES)
    assert_faces(faces(tmp_path / "loose.zip"))


def test_pgm_formats():
    wide = b"P5 2 1 1000\n" + np.array([999, 1], dtype=">u2").tobytes()
    assert pgm(wide).tolist() == [[999, 1]]
    assert pgm(b"P2 # a comment\n3 2\n255\n0 1 2\n3 4 5\n").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert pgm(b"P2\n#a\n#b\n2 1 # size\n9\n7 8").tolist() == [[7, 8]]
    newline = b"P5 2 1 255\n" + bytes([10, 10])  # pixels that look like white space
    assert pgm(newline).tolist() == [[10, 10]]
    with pytest.raises(InputError, match="truncated"):
        pgm(b"P2 2 2 255\n1 2 3")
    with pytest.raises(InputError, match="not a PGM"):
        pgm(b"P6 2 2 255\n1 2 3")


def test_faces_refuse(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="neither a folder"):
        faces(tmp_path / "a.tar.gz")
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match=r"contains no \.pgm"):
        faces(tmp_path / "b")
    (tmp_path / "b" / "x.pgm").write_bytes(plain_pgm([[1]]))
    (tmp_path / "b" / "y.pgm").write_bytes(plain_pgm([[1, 2]]))
    with pytest.raises(InputError, match="y has"):
        faces(tmp_path / "b")


# -- graphs -------------------------------------------------------------------------------------------------


def dense(obs):
    table = np.zeros(obs.shape, dtype=int)
    rows, cols, values = obs.coo()
    table[rows, cols] = values
    return table.tolist()


def test_edge_list(tmp_path):
    text = "# FromNodeId\tToNodeId\n10\t30\n30\t10\n\n10 20\n20 20\n"
    path = tmp_path / "graph.txt"
    path.write_text(text)
    obs = edge_list(path)
    assert obs.blank_weight == 1
    assert obs.row_index.ids.tolist() == obs.col_index.ids.tolist() == [10, 20, 30]
    assert dense(obs) == [[0, 1, 1], [1, 1, 0], [1, 0, 0]]
    assert dense(edge_list(path, directed=True)) == [[0, 1, 1], [0, 1, 0], [1, 0, 0]]
    (tmp_path / "graph.txt.gz").write_bytes(gzip.compress(text.encode()))
    write_zip(tmp_path / "graph.zip", {"graph.txt": text})
    for other in ("graph.txt.gz", "graph.zip"):
        assert dense(edge_list(tmp_path / other)) == dense(obs)


def test_edge_list_with_names(tmp_path):
    path = tmp_path / "graph.csv"
    path.write_text("ann,bob,2\nbob,cy,1\n")
    obs = edge_list(path)
    assert obs.row_index.ids.tolist() == ["ann", "bob", "cy"]
    assert dense(obs) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_edge_list_refuses(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text("# nothing\n\n")
    with pytest.raises(InputError, match="empty"):
        edge_list(path)
    path.write_text("1 2\n3\n")
    with pytest.raises(InputError, match="two node names per line"):
        edge_list(path)


GML = """Creator "me on Sat Jul 22 2006"
# a comment
graph [
  directed 0
  node [ id 0 label "35034" graphics [ x 1.5 y 2 ] ]
  node
  [
    id 7
    label "8409"
  ]
  node [ label "3" id 2 ]
  edge [ source 0 target 7 ]
  edge [ target 2 source 7 value 1 ]
]
"""


def test_gml(tmp_path):
    (tmp_path / "g.gml").write_text(GML)
    obs = gml(tmp_path / "g.gml")
    assert obs.row_index.ids.tolist() == [35034, 8409, 3]
    assert dense(obs) == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert obs.blank_weight == 1
    assert dense(gml(tmp_path / "g.gml", directed=True)) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    (tmp_path / "g.gml").write_text(GML.replace("directed 0", "directed 1"))
    assert dense(gml(tmp_path / "g.gml")) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("old", "new", "ids"),
    [
        ('"3"', '"three"', ["35034", "8409", "three"]),
        ('"3"', '"8409"', [0, 7, 2]),
        ('label "3"', "", [0, 7, 2]),
    ],
)
def test_gml_node_names(tmp_path, old, new, ids):
    (tmp_path / "g.gml").write_text(GML.replace(old, new))
    assert gml(tmp_path / "g.gml").row_index.ids.tolist() == ids


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("]\n]\n", "]\n", "not a GML"),
        ("graph [", "grape [", "not a GML"),
        ("target 2", "target 9", "unknown node"),
        ("target 2", "", "'target'"),
        ("edge", "other", "no edges"),
    ],
)
def test_gml_refuses(tmp_path, old, new, message):
    (tmp_path / "g.gml").write_text(GML.replace(old, new))
    with pytest.raises(InputError, match=message):
        gml(tmp_path / "g.gml")


def test_as_graph(tmp_path, monkeypatch, server):
    monkeypatch.setenv("ACCAMS_DATA", str(tmp_path))
    (tmp_path / "oregon2_010526.txt").write_text("0 2048\n0 10240\n")
    data = as_graph("oregon2")
    assert data.observations.row_index.ids.tolist() == [0, 2048, 10240]
    assert data.observations.nnz == 4
    url, site, asked = server
    write_zip(site / "as-22july06.zip", {"as-22july06.gml": GML, "as-22july06.txt": "about"})
    source = _base.Source("as-22july06.zip", url + "as-22july06.zip")
    monkeypatch.setitem(_graphs.SOURCES, "as-22july06", source)
    assert as_graph("as-22july06").observations.nnz == 4
    assert asked == ["/as-22july06.zip"]
    with pytest.raises(InputError, match="'oregon2', 'as-22july06'"):
        as_graph("oregon1")
