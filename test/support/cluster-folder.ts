import { execFile, spawn } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cleanUpAfter } from './clean-up-after.ts'
import { findPostgresBinaries } from './programs.ts'
import { owner } from './unprivileged-user.ts'

/** Where a PostgreSQL cluster of the tests keeps its files. They belong to the user that runs the server, never root. */
export type ClusterFolder = ReturnType<typeof makeClusterFolder>

/** Nothing of the environment, because programs of PostgreSQL take settings from it. */
const ENVIRONMENT = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' }

/** Makes an empty folder. Throws if no PostgreSQL server is installed. */
export function makeClusterFolder() {
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
