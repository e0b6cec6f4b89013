// node-postgres over TLS, by a role's password: who serves is checked, and who asks.
// usage: node over_tls.js URL FOLDER, as python/over_tls.py has them.

const assert = require('node:assert/strict')
const fs = require('node:fs')
const { pipeline } = require('node:stream/promises')
const { Readable } = require('node:stream')
const pg = require('pg')
const copy = require('pg-copy-streams')

const [url, folder] = process.argv.slice(2)
const who = 'SELECT current_user AS name, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()'

async function connected(url, ca) {
  const db = new pg.Client({ connectionString: url, ssl: { ca: fs.readFileSync(ca) } })
  await db.connect()
  return db
}

async function main() {
  console.log('version', require('pg/package.json').version)
  const ca = `${folder}/ca.crt`
  await assert.rejects(connected(url.replace(/:[^:@]*@/, ':wrong@'), ca), { code: '28P01' })
  await assert.rejects(connected(url, `${folder}/other/ca.crt`), /certificate/)
  await assert.rejects(connected(url.replace('localhost', '127.0.0.1'), ca), /certificate/)
  // Said in the URL.
  const said = `${url}?sslmode=verify-full&sslrootcert=${ca}`
  const pool = new pg.Pool({ connectionString: said, max: 4 })
  const all = await Promise.all(Array.from({ length: 12 }, () => pool.query(who)))
  all.forEach((found) => assert.deepEqual(found.rows, [{ name: 'anna', ssl: true }]))
  await pool.end()
  const db = await connected(url, ca)
  await db.query('CREATE TABLE tls_node (k INT PRIMARY KEY, t TEXT)')
  const lines = Array.from({ length: 20000 }, (_, at) => `${at}\tline ${at}\n`)
  await pipeline(Readable.from(lines), db.query(copy.from('COPY tls_node FROM STDIN')))
  const found = await db.query('SELECT k, t FROM tls_node WHERE k >= $1 ORDER BY k', [0])
  assert.deepEqual(found.rows.map((row) => `${row.k}\t${row.t}\n`), lines)
  await db.query('DROP TABLE tls_node')
  await assert.rejects(db.query('SELECT * FROM payroll'), { code: '42501' })
  await db.end()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
