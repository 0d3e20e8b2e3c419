import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp, problemsOfStart, temporaryFolder } from '../../support/open-test-app.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { queryPostgres } from '../../support/postgres-databases.ts'
import { canStartClusters } from '../../support/programs.ts'
import { shareServer } from '../../support/shared-app.ts'
import { untilPasses } from '../../support/until.ts'

describe.skipIf(!canStartClusters)('PGPASSFILE', () => {
  const cluster = shareServer(async () => {
    const authentication = [
      'local all ann scram-sha-256',
      'host all ann 127.0.0.1/32 scram-sha-256',
    ]
    const started = await createPostgresCluster({ authentication })
    await queryPostgres(started.url(), `CREATE ROLE ann SUPERUSER LOGIN PASSWORD 'a:b\\c'`)
    await queryPostgres(started.url(), 'CREATE DATABASE ann OWNER ann')
    return started
  })

  /** The variables of a service that has its password from a file with this text. */
  function withFile(text: string, host = '127.0.0.1') {
    const PGPASSFILE = join(temporaryFolder(), 'pgpass')
    writeFileSync(
      PGPASSFILE,
      text.replace('PORT', String(cluster.port)).replace('FOLDER', cluster.socketFolder),
    )
    const variables = { PGHOST: host, PGPORT: String(cluster.port), PGUSER: 'ann', PGPASSFILE }
    return { DATABASE_URL: 'postgres://', ...variables }
  }

  const wrong = '127.0.0.1:1:*:*:x\n*:*:bob:*:x\n*:*:*:bob:x\n# *:*:*:*:x\n\nnonsense\n'

  test.each([
    ['127.0.0.1', `${wrong}127.0.0.1:PORT:ann:ann:a\\:b\\\\c\n*:*:*:*:x`],
    ['127.0.0.1', '*:PORT:*:a\\nn:a:b\\\\c\r\n'],
    ['a socket', `${wrong}localhost:*:*:*:a\\:b\\\\c`],
    ['a socket', `${wrong}FOLDER:*:*:*:a\\:b\\\\c`],
  ])('has the password of %s in the first line that fits: %j', async (host, text) => {
    const env = withFile(text, host === 'a socket' ? cluster.socketFolder : host)
    const { http } = await openTestApp({ env })
    await http.get('/users').expect(200)
    // What the URL or PGPASSWORD says comes first.
    expect(await problemsOfStart({ env: { ...env, PGPASSWORD: 'x' } })).toMatchObject([
      expect.stringContaining('the server refuses this user or password (28P01)'),
    ])
  })

  test('without a line that fits ends a start at once, and so does a file that cannot be read', async () => {
    const env = withFile(wrong)
    const problems = await problemsOfStart({ env })
    const why = `the file "${env.PGPASSFILE}" of passfile has no password for this server, database and user`
    expect(problems).toEqual([expect.stringContaining(why)])
    rmSync(env.PGPASSFILE)
    expect(await problemsOfStart({ env })).toEqual([
      expect.stringContaining('of passfile cannot be read (there is no such file)'),
    ])
  })

  test('is read for each connection, so that a password is changed without a restart', async () => {
    const env = withFile('*:*:*:*:a\\:b\\\\c')
    const { http } = await openTestApp({ env })
    await http.post('/users').send(newUserBody()).expect(201)
    rmSync(env.PGPASSFILE)
    await queryPostgres(cluster.url(), `ALTER ROLE ann PASSWORD 'other'`)
    const END_ALL = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann'`
    await untilPasses(async () => {
      // Another time, one that was being opened with the old password.
      await queryPostgres(cluster.url(), END_ALL)
      const { body } = await http.post('/users').send(newUserBody()).expect(503)
      expect(body.reason).toBe('storage_unavailable')
    })
    writeFileSync(env.PGPASSFILE, '*:*:*:*:other')
    await untilPasses(async () => {
      await http.post('/users').send(newUserBody()).expect(201)
    })
    await queryPostgres(cluster.url(), `ALTER ROLE ann PASSWORD 'a:b\\c'`)
  })
})
