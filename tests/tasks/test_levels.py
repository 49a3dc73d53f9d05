import io
import json
import pickle
import shutil
import zipfile

import numpy as np
import pytest

import cursus
from cursus.errors import CursusError, SettingsError, TaskError
from cursus.tasks import Levels, Task


def write_json(folder, stage, name, content):
    file = folder / stage / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def write_npz(folder, stage, name, **arrays):
    file = folder / stage / f"{name}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **arrays)
    return file


def write_raw_array(folder, stage, name, member):
    file = folder / stage / f"{name}.npz"
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("grid.npy", member)
    return file


@pytest.fixture
def folder(tmp_path):
    """Three JSON levels in two stages."""
    folder = tmp_path / "levels"
    write_json(folder, "easy", "one", {"walls": 1})
    write_json(folder, "easy", "two", {"walls": 2})
    write_json(folder, "hard", "three", {"walls": 3})
    return folder


# ---- reading


def test_json_levels_are_read_stage_by_stage(folder):
    space = Levels(folder)
    assert space.size == 3
    assert [space[task] for task in range(3)] == [
        Task(0, "easy", {"walls": 1}),
        Task(1, "easy", {"walls": 2}),
        Task(2, "hard", {"walls": 3}),
    ]


def test_npz_levels_give_their_arrays(tmp_path):
    write_npz(tmp_path, "easy", "grid", walls=np.eye(3, dtype=np.int8), start=np.array([0.5, 1.5]))
    content = Levels(tmp_path)[0].params
    assert sorted(content) == ["start", "walls"]
    assert content["walls"].tolist() == np.eye(3).tolist()
    assert content["start"].tolist() == [0.5, 1.5]


def test_a_json_level_need_not_be_an_object(tmp_path):
    write_json(tmp_path, "easy", "list", [1, 2, 3])
    assert Levels(tmp_path)[0] == Task(0, "easy", [1, 2, 3])


def test_stages_come_in_the_order_given_or_else_by_name(folder):
    assert Levels(folder).stages() == {"easy": range(2), "hard": range(2, 3)}
    assert list(Levels(folder, ["hard", "easy"]).stages().items()) == [("hard", range(1)), ("easy", range(1, 3))]
    assert Levels(folder, ["hard"]).size == 1


def test_hidden_folders_and_other_files_are_no_levels(folder):
    (folder / ".git").mkdir()
    (folder / "README.md").write_text("about")
    (folder / "easy" / "notes.txt").write_text("about")
    assert [Levels(folder).level(task).name for task in range(3)] == ["easy/one", "easy/two", "hard/three"]


# ---- metadata


def test_metadata_of_a_json_level_is_known_without_loading_it(tmp_path):
    file = write_json(tmp_path, "easy", "a", {"metadata": {"generator": "maze", "description": "a small maze"}})
    space = Levels(tmp_path)
    file.unlink()
    level = space.level(0)
    assert (level.name, level.stage, level.file) == ("easy/a", "easy", file)
    assert level.metadata == {"generator": "maze", "description": "a small maze"}


def test_metadata_of_an_npz_level_is_json_text(tmp_path):
    text = json.dumps({"generator": "cave", "description": "dark", "id": "cave-1"})
    write_npz(tmp_path, "easy", "a", walls=np.zeros(2), metadata=np.array(text))
    space = Levels(tmp_path)
    assert space.level(0).metadata["description"] == "dark"
    assert space.level(0).name == "cave-1"
    assert space.label(0) == "cave"


def test_label_is_the_generator_or_else_the_stage(tmp_path):
    write_json(tmp_path, "easy", "a", {"metadata": {"generator": "maze"}})
    write_json(tmp_path, "easy", "b", {"metadata": {"description": "made by hand"}})
    write_json(tmp_path, "hard", "c", {"metadata": {"generator": "maze"}})
    space = Levels(tmp_path)
    assert [space.label(task) for task in range(3)] == ["maze", "easy", "maze"]
    names, which = space.labels(np.array([1, 0, 2]))
    assert (names, which.tolist()) == (["easy", "maze"], [0, 1, 1])


def test_a_generator_of_null_is_none(tmp_path):
    write_json(tmp_path, "easy", "a", {"metadata": {"generator": None}})
    assert Levels(tmp_path).label(0) == "easy"


@pytest.mark.parametrize("metadata", [3, "maze", ["maze"], None])
def test_json_metadata_must_be_an_object(tmp_path, metadata):
    file = write_json(tmp_path, "easy", "a", {"metadata": metadata})
    with pytest.raises(TaskError, match=f"{file} must be an object"):
        Levels(tmp_path)


@pytest.mark.parametrize(("text", "complaint"), [("{maze", "is not JSON"), ("[1]", "must be an object")])
def test_npz_metadata_must_be_an_object_in_json(tmp_path, text, complaint):
    file = write_npz(tmp_path, "easy", "a", metadata=np.array(text))
    with pytest.raises(TaskError, match=f"{file} {complaint}"):
        Levels(tmp_path)


# ---- the check at the door


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(TaskError, match=f"no folder {tmp_path}/nowhere"):
        Levels(tmp_path / "nowhere")


def test_a_folder_without_stages_is_refused(tmp_path):
    with pytest.raises(TaskError, match=f"{tmp_path} holds no stage"):
        Levels(tmp_path)


def test_a_missing_stage_is_refused(folder):
    with pytest.raises(TaskError, match=f"'medium' has no folder {folder}/medium"):
        Levels(folder, ["easy", "medium"])


def test_an_empty_stage_is_refused(folder):
    (folder / "medium").mkdir()
    with pytest.raises(TaskError, match=f"'medium' is empty: {folder}/medium"):
        Levels(folder)


def test_a_stage_named_twice_is_refused(folder):
    with pytest.raises(TaskError, match="'easy' is named twice"):
        Levels(folder, ["easy", "hard", "easy"])


def test_a_list_of_no_stages_is_refused(folder):
    with pytest.raises(CursusError):
        Levels(folder, [])


def test_one_string_is_no_list_of_stages(tmp_path):
    write_json(tmp_path, "a", "one", {})
    with pytest.raises(CursusError):
        Levels(tmp_path, "a")


@pytest.mark.parametrize("stage", ["..", ".", "easy/../hard", "/", ""])
def test_a_stage_is_a_folder_directly_inside(folder, stage):
    write_json(folder.parent, ".", "outside", {})
    write_json(folder, ".", "loose", {})
    with pytest.raises(TaskError, match="stage"):
        Levels(folder, [stage])


@pytest.mark.parametrize("text", ["{broken", "", "\ufeff{}", "[" * 100_000])
def test_broken_json_stops_construction_and_names_the_file(folder, text):
    file = folder / "hard" / "zzz.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TaskError, match=f"{file} cannot be read"):
        Levels(folder)


def test_json_that_is_not_text_is_refused(folder):
    file = folder / "hard" / "zzz.json"
    file.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(TaskError, match=f"{file} cannot be read"):
        Levels(folder)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_a_truncated_npz_is_refused(folder, keep):
    file = write_npz(folder, "hard", "cut", walls=np.arange(1000))
    whole = file.read_bytes()
    file.write_bytes(whole[: int(keep * len(whole))])
    with pytest.raises(TaskError, match=f"{file} cannot be read"):
        Levels(folder)


def test_an_npz_with_damaged_bytes_is_refused(folder):
    file = write_npz(folder, "hard", "damaged", walls=np.arange(10_000) % 7)
    content = bytearray(file.read_bytes())
    for place in range(60, len(content) // 2):
        content[place] ^= 0x55
    file.write_bytes(content)
    with pytest.raises(TaskError, match=f"{file} cannot be read"):
        Levels(folder)


def test_an_npz_that_would_need_pickle_is_refused(folder):
    file = write_npz(folder, "hard", "objects", walls=np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(TaskError, match=f"{file} cannot be read"):
        Levels(folder)


def test_an_npz_that_claims_to_be_enormous_is_refused(folder):
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    np.lib.format.write_array_header_1_0(header, shape)
    file = write_raw_array(folder, "hard", "bomb", header.getvalue())
    with pytest.raises(TaskError, match=f"{file} cannot be read"):
        Levels(folder)


@pytest.mark.parametrize("header", [b"{(((((((((((((((", b"{'descr': 'no', ", b"\xff" * 16])
def test_an_npz_with_a_broken_header_is_refused(folder, header):
    file = write_raw_array(folder, "hard", "header", b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header)
    with pytest.raises(TaskError, match=f"{file} cannot be read"):
        Levels(folder)


def test_two_files_of_one_name_are_refused(folder):
    second = write_npz(folder, "easy", "one", walls=np.zeros(1))
    with pytest.raises(TaskError, match=f"'easy/one': {folder}/easy/one.json and {second}"):
        Levels(folder)


def test_two_levels_with_one_id_are_refused(tmp_path):
    first = write_json(tmp_path, "easy", "a", {"metadata": {"id": "same"}})
    second = write_json(tmp_path, "hard", "b", {"metadata": {"id": "same"}})
    with pytest.raises(TaskError, match=f"'same': {first} and {second}"):
        Levels(tmp_path)


@pytest.mark.parametrize("cache", [0, -1, 1.5, True])
def test_cache_must_be_a_count(folder, cache):
    with pytest.raises(SettingsError, match="cache"):
        Levels(folder, cache=cache)


def test_foreign_ids_are_refused(folder):
    space = Levels(folder)
    for task in (-1, 3):
        with pytest.raises(TaskError, match="Ids run from 0 to 2"):
            space[task]


# ---- lazy loading


def test_contents_are_loaded_when_needed_and_then_kept(folder):
    space = Levels(folder)
    write_json(folder, "easy", "one", {"walls": "changed after construction"})
    assert space.params(0) == {"walls": "changed after construction"}
    write_json(folder, "easy", "one", {"walls": "changed after the load"})
    assert space.params(0) == {"walls": "changed after construction"}


def test_only_the_last_used_contents_are_kept(folder):
    space = Levels(folder, cache=2)
    for task in (0, 1, 0, 2):  # 1 is the one used longest ago when 2 needs its place
        space.params(task)
    write_json(folder, "easy", "one", {"walls": "new"})
    write_json(folder, "easy", "two", {"walls": "new"})
    assert space.params(0) == {"walls": 1}
    assert space.params(1) == {"walls": "new"}


def test_a_level_that_vanished_is_named_when_it_is_needed(folder):
    space = Levels(folder)
    file = folder / "easy" / "two.json"
    file.unlink()
    assert space.params(0) == {"walls": 1}
    with pytest.raises(TaskError, match=f"{file} cannot be read"):
        space.params(1)


def test_pickling_drops_the_cache(folder):
    space = Levels(folder, cache=7)
    write_json(folder, "hard", "three", {"walls": "x" * 10_000})
    before = len(pickle.dumps(space))
    space.params(2)
    pickled = pickle.dumps(space)
    assert len(pickled) == before
    write_json(folder, "hard", "three", {"walls": "new"})
    again = pickle.loads(pickled)  # noqa: S301
    assert again.params(2) == {"walls": "new"}
    assert space.params(2) == {"walls": "x" * 10_000}
    assert (again.settings(), again.fingerprint) == (space.settings(), space.fingerprint)


# ---- what a resumed run compares


def test_fingerprint_is_that_of_names_and_contents(folder, tmp_path_factory):
    copy = tmp_path_factory.mktemp("elsewhere") / "levels"
    shutil.copytree(folder, copy)
    assert Levels(copy).fingerprint == Levels(folder).fingerprint != ""


def _change_a_level(folder):
    write_json(folder, "hard", "three", {"walls": 4})


def _change_only_metadata(folder):
    write_json(folder, "hard", "three", {"walls": 3, "metadata": {"generator": "maze"}})


def _rename_a_level(folder):
    (folder / "hard" / "three.json").rename(folder / "hard" / "four.json")


def _rename_a_stage(folder):
    (folder / "hard").rename(folder / "tough")


def _add_a_level(folder):
    write_json(folder, "hard", "zzz", {})


def _remove_a_level(folder):
    (folder / "easy" / "one.json").unlink()


def _swap_two_levels(folder):
    write_json(folder, "easy", "one", {"walls": 2})
    write_json(folder, "easy", "two", {"walls": 1})


@pytest.mark.parametrize(
    "change",
    [
        _change_a_level,
        _change_only_metadata,
        _rename_a_level,
        _rename_a_stage,
        _add_a_level,
        _remove_a_level,
        _swap_two_levels,
    ],
)
def test_fingerprint_changes_with_the_folder(folder, change):
    before = Levels(folder).fingerprint
    change(folder)
    assert Levels(folder).fingerprint != before


def test_fingerprint_depends_on_the_order_of_stages(folder):
    assert Levels(folder, ["hard", "easy"]).fingerprint != Levels(folder).fingerprint


def test_settings_make_the_space_again(folder):
    space = Levels(folder, ["hard", "easy"], cache=5)
    again = Levels(**space.settings())
    assert [again.level(task).name for task in range(3)] == ["hard/three", "easy/one", "easy/two"]
    expected = {"folder": str(folder), "stages": ["hard", "easy"], "load": None, "held_out": None, "cache": 5}
    assert again.settings() == expected


# ---- order


def staged_names(space):
    return cursus.Staged(tasks=space).names


SKILLS = ["simplest", "simpler", "simple", "medium", "complex"]


@pytest.fixture
def skills(tmp_path):
    """Stages whose names do not say their order."""
    for stage in SKILLS:
        write_json(tmp_path, stage, "one", {"stage": stage})
    return tmp_path


def test_stages_whose_names_do_not_say_their_order_are_refused_with_three_ways_to_say_it(skills):
    with pytest.raises(
        TaskError,
        match=r"do not say which is the easiest.*stages=\[.*--stages complex,medium,.*order\.txt.*numbers in the names",
    ) as caught:
        staged_names(Levels(skills))
    assert "'complex', 'medium', 'simple', 'simpler', 'simplest'" in str(caught.value)


def test_no_order_is_needed_where_none_is_used(skills):
    assert cursus.LearningProgress(Levels(skills)).tasks.size == 5
    assert cursus.Staged(SKILLS, tasks=Levels(skills)).names == SKILLS


def test_an_order_can_be_given(skills):
    assert staged_names(Levels(skills, stages=SKILLS)) == SKILLS


def test_an_order_can_lie_in_the_folder(skills):
    (skills / "order.txt").write_text("# easiest first\n" + "\n".join(SKILLS) + "\n\n")
    assert staged_names(Levels(skills)) == SKILLS
    assert Levels(skills).fingerprint == Levels(skills, stages=SKILLS).fingerprint


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (SKILLS[:4], "leaves out 'complex'"),
        ([*SKILLS, "expert"], "'expert' has no folder"),
        ([*SKILLS, "simple"], "named twice"),
    ],
)
def test_an_order_that_does_not_fit_the_folder_is_refused(skills, lines, complaint):
    (skills / "order.txt").write_text("\n".join(lines))
    with pytest.raises(TaskError, match=complaint):
        Levels(skills)


@pytest.mark.parametrize(
    "names",
    [
        ["1_easy", "2_hard", "10_brutal"],
        ["level_1", "level_2", "level_10"],
        ["world1-1", "world1-2", "world1-10", "world2-1"],
        ["stage 01 a", "stage 02 z", "stage 03 b"],
        ["only"],
    ],
)
def test_numbers_in_names_say_the_order(tmp_path, names):
    for name in reversed(names):
        write_json(tmp_path, name, "one", {"name": name})
    assert staged_names(Levels(tmp_path)) == names


@pytest.mark.parametrize("names", [["easy1", "hard1"], ["easy_1", "easy_2", "hard_1"], ["1", "01"], ["level", "level_2"]])
def test_numbers_that_do_not_tell_all_stages_apart_say_no_order(tmp_path, names):
    for name in names:
        write_json(tmp_path, name, "one", {"name": name})
    with pytest.raises(TaskError, match="do not say"):
        staged_names(Levels(tmp_path))


def test_levels_are_sorted_as_people_do(tmp_path):
    for number in (10, 2, 1):
        write_json(tmp_path, "easy", f"level_{number}", number)
    assert [task.params for task in Levels(tmp_path)] == [1, 2, 10]


def test_a_folder_without_sub_folders_is_one_stage(tmp_path):
    write_json(tmp_path, "maze", "a", {"walls": 1})
    space = Levels(tmp_path / "maze")
    assert space.stages() == {"maze": range(1)}
    assert Levels(**space.settings()).level(0).name == space.level(0).name == "maze/a"


# ---- other files


def test_toml_levels_give_their_tables(tmp_path):
    (tmp_path / "easy").mkdir()
    (tmp_path / "easy" / "a.toml").write_text('walls = [1, 2]\n[metadata]\ngenerator = "maze"\n')
    assert Levels(tmp_path)[0] == Task(0, "maze", {"walls": [1, 2], "metadata": {"generator": "maze"}})


def test_a_broken_toml_level_is_named(tmp_path):
    (tmp_path / "easy").mkdir()
    (tmp_path / "easy" / "a.toml").write_text("walls = [")
    with pytest.raises(TaskError, match="a.toml cannot be read"):
        Levels(tmp_path)


def read_rows(path):
    return path.read_text().splitlines()


def test_any_file_can_be_a_level_with_a_function_that_loads_it(tmp_path):
    (tmp_path / "easy").mkdir()
    (tmp_path / "easy" / "a.txt").write_text("..#\n#..")
    (tmp_path / "easy" / ".hidden").write_text("")
    space = Levels(tmp_path, load=read_rows)
    assert space[0] == Task(0, "easy", ["..#", "#.."])
    assert pickle.loads(pickle.dumps(space))[0] == space[0]  # noqa: S301
    (tmp_path / "easy" / "a.txt").write_bytes(b"\xff")
    with pytest.raises(TaskError, match="a.txt cannot be read"):
        Levels(tmp_path, load=read_rows)


def test_what_loads_levels_is_a_function(folder):
    with pytest.raises(TaskError, match="load='json' is not a function"):
        Levels(folder, load="json")


# ---- levels that are held out


@pytest.mark.parametrize("elsewhere", [False, True])
def test_held_out_levels_are_never_practised(folder, elsewhere):
    place = folder.parent / "others" if elsewhere else folder / "held_out"
    write_json(place, "easy", "new", {"walls": 7})
    space = Levels(folder, held_out=place if elsewhere else "held_out")
    assert sorted(space.stages()) == ["easy", "hard"]
    assert space.held_out.variants() == {"easy": [{"walls": 7}]}
    assert Levels(**space.settings()).held_out.variants() == space.held_out.variants()
    assert Levels(folder, ["easy", "hard"]).held_out is None


def test_held_out_levels_may_lie_flat_in_their_folder(folder):
    write_json(folder, "test", "new", {"walls": 7})
    assert Levels(folder, held_out="test").held_out.variants() == {"test": [{"walls": 7}]}


def test_a_level_that_is_practised_cannot_be_held_out(folder):
    same = write_json(folder, "test", "copy", {"walls": 2})
    with pytest.raises(TaskError, match=f"{same} is held out, but {folder}/easy/two.json is the same"):
        Levels(folder, held_out="test")
    with pytest.raises(TaskError, match="'test' is held out"):
        Levels(folder, ["easy", "test"], held_out="test")


def test_held_out_levels_are_part_of_the_fingerprint(folder):
    write_json(folder, "test", "new", {"walls": 7})
    before = Levels(folder, held_out="test").fingerprint
    write_json(folder, "test", "new", {"walls": 8})
    assert Levels(folder, held_out="test").fingerprint != before
