"""How a pipeline's session is started."""

import os
from typing import TYPE_CHECKING

from ottla.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipelines.project import Project


def start_session(project: "Project", master: str | None = None) -> "SparkSession":
    """A session with the project's settings; workers find modules of the project's directory."""
    path = [str(project.directory), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    warehouse = {"spark.sql.warehouse.dir": str(project.storage / "warehouse")}
    return session(project.name, master=master, config={**warehouse, **project.configuration})
