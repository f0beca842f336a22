"""Which assignor answers to which name."""

from collections.abc import Mapping

from ottla.core.groups.assignors.model import Assignor
from ottla.core.groups.assignors.range import assign_ranges
from ottla.core.groups.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
