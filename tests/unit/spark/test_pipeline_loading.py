"""What the files of a project define, in both languages, and what is said of files that are wrong."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.spark import pipelines as dp
from ottla.spark.pipelines.definitions import Definitions, Faulty, Place, SqlText
from ottla.spark.pipelines.loading import read_files
from ottla.spark.pipelines.project import read_project

Load = Callable[..., Definitions]
FLOW = "CREATE STREAM s FROM TOPIC t; INSERT INTO TOPIC u SELECT * FROM s;"


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Load]:
    def load_files(specification: str = "name: test", **files: str) -> Definitions:
        (tmp_path / "transformations").mkdir()
        (tmp_path / "pipeline.yml").write_text(specification)
        for name, text in files.items():
            (tmp_path / "transformations" / name.replace("_", ".")).write_text(text)
        return read_files(read_project(tmp_path)).load()

    yield load_files


def complaints(loaded: Load, specification: str = "name: test", **files: str) -> list[str]:
    with pytest.raises(Faulty) as caught:
        loaded(specification, **files)
    return [str(fault) for fault in caught.value.faults]


def test_python_and_sql_define_the_same_things(loaded: Load) -> None:
    found = loaded(
        a_sql="CREATE STREAM orders (id int) FROM TOPIC t WITH (format='json', key.format='raw');",
        b_py=(
            "from ottla.spark import pipelines as dp\n"
            "dp.create_stream('orders2', topic='t', columns='id int', format='json', key_format='raw')\n"
            "dp.create_topic_table('users', topic='u')\n"
            "dp.create_sink('lake', 'Delta', {'Path': '/x', 'partition_by': 5})\n"
            "@dp.temporary_view\n"
            "def v(): return spark.table('orders')\n"
            "@dp.append_flow(target='topic:out', key='id', mode='tail')\n"
            "def f(): return spark.table('v')\n"
            "@dp.append_flow(target='lake', name='g')\n"
            "def whatever(): return spark.table('v')\n"
            "@dp.table(format='iceberg', table='a.b', partition_cols=['x', 'y'])\n"
            "def t(): return spark.table('v')\n"
        ),
    )
    one, two = found.sources["orders"], found.sources["orders2"]
    assert one.options == two.options == {"format": "json", "key.format": "raw"}
    assert isinstance(two.columns, SqlText) and two.columns.text == "id int"
    assert two.place == Place("transformations/b.py", 2) and found.sources["users"].is_table
    assert found.targets["lake"].format == "delta"
    assert found.targets["lake"].options == {"path": "/x", "partition_by": "5"}
    assert found.targets["topic:out"].options == {"topic": "out"}
    assert found.targets["t"].options == {"table": "a.b", "partition.by": "x,y"}
    assert {name: flow.target for name, flow in found.flows.items()} == {"f": "topic:out", "g": "lake", "t": "t"}
    assert found.flows["f"].options == {"key": "id", "mode": "tail"} and found.flows["f"].place.line == 7
    assert list(found.views) == ["v"]


def test_files_for_sparks_own_pipelines_are_taken_as_they_are(loaded: Load) -> None:
    found = loaded(
        a_py=(
            "from pyspark import pipelines as dp\n"
            "@dp.temporary_view\n"
            "def raw(): return spark.readStream.format('ottla').load()\n"
            "dp.create_sink('out', 'ottla', {'topic': 'o'})\n"
            "@dp.append_flow(target='out')\n"
            "def f(): return spark.readStream.table('raw')\n"
            "@dp.table(format='delta', table_properties={'path': '/x'}, partition_cols=['p'])\n"
            "def t(): return spark.readStream.table('raw')\n"
        )
    )
    assert list(found.views) == ["raw"] and list(found.flows) == ["f", "t"]
    assert found.targets["out"].options == {"topic": "o"}
    assert found.targets["t"].options == {"path": "/x", "partition.by": "p"}
    assert found.flows["f"].place == Place("transformations/a.py", 5)


def test_a_stream_can_be_refined_by_its_function(loaded: Load) -> None:
    text = "from ottla.spark import pipelines as dp\n@dp.stream(topic='t')\ndef orders(rows): return rows\n"
    found = loaded(a_py=text, b_sql="INSERT INTO TOPIC u SELECT * FROM orders")
    assert found.sources["orders__rows"].topic == "t" and list(found.views) == ["orders"]


def test_files_may_import_modules_of_the_project(loaded: Load, tmp_path: Path) -> None:
    (tmp_path / "the_shared_part.py").write_text("TOPIC = 'from a module'")
    text = (
        "import the_shared_part\nfrom ottla.spark import pipelines as dp\n"
        "dp.create_stream('s', topic=the_shared_part.TOPIC)"
    )
    found = loaded(a_py=text, b_sql="INSERT INTO TOPIC u SELECT * FROM s")
    assert found.sources["s"].topic == "from a module"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = (\n", "transformations/z.py:1:5: is no Python: '(' was never closed"),
        ("def f():\n    return 1 / 0\nf()\n", "transformations/z.py:2: ZeroDivisionError: division by zero"),
        ("import no_such_module_at_all", "transformations/z.py:1: ModuleNotFoundError: No module named"),
        ("spark.range(5)", "transformations/z.py:1: "),
        (
            "from pyspark import pipelines as dp\n@dp.materialized_view\ndef m(): return 5",
            "transformations/z.py:2: m: a materialized view is made anew by every run",
        ),
        (
            "from ottla.spark import pipelines as dp\ndp.create_stream('s', topic='t')",
            "transformations/z.py:2: s is defined twice; first at transformations/a.sql:1:1",
        ),
    ],
)
def test_a_python_file_that_is_wrong_is_named_with_its_line(loaded: Load, text: str, complaint: str) -> None:
    [found] = complaints(loaded, a_sql=FLOW, z_py=text)
    assert found.startswith(complaint)


def test_the_faults_of_all_files_are_named_at_once(loaded: Load) -> None:
    found = complaints(loaded, a_sql="CREATE x;", b_sql="DROP y;", c_py="1 +")
    assert [what.split(":")[0].removeprefix("transformations/") for what in found] == ["a.sql", "b.sql", "c.py"]


def test_a_target_or_flow_that_nobody_defines_is_named(loaded: Load) -> None:
    found = complaints(
        loaded,
        "name: test\nflows:\n  bik: {mode: batch}\n",
        a_sql="CREATE STREAM s FROM TOPIC t; CREATE SINK lake USING delta; "
        "CREATE FLOW big AS INSERT INTO lak SELECT * FROM s",
    )
    assert found == [
        "transformations/a.sql:1:61: there is no sink or table lak; did you mean lake?",
        "pipeline.yml:3:3: there is no flow bik; did you mean big?",
    ]


def test_a_project_without_a_flow_is_a_fault(loaded: Load) -> None:
    assert "defines a flow" in complaints(loaded, a_sql="CREATE STREAM s FROM TOPIC t")[0]


def test_outside_of_a_project_the_words_are_refused() -> None:
    with pytest.raises(RuntimeError, match="ottla pipeline run"):
        dp.create_stream("s", topic="t")
