import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, test } from 'vitest'
import { expectToGoOn, LOOPS, runLoop } from '../support/documented-loops.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { installPackages } from '../support/packed-package.ts'
import { openScriptedServer, type Step } from '../support/scripted-server.ts'
import { until } from '../support/until.ts'

const [LOOP] = LOOPS.filter(({ code }) => code.includes('new EventSource'))

/** The address of `eventsource` 2, newly installed. */
async function installEventSource2(): Promise<string> {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'package.json'), '{}')
  await installPackages(folder, 'eventsource@2.0.2')
  return pathToFileURL(join(folder, 'node_modules/eventsource/lib/eventsource.js')).href
}

const breakWithinEvent: Step = response => {
  response.writeHead(200, { 'Content-Type': 'text/event-stream' })
  response.write('id: one\nevent: user\ndata: {"id":1}\n\nid: two\nevent: user\nda')
  setTimeout(() => response.destroy(), 100)
}

test('with `eventsource` 2 the loop of docs/changes.md goes on, begins again on 410, and skips no event that was cut off', async () => {
  const eventSource = await installEventSource2()
  if (LOOP === undefined) throw new Error('the page has no such loop')
  await expectToGoOn([url => runLoop(LOOP, url, eventSource)])

  const server = await openScriptedServer([breakWithinEvent])
  runLoop(LOOP, server.url, eventSource)
  const streams = () =>
    server.requests.filter(({ headers }) => headers.accept === 'text/event-stream')
  await until(() => streams().length > 1)
  expect(streams()[1]?.path).toBe('/users/changes?after=one')
  expect(streams()[1]?.headers).not.toHaveProperty('last-event-id')
})
