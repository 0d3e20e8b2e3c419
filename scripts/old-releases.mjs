import { execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'

/** Release 0.1.0, which knew SQLite only. */
export const FIRST_RELEASE = '0c878421622832f3026f5a05e238b9e21b0b9b1b'

/** The oldest commit whose schema of PostgreSQL the present release takes over. */
export const FIRST_ON_POSTGRES = '1d43714acfddf1ed3627c51f3df0197062b601c4'

/** The newest schema that is stored, of both engines. */
export const NEWEST = 'd5aca492e53cc4e49fb1698d175e993d4f8cbd4f'

const PROJECT = fileURLToPath(new URL('../', import.meta.url))

const BUILT = join(PROJECT, 'node_modules/.cache/commits')

/**
 * Installs and builds this project as it was at a commit, in a folder under `node_modules`. Returns the path of its `main.js`.
 * A commit is built once.
 */
export function buildCommit(commit) {
  const folder = join(BUILT, commit)
  const main = join(folder, 'dist/main.js')
  if (existsSync(main)) return main
  const unfinished = `${folder}.${process.pid}`
  mkdirSync(unfinished, { recursive: true })
  try {
    const archive = join(unfinished, 'commit.tar')
    execFileSync('git', ['archive', '--output', archive, commit], { cwd: PROJECT })
    execFileSync('tar', ['-xf', archive, '-C', unfinished])
    const args = ['ci', '--no-audit', '--no-fund']
    execFileSync('npm', args, { cwd: unfinished, stdio: ['ignore', 2, 2] })
    renameSync(unfinished, folder)
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
  return main
}

/** Starts a `main.js` with nothing but this environment and PATH. */
export function startMain({ main, cwd, env, args = [] }) {
  const child = spawn(process.execPath, [main, ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...env },
  })
  // So that a script that fails leaves none behind.
  process.on('exit', () => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', chunk => {
      output += chunk
    })
  }
  return { child, output: () => output, exited: once(child, 'close').then(([code]) => code) }
}

/** The URL of a service, once it listens. */
export async function untilServes({ output, child }) {
  const pattern = /"url":"([^"]+)"/
  while (!pattern.test(output())) {
    if (child.exitCode !== null) throw new Error(output())
    await sleep(20)
  }
  return pattern.exec(output())[1]
}

/** Makes a database on a server, calls `work` with its URL, and drops it. */
export async function withDatabase(server, work) {
  const name = `old_release_${randomBytes(6).toString('hex')}`
  const url = new URL(server)
  url.pathname = `/${name}`
  await query(server, `CREATE DATABASE ${name} ENCODING 'UTF8' TEMPLATE template0`)
  try {
    return await work(url.href)
  } finally {
    await query(server, `DROP DATABASE ${name} WITH (FORCE)`)
  }
}

/** Calls `work` with a folder that is deleted afterwards. */
export async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), 'old-release-'))
  try {
    return await work(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function query(url, text) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}
