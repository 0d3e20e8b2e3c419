import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const BENCH = fileURLToPath(new URL('../../bench/', import.meta.url))

const hasLoadTool =
  spawnSync('wrk', ['--version']).error === undefined ||
  existsSync(`${BENCH}node_modules/autocannon`)
if (!hasLoadTool) console.log('npm run bench is not tried: neither wrk nor autocannon is installed')

function bench(...args: readonly string[]) {
  return promisify(execFile)(process.execPath, [`${BENCH}compare.mjs`, ...args])
}

test.skipIf(!hasLoadTool)('npm run bench measures the service and prints a table', async () => {
  const brief = ['--seconds', '1', '--warm-up', '0', '--connections', '4', '--rounds', '1']
  const { stdout } = await bench(...brief, '--servers', 'service', '--workloads', 'read')
  expect(stdout).toMatch(/^### GET one\n[\s\S]*^\| this service \| [\d,]+ \| [\d.]+ \| [\d.]+ \|/m)
})

test('npm run bench refuses servers that take part in none of the workloads', async () => {
  await expect(bench('--servers', 'keys', '--workloads', 'create')).rejects.toMatchObject({
    code: 2,
  })
})

test.each([
  ['--rounds', '0', '--rounds must be a whole number from 1 to 100'],
  ['--servers', 'rails', '--servers: there is no rails; known are service,'],
  ['--workloads', 'read,write', '--workloads: there is no write; known are read,'],
])('npm run bench refuses %s %s', async (option, value, message) => {
  await expect(bench(option, value)).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining(message),
  })
})
