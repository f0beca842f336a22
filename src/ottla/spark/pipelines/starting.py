"""A new project: small, complete, and running as it is."""

from pathlib import Path

from ottla.spark.not_ready import NotReady

_SPECIFICATION = """\
# A pipeline of Ottla. Spark's own `spark-pipelines` reads the first four entries, too.
name: {name}
libraries:
  - glob: {{include: transformations/**}}
storage: .pipeline          # checkpoints and the state of the run; keep it
configuration:              # Spark's settings
  spark.sql.shuffle.partitions: "2"

bootstrap: 127.0.0.1:9092   # --bootstrap and OTTLA_BOOTSTRAP win over it
mode: micro                 # batch: what is there now; micro: small batches, for ever; tail: within milliseconds
# kafka: {{security.protocol: SASL_SSL}}        client settings for all topics
# flows:                                      settings of single flows
#   revenue: {{trigger: 5 seconds, restarts: 3}}
"""

_SQL = """\
-- Orders as they come. What is no JSON of these columns goes to the topic orders.dlq, with the reason.
CREATE STREAM orders (id BIGINT NOT NULL, customer STRING, amount DOUBLE)
FROM TOPIC orders WITH (format = 'json', timestamp = at, watermark = '10 seconds');

-- A query under a name, for other queries.
CREATE VIEW paid AS
SELECT id, customer, amount, at FROM STREAM(orders) WHERE amount > 0;

-- What a customer spends in a minute; each window once, when nothing can come late any more.
CREATE FLOW revenue AS
INSERT INTO TOPIC revenue WITH (key = customer)
SELECT customer, window.start AS minute, sum(amount) AS amount, count(*) AS orders
FROM paid GROUP BY customer, window(at, '1 minute');
"""

_PYTHON = '''\
"""Python and SQL see each other's views. `spark` is the session that runs the pipeline."""

from pyspark.sql import functions as F

from ottla.spark import pipelines as dp


@dp.append_flow(target="topic:big-orders", key="customer")
def big_orders():
    is_big = F.col("amount") >= 100
    return spark.readStream.table("paid").where(is_big).select("id", "customer", "amount")  # noqa: F821
'''

_IGNORED = ".pipeline/\n__pycache__/\n"

_NEXT = """\
{name} is a pipeline of two flows over the topic orders. What now:

  cd {directory}
  ottla pipeline check                            # looks at the plans; needs no broker
  ottla start &                                   # a broker, unless there is one
  ottla topic create orders big-orders revenue orders.dlq
  printf '%s\\n' '{{"id": 1, "customer": "anna", "amount": 120}}' 'no order' | ottla produce orders
  ottla pipeline run --once                       # all that is there; without --once it goes on
  ottla consume big-orders                        # anna's order
  ottla dlq show orders.dlq                       # the line that is no order, and why
"""


def start_project(directory: Path) -> str:
    """Write the files, and return what to do next. Touches nothing that is there already."""
    name = directory.resolve().name
    files = {
        "pipeline.yml": _SPECIFICATION.format(name=_quoted(name)),
        "transformations/orders.sql": _SQL,
        "transformations/big_orders.py": _PYTHON,
        ".gitignore": _IGNORED,
    }
    there = [file for file in files if (directory / file).exists()]
    if there:
        raise NotReady(f"{directory / there[0]} is there already; nothing was written")
    try:
        for file, text in files.items():
            path = directory / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as failure:
        raise NotReady(f"cannot write {failure.filename}: {failure.strerror}") from None
    return _NEXT.format(name=name, directory=directory)


def _quoted(name: str) -> str:
    """As YAML takes any text."""
    return name if name.isidentifier() else "'" + name.replace("'", "''") + "'"
