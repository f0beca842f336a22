"""What is known of Spark's inside, as far as it can be tried without Spark."""

from pathlib import Path

import pytest

from ottla.spark import internals
from ottla.spark.not_ready import NotReady


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    place = tmp_path / "a checkpoint"
    (place / "offsets").mkdir(parents=True)
    (place / "offsets" / "3").write_text('v1\n{"batchWatermarkMs":0}\n{"t": {"0": 5}}\n-')
    (place / "offsets" / "4").write_text("v9\n{}\n")
    return place


@pytest.mark.parametrize("form", ["{path}", "file:{quoted}", "file://{quoted}"])
def test_offsets_are_read_wherever_a_checkpoint_says_it_is(checkpoint: Path, form: str) -> None:
    place = form.format(path=checkpoint, quoted=str(checkpoint).replace(" ", "%20"))
    assert internals.is_readable(place)
    assert internals.sources_of_batch(place, 3) == ['{"t": {"0": 5}}', "-"]


def test_another_format_is_refused_and_not_guessed(checkpoint: Path) -> None:
    with pytest.raises(NotReady, match="v9"):
        internals.sources_of_batch(str(checkpoint), 4)


def test_a_file_system_that_nobody_knows_is_said_to_be_unreadable() -> None:
    assert not internals.is_readable("dbfs:/somewhere")


def test_the_checkpoint_is_found_among_options_of_any_case() -> None:
    assert internals.checkpoint_of({"CheckpointLocation": "/c"}) == "/c"
    assert internals.checkpoint_of({"topic": "t"}) is None
