import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryFolder } from './support/open-test-app.ts'
import { until } from './support/until.ts'

const SCRIPT = fileURLToPath(new URL('../scripts/test-matrix.mjs', import.meta.url))

const PASSED = { node: 'v20.20.0', passed: 7, failed: 0, skipped: 2, ended: 0 }

/** A report of the cells sqlite and workers on Node 20, and an npm that is a script. */
function prepare(results: Readonly<Record<string, object>>, npm: string) {
  const folder = temporaryFolder()
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\n${npm}\n`, { mode: 0o755 })
  const plan = { commit: 'none', nodes: ['20'], cells: ['sqlite', 'workers'], args: [] }
  const path = join(folder, 'matrix.json')
  writeFileSync(path, JSON.stringify({ plan, results }))
  const args = [SCRIPT, '--report', folder, '--resume']
  return { folder, path, args, env: { PATH: `${bin}:${process.env.PATH}`, TMPDIR: folder } }
}

/** Resumes a run where npm can install nothing. */
function resume(results: Readonly<Record<string, object>>) {
  const { path, args, env } = prepare(results, 'exit 3')
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
  return { status, stdout, saved: JSON.parse(readFileSync(path, 'utf8')).results }
}

test('npm run test:matrix succeeds if all tests passed, and runs finished cells no more', () => {
  const results = { '20 sqlite': PASSED, '20 workers': PASSED }
  const { status, stdout, saved } = resume(results)
  expect(stdout).toContain('7 passed, 0 failed, 2 skipped')
  expect(saved).toEqual(results)
  expect(status).toBe(0)
})

test.each([
  ['a failed test', { ...PASSED, failed: 1 }, '7 passed, 1 failed, 2 skipped'],
  ['no test', { ...PASSED, passed: 0 }, '0 passed, 0 failed, 2 skipped'],
  ['an error outside of tests', { ...PASSED, ended: 1 }, 'ended with 1'],
])('npm run test:matrix fails after a cell with %s', (_name, result, text) => {
  const { status, stdout } = resume({ '20 sqlite': PASSED, '20 workers': result })
  expect(stdout).toContain(text)
  expect(status).toBe(1)
})

test.each([
  ['that is missing', {}],
  ['that was interrupted', { '20 workers': { problem: 'interrupted' } }],
])('npm run test:matrix runs a cell %s, and fails if it does not start', (_name, result) => {
  const { status, stdout, saved } = resume({ '20 sqlite': PASSED, ...result })
  expect(stdout).toContain('Node 20, workers: did not run: npm install ended with 3')
  expect(saved['20 sqlite']).toEqual(PASSED)
  expect(saved['20 workers'].problem).toContain('did not run')
  expect(status).toBe(1)
})

test('npm run test:matrix ends all that it runs at SIGTERM, and fails', async () => {
  const waiting = `trap : TERM; sh -c 'touch "$TMPDIR/started"; exec sleep 600'`
  const { folder, args, env } = prepare({ '20 sqlite': PASSED }, waiting)
  const script = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
  const exited = once(script, 'exit')
  let output = ''
  script.stdout.setEncoding('utf8').on('data', text => {
    output += text
  })
  await until(async () => existsSync(join(folder, 'started')))
  script.kill('SIGTERM')
  expect(await exited).toEqual([1, null])
  expect(output).toContain('not run')
})
