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

test.skipIf(!hasLoadTool)('npm run bench measures the service and prints a table', async () => {
  const brief = ['--seconds', '1', '--warm-up', '0', '--connections', '4', '--rounds', '1']
  const args = [...brief, '--servers', 'service', '--workloads', 'read']
  const { stdout } = await promisify(execFile)(process.execPath, [`${BENCH}compare.mjs`, ...args])
  expect(stdout).toMatch(/^### GET one\n[\s\S]*^\| this service \| [\d,]+ \| [\d.]+ \| [\d.]+ \|/m)
})
