"""`accams recommend`, `similar` and `explain`."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest
from command_line import accams_command, done_well, from_json, invoked, refusal

import accams


@pytest.fixture(scope="module")
def titles(posterior: Path) -> Path:
    path = posterior.parent / "titles.csv"
    path.write_text("id,title\n" + "".join(f'film {f},"The {f}th"\n' for f in range(30)))
    return path


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model whose ids are numbers and whose file does not tell what was seen."""
    folder = tmp_path_factory.mktemp("numbered")
    lines = [f"{u},{f},{(u * f) % 5 + 1}" for u in range(10) for f in range(8) if (u + f) % 3]
    (folder / "ratings.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    done_well("fit", folder / "ratings.csv", "-o", folder / "m.accams", "--model", "accams", "-s", "2", "-k", "2")
    return folder / "m.accams"


def test_recommend(posterior, titles):
    shown = done_well("recommend", posterior, "u1", "u2", "-n", "3", "--titles", titles, "--std")
    assert "u1" in shown
    assert "th" in shown
    found = from_json("recommend", posterior, "u1", "u2", "-n", "3", "--titles", titles)
    assert [(line["user"], line["rank"]) for line in found] == [(u, r) for u in ("u1", "u2") for r in (1, 2, 3)]
    model = accams.load(posterior)
    expected = model.recommend(["u1", "u2"], 3)
    assert [line["item"] for line in found] == expected["item"].tolist()
    assert [line["score"] for line in found] == expected["score"].tolist()
    assert found[0]["title"] == f"The {found[0]['item'].removeprefix('film ')}th"
    assert "std" not in found[0]


def test_recommend_to_someone_new(posterior):
    found = from_json("recommend", posterior, "--rated", "film 0=4.5", "--rated", "film 1=2", "-n", "4", "--std")
    assert all(int(line["item"].removeprefix("film ")) % 2 == 0 for line in found)  # of the kind that was liked
    assert all(line["std"] > 0 for line in found)
    careful = from_json("recommend", posterior, "u1", "--quantile", "0.1", "--include-seen")
    assert len(careful) == 10


def test_numbers_are_ids_too(numbered):
    found = from_json("recommend", numbered, "3", "--seen", numbered.parent / "ratings.csv")
    assert {line["item"] for line in found} == {0, 3, 6}
    assert found[0]["user"] == 3
    assert from_json("recommend", numbered, "--rated", "1=3", "-n", "1")[0]["item"] != 1
    assert from_json("similar", numbered, "1", "-n", "2")[0]["id"] != 1
    assert (
        from_json("explain", numbered, "1", "--user", "3")["prediction"] == accams.load(numbered).predict([(3, 1)])[0]
    )


def test_similar(posterior, titles):
    assert "most similar to The 4th" in done_well("similar", posterior, "film 4", "--titles", titles)
    found = from_json("similar", posterior, "film 4", "-n", "5", "--titles", titles)
    assert all(int(line["id"].removeprefix("film ")) % 2 == 0 for line in found)
    assert found[0]["title"].startswith("The ")
    users = from_json("similar", posterior, "u3", "--side", "users", "--by", "hamming")
    assert all(line["id"].startswith("u") for line in users)
    shown = done_well("similar", posterior, "u3", "--side", "users")
    assert "most similar to u3" in shown
    assert "1 is the same, 0 as different" in shown


def test_explain(posterior, titles):
    shown = done_well("explain", posterior, "film 4", "-u", "u3", "--titles", titles)
    assert "for u3 and The 4th" in shown
    assert "the average" in shown
    found = from_json("explain", posterior, "film 4", "-u", "u3")
    parts = [found["offset"], *(term["value"] for term in found["terms"])]
    parts += [found["effects"], found["beyond the small model"], found["clipping"]]
    assert sum(parts) == pytest.approx(found["prediction"])
    assert "for guest" in done_well("explain", posterior, "film 4", "--rated", "film 2=4")


def test_hierarchy(posterior, titles):
    shown = done_well("hierarchy", posterior, "--depth", "1", "--branches", "2", "--titles", titles)
    assert shown.startswith("30 The ")
    found = from_json("hierarchy", posterior, "--depth", "1", "--branches", "2", "--titles", titles)
    kinds = [{int(x.split()[1].removesuffix("th")) % 2 for x in child["members"]} for child in found["children"]]
    assert sorted(map(list, kinds)) == [[0], [1]]
    assert from_json("hierarchy", posterior, "--side", "users", "--active", "2")["size"] == 40


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("recommend", "u99"), "there is no user 'u99' in this model; the nearest ids are 'u9'"),
        (("recommend",), "name the users, or what a new one has rated"),
        (("recommend", "u1", "--rated", "film 0=4"), "name the users or what a new one has rated (--rated), not both"),
        (("recommend", "--rated", "film 0"), "--rated takes ITEM=VALUE, such as 260=5, not 'film 0'"),
        (("recommend", "--rated", "film 0=44"), "the value 44 lies outside the range of the training values"),
        (("recommend", "u1", "-n", "0"), "n must be"),
        (("similar", "film 99"), "no item 'film 99'"),
        (("explain", "film 1"), "name the user (--user)"),
        (
            ("explain", "film 1", "-u", "u1", "--rated", "film 0=4"),
            "has rated (--rated), not both",
        ),
        (("explain", "film 99", "-u", "u1"), "no item 'film 99'"),
    ],
)
def test_refusals(posterior, args, message):
    command, *rest = args
    assert message in refusal(command, posterior, *rest)


def test_titles_are_shown_as_they_are(posterior, tmp_path):
    (tmp_path / "t.csv").write_text("id,title\n" + "".join(f"film {f},[rec] {f} [/b]\n" for f in range(30)))
    assert "[rec] 4 [/b]" in done_well("similar", posterior, "film 4", "--titles", tmp_path / "t.csv")
    assert "[rec]" in done_well("recommend", posterior, "u1", "--titles", tmp_path / "t.csv")


def test_titles_that_do_not_match(posterior, tmp_path):
    (tmp_path / "t.csv").write_text("id,title\n1,Heat\n")
    assert "does not match the model" in refusal("similar", posterior, "film 1", "--titles", tmp_path / "t.csv")


def test_a_small_file_does_not_know_who_is_active(posterior, tmp_path):
    done_well("compress", posterior, "--max-bytes", "2k", "-o", tmp_path / "s")
    assert "leave out --active" in refusal("hierarchy", tmp_path / "s", "--active", "3")


def test_a_file_that_does_not_tell_what_was_seen(numbered):
    assert refusal("recommend", numbered, "3") == (
        "this model does not know what its users have seen: name a history file or the ratings with --history, or add "
        "--include-seen"
    )


def test_a_warning_is_one_sentence(numbered):
    done = accams_command("recommend", numbered, "1", "-n", "500", "--include-seen")
    assert done.returncode == 0
    assert done.stderr.strip() == "warning: n=500 is more than the 8 items of this model: there are no more"


HOSTILE = [
    "[/x]", "[bold]b[/]", "\x1b[2J\x1b]0;owned\x07", ":smile:", "a\nb", "c\rd", '=1+"1"', " e ", "f,g", "\u202eh",
]  # fmt: skip


def test_ids_neither_steer_a_terminal_nor_break_a_table(tmp_path):
    """Markup, escape sequences, names of emoji and line breaks are shown as text; CSV has them unchanged."""
    path, given = tmp_path / "m.accams", tmp_path / "pairs.parquet"
    pairs = [(x, y) for x in HOSTILE for y in HOSTILE if x != y]
    accams.ACCAMS(n_stencils=2, n_clusters=2).fit(pairs, [float(p % 5) for p in range(len(pairs))]).save(path)
    for args in (
        ["info", path], ["recommend", path, HOSTILE[0], "--include-seen"],
        ["similar", path, "[/x]"], ["explain", path, "--user", "[/x]", HOSTILE[2]], ["hierarchy", path],
    ):  # fmt: skip
        done = invoked(*args)
        assert done.exit_code == 0
        assert not {"\x1b", "\x07", "\r", "\u202e"} & set(done.output)
    assert ":smile:" in done_well("similar", path, "[/x]", "-n", "9")
    pd.DataFrame(pairs, columns=["user", "the, item"]).to_parquet(given)
    done_well("predict", path, given, "-o", tmp_path / "[red]out.csv", "--row", "user", "--col", "the, item")
    with (tmp_path / "[red]out.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["user", "the, item", "prediction"]
    assert [tuple(line[:2]) for line in lines] == pairs
