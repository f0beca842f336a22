"""The server-side assignors of consumer groups, by the names that clients ask for."""

from ottla.core.groups.assignors.index import ASSIGNORS

__all__ = ["ASSIGNORS"]
