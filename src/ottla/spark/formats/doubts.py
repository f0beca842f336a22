"""How a fast way and a slow one share the rows of a column.

The fast one, a kernel over all rows, says which rows it doubts: what is malformed, but also what is sound and rare.
These rows alone go to the slow one, a library that takes one record at a time and has the last word, also on what to
say. So a row's fate depends neither on the rows around it nor on which way it took.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.formats.format import Converted, all_well


def settled(found: pa.Array, doubtful: NDArray[np.int64], judge: Callable[[pa.Array], Converted]) -> Converted:
    """`found` is null in the doubtful rows; `judge` is told their numbers."""
    if not len(doubtful):
        return all_well(found)
    judged = judge(pa.array(doubtful))
    order = np.arange(len(found))
    order[doubtful] = len(found) + np.arange(len(doubtful))
    places = pa.array(order)
    errors = pa.concat_arrays([pa.nulls(len(found), pa.string()), judged.errors]).take(places)
    if judged.error_count == len(doubtful):
        return Converted(found, errors)
    return Converted(pa.concat_arrays([found, judged.results]).take(places), errors)
