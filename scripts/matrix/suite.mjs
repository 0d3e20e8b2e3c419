import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { attempt, interrupted } from './processes.mjs'

/** Runs a project of vitest, which writes its report to the file `json`. `args` are files and options of vitest. */
export async function runSuite(checkout, { project, env = {}, args, json, log }) {
  rmSync(json, { force: true })
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${json}`]
  const vitest = join('node_modules', 'vitest', 'vitest.mjs')
  const ended = await attempt(
    'node',
    [vitest, 'run', '--project', project, ...reporters, ...args],
    {
      cwd: checkout.path,
      env: { ...checkout.env, ...env },
      log,
    },
  )
  interrupted.throwIfAborted()
  if (!existsSync(json)) throw new Error(`vitest ended with ${ended} and wrote no report: ${log}`)
  return { ...countTests(JSON.parse(readFileSync(json, 'utf8'))), ended }
}

/** A file that could not be loaded counts as a failed test. */
function countTests({ numPassedTests, numPendingTests, numTodoTests, testResults }) {
  const failed = testResults.flatMap(({ status, assertionResults }) => {
    const tests = assertionResults.filter(test => test.status === 'failed')
    return status === 'failed' && tests.length === 0 ? [status] : tests
  })
  return {
    passed: numPassedTests,
    failed: failed.length,
    skipped: numPendingTests + numTodoTests,
  }
}
