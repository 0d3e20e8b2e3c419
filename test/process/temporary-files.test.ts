import { watch } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { fillDatabase } from '../support/fill-users.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { spawnService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

/** More than SQLite sorts in its memory for pages. */
const COUNT = 40_000

test('a long list is sorted in files beside the database, and not in /tmp', async () => {
  const cwd = temporaryFolder()
  await fillDatabase(cwd, COUNT, `Ann ${'x'.repeat(90)}`)
  const { url } = await spawnService({ cwd })
  const names: (string | null)[] = []
  const watcher = watch(join(cwd, 'data'), (_, name) => names.push(name))
  onTestFinished(() => watcher.close())
  const headers = { Accept: 'application/x-ndjson' }
  const response = await fetch(`${url}/users?q=ann&sort=name`, { headers })
  expect((await response.text()).split('\n')).toHaveLength(COUNT + 1)
  // SQLite deletes them while they are open, or they never had a name, and Linux shows a number.
  await until(() => names.some(name => /^(?:etilqs_|#\d)/.test(name ?? '')))
})
