import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { attempt, interrupted } from './processes.mjs'

/**
 * Imports and exports in turn, each import into a new database. Each of them counts as a test.
 * An export with too few users has failed.
 */
export async function runTransfers(checkout, { transfers, users, folder, json, log }) {
  const main = join(checkout.path, 'dist', 'main.js')
  const input = join(folder, 'users.ndjson')
  writeFileSync(input, usersAsNdjson(users))
  const results = []
  for (let turn = 0; turn < transfers; turn++) {
    const cwd = mkdtempSync(join(folder, 'turn-'))
    const options = { cwd, env: checkout.env, log }
    const imported = await attempt('node', [main, 'import', input], options)
    const exported = await attempt('node', [main, 'export', 'out.ndjson'], options)
    interrupted.throwIfAborted()
    const exportedUsers = exported === 0 ? countLines(join(cwd, 'out.ndjson')) : 0
    results.push({ imported, exported, exportedUsers })
    rmSync(cwd, { recursive: true, force: true })
  }
  writeFileSync(json, `${JSON.stringify(results, null, 2)}\n`)
  const passed = results.flatMap(({ imported, exportedUsers }) =>
    [imported === 0, exportedUsers === users].filter(Boolean),
  ).length
  return { passed, failed: 2 * transfers - passed, skipped: 0, ended: 0 }
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
