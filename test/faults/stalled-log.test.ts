import { openSync } from 'node:fs'
import { expect, test } from 'vitest'
import { inForm } from '../support/faults.ts'
import { findFreePort } from '../support/free-port.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { openPipe } from '../support/pipe.ts'
import { sendRaw } from '../support/raw-http.ts'
import { spawnMain } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

/** Enough lines to fill a pipe; in the long form also the buffer of the service. */
const BATCHES = inForm({ short: 3, long: 600 })

const BATCH = 100

const REQUEST = `GET /livez HTTP/1.1\r\nHost: x\r\nUser-Agent: ${'x'.repeat(300)}\r\n\r\n`

test.each<[reader: string, open: () => number]>([
  ['a reader that stalls', () => openPipe().writeEnd],
  [
    'no reader',
    () => {
      const pipe = openPipe()
      pipe.closeReader()
      return pipe.writeEnd
    },
  ],
  ['a full disk', () => openSync('/dev/full', 'a')],
])('a log with %s delays neither requests nor the stop', async (_reader, open) => {
  const port = await findFreePort()
  const env = { PORT: `${port}` }
  const { end } = spawnMain({ cwd: temporaryFolder(), env, stdoutTo: open() })
  await until(() => fetch(`http://127.0.0.1:${port}/livez`).catch(() => undefined))
  for (let batch = 0; batch < BATCHES; batch++) {
    const { answers, socket } = sendRaw(port, REQUEST.repeat(BATCH))
    const statuses = (await answers(BATCH)).map(({ status }) => status)
    expect(new Set(statuses)).toEqual(new Set([200]))
    socket.destroy()
  }
  expect((await end('SIGTERM')).code).toBe(0)
})
