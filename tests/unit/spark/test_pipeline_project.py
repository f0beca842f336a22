"""The specification of a pipeline, and the project that `init` writes."""

from pathlib import Path

import pytest

from ottla.spark.not_ready import NotReady
from ottla.spark.pipelines.definitions import Faulty, Place
from ottla.spark.pipelines.project import FlowSettings, Mode, Output, Project, parse_project, read_project
from ottla.spark.pipelines.starting import start_project


def parsed(text: str) -> Project:
    return parse_project(text, Path("/project/pipeline.yml"))


def complaints(text: str) -> list[str]:
    with pytest.raises(Faulty) as caught:
        parsed(text)
    return [str(fault) for fault in caught.value.faults]


def test_a_name_is_enough() -> None:
    project = parsed("name: shop")
    assert (project.name, project.mode, project.storage) == ("shop", Mode.MICRO, Path("/project/.pipeline"))


def test_everything_that_is_said_is_taken_over() -> None:
    project = parsed(
        "name: shop\nbootstrap: a:1,b:2\nlibraries:\n- glob: {include: flows/**}\n- file: more.sql\n"
        "storage: file:///var/shop\nmode: batch\nrestarts: 3\nconfiguration: {spark.x: 5}\nkafka: {sasl.username: me}\n"
        "flows:\n  big: {mode: tail, output: update, trigger: 5 seconds, restarts: 0}\n"
        "catalog: c\ndatabase: d\n"
    )
    assert (project.bootstrap, project.globs, project.storage) == (
        "a:1,b:2",
        ("flows/**", "more.sql"),
        Path("/var/shop"),
    )
    assert (project.mode, project.restarts, project.configuration) == (Mode.BATCH, 3, {"spark.x": "5"})
    assert project.kafka == {"sasl.username": "me"}
    settings = FlowSettings(mode=Mode.TAIL, output=Output.UPDATE, trigger="5 seconds", restarts=0)
    assert project.flows == {"big": settings}
    assert project.flow_places == {"big": Place("pipeline.yml", 12, 3)}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "pipeline.yml: `name: value` lines are expected here"),
        ("bootstrap: x", "pipeline.yml:1:1: `name:` is missing"),
        ("name: ''", "pipeline.yml:1:1: the pipeline needs a name"),
        ("name: [a", "pipeline.yml:1:9: is no YAML:"),
        ("name: a\nmood: batch", "pipeline.yml:2:1: there is no 'mood' here; did you mean mode?"),
        ("name: a\nmode: quick", "pipeline.yml:2:7: batch, micro, tail are possible here, not 'quick'"),
        ("name: a\nname: b", "pipeline.yml:2:1: name is given twice"),
        ("name: a\nflows:\n  f:\n    mod: tail", "pipeline.yml:4:5: there is no 'mod' here; did you mean mode?"),
        ("name: a\nflows: 5", "pipeline.yml:2:8: `name: value` lines are expected here"),
        ("name: a\nrestarts: -1", "pipeline.yml:2:11: a number from 0 to 1000 is expected here, not '-1'"),
        ("name: a\nlibraries: x", "pipeline.yml:2:12: a list is expected here"),
        ("name: a\nstorage: s3://b/c", "pipeline.yml:2:10: storage is a directory of this machine"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, complaint: str) -> None:
    assert any(found.startswith(complaint) for found in complaints(text)), complaints(text)


def test_all_mistakes_are_named_at_once() -> None:
    assert len(complaints("mode: x\nmood: y\n")) == 3


def test_the_files_are_those_below_the_folder_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("t/b.sql", "t/a/x.py", "t/notes.txt", "t/__pycache__/x.py", "other/c.sql", "t/a.sql"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "pipeline.yml").write_text("name: a\nlibraries: [{glob: {include: t/**}}, {glob: {include: t/*.sql}}]")
    project = read_project(tmp_path)
    assert [project.shown(path) for path in project.files()] == ["t/a/x.py", "t/a.sql", "t/b.sql"]


def test_a_directory_without_a_specification_is_advice(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="ottla pipeline init"):
        read_project(tmp_path)


def test_a_new_project_can_be_read_whatever_its_name(tmp_path: Path) -> None:
    start_project(tmp_path / "it's: a shop")
    project = read_project(tmp_path / "it's: a shop")
    assert project.name == "it's: a shop" and len(list(project.files())) == 2


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("mine")
    with pytest.raises(NotReady, match="is there already"):
        start_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.yml"]
