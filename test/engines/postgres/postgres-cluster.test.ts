import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { makeClusterFolder } from '../../support/cluster-folder.ts'
import { findFreePort } from '../../support/free-port.ts'
import { connectToPostgres, queryPostgres } from '../../support/postgres-client.ts'
import {
  type ClusterOptions,
  createPostgresCluster,
  type PostgresCluster,
} from '../../support/postgres-cluster.ts'
import { canStartClusters } from '../../support/postgres-settings.ts'
import { startPostmaster } from '../../support/postmaster.ts'
import { childrenOf } from '../../support/process-tree.ts'
import { owner } from '../../support/unprivileged-user.ts'
import { until, untilPasses } from '../../support/until.ts'

async function open(options: ClusterOptions = {}): Promise<PostgresCluster> {
  const cluster = await createPostgresCluster(options)
  onTestFinished(() => cluster.remove())
  return cluster
}

async function selected(cluster: PostgresCluster, text: string): Promise<unknown> {
  const [row = {}] = await queryPostgres(cluster.url(), text)
  return Object.values(row)[0]
}

describe.skipIf(!canStartClusters)('createPostgresCluster', () => {
  test('its server is reached by TCP and by socket, and only from this machine', async () => {
    const cluster = await open()
    expect(await selected(cluster, 'SHOW listen_addresses')).toBe('127.0.0.1')
    const bySocket = `postgres://postgres@/postgres?host=${cluster.socketFolder}&port=${cluster.port}`
    expect(await queryPostgres(bySocket, 'SELECT current_user AS name')).toEqual([
      { name: 'postgres' },
    ])
  })

  test('takes settings, rules of access and files', async () => {
    const cluster = await open({
      configuration: [`include 'more.conf'`],
      authentication: ['host all ann 127.0.0.1/32 reject'],
      files: { 'more.conf': `cluster_name = 'tried'\n` },
      isDurable: true,
    })
    expect(await selected(cluster, 'SHOW cluster_name')).toBe('tried')
    expect(await selected(cluster, 'SHOW fsync')).toBe('on')
    await expect(queryPostgres(cluster.url('postgres', 'ann'), 'SELECT 1')).rejects.toThrow(
      'pg_hba.conf rejects connection',
    )
    const { uid, mode } = statSync(join(cluster.socketFolder, 'data', 'more.conf'))
    expect(uid).toBe(owner.uid ?? process.getuid?.())
    expect(mode & 0o777).toBe(0o600)
  })

  test.each(['fast', 'immediate'] as const)(
    'stop(%s) ends its sessions, and start goes on with its data',
    async mode => {
      const cluster = await open()
      await queryPostgres(cluster.url(), 'CREATE TABLE cats ()')
      const client = await connectToPostgres(cluster.url())
      const ended = new Promise(resolve => client.once('end', resolve))
      await cluster.stop(mode)
      await ended
      await expect(selected(cluster, 'SELECT 1')).rejects.toThrow('ECONNREFUSED')
      await cluster.start()
      expect(await queryPostgres(cluster.url(), 'TABLE cats')).toEqual([])
      await cluster.restart()
      expect(await selected(cluster, 'SELECT 1')).toBe(1)
    },
  )

  test('kill ends it also while it is frozen, and it recovers at its start', async () => {
    const cluster = await open()
    await queryPostgres(cluster.url(), 'CREATE TABLE cats ()')
    cluster.freeze()
    await cluster.kill()
    await expect(selected(cluster, 'SELECT 1')).rejects.toThrow('ECONNREFUSED')
    await cluster.start()
    expect(await queryPostgres(cluster.url(), 'TABLE cats')).toEqual([])
  })

  test('freeze lets queries of old and new connections wait until thaw', async () => {
    const cluster = await open()
    const client = await connectToPostgres(cluster.url())
    cluster.freeze()
    const finished: string[] = []
    const old = client.query('SELECT 1').then(() => finished.push('old'))
    const fresh = selected(cluster, 'SELECT 1').then(() => finished.push('fresh'))
    const elsewhere = await open()
    expect(await selected(elsewhere, 'SELECT 1')).toBe(1)
    expect(finished).toEqual([])
    cluster.thaw()
    await Promise.all([old, fresh])
    await client.end()
  })

  test.each([false, true])(
    'createStandby follows the primary, and promote makes it one; synchronous: %s',
    async isSynchronous => {
      const cluster = await open()
      const standby = await cluster.createStandby({ isSynchronous })
      await queryPostgres(cluster.url(), 'CREATE TABLE cats ()')
      const select = () => queryPostgres(standby.url(), 'TABLE cats')
      // A synchronous standby has the commit, and applies it a little later.
      expect(await untilPasses(select)).toEqual([])
      expect(await selected(cluster, 'SELECT sync_state FROM pg_stat_replication')).toBe(
        isSynchronous ? 'sync' : 'async',
      )
      await expect(queryPostgres(standby.url(), 'DROP TABLE cats')).rejects.toThrow('read-only')
      await cluster.kill()
      await standby.promote()
      await queryPostgres(standby.url(), 'DROP TABLE cats')
    },
  )

  test('with several synchronous standbys a commit waits for each', async () => {
    const cluster = await open()
    const standbys = [
      await cluster.createStandby({ isSynchronous: true }),
      await cluster.createStandby({ isSynchronous: true }),
    ]
    for (const standby of standbys) {
      standby.freeze()
      let isDone = false
      const created = queryPostgres(cluster.url(), `CREATE TABLE t${standby.port} ()`).then(() => {
        isDone = true
      })
      const waiting = `SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'`
      await until(async () => (await queryPostgres(cluster.url(), waiting)).length > 0)
      expect(isDone).toBe(false)
      standby.thaw()
      await created
    }
  })

  test('remove deletes its files and those of its standbys', async () => {
    const cluster = await open()
    const standby = await cluster.createStandby()
    await cluster.remove()
    await cluster.remove()
    for (const { socketFolder, url } of [cluster, standby]) {
      expect(existsSync(socketFolder)).toBe(false)
      await expect(queryPostgres(url(), 'SELECT 1')).rejects.toThrow('ECONNREFUSED')
    }
  })

  test.skipIf(process.platform !== 'linux')(
    'remove leaves no shared memory, also of a frozen server',
    async () => {
      const cluster = await open()
      const locked = readFileSync(join(cluster.socketFolder, 'data', 'postmaster.pid'), 'utf8')
      const memory = readFileSync(`/proc/${locked.split('\n')[0]}/maps`, 'utf8')
      const segments = memory.match(/\/dev\/shm\/PostgreSQL\.\d+/g) ?? []
      expect(segments).not.toEqual([])
      cluster.freeze()
      await cluster.remove()
      expect(segments.filter(existsSync)).toEqual([])
    },
  )

  test('a server that does not start is an error with its log', async () => {
    await expect(open({ configuration: ['no_such_setting = 1'] })).rejects.toThrow(
      'unrecognized configuration parameter "no_such_setting"',
    )
  })

  test.each(['running', 'frozen', 'killed'])(
    'a %s server of tests that were killed is removed',
    async state => {
      const folder = makeClusterFolder(false)
      await folder.run('initdb', ['-D', folder.data, '--auth=trust', '--no-sync'])
      const server = await startPostmaster(folder, { port: await findFreePort() })
      onTestFinished(() => server.kill())
      if (state === 'frozen') server.freeze()
      if (state === 'killed') await server.kill()
      folder.abandon()
      await until(() => !existsSync(folder.path))
      await server.stop('fast')
    },
  )
})

test('childrenOf finds the processes that a process started', () => {
  expect(childrenOf(process.ppid)).toContain(process.pid)
})
