"""The first lines with psycopg 3, as docs/user/connecting.md shows them."""

import psycopg


def readings(url):
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE IF NOT EXISTS readings (sensor INT, at TIMESTAMP, value FLOAT, PRIMARY KEY (sensor, at))")
        with db.cursor() as cursor, cursor.copy("COPY readings FROM STDIN") as copy:
            copy.write_row((1, "2026-01-01 00:00:00", 20.5))
        return db.execute("SELECT max(value) FROM readings WHERE sensor = %s", (1,)).fetchone()[0]
