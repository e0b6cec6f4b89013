"""SQLAlchemy 2 over psycopg, psycopg 2 and asyncpg: tables from models, the ORM, Core, upserts,
and reflection of what is there."""

import asyncio
import datetime
import decimal
import uuid

import sqlalchemy as sa
from common import URL, expect, version
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

DAY = datetime.date(2020, 2, 29)
MOMENT = datetime.datetime(2020, 2, 29, 12, 30, 0, 250000)
ID = uuid.UUID("0a0b0c0d-0e0f-1011-1213-141516171819")


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "sa_author"
    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(sa.String(20), comment="as on the cover")
    born: Mapped[datetime.date | None]
    rating: Mapped[decimal.Decimal | None] = mapped_column(sa.Numeric(6, 2))


class Book(Base):
    __tablename__ = "sa_book"
    shelf: Mapped[str] = mapped_column(sa.String(10), primary_key=True)
    place: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    author_id: Mapped[int] = mapped_column(sa.BigInteger)
    uid: Mapped[uuid.UUID | None]
    added: Mapped[datetime.datetime | None] = mapped_column(sa.DateTime(timezone=False))
    cover: Mapped[bytes | None]
    lent: Mapped[bool] = mapped_column(default=False)
    # The ORM asks for it with INSERT ... RETURNING.
    language: Mapped[str] = mapped_column(sa.String(2), server_default="en")


class Note(Base):
    __tablename__ = "sa_note"
    # As most models have it: SERIAL, which RETURNING tells.
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(sa.Text)


class Ticket(Base):
    __tablename__ = "sa_ticket"
    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(start=100, increment=10), primary_key=True)
    text: Mapped[str] = mapped_column(sa.Text)


def numbered(engine):
    with Session(engine) as session:
        notes = [Note(text=f"note {at}") for at in range(250)]
        session.add_all(notes)
        session.flush()
        expect([note.id for note in notes], list(range(1, 251)))
        tickets = [Ticket(text="one"), Ticket(text="two")]
        session.add_all(tickets)
        session.commit()
        expect([ticket.id for ticket in tickets], [100, 110])
        expect(session.get(Note, 17).text, "note 16")
        session.add(Note(text="not kept"))
        session.flush()
        session.rollback()
        again = Note(text="after")
        session.add(again)
        session.commit()
        expect(again.id, 252)
        expect(session.scalar(sa.text("SELECT currval('sa_note_id_seq')")), 252)
    inspector = sa.inspect(engine)
    expect("sa_note_id_seq" in inspector.get_sequence_names(), True)
    note = {column["name"]: column for column in inspector.get_columns("sa_note")}["id"]
    expect((note["autoincrement"], "nextval(" in note["default"]), (True, True))
    ticket = {column["name"]: column for column in inspector.get_columns("sa_ticket")}["id"]
    expect((ticket["identity"]["start"], ticket["identity"]["increment"]), (100, 10))
    with engine.begin() as connection:
        counter = sa.Sequence("sa_counter", start=5)
        counter.create(connection)
        expect([connection.scalar(counter) for _ in range(2)], [5, 6])
        counter.drop(connection)


def orm(engine):
    with Session(engine) as session:
        session.add_all(
            [Author(id=at, name=f"author {at}", born=DAY, rating=decimal.Decimal(at) / 4) for at in range(50)]
        )
        session.add_all(
            [
                Book(shelf=f"s{at % 7}", place=at, author_id=at % 50, uid=ID, added=MOMENT,
                     cover=bytes([at % 256]))
                for at in range(300)
            ]
        )
        added = Book(shelf="new", place=1000, author_id=1)
        session.add(added)
        session.flush()
        expect(added.__dict__["language"], "en")
        session.delete(added)
        session.commit()
    with Session(engine) as session:
        book = session.get(Book, ("s3", 10))
        expect((book.uid, book.added, book.cover), (ID, MOMENT, b"\x0a"))
        expect((book.lent, book.language), (False, "en"))
        book.lent = True
        session.delete(session.get(Book, ("s4", 11)))
        session.commit()
        lent = sa.select(Book.place).where(Book.lent)
        expect(session.scalars(lent).all(), [10])
        joined = (
            sa.select(Author.name, sa.func.count().label("books"))
            .join(Book, Book.author_id == Author.id)
            .where(Author.id.in_([10, 11, 12]))
            .group_by(Author.name)
            .order_by(Author.name)
        )
        expect([tuple(row) for row in session.execute(joined)],
               [("author 10", 6), ("author 11", 5), ("author 12", 6)])
        session.execute(sa.update(Book).where(Book.place < 5).values(language="de"))
        session.rollback()
        expect(session.scalar(sa.select(sa.func.count()).where(Book.language == "de")), 0)
        some = session.scalars(sa.select(Book).order_by(Book.place).limit(3).offset(2)).all()
        expect([book.place for book in some], [2, 3, 4])


def core(engine):
    author = Author.__table__
    with engine.begin() as connection:
        connection.execute(author.insert(), [{"id": 100 + at, "name": f"n{at}"} for at in range(2000)])
        upsert = postgresql.insert(author).values(id=1, name="replaced", rating=1)
        upsert = upsert.on_conflict_do_update(index_elements=["id"], set_={"name": upsert.excluded.name})
        connection.execute(upsert)
        connection.execute(postgresql.insert(author).values(id=2, name="not").on_conflict_do_nothing())
        told = author.insert().values(id=99, name="told").returning(author.c.name, author.c.born)
        expect([tuple(row) for row in connection.execute(told)], [("told", None)])
        connection.execute(author.delete().where(author.c.id == 99))
    with engine.connect() as connection:
        found = connection.execute(sa.select(author.c.name, author.c.born).where(author.c.id.in_([1, 2])).order_by(author.c.id))
        expect([tuple(row) for row in found], [("replaced", DAY), ("author 2", DAY)])
        window = sa.select(author.c.id, sa.func.rank().over(order_by=author.c.id.desc()).label("r")).limit(2)
        expect([tuple(row) for row in connection.execute(window.order_by("r"))], [(2099, 1), (2098, 2)])
        case = sa.select(sa.case((author.c.id < 10, "few"), else_="many").label("much"), sa.func.count()).group_by("much").order_by("much")
        expect([tuple(row) for row in connection.execute(case)], [("few", 10), ("many", 2040)])
        streamed = connection.execution_options(yield_per=100).execute(sa.text("SELECT id FROM sa_author"))
        expect(sum(1 for _ in streamed), 2050)


def reflection(engine):
    inspector = sa.inspect(engine)
    expect("sa_book" in inspector.get_table_names(), True)
    expect("public" in inspector.get_schema_names(), True)
    expect(inspector.has_table("sa_author"), True)
    expect(inspector.has_table("nothing"), False)
    columns = {column["name"]: column for column in inspector.get_columns("sa_book")}
    types = {name: str(column["type"]) for name, column in columns.items()}
    expect(types, {
        "shelf": "VARCHAR(10)", "place": "INTEGER", "author_id": "BIGINT", "uid": "UUID",
        "added": "TIMESTAMP", "cover": "BYTEA", "lent": "BOOLEAN",
        "language": "VARCHAR(2)",
    })
    expect([columns["shelf"]["nullable"], columns["uid"]["nullable"]], [False, True])
    expect("en" in columns["language"]["default"], True)
    key = inspector.get_pk_constraint("sa_book")
    expect((key["constrained_columns"], key["name"]), (["shelf", "place"], "sa_book_pkey"))
    for nothing in (inspector.get_foreign_keys, inspector.get_unique_constraints,
                    inspector.get_check_constraints, inspector.get_indexes):
        expect(nothing("sa_book"), [])
    comments = {column["name"]: column["comment"] for column in inspector.get_columns("sa_author")}
    expect(comments["name"], "as on the cover")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE OR REPLACE VIEW sa_named AS SELECT id, name FROM sa_author"))
    inspector = sa.inspect(engine)
    # Other clients have views, too.
    expect([name for name in inspector.get_view_names() if name.startswith("sa_")], ["sa_named"])
    expect("sa_named" in inspector.get_table_names(), False)
    expect("SELECT id, name FROM sa_author" in inspector.get_view_definition("sa_named"), True)
    expect([column["name"] for column in inspector.get_columns("sa_named")], ["id", "name"])
    with engine.begin() as connection:
        connection.execute(sa.text("DROP VIEW sa_named"))
    metadata = sa.MetaData()
    metadata.reflect(engine, only=["sa_author", "sa_book"])
    book = metadata.tables["sa_book"]
    expect([column.name for column in book.primary_key], ["shelf", "place"])
    with engine.connect() as connection:
        expect(connection.scalar(sa.select(sa.func.count()).select_from(book)), 299)


async def asynchronously():
    engine = create_async_engine(URL.replace("postgresql", "postgresql+asyncpg"))
    async with engine.begin() as connection:
        await connection.execute(sa.insert(Author), [{"id": 5000 + at, "name": "a"} for at in range(10)])
    async with engine.connect() as connection:
        found = await connection.execute(sa.select(sa.func.count()).where(Author.id >= 5000))
        expect(found.scalar(), 10)
        names = await connection.run_sync(lambda inner: sa.inspect(inner).get_pk_constraint("sa_book"))
        expect(names["constrained_columns"], ["shelf", "place"])
    await engine.dispose()


version("sqlalchemy")
for driver in ("psycopg", "psycopg2"):
    engine = sa.create_engine(URL.replace("postgresql", f"postgresql+{driver}"))
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    for part in (numbered, orm, core, reflection):
        part(engine)
    if driver == "psycopg":
        Base.metadata.drop_all(engine)
        expect(sa.inspect(engine).has_table("sa_book"), False)
    engine.dispose()
asyncio.run(asynchronously())
