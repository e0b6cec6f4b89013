"""pg8000: its native interface and the DB-API one."""

import datetime
import decimal
import io

import pg8000.dbapi
import pg8000.native
from common import DATABASE, HOST, PORT, USER, expect, version

version("pg8000")
db = pg8000.native.Connection(USER, host=HOST, port=PORT, database=DATABASE)
db.run("CREATE TABLE p8 (k INT PRIMARY KEY, t TEXT, n DECIMAL(8, 2), at TIMESTAMP)")
moment = datetime.datetime(2020, 1, 2, 3, 4, 5)
db.run(
    "INSERT INTO p8 VALUES (:k, :t, :n, :at)", k=1, t="one", n=decimal.Decimal("1.50"), at=moment
)
expect(db.run("SELECT * FROM p8 WHERE k = :k", k=1), [[1, "one", decimal.Decimal("1.50"), moment]])
expect([column["name"] for column in db.columns], ["k", "t", "n", "at"])
statement = db.prepare("SELECT t FROM p8 WHERE k = :k")
for _ in range(3):
    expect(statement.run(k=1), [["one"]])
statement.close()
db.run("COPY p8 (k, t) FROM STDIN WITH (FORMAT CSV)", stream=io.BytesIO(b"2,two\n3,three\n"))
out = io.BytesIO()
db.run("COPY (SELECT k, t FROM p8 ORDER BY k) TO STDOUT WITH (FORMAT CSV)", stream=out)
expect(out.getvalue(), b"1,one\n2,two\n3,three\n")
try:
    db.run("SELECT * FROM nothing")
except pg8000.native.DatabaseError as error:
    expect(error.args[0]["C"], "42P01")
else:
    raise AssertionError("a table that is not there was read")
db.close()

db = pg8000.dbapi.connect(USER, host=HOST, port=PORT, database=DATABASE)
cursor = db.cursor()
cursor.executemany("INSERT INTO p8 (k, t) VALUES (%s, %s)", [(k, f"v{k}") for k in range(10, 60)])
db.commit()
cursor.execute("DELETE FROM p8 WHERE k >= %s", (10,))
db.rollback()
cursor.execute("SELECT count(*) FROM p8 WHERE k >= %s", (10,))
expect(cursor.fetchone(), [50])
db.close()
