import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cleanUpAfter } from './clean-up-after.ts'
import { findPostgresBinaries } from './postgres-binaries.ts'
import { transientParent } from './transient-parent.ts'
import { owner } from './unprivileged-user.ts'

/** Where a PostgreSQL cluster of the tests keeps its files. They belong to the user that runs the server, never root. */
export interface ClusterFolder {
  /** Also the folder of the Unix socket. */
  readonly path: string
  readonly data: string
  /** Starts a program of PostgreSQL as the user of the server. */
  spawn(
    program: string,
    args: readonly string[],
    environment?: Readonly<Record<string, string>>,
  ): ChildProcess
  /** Runs a program of PostgreSQL to its end. */
  run(program: string, args: readonly string[]): Promise<void>
  /** Writes a file of the data folder that only the server can read. */
  write(name: string, text: string): void
  /** Deletes it. Nothing may use it then. */
  remove(): void
  /** Leaves it to the process that cleans up, as the end of this process does. */
  abandon(): void
}

/** Nothing of the environment, because programs of PostgreSQL take settings from it. */
const ENVIRONMENT = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' }

/** Makes an empty folder, on a disk if it is to be durable. Throws if no PostgreSQL server is installed. */
export function makeClusterFolder(isDurable: boolean): ClusterFolder {
  const binaries = findPostgresBinaries()
  if (binaries === undefined) throw new Error('no PostgreSQL server is installed')
  const path = mkdtempSync(join(isDurable ? tmpdir() : transientParent(), 'user-records-pg-'))
  giveToOwner(path)
  const data = join(path, 'data')
  const abandon = cleanUpAfter(WATCH, path)
  const options = { cwd: path, env: ENVIRONMENT, ...owner }
  return {
    path,
    data,
    spawn: (program, args, environment) =>
      spawn(join(binaries, program), args, {
        ...options,
        env: { ...ENVIRONMENT, ...environment },
        stdio: ['ignore', 'ignore', 'pipe'],
        // Ctrl-C is for the tests, which then stop the server.
        detached: true,
      }),
    run: async (program, args) => {
      await promisify(execFile)(join(binaries, program), args, options)
    },
    write: (name, text) => {
      writeFileSync(join(data, name), text, { mode: 0o600 })
      giveToOwner(join(data, name))
    },
    remove: () => {
      rmSync(path, { recursive: true, force: true })
      abandon()
    },
    abandon,
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
