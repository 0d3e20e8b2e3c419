import { execFile, spawn } from 'node:child_process'
import { appendFileSync, chownSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { cleanUpAfter } from './clean-up-after.ts'
import { findFreePort } from './free-port.ts'
import { queryPostgres } from './postgres-databases.ts'
import { type PostmasterOptions, startPostmaster } from './postmaster.ts'
import { findPostgresBinaries } from './programs.ts'
import { owner } from './unprivileged-user.ts'

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

/** Where a PostgreSQL cluster of the tests keeps its files. They belong to the user that runs the server, never root. */
export type ClusterFolder = ReturnType<typeof makeClusterFolder>

/** Nothing of the environment, because programs of PostgreSQL take settings from it. */
const ENVIRONMENT = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' }

/** Makes an empty folder. Throws if no PostgreSQL server is installed. */
function makeClusterFolder() {
  const binaries = findPostgresBinaries()
  if (binaries === undefined) throw new Error('no PostgreSQL server is installed')
  const path = mkdtempSync(join(transientParent(), 'user-records-pg-'))
  giveToOwner(path)
  const data = join(path, 'data')
  const endWatch = cleanUpAfter(WATCH, path)
  const options = { cwd: path, env: ENVIRONMENT, ...owner }
  return {
    /** Also the folder of the Unix socket. */
    path,
    data,
    /** Starts a program of PostgreSQL as the user of the server. */
    spawn: (program: string, args: readonly string[], environment: Record<string, string> = {}) =>
      spawn(join(binaries, program), args, {
        ...options,
        env: { ...ENVIRONMENT, ...environment },
        stdio: ['ignore', 'ignore', 'pipe'],
        // Ctrl-C is for the tests, which then stop the server.
        detached: true,
      }),
    /** Runs a program of PostgreSQL to its end. */
    run: async (program: string, args: readonly string[]): Promise<void> => {
      await promisify(execFile)(join(binaries, program), args, options)
    },
    /** Writes a file of the data folder that only the server can read. */
    write: (name: string, text: string): void => {
      writeFileSync(join(data, name), text, { mode: 0o600 })
      giveToOwner(join(data, name))
    },
    /** Deletes it. Nothing may use it then. */
    remove: (): void => {
      rmSync(path, { recursive: true, force: true })
      endWatch()
    },
  }
}

function giveToOwner(path: string): void {
  if (owner.uid !== undefined) chownSync(path, owner.uid, owner.gid ?? owner.uid)
}

/** Waits for the end of its input, then ends the server and deletes the folder. */
const WATCH = `
  cat > /dev/null
  if read -r id < "$1/data/postmaster.pid"; then
    kill -QUIT "$id" && kill -CONT "$id"
    while kill -0 "$id"; do sleep 0.1; done
  fi
  rm -rf "$1"`

const MEMORY = '/dev/shm'

const TMPFS = 0x01021994

const ENOUGH_BYTES = 4 * 1024 ** 3

/**
 * Where to make folders: they need not outlive a loss of power. It is in memory if the machine has plenty of it: ext4 takes long
 * to make files right after others were deleted, as each new database of PostgreSQL does.
 */
function transientParent(): string {
  try {
    const { type, bavail, bsize } = statfsSync(MEMORY)
    const hasMemory = type === TMPFS && Math.min(bavail * bsize, freemem()) >= ENOUGH_BYTES
    return hasMemory ? MEMORY : tmpdir()
  } catch {
    return tmpdir()
  }
}
