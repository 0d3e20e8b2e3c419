import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type CopyProgress, copyDatabase } from '../../../src/storage/copy/copy-database.ts'
import type { CopySource, CopyTarget } from '../../../src/storage/copy/database-copy.ts'
import { openSqliteCopySource } from '../../../src/storage/sqlite/copy/sqlite-copy-source.ts'
import { openSqliteCopyTarget } from '../../../src/storage/sqlite/copy/sqlite-copy-target.ts'
import { examineWords } from '../../../src/storage/sqlite/maintenance/check-words.ts'
import { examine } from '../../../src/storage/sqlite/maintenance/find-faults.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { UnusableDatabase } from '../../../src/storage/unusable-database.ts'
import { copiedContent, failAtWrite, Killed, makeCopySource } from '../../support/copy-databases.ts'
import { execute } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

interface Place {
  readonly from: string
  readonly to: string
}

async function place(users?: number): Promise<Place> {
  const folder = temporaryFolder()
  const from = join(folder, 'from.db')
  await makeCopySource(from, users)
  return { from, to: join(folder, 'to.db') }
}

/** As a service leaves it that nobody has used. */
async function makeEmpty(path: string): Promise<void> {
  const database = await openSqlite({ path, now: Date.now })
  database.close()
}

interface CopyOptions {
  readonly chunkRows?: number
  readonly onProgress?: (progress: CopyProgress) => void
  readonly signal?: AbortSignal
  /** Replaces methods of the ends. */
  readonly source?: (source: CopySource) => Partial<CopySource>
  readonly target?: (target: CopyTarget) => Partial<CopyTarget>
}

/** Copies in small chunks. */
async function copy({ from, to }: Place, options: CopyOptions = {}) {
  const { source: changeSource, target: changeTarget, ...rest } = options
  const source = await openSqliteCopySource(from)
  onTestFinished(source.close)
  try {
    const target = await openSqliteCopyTarget(to)
    try {
      return await copyDatabase({
        chunkRows: 4,
        ...rest,
        source: { ...source, ...changeSource?.(source) },
        target: { ...target, ...changeTarget?.(target) },
      })
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

function expectCopied({ from, to }: Place): void {
  expect(copiedContent(to)).toEqual(copiedContent(from))
}

/** Whether the copy got to that write, where it ends as if it was killed. */
async function interrupt(at: Place, write: number): Promise<boolean> {
  try {
    await copy(at, { target: failAtWrite(write) })
    return false
  } catch (error) {
    if (!(error instanceof Killed)) throw error
    return true
  }
}

describe('copyDatabase', () => {
  test('copies everything: ids, digests, times, keys, bans, API keys, signing keys and the last id', async () => {
    const at = await place()
    const before = readFileSync(at.from)
    const result = await copy(at)
    expect(readFileSync(at.from).equals(before)).toBe(true)
    expectCopied(at)
    expect(result).toEqual({
      users: 23,
      idempotencyKeys: 14,
      bans: 5,
      apiKeys: 5,
      lastId: 25,
      checksum: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
  })

  test.each([1, 23, 24, 1000])('in chunks of %i rows', async chunkRows => {
    const at = await place()
    await copy(at, { chunkRows })
    expectCopied(at)
  })

  test('the copy gives out no id that the source had given out', async () => {
    const at = await place()
    execute(at.from, 'DELETE FROM users')
    await copy(at)
    const database = await openSqlite({ path: at.to, now: Date.now })
    const { lastInsertRowid } = database
      .prepare(
        `INSERT INTO users (name, name_lower, email, created_at, updated_at)
         SELECT 'A', 'a', 'a@x.co', t, t FROM (SELECT '2026-01-31T12:00:00.000Z' AS t)`,
      )
      .run()
    database.close()
    expect(lastInsertRowid).toBe(26)
  })

  test('an empty source makes an empty copy with its signing keys', async () => {
    const folder = temporaryFolder()
    const at = { from: join(folder, 'from.db'), to: join(folder, 'to.db') }
    await makeEmpty(at.from)
    expect(await copy(at)).toMatchObject({ users: 0, lastId: 0 })
    expect(copiedContent(at.to).signingKeys).toEqual(copiedContent(at.from).signingKeys)
    // Nothing was ever in it, so it may be the target again.
    expect(await copy(at)).toMatchObject({ users: 0, lastId: 0 })
  })

  test('the checksum tells any difference', async () => {
    const at = await place()
    const { checksum } = await copy(at)
    const changes = [
      `UPDATE users SET password_digest = '$x' WHERE id = 1`,
      `UPDATE users SET updated_at = '2031-01-01T00:00:00.000Z' WHERE id = 1`,
      'UPDATE idempotency_keys SET expires_at = 7 WHERE user_id = 1',
      `UPDATE bans SET lasts_ms = 7 WHERE rule = 'é'`,
      `UPDATE api_keys SET scopes = 'users:write' WHERE name = 'a-b'`,
      `UPDATE api_keys SET last_used_at = 7 WHERE name = 'web'`,
    ]
    const checksums = new Set([checksum])
    for (const [index, sql] of changes.entries()) {
      execute(at.from, sql)
      checksums.add((await copy({ ...at, to: `${at.to}.${index}` })).checksum)
    }
    expect(checksums.size).toBe(1 + changes.length)
  })

  test('copies one state, whatever is written to the source meanwhile', async () => {
    const at = await place()
    const before = copiedContent(at.from)
    let writes = 0
    await copy(at, {
      onProgress: () => {
        execute(
          at.from,
          `UPDATE users SET name = 'Changed ${writes++}'; DELETE FROM users WHERE id = 23`,
        )
        execute(at.from, `DELETE FROM bans WHERE rule = 'login'; DELETE FROM api_keys`)
      },
    })
    expect(writes).toBeGreaterThan(2)
    expect(copiedContent(at.to)).toEqual(before)
  })

  test('reports its progress', async () => {
    const at = await place()
    const seen: CopyProgress[] = []
    await copy(at, { chunkRows: 10, onProgress: progress => seen.push(progress) })
    const expected = (['copy', 'verify'] as const).flatMap(step =>
      [10, 20, 23].map(users => ({ step, users, totalUsers: 23 })),
    )
    expect(seen).toEqual(expected)
  })
})

describe('an interrupted copy', () => {
  test('starts over after an interruption at any write, and again', async () => {
    const at = await place()
    const expected = copiedContent(at.from)
    const examined = examine(at.from)
    let interruptions = 0
    for (let write = 1; ; write++) {
      const to = `${at.to}.${write}`
      if (!(await interrupt({ ...at, to }, write))) break
      interruptions++
      // Interrupted a second time, at each of its first writes.
      await interrupt({ ...at, to }, 1 + (write % 4))
      await copy({ ...at, to })
      expect(copiedContent(to)).toEqual(expected)
      expect(examine(to)).toEqual(examined)
      expect(examineWords(to)).toEqual([])
    }
    expect(interruptions).toBeGreaterThan(10)
  })

  test('takes over what has changed in the source, also addresses that moved to other users', async () => {
    const at = await place()
    expect(await interrupt(at, 10)).toBe(true)
    execute(
      at.from,
      `UPDATE users SET email = id || '@old.co'; UPDATE users SET email = 'user' || (24 - id) || '@x.co';
       DELETE FROM users WHERE id IN (1, 5, 6); DELETE FROM idempotency_keys WHERE user_id > 4;
       UPDATE bans SET ends_at = 9; DELETE FROM api_keys WHERE name = 'web'`,
    )
    await copy(at)
    expectCopied(at)
  })

  test('makes room for another source', async () => {
    const at = await place(100)
    expect(await interrupt(at, 20)).toBe(true)
    const other = await place()
    await copy({ ...at, from: other.from })
    expect(copiedContent(at.to)).toEqual(copiedContent(other.from))
  })

  test('stops at the signal with its reason, and starts over later', async () => {
    const at = await place()
    const controller = new AbortController()
    const { signal } = controller
    const stopped = copy(at, {
      signal,
      onProgress: ({ users }) => users >= 8 && controller.abort(),
    })
    await expect(stopped).rejects.toMatchObject({ name: 'AbortError' })
    expect(await copy(at)).toMatchObject({ users: 23 })
    expectCopied(at)
  })

  test('is unfinished until it is verified', async () => {
    const at = await place()
    const controller = new AbortController()
    const onProgress = ({ step }: CopyProgress) => step === 'verify' && controller.abort()
    const { signal } = controller
    await expect(copy(at, { signal, onProgress })).rejects.toMatchObject({ name: 'AbortError' })
    await expect(openSqlite({ path: at.to, now: Date.now })).rejects.toThrow(/unfinished copy/)
    expect(await copy(at)).toMatchObject({ users: 23 })
  })
})

describe('the target of a copy', () => {
  const uses = {
    'a user': `INSERT INTO users (name, name_lower, email, created_at, updated_at)
      SELECT 'A', 'a', 'a@x.co', t, t FROM (SELECT '2026-01-31T12:00:00.000Z' AS t)`,
    'an idempotency key': `INSERT INTO idempotency_keys (key_hash, user_id, expires_at) VALUES (zeroblob(32), 1, 1)`,
    'a ban': `INSERT INTO bans (rule, client_key, ends_at) VALUES ('login', '::1', 1)`,
    'an API key': `INSERT INTO api_keys (name, key_hash, scopes, created_at)
      VALUES ('web', zeroblob(32), 'users:read', 1)`,
    'a used id': `INSERT INTO sqlite_sequence (name, seq) VALUES ('users', 1)`,
  }

  test.each(Object.entries(uses))('is refused with %s, and stays as it was', async (_, sql) => {
    const at = await place()
    await makeEmpty(at.to)
    execute(at.to, sql)
    const before = copiedContent(at.to)
    await expect(copy(at)).rejects.toThrow(
      new UnusableDatabase(
        'it is not empty: it has users, idempotency keys, bans or API keys, or had users',
      ),
    )
    expect(copiedContent(at.to)).toEqual(before)
    await makeEmpty(at.to)
  })

  test('may be a database that a service has created and never used', async () => {
    const at = await place()
    await makeEmpty(at.to)
    await copy(at)
    expectCopied(at)
  })

  const losses: Record<string, (target: CopyTarget) => Partial<CopyTarget>> = {
    'it has 22 users instead of 23': target => ({
      users: async (...range) => (await target.users(...range)).filter(([id]) => id !== 7),
    }),
    'its users differ from those of the source': target => ({
      users: async (...range) =>
        (await target.users(...range)).map(([id, , ...rest]) => [id, 'Other', ...rest]),
    }),
    'it has 13 idempotency keys instead of 14': target => ({
      idempotencyKeys: async (...after) =>
        (await target.idempotencyKeys(...after)).filter(([, id]) => id !== 3),
    }),
    'its bans differ from those of the source': target => ({
      bans: async (...after) =>
        (await target.bans(...after)).map(([rule, client, ends]) => [rule, client, ends, 8]),
    }),
    'it has 4 API keys instead of 5': target => ({
      apiKeys: async (...after) =>
        (await target.apiKeys(...after)).filter(([name]) => name !== 'web'),
    }),
    'its API keys differ from those of the source': target => ({
      apiKeys: async (...after) =>
        (await target.apiKeys(...after)).map(([name, hash, , ...times]) => [
          name,
          hash,
          'all',
          ...times,
        ]),
    }),
    'its signing keys differ from those of the source': target => ({
      signingKeys: async () => (await target.signingKeys()).map(([name]) => [name, '00']),
    }),
    'it would give out used ids again': () => ({ lastId: async () => 24 }),
  }

  test.each(Object.entries(losses))('stays unfinished if %s', async (message, target) => {
    const at = await place()
    await expect(copy(at, { chunkRows: 100, target })).rejects.toThrow(
      `after the copy ${message}: make sure that no other program writes to it, and run \`copy\` again`,
    )
    await expect(openSqlite({ path: at.to, now: Date.now })).rejects.toThrow(/unfinished copy/)
  })
})
