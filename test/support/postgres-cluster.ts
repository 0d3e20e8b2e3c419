import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ClusterFolder, makeClusterFolder } from './cluster-folder.ts'
import { findFreePort } from './free-port.ts'
import { queryPostgres } from './postgres-databases.ts'
import { type PostmasterOptions, startPostmaster } from './postmaster.ts'

export interface ClusterOptions {
  /** Lines added to postgresql.conf. */
  readonly configuration?: readonly string[]
  /** Lines of pg_hba.conf before those that trust all who connect from this machine. */
  readonly authentication?: readonly string[]
  /** Files of the data folder by name, such as certificates. Only the server can read them. */
  readonly files?: Readonly<Record<string, string>>
  /** Variables of the server's environment, for its data folder. */
  readonly environmentOf?: (data: string) => Readonly<Record<string, string>>
}

/** A PostgreSQL server of the tests' own. Each method returns when its effect is there. */
export interface PostgresCluster {
  readonly port: number
  /** The folder of the Unix socket. */
  readonly socketFolder: string
  /** Leads to 127.0.0.1. Without arguments: the superuser, and a database that is always there. */
  url(database?: string, user?: string): string
  start(): Promise<void>
  /** `fast` ends all sessions and writes a checkpoint; after `immediate` the next start recovers. */
  stop(mode?: 'fast' | 'immediate'): Promise<void>
  restart(): Promise<void>
  /** Kills all processes of the server. */
  kill(): Promise<void>
  /** Stops all processes of the server: it then accepts connections and never answers. */
  freeze(): void
  thaw(): void
  /** A running copy of the server, for which each commit waits. It is removed together with it. */
  createStandby(): Promise<PostgresCluster>
  /** Makes a standby accept writes. */
  promote(): Promise<void>
  /** Ends the server and deletes its files. A second call does nothing. */
  remove(): Promise<void>
}

/** Commits survive `kill`, but no loss of power. The kind of passwords is the default from PostgreSQL 14 on. */
const CONFIGURATION = [
  'fsync = off',
  'full_page_writes = off',
  "password_encryption = 'scram-sha-256'",
]

const TRUST = ['local all,replication all trust', 'host all,replication all 127.0.0.1/32 trust']

/**
 * Starts a server on a new, empty cluster. If this process is killed, the server ends and its files are deleted too.
 * Throws if no PostgreSQL server is installed.
 */
export async function createPostgresCluster(
  options: ClusterOptions = {},
): Promise<PostgresCluster> {
  const { configuration = [], authentication = [], files = {} } = options
  const fill = async (folder: ClusterFolder) => {
    const access = ['--auth=trust', '--username=postgres']
    const texts = ['--encoding=UTF8', '--locale=C', '--no-sync']
    await folder.run('initdb', ['-D', folder.data, ...access, ...texts])
    const lines = [...CONFIGURATION, ...configuration]
    appendFileSync(join(folder.data, 'postgresql.conf'), `${lines.join('\n')}\n`)
    folder.write('pg_hba.conf', `${[...authentication, ...TRUST].join('\n')}\n`)
    for (const [name, text] of Object.entries(files)) folder.write(name, text)
  }
  return openIn(makeClusterFolder(), fill, options.environmentOf)
}

/** Fills a folder, and starts a server on it. */
async function openIn(
  folder: ClusterFolder,
  fill: (folder: ClusterFolder, name: string) => Promise<void>,
  environmentOf?: ClusterOptions['environmentOf'],
): Promise<PostgresCluster> {
  try {
    const port = await findFreePort()
    await fill(folder, nameOf(port))
    return await openCluster(folder, { port, environment: environmentOf?.(folder.data) })
  } catch (error) {
    folder.remove()
    throw error
  }
}

/** By which a primary knows its standby. */
function nameOf(port: number): string {
  return `standby_${port}`
}

async function openCluster(
  folder: ClusterFolder,
  options: PostmasterOptions,
): Promise<PostgresCluster> {
  const { port } = options
  let server = await startPostmaster(folder, options)
  const standbys: PostgresCluster[] = []
  const cluster: PostgresCluster = {
    port,
    socketFolder: folder.path,
    url: (database = 'postgres', user = 'postgres') =>
      `postgres://${user}@127.0.0.1:${port}/${database}`,
    start: async () => {
      server = await startPostmaster(folder, options)
    },
    stop: (mode = 'fast') => server.stop(mode),
    restart: async () => {
      await server.stop('fast')
      await cluster.start()
    },
    kill: () => server.kill(),
    freeze: () => server.freeze(),
    thaw: () => server.thaw(),
    promote: () => folder.run('pg_ctl', ['promote', '-D', folder.data]),
    createStandby: async () => {
      const standby = await openIn(makeClusterFolder(), (copy, name) =>
        copyCluster(cluster, copy, name),
      )
      standbys.push(standby)
      await waitForCommitsOf(cluster, nameOf(standby.port))
      return standby
    },
    remove: async () => {
      for (const standby of standbys) await standby.remove()
      await server.stop('immediate')
      folder.remove()
    },
  }
  return cluster
}

function copyCluster({ port }: PostgresCluster, { data, run }: ClusterFolder, name: string) {
  const primary = `host=127.0.0.1 port=${port} user=postgres application_name=${name}`
  const copying = ['--write-recovery-conf', '--checkpoint=fast', '--no-sync']
  return run('pg_basebackup', ['-D', data, '-d', primary, ...copying])
}

/** Lets each commit wait for a standby. */
async function waitForCommitsOf(primary: PostgresCluster, standby: string): Promise<void> {
  const query = (text: string) => queryPostgres(primary.url(), text)
  await query(`ALTER SYSTEM SET synchronous_standby_names = '${standby}'`)
  await query('SELECT pg_reload_conf()')
  const isThere = `SELECT FROM pg_stat_replication WHERE application_name = '${standby}' AND sync_state = 'sync'`
  while ((await query(isThere)).length === 0) await sleep(20)
}
