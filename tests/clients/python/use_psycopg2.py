"""psycopg 2: its own quoting on the client's side, transactions, many rows in one statement, COPY
with files."""

import datetime
import decimal
import io

import psycopg2
import psycopg2.errors
import psycopg2.extras
from common import URL, expect, version

version("psycopg2-binary")
db = psycopg2.connect(URL)
cursor = db.cursor()
cursor.execute(
    "CREATE TABLE p2 (k INT PRIMARY KEY, t TEXT, n DECIMAL(8, 2), at TIMESTAMP, y BYTEA, l INT[])"
)
row = (1, "it's \\ %", decimal.Decimal("1.25"), datetime.datetime(2020, 1, 2, 3, 4, 5), b"\x00\xfe", [1, 2])
cursor.execute("INSERT INTO p2 VALUES (%s, %s, %s, %s, %s, %s)", row)
db.commit()
cursor.execute("SELECT * FROM p2")
found = cursor.fetchone()
expect((*found[:4], bytes(found[4]), found[5]), row)
cursor.execute("INSERT INTO p2 (k, t) VALUES (2, 'gone')")
db.rollback()
cursor.execute("SELECT count(*) FROM p2")
expect(cursor.fetchone(), (1,))
psycopg2.extras.execute_values(
    cursor, "INSERT INTO p2 (k, t) VALUES %s", [(k, f"v{k}") for k in range(10, 1010)], page_size=300
)
psycopg2.extras.execute_batch(
    cursor, "UPDATE p2 SET t = %s WHERE k = %s", [("changed", k) for k in range(10, 20)]
)
db.commit()
cursor.copy_expert("COPY p2 (k, t) FROM STDIN WITH CSV", io.StringIO('2000,"a,b"\n2001,\n'))
db.commit()
out = io.StringIO()
cursor.copy_expert("COPY (SELECT k, t FROM p2 WHERE k >= 2000 ORDER BY k) TO STDOUT", out)
expect(out.getvalue(), "2000\ta,b\n2001\t\\N\n")
named = db.cursor(cursor_factory=psycopg2.extras.RealDictCursor)
named.execute("SELECT t, count(*) AS n FROM p2 WHERE t = %(t)s GROUP BY t", {"t": "changed"})
expect([dict(row) for row in named], [{"t": "changed", "n": 10}])
try:
    cursor.execute("SELECT * FROM nothing")
except psycopg2.errors.UndefinedTable:
    db.rollback()
else:
    raise AssertionError("a table that is not there was read")
db.set_session(readonly=True)
try:
    cursor.execute("DELETE FROM p2 WHERE k = 1")
except psycopg2.errors.ReadOnlySqlTransaction:
    db.rollback()
else:
    raise AssertionError("a read-only session wrote")
db.close()
