"""Exactly once, one's own writes from another connection, freshness, and bounds that can't be met:
what docs/user/connecting.md shows."""

import time

import psycopg
from psycopg.conninfo import make_conninfo

from common import URL, expect


def once(url, number, rows):
    """Writes rows as the batch of that number; may be called again after a lost connection."""
    with psycopg.connect(url, autocommit=True, options="-c lazybase.producer=till-1") as db:
        db.execute(f"SET lazybase.batch_number = {number:d}")
        with db.cursor() as cursor, cursor.copy("COPY sales FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return db.execute("SHOW lazybase.last_token").fetchone()[0]


def until_done(url, number, rows):
    while True:
        try:
            return once(url, number, rows)
        except psycopg.OperationalError:  # the server may have it, or not: the number tells
            time.sleep(1)


def total(url, token):
    """A cheap answer that holds that write."""
    with psycopg.connect(url, options="-c lazybase.freshness=best\\ effort") as db:
        db.execute(f"SET lazybase.after = '{token}'")
        return db.execute("SELECT sum(cents) FROM sales").fetchone()[0]


def newest(url):
    """What all sales come to; where that is dear to tell, what those that are sorted come to."""
    asked = "SELECT sum(cents) FROM sales"
    with psycopg.connect(url, autocommit=True, options="-c lazybase.on_miss=error") as db:
        try:
            return db.execute(asked).fetchone()[0]
        except psycopg.OperationalError as refusal:
            if refusal.diag.sqlstate != "53L01":
                raise
        return db.execute(asked + " FRESHNESS 0 ON MISS STALE").fetchone()[0]


def drive(db):
    url = make_conninfo(URL)
    db.execute("CREATE TABLE sales (id BIGINT PRIMARY KEY, cents INT)")
    first = until_done(url, 1, [(1, 250), (2, 100)])
    db.execute("DELETE FROM sales WHERE id = 2")
    expect(until_done(url, 1, [(1, 250), (2, 100)]), first)
    expect(db.execute("SELECT sum(cents) FROM sales").fetchone(), (250,))
    token = until_done(url, 2, [(3, 50)])
    expect(total(url, token), 300)
    db.execute("SETTLE")
    db.execute("PAUSE STAGE SORT")
    db.execute("INSERT INTO sales VALUES (4, 1)")
    expect(newest(url), 300)
    db.execute("RESUME STAGE SORT")
    db.execute("SETTLE")
    expect(newest(url), 301)
    db.execute("DROP TABLE sales")
