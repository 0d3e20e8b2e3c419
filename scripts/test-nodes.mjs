// Runs the whole test suite on each supported release of Node, then imports and exports many users, and prints a table.
// Node comes from the npm registry, the code from the last commit. Exits with 1 if anything failed or was aborted.
// Usage: npm run test:nodes -- [RELEASE ...] [--transfers N] [--users N] [--no-suite]
// Defaults: all releases, 20 transfers of 200,000 users.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const PROJECT = fileURLToPath(new URL('../', import.meta.url))

const RELEASES = ['20', '22', '24', '26']

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    transfers: { type: 'string', default: '20' },
    users: { type: 'string', default: '200000' },
    'no-suite': { type: 'boolean', default: false },
  },
})
const transfers = Number(values.transfers)
const users = Number(values.users)

const rows = []
for (const release of positionals.length > 0 ? positionals : RELEASES) {
  const folder = mkdtempSync(join(tmpdir(), `node-${release}-`))
  try {
    rows.push(tryRelease(release, folder))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
console.table(rows)
process.exitCode = rows.every(isSound) ? 0 : 1

function tryRelease(release, folder) {
  const environment = withNode(release, folder)
  const version = output('node', ['--version'], { env: environment })
  console.log(`Node ${version}`)
  const checkout = join(folder, 'checkout')
  run('git', ['clone', '--quiet', PROJECT, checkout])
  run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: checkout, env: environment })
  const driver = output('node', ['-p', "require('./package.json').version"], {
    cwd: join(checkout, 'node_modules', releaseOfDriver(version)),
    env: environment,
  })
  const suite = values['no-suite'] ? {} : testSuite(checkout, folder, environment)
  return {
    node: version,
    'better-sqlite3': driver,
    ...suite,
    ...transfer(checkout, folder, environment),
  }
}

/** An environment in which `node`, and the npm that runs on it, is of that release. */
function withNode(release, folder) {
  const name = `node-${process.platform}-${process.arch}`
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  run('npm', ['install', '--no-save', '--no-audit', '--no-fund', `${name}@${release}`], {
    cwd: folder,
  })
  const bin = join(folder, 'node_modules', name, 'bin')
  const { PATH, HOME, CHROMIUM_PATH = '' } = process.env
  return { PATH: `${bin}${delimiter}${PATH}`, HOME, CHROMIUM_PATH }
}

function releaseOfDriver(version) {
  return version.startsWith('v20.') ? 'better-sqlite3-node-20' : 'better-sqlite3'
}

function testSuite(checkout, folder, env) {
  const report = join(folder, 'report.json')
  const reporters = ['--reporter=json', `--outputFile.json=${report}`]
  attempt('npm', ['test', '--', ...reporters], { cwd: checkout, env })
  const { numPassedTests, numFailedTests, numPendingTests, numFailedTestSuites, testResults } =
    JSON.parse(readFileSync(report, 'utf8'))
  for (const { name, assertionResults } of testResults) {
    for (const { status, fullName, failureMessages } of assertionResults) {
      if (status === 'failed') console.log(`failed: ${name}: ${fullName}: ${failureMessages[0]}`)
    }
  }
  return {
    passed: numPassedTests,
    failed: Math.max(numFailedTests, numFailedTestSuites),
    skipped: numPendingTests,
  }
}

/** Imports and exports in turn, each import into a new database. An export with too few users counts as aborted. */
function transfer(checkout, folder, env) {
  const main = join(checkout, 'dist', 'main.js')
  const input = join(folder, 'users.ndjson')
  writeFileSync(input, usersAsNdjson(users))
  const counts = { imports: 0, 'aborted imports': 0, exports: 0, 'aborted exports': 0 }
  for (let turn = 0; turn < transfers; turn++) {
    const cwd = mkdtempSync(join(folder, 'turn-'))
    const imported = attempt('node', [main, 'import', input], { cwd, env })
    counts[imported === 0 ? 'imports' : 'aborted imports']++
    const exported = attempt('node', [main, 'export', 'out.ndjson'], { cwd, env })
    counts[
      exported === 0 && countLines(join(cwd, 'out.ndjson')) === users
        ? 'exports'
        : 'aborted exports'
    ]++
    rmSync(cwd, { recursive: true, force: true })
  }
  return counts
}

function usersAsNdjson(count) {
  const lines = Array.from({ length: count }, (_, index) =>
    JSON.stringify({ name: `User ${index}`, email: `user-${index}@example.com` }),
  )
  return `${lines.join('\n')}\n`
}

function countLines(path) {
  return readFileSync(path, 'utf8').split('\n').length - 1
}

function isSound({ failed = 0, 'aborted imports': imports, 'aborted exports': exports }) {
  return failed + imports + exports === 0
}

/** Returns the exit code, or the name of the signal that ended the command. */
function attempt(command, args, options) {
  const { status, signal, stderr } = spawnSync(command, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    ...options,
  })
  if (status !== 0) console.log(`${command} ${args[1]}: ${signal ?? status} ${stderr ?? ''}`)
  return status ?? signal
}

function run(command, args, options) {
  const result = attempt(command, args, options)
  if (result !== 0) throw new Error(`${command} ${args.join(' ')} ended with ${result}`)
}

function output(command, args, options) {
  const { stdout } = spawnSync(command, args, { encoding: 'utf8', ...options })
  return stdout.trim()
}
