import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { createRandom, inForm, report } from '../../support/faults.ts'
import { type Asked, createKeepAliveClient } from '../../support/keep-alive-client.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'
import type { RawAnswer } from '../../support/raw-http.ts'
import { executeSql } from '../../support/sql.ts'
import { createDice } from '../step.ts'
import { createUserModel } from '../user-model.ts'
import { nextStep } from '../user-steps.ts'

const STEPS = inForm({ short: 2000, long: 100_000 })

/** Random for each database; cursors are signed with it. */
const SIGNING_KEY = Buffer.alloc(32, 'signing key')

const RANDOM_HEADERS = ['date', 'x-request-id', 'etag']

/** A service on a database of its own, with the signing key and the clock of the other one. */
async function openOn(
  databaseUrl: string,
  now: () => number,
  setKey: (databaseUrl: string) => Promise<void>,
) {
  const env = { DATABASE_URL: databaseUrl }
  const first = await openTestApp({ env, now })
  await first.stop()
  await setKey(databaseUrl)
  const { port } = await openTestApp({ env, now })
  const client = createKeepAliveClient(port)
  onTestFinished(client.close)
  return async (asked: Asked) => {
    const answer = await client.ask(asked)
    if (answer === undefined) throw new Error(`no answer to ${JSON.stringify(asked)}`)
    return answer
  }
}

test(`${STEPS} random requests get the same answers on PostgreSQL as on SQLite`, async () => {
  const clock = createFakeClock()
  const databaseUrl = await copyPostgresTemplate()
  const onSqlite = await openOn(join(temporaryFolder(), 'users.db'), clock.now, async path => {
    const database = new Database(path)
    database.prepare('UPDATE signing_keys SET key = ?').run(SIGNING_KEY)
    database.close()
  })
  const onPostgres = await openOn(databaseUrl, clock.now, url =>
    executeSql(url, `UPDATE signing_keys SET key = '\\x${SIGNING_KEY.toString('hex')}'`),
  )
  const dice = createDice(createRandom())
  const model = createUserModel()
  /** The ETag of a list is another one for each database. */
  const listTags = new Map<string, string>()
  const statuses: Record<string, number> = {}
  for (let step = 0; step < STEPS; step++) {
    clock.advance(dice.below(3))
    const { asked, check } = nextStep(dice, model)
    const answer = await onSqlite(asked)
    check(answer)
    const other = await onPostgres(withTags(asked, listTags))
    const { etag, ...shown } = shownOf(answer)
    const { etag: otherTag, ...otherShown } = shownOf(other)
    expect({ asked, ...otherShown }).toEqual({ asked, ...shown })
    if (asked.path.startsWith('/users?')) listTags.set(etag ?? '', otherTag ?? '')
    else expect(otherTag).toBe(etag)
    // A refused create uses up an id.
    if (asked.method === 'POST' && answer.status === 422) {
      await executeSql(databaseUrl, `SELECT setval('users_id_seq', ${model.ids.at(-1) ?? 1})`)
    }
    const kind = `${asked.method} ${answer.status}`
    statuses[kind] = (statuses[kind] ?? 0) + 1
  }
  report('the same answers on both engines', { steps: STEPS, statuses })
})

function shownOf({ status, headers, body }: RawAnswer) {
  const shown = Object.entries(headers).filter(([name]) => !RANDOM_HEADERS.includes(name))
  return { status, headers: Object.fromEntries(shown), body, etag: headers.etag }
}

function withTags(asked: Asked, listTags: ReadonlyMap<string, string>): Asked {
  const headers = Object.entries(asked.headers ?? {}).map(([name, value]) => [
    name,
    name.toLowerCase() === 'if-none-match'
      ? value.replace(/"[^"]*"/g, tag => listTags.get(tag) ?? tag)
      : value,
  ])
  return { ...asked, headers: Object.fromEntries(headers) }
}
