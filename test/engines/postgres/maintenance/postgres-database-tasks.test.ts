import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../../support/open-test-app.ts'
import { asServingRole, tasksOn } from '../../../support/postgres-connections.ts'
import {
  copyPostgresTemplate,
  newPostgresDatabase,
  queryPostgres,
} from '../../../support/postgres-databases.ts'
import { runCommand } from '../../../support/run-command.ts'

describe('what is left to programs of PostgreSQL', () => {
  const TLS = 'sslmode=verify-full&sslrootcert'
  const DATABASE_URL = `postgres://ann%20o'neil:secret@db.example.com:5432,[::1]:6000/users%2F1?${TLS}=/etc/ca.pem`
  const place = "postgres://ann%20o'\\''neil@db.example.com:5432,[::1]:6000/users%2F1"
  const ca = `${TLS}=%2Fetc%2Fca.pem`
  const writable = `${ca}&target_session_attrs=read-write`
  const tool = 'PostgreSQL has its own tool for this: '

  test.each([
    [
      ['backup', "ann's.dump"],
      `${tool}pg_dump --format=custom --no-owner --file='ann'\\''s.dump' '${place}?${ca}'`,
    ],
    [
      ['restore', "ann's.dump"],
      `${tool}pg_restore --no-owner --exit-on-error --single-transaction --dbname='${place}?${writable}' 'ann'\\''s.dump', into an empty database`,
    ],
    [
      ['compact'],
      `autovacuum makes its free space usable again; psql '${place}?${writable}' --command='VACUUM (FULL, ANALYZE)' returns it to the file system and locks each table meanwhile`,
    ],
  ])('%j is refused with the command, which has no password', async (args, message) => {
    const ended = await runCommand({ cwd: temporaryFolder(), args, env: { DATABASE_URL } })
    expect(ended).toMatchObject({ code: 1, stdout: '' })
    expect(ended.stderr).toContain(message)
    expect(ended.stderr).not.toContain('secret')
  })
})

describe('check', () => {
  test('says that a database is sound, and the command for a superuser', async () => {
    const url = await copyPostgresTemplate()
    const { host } = new URL(url)
    const env = { DATABASE_URL: url }
    const { code, stdout } = await runCommand({ cwd: temporaryFolder(), args: ['check'], env })
    expect([code, stdout]).toEqual([0, expect.stringMatching(/: sound$/m)])
    expect(stdout).toContain(
      `a superuser checks the pages of its tables and indexes with pg_amcheck --install-missing --heapallindexed 'postgres://${host}/`,
    )
  })

  test('names roles that may read digests and keys, and row-level security, and does not check what it hides', async () => {
    const url = await newPostgresDatabase()
    const restricted = await asServingRole(url)
    const role = new URL(restricted).username
    await tasksOn(url).migrate()
    const readers = `beside their owner, password digests, hashes of API keys or signing keys can be read by ${role}`
    const advice = expect.stringContaining('a superuser checks the pages')
    expect(await tasksOn(url).check()).toMatchObject({ faults: [], notes: [readers, advice] })
    await queryPostgres(url, 'ALTER TABLE users ENABLE ROW LEVEL SECURITY')
    const isOn =
      'row-level security is on for users: a role that does not own them sees what policies allow'
    expect(await tasksOn(url).check()).toMatchObject({ faults: [], notes: [readers, isOn, advice] })
    const hidden = 'row-level security hides rows of users from this role'
    expect(await tasksOn(restricted).check()).toMatchObject({ faults: [hidden] })
    await queryPostgres(url, 'GRANT SELECT ON signing_keys TO PUBLIC')
    const { notes } = await tasksOn(url).check()
    expect(notes?.[0]).toMatch(/by every role \(PUBLIC\)$/)
  })

  test('a database that is not there cannot be used, and one of another program is a fault', async () => {
    const url = await newPostgresDatabase()
    await queryPostgres(url, 'CREATE TABLE users (id int)')
    expect((await tasksOn(url).check()).faults).toEqual(['it is the database of another program'])
    const missing = url.replace(/\/\w+$/, '/user_records_missing')
    await expect(tasksOn(missing).check()).rejects.toMatchObject({
      name: 'UnusableDatabase',
      message: 'the server has no database "user_records_missing": create it (3D000)',
    })
  })
})
