// Runs all suites, or those that are named: `npm run test:all -- engines pages`. At the end it prints a table
// of their seconds and counts, what failed, and last a line `N passed, M failed`. Exits with 1 if a suite failed or had no test.

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'

/** One group after another. Those of one run at the same time, because they wait for a browser and for npm more than they compute. */
const GROUPS = [['test'], ['engines'], ['process'], ['pages', 'package'], ['faults']]

const SUITES = GROUPS.flat()

const named = process.argv.slice(2)
const unknown = named.find(name => !SUITES.includes(name))
if (unknown !== undefined) {
  console.error(`there is no suite ${unknown}; there are ${SUITES.join(', ')}`)
  process.exit(2)
}

const folder = mkdtempSync(join(tmpdir(), 'test-all-'))
// Suites that run at the same time must not build at the same time.
spawnSync(process.execPath, ['scripts/build-if-needed.mjs'], { stdio: 'inherit' })
const rows = []
for (const group of GROUPS) {
  const wanted = group.filter(name => named.length === 0 || named.includes(name))
  rows.push(...(await Promise.all(wanted.map(runSuite))))
}
rmSync(folder, { recursive: true })
console.log(
  `\n${[['suite', 'seconds', 'passed', 'failed', 'skipped'], ...rows.map(cellsOf)].map(lineOf).join('\n')}`,
)
for (const { failures } of rows) {
  for (const failure of failures) console.log(failure)
}
console.log(`${sumOf('passed')} passed, ${sumOf('failed')} failed`)
process.exit(rows.every(({ isSuccess }) => isSuccess) ? 0 : 1)

/** The output of the first suite of a group is shown as it comes, and that of the others when they end. */
async function runSuite(name, index) {
  const report = join(folder, `${name}.json`)
  const script = name === 'test' ? 'test' : `test:${name}`
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  console.log(`\n${script}`)
  const startedAt = performance.now()
  const suite = spawn('npm', ['run', '--silent', script, '--', ...reporters], {
    stdio: index === 0 ? 'inherit' : 'pipe',
  })
  const output = []
  for (const stream of [suite.stdout, suite.stderr]) stream?.on('data', part => output.push(part))
  const [status] = await once(suite, 'close')
  process.stdout.write(Buffer.concat(output))
  const seconds = Math.round((performance.now() - startedAt) / 1000)
  const counts = countsIn(report)
  const isSuccess = status === 0 && counts.passed + counts.skipped > 0
  // A file that fails to load has no failed test.
  return { name, seconds, ...counts, failed: isSuccess ? 0 : Math.max(1, counts.failed), isSuccess }
}

function countsIn(report) {
  try {
    const { numPassedTests, numFailedTests, numPendingTests, testResults } = JSON.parse(
      readFileSync(report, 'utf8'),
    )
    const failures = testResults.flatMap(failuresOf)
    return { passed: numPassedTests, failed: numFailedTests, skipped: numPendingTests, failures }
  } catch {
    return { passed: 0, failed: 0, skipped: 0, failures: [] }
  }
}

/** One line for each failed test of a file, or for the file that does not load. */
function failuresOf({ name, status, message, assertionResults }) {
  const file = relative(process.cwd(), name)
  const failed = assertionResults.filter(test => test.status === 'failed')
  const lines = failed.map(
    ({ fullName, failureMessages }) =>
      `FAILED ${file}: ${fullName}: ${firstLines(failureMessages[0])}`,
  )
  return lines.length === 0 && status === 'failed'
    ? [`FAILED ${file}: ${firstLines(message)}`]
    : lines
}

function firstLines(text = '') {
  return text.split('\n').slice(0, 6).join(' | ').slice(0, 600)
}

function cellsOf({ name, seconds, passed, failed, skipped }) {
  return [name, seconds, passed, failed, skipped]
}

function lineOf(cells) {
  return cells.map((cell, at) => (at === 0 ? cell.padEnd(8) : String(cell).padStart(8))).join('')
}

function sumOf(column) {
  return rows.reduce((sum, row) => sum + row[column], 0)
}
