"""`ottla version`"""

import platform
import sys

import typer

import ottla
from ottla.cli.options import Json
from ottla.cli.output import print_json


def register(app: typer.Typer) -> None:
    app.command(name="version")(version)


def version(as_json: Json = False) -> None:
    """Print Ottla's version and those of what it runs on."""
    import confluent_kafka

    versions = {
        "ottla": ottla.__version__,
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "confluent-kafka": confluent_kafka.version(),
        "platform": f"{sys.platform} {platform.machine()}",
    }
    if as_json:
        print_json(versions)
    else:
        print(f"ottla {ottla.__version__}")
        for name, value in list(versions.items())[1:]:
            print(f"  {name} {value}")
