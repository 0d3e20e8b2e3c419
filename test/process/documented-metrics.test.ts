import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { openMonitoredService } from '../support/monitored-service.ts'

const GUIDE = fileURLToPath(new URL('../../docs/operations.md', import.meta.url))

/** The rows of the table of metrics. */
function readTable(): { name: string; labels: readonly string[] }[] {
  const [, section = ''] = /^### Metrics\n([\s\S]*?)^##/m.exec(readFileSync(GUIDE, 'utf8')) ?? []
  const rows = section.matchAll(/^\| `(\w+)` \|([^|]*)\| [^|]+ \|$/gm)
  return Array.from(rows, ([, name = '', labels = '']) => ({
    name,
    labels: labels.match(/\w+/g) ?? [],
  }))
}

test('docs/operations.md has each metric of GET /metrics with its labels, and no other', async () => {
  const monitored = await openMonitoredService()
  await monitored.use()
  const text = await monitored.scrape()
  const documented = readTable()
  const names = [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name)
  expect(names.sort()).toEqual(documented.map(({ name }) => name).sort())

  for (const { name, labels } of documented) {
    const found = [...text.matchAll(new RegExp(`^${name}(?:_bucket)?\\{(.*)\\} `, 'gm'))]
      .flatMap(([, pairs = '']) => [...pairs.matchAll(/(\w+)="/g)])
      .map(([, label]) => label)
    const isCounted = new RegExp(`^${name}(?:_bucket)?[ {]`, 'm').test(text)
    // One engine has no connections, the other no files, and there may have been no garbage collection yet.
    if (!isCounted) continue
    const own = new Set(found.filter(label => label !== 'le'))
    expect([...own].sort(), name).toEqual([...labels].sort())
  }
})
