// node-postgres: values, named statements, the pool, transactions, cursors, and COPY as streams.

const assert = require('node:assert/strict')
const { Readable, Writable } = require('node:stream')
const { pipeline } = require('node:stream/promises')
const pg = require('pg')
const Cursor = require('pg-cursor')
const copy = require('pg-copy-streams')

const url = process.argv[2]

async function values(db) {
  await db.query(`CREATE TABLE n_values (k INT PRIMARY KEY, b BOOLEAN, t TEXT, n DECIMAL(10, 2),
    d DOUBLE PRECISION, y BYTEA, u UUID, tz TIMESTAMPTZ, l BIGINT, li INT[], lt TEXT[], j JSON)`)
  const row = [1, true, "it's \\ ünï", '12.50', 2.5, Buffer.from([0, 255]),
    '0a0b0c0d-0e0f-1011-1213-141516171819', new Date('2020-02-29T12:30:15.250Z'),
    '1152921504606846976', [1, null, 3], ['a', 'b"c', null], { a: [1, 'x'], b: null }]
  const places = row.map((_, at) => `$${at + 1}`).join(', ')
  const put = await db.query(`INSERT INTO n_values VALUES (${places})`, row)
  assert.equal(put.rowCount, 1)
  assert.equal(put.command, 'INSERT')
  const told = await db.query('INSERT INTO n_values (k, t) VALUES ($1, $2) RETURNING t, k', [2, 'two'])
  assert.deepEqual([told.command, told.rowCount, told.rows], ['INSERT', 1, [{ t: 'two', k: 2 }]])
  await db.query('DELETE FROM n_values WHERE k = 2')
  const text = await db.query('SELECT * FROM n_values WHERE k = $1', [1])
  assert.deepEqual(Object.values(text.rows[0]), row)
  assert.deepEqual(text.fields.map((field) => field.name),
    ['k', 'b', 't', 'n', 'd', 'y', 'u', 'tz', 'l', 'li', 'lt', 'j'])
  assert.deepEqual(text.fields.slice(0, 4).map((field) => field.dataTypeID), [23, 16, 25, 1700])
  const arrays = await db.query({ text: 'SELECT k, t FROM n_values', rowMode: 'array' })
  assert.deepEqual(arrays.rows, [[1, row[2]]])
  for (let k = 0; k < 20; k++) {
    const named = { name: 'plus', text: 'SELECT $1::int AS same', values: [k] }
    assert.equal((await db.query(named)).rows[0].same, k)
  }
  const several = await db.query("SELECT 'one' AS a; SELECT 'two' AS b")
  assert.deepEqual(several.map((result) => result.rows[0]), [{ a: 'one' }, { b: 'two' }])
}

async function transactions(db) {
  await db.query('CREATE TABLE n_many (k INT PRIMARY KEY, t TEXT)')
  await db.query('BEGIN')
  for (let k = 0; k < 50; k++) await db.query('INSERT INTO n_many VALUES ($1, $2)', [k, `v${k}`])
  await db.query('COMMIT')
  await db.query('BEGIN')
  await db.query('DELETE FROM n_many WHERE k < $1', [10])
  await assert.rejects(db.query('SELECT * FROM nothing'), { code: '42P01' })
  await assert.rejects(db.query('SELECT 1'), { code: '25P02' })
  await db.query('ROLLBACK')
  const count = await db.query('SELECT count(*) AS n FROM n_many')
  assert.equal(count.rows[0].n, '50')
  const some = await db.query('SELECT k FROM n_many WHERE k = ANY($1) ORDER BY k', [[3, 4, 99]])
  assert.deepEqual(some.rows.map((row) => row.k), [3, 4])
}

async function streams(db) {
  const lines = Array.from({ length: 20000 }, (_, at) => `${1000 + at}\tline ${at}\n`)
  const into = db.query(copy.from('COPY n_many FROM STDIN'))
  await pipeline(Readable.from(lines), into)
  assert.equal(into.rowCount, 20000)
  const found = []
  const out = db.query(copy.to('COPY (SELECT k, t FROM n_many WHERE k >= 1000 ORDER BY k) TO STDOUT'))
  const sink = new Writable({ write(chunk, _, done) { found.push(chunk); done() } })
  await pipeline(out, sink)
  assert.equal(Buffer.concat(found).toString(), lines.join(''))
  await db.query('BEGIN')
  const cursor = db.query(new Cursor('SELECT k FROM n_many WHERE k >= $1 ORDER BY k', [1000]))
  assert.deepEqual((await cursor.read(3)).map((row) => row.k), [1000, 1001, 1002])
  assert.equal((await cursor.read(500)).length, 500)
  await cursor.close()
  await db.query('COMMIT')
}

async function pools() {
  const pool = new pg.Pool({ connectionString: url, max: 4 })
  const work = Array.from({ length: 40 }, (_, at) =>
    pool.query('INSERT INTO n_many VALUES ($1, $2)', [100000 + at, 'pooled']))
  await Promise.all(work)
  const found = await pool.query('SELECT count(*)::int AS n FROM n_many WHERE k >= $1', [100000])
  assert.equal(found.rows[0].n, 40)
  await pool.end()
}

async function readings(url) {
  const db = new pg.Client(url)
  await db.connect()
  const found = await db.query('SELECT max(value) AS most FROM readings WHERE sensor = $1', [1])
  await db.end()
  return found.rows[0].most
}

async function firstLines(db) {
  await db.query('CREATE TABLE readings (sensor INT PRIMARY KEY, value FLOAT)')
  await db.query('INSERT INTO readings VALUES (1, 20.5), (2, 30)')
  assert.equal(await readings(url), 20.5)
  await db.query('DROP TABLE readings')
}

async function main() {
  console.log('version', require('pg/package.json').version)
  const db = new pg.Client({ connectionString: url })
  await db.connect()
  await values(db)
  await transactions(db)
  await streams(db)
  await firstLines(db)
  await db.end()
  await pools()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
