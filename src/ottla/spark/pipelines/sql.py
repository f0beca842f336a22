"""Pipeline SQL: the statements that are ours. Every query in them is Spark's and is passed on as it stands.

    CREATE [OR REPLACE] STREAM name [(columns)] FROM TOPIC topic [WITH (option = value, …)]
    CREATE [OR REPLACE] TABLE name [(columns)] FROM TOPIC topic [WITH (…)]         the last value of each key
    CREATE [OR REPLACE] [TEMPORARY] VIEW name AS query
    CREATE [STREAMING] TABLE name [USING format] [WITH (…)] [AS query]             a table in a lake, and what feeds it
    CREATE SINK name [USING format] [WITH (…)]                                     any other place where rows go
    [CREATE FLOW name AS] INSERT INTO [TOPIC] name [BY NAME] [WITH (…)] query

Pure: text in, definitions out, or `Faulty` with file, line and column.
"""

from collections.abc import Callable, Iterator, Sequence

from ottla.spark.pipelines.definitions import Definitions, Fault, Faulty, Flow, Place, Source, SqlText, Target, View
from ottla.spark.pipelines.sql_tokens import Kind, Token, tokens

TOPIC_FORMAT = "ottla"
_QUERY_WORDS = ("SELECT", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")


def define(text: str, file: str, definitions: Definitions) -> None:
    """Read all statements of a file into the definitions; complains about every faulty statement at once."""
    faults: list[Fault] = []
    for statement in _statements(list(tokens(text, file))):
        try:
            _Statement(text, statement, definitions).read()
        except Faulty as faulty:
            faults += faulty.faults
    if faults:
        raise Faulty(*faults)


def _statements(found: Sequence[Token]) -> Iterator[list[Token]]:
    """Split at the semicolons; each statement keeps the token behind it as its end."""
    statement: list[Token] = []
    for token in found:
        if token.kind is Kind.END or token.is_sign(";"):
            if statement:
                yield [*statement, Token(Kind.END, token.text, token.start, token.start, token.place)]
            statement = []
        else:
            statement.append(token)


class _Statement:
    def __init__(self, text: str, found: Sequence[Token], definitions: Definitions) -> None:
        self._text = text
        self._tokens = found
        self._at = 0
        self._definitions = definitions

    def read(self) -> None:
        start = self._now.place
        if self._took("INSERT"):
            self._insert(start, name=None)
        elif self._took("CREATE"):
            self._create(start)
        else:
            raise self._wrong("CREATE or INSERT INTO")

    def _create(self, start: Place) -> None:
        is_again = self._took("OR")
        if is_again:
            self._expect("REPLACE")
        readers: dict[str, Callable[[Place], None]] = {
            "STREAM": self._stream,
            "STREAMING": self._streaming_table,
            "TABLE": self._table,
            "TEMPORARY": self._view,
            "TEMP": self._view,
            "VIEW": self._view,
            "SINK": self._sink,
            "FLOW": self._flow,
        }
        word = self._now
        reader = readers.get(word.text.upper()) if word.kind is Kind.WORD else None
        if reader is None:
            raise self._wrong("STREAM, TABLE, VIEW, SINK or FLOW")
        self._at += 1
        reader(start)

    def _stream(self, start: Place) -> None:
        name = self._name("the stream's name")
        columns = self._columns()
        if self._now.is_word("AS"):
            raise self._fault(f"a query under a name is a view: CREATE VIEW {name} AS …; its rows go to a topic by "
                              "INSERT INTO TOPIC … SELECT …")  # fmt: skip
        self._expect("FROM")
        self._source(name, start, columns, is_table=False)

    def _streaming_table(self, start: Place) -> None:
        self._expect("TABLE")
        self._table(start)

    def _table(self, start: Place) -> None:
        name = self._name("the table's name")
        columns = self._columns()
        if self._took("FROM"):
            self._source(name, start, columns, is_table=True)
            return
        if columns is not None:
            raise Faulty(Fault(columns.place, "a lake table has the columns of its query; name them there"))
        format_ = self._name("a format") if self._took("USING") else ""
        options = self._options()
        format_ = options.pop("format", format_)
        self._definitions.add(Target(name, start, format_, options))
        if self._took("AS"):
            self._add_flow(start, None, name, {})
        self._expect_end()

    def _source(self, name: str, start: Place, columns: SqlText | None, is_table: bool) -> None:
        self._expect("TOPIC")
        topic = self._topic()
        options = self._options()
        self._expect_end()
        self._definitions.add(Source(name, start, topic, options, columns, is_table))

    def _view(self, start: Place) -> None:
        if self._tokens[self._at - 1].is_word("TEMPORARY", "TEMP"):
            self._expect("VIEW")
        name = self._name("the view's name")
        self._expect("AS")
        self._definitions.add(View(name, start, self._query()))

    def _sink(self, start: Place) -> None:
        name = self._name("the sink's name")
        format_ = self._name("a format") if self._took("USING") else ""
        options = self._options()
        format_ = options.pop("format", format_)
        self._expect_end()
        if not format_:
            raise Faulty(Fault(start, f"{name} needs a format: CREATE SINK {name} USING delta WITH (path = '…')"))
        self._definitions.add(Target(name, start, format_, options))

    def _flow(self, start: Place) -> None:
        name = self._name("the flow's name")
        self._expect("AS")
        self._expect("INSERT")
        self._insert(start, name)

    def _insert(self, start: Place, name: str | None) -> None:
        self._expect("INTO")
        is_topic = self._now.is_word("TOPIC") and self._ahead.kind is not Kind.END and not self._ahead.is_sign("(")
        if is_topic:
            self._at += 1
        target = self._topic()
        if self._took("BY"):
            self._expect("NAME")
        options = self._options()
        if is_topic:
            self._add_topic(start, target)
            target = topic_target(target)
        self._add_flow(start, name, target, options)

    def _add_topic(self, start: Place, topic: str) -> None:
        name = topic_target(topic)
        if name not in self._definitions.targets:
            self._definitions.add(Target(name, start, TOPIC_FORMAT, {"topic": topic}))

    def _add_flow(self, start: Place, name: str | None, target: str, options: dict[str, str]) -> None:
        query = self._query()
        free = name or self._definitions.free_flow_name(target.removeprefix("topic:"))
        self._definitions.add(Flow(free, start, target, query, options))

    def _columns(self) -> SqlText | None:
        """What stands between brackets, for Spark to read."""
        if not self._now.is_sign("("):
            return None
        opening, depth = self._now, 0
        while self._now.kind is not Kind.END:
            depth += self._now.is_sign("(") - self._now.is_sign(")")
            self._at += 1
            if depth == 0:
                inner = self._tokens[self._at - 1]
                first = self._tokens[self._tokens.index(opening) + 1]
                return SqlText(self._text[first.start : inner.start], first.place)
        raise Faulty(Fault(opening.place, "this bracket is never closed"))

    def _options(self) -> dict[str, str]:
        """WITH (name = value, …). A query may begin with WITH, too, but never with a bracket behind it."""
        options: dict[str, str] = {}
        if not (self._now.is_word("WITH") and self._ahead.is_sign("(")):
            return options
        self._at += 2
        while not self._now.is_sign(")"):
            place = self._now.place
            name = self._dotted("an option's name").lower()
            if name in options:
                raise Faulty(Fault(place, f"{name} is given twice"))
            if self._now.is_sign("="):
                self._at += 1
            options[name] = self._value()
            if not self._now.is_sign(")"):
                self._expect_sign(",")
        self._at += 1
        return options

    def _value(self) -> str:
        sign = ""
        if self._now.is_sign("-"):
            self._at += 1
            sign = "-"
        token = self._now
        if token.kind in (Kind.STRING, Kind.NUMBER, Kind.WORD, Kind.QUOTED_NAME):
            self._at += 1
            return sign + token.value()
        raise self._wrong("a value")

    def _query(self) -> SqlText:
        """All the rest of the statement."""
        first, last = self._now, self._tokens[-1]
        if not (first.is_word("WITH", *_QUERY_WORDS) or first.is_sign("(")):
            raise self._wrong("a query (SELECT …)")
        self._at = len(self._tokens) - 1
        return SqlText(self._text[first.start : last.start].rstrip(), first.place)

    def _name(self, what: str) -> str:
        token = self._now
        if token.kind not in (Kind.WORD, Kind.QUOTED_NAME) or not token.value():
            raise self._wrong(what)
        self._at += 1
        return token.value()

    def _topic(self) -> str:
        """A topic's name may have dots and dashes; others are quoted."""
        if self._now.kind is Kind.STRING and self._now.value():
            self._at += 1
            return self._tokens[self._at - 1].value()
        return self._dotted("a topic's name", ".-")

    def _dotted(self, what: str, signs: str = ".") -> str:
        """Names that touch, joined by signs: `orders.v1`, `value.format`, `orders-eu`."""
        if self._now.kind is Kind.STRING and self._now.value():
            self._at += 1
            return self._tokens[self._at - 1].value()
        name = self._name(what)
        while self._now.kind is Kind.SIGN and self._now.text in signs and self._now.start == self._before.end:
            sign, after = self._now, self._ahead
            if after.kind not in (Kind.WORD, Kind.NUMBER) or after.start != sign.end:
                break
            name += sign.text + after.text
            self._at += 2
        return name

    @property
    def _now(self) -> Token:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    @property
    def _ahead(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    @property
    def _before(self) -> Token:
        return self._tokens[self._at - 1]

    def _took(self, word: str) -> bool:
        taken = self._now.is_word(word)
        self._at += taken
        return taken

    def _expect(self, word: str) -> None:
        if not self._took(word):
            raise self._wrong(word)

    def _expect_sign(self, sign: str) -> None:
        if not self._now.is_sign(sign):
            raise self._wrong(sign)
        self._at += 1

    def _expect_end(self) -> None:
        if self._now.kind is not Kind.END:
            raise self._wrong("the end of the statement, a semicolon,")

    def _wrong(self, wanted: str) -> Faulty:
        found = "the statement ends" if self._now.kind is Kind.END else f"{self._now.text!r} stands there"
        return self._fault(f"{wanted} is expected, and {found}")

    def _fault(self, why: str) -> Faulty:
        return Faulty(Fault(self._now.place, why))


def topic_target(topic: str) -> str:
    """The name of a topic among the targets; no sink or table can have the same."""
    return f"topic:{topic}"
