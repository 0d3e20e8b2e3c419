import { copyFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { execute } from './databases.ts'
import { engine } from './engine.ts'
import type { AtEnd } from './open-test-app.ts'
import { createPostgresDatabase, queryPostgres } from './postgres-databases.ts'

/** What a request was answered with. */
export interface SeenAnswer {
  readonly status: number
  readonly text: string
  readonly etag?: string
  readonly location?: string
}

/** What clients saw of an old database, and what operators did with it. */
export interface SeenDatabase {
  /** Milliseconds since the epoch. */
  readonly madeAt: number
  readonly limits: object
  readonly list: SeenAnswer
  readonly users: readonly { id: number; text: string; etag: string }[]
  /** A link to the second page for each sort, and the ids of all pages from there on. */
  readonly walks: readonly { sort: string; next: string; rest: readonly number[] }[]
  /** E-mails and passwords. */
  readonly passwords: readonly (readonly [string, string])[]
  readonly keys: readonly (SeenAnswer & { about: string; key: string; body: object })[]
  /** By name; `undefined` if the release knows none. */
  readonly apiKeys?: Readonly<
    Record<'reader' | 'writer' | 'banned' | 'revoked' | 'expired', string>
  >
  /** The headers of banned clients. */
  readonly bans: readonly Readonly<Record<string, string>>[]
  /** Texts of imported files. */
  readonly imports: Readonly<Record<'finished' | 'killed' | 'killedRejects' | 'conflict', string>>
  readonly deleted: readonly number[]
  /** Each must find the user of this name, and it alone, after the upgrade. */
  readonly searches: readonly { q: string; name: string }[]
}

/**
 * The oldest: that of 0.1.0 on SQLite, and of the oldest commit possible on PostgreSQL. The newest: that of a commit that
 * knows API keys and indexes words.
 */
export type Age = 'oldest' | 'newest'

/** A database that an older release has filled. It is a copy, as if made just now from files in `folder`. */
export async function openOldDatabase(
  folder: string,
  age: Age,
  atEnd: AtEnd = onTestFinished,
): Promise<{ readonly databaseUrl: string; readonly seen: SeenDatabase }> {
  const fixture = fileURLToPath(new URL(`old-databases/${engine}/${age}/`, import.meta.url))
  const seen = readSeen(join(fixture, 'seen.json'))
  const ageMs = Date.now() - seen.madeAt
  const sql = `
    UPDATE bans SET ends_at = ends_at + ${ageMs};
    UPDATE idempotency_keys SET expires_at = expires_at + ${ageMs};
    ${seen.apiKeys === undefined ? '' : `UPDATE api_keys SET expires_at = expires_at + ${ageMs};`}
    UPDATE imports SET source = '${folder}/finished.ndjson' WHERE source LIKE '%/finished.ndjson';
    UPDATE imports SET source = '${folder}/conflict.csv' WHERE source LIKE '%/conflict.csv';`
  if (engine === 'postgres') {
    const { url: databaseUrl, drop } = await createPostgresDatabase()
    atEnd(drop)
    await queryPostgres(databaseUrl, readFileSync(join(fixture, 'users.sql'), 'utf8'))
    await queryPostgres(databaseUrl, sql)
    return { databaseUrl, seen }
  }
  const databaseUrl = join(folder, 'users.db')
  copyFileSync(join(fixture, 'users.db'), databaseUrl)
  execute(databaseUrl, sql)
  return { databaseUrl, seen }
}

/** In the file, users are in the text of the list, with their entity tags by id beside it, and searches by name. */
function readSeen(path: string): SeenDatabase {
  const { tags, searches, ...seen } = JSON.parse(readFileSync(path, 'utf8'))
  const users: { id: number }[] = JSON.parse(seen.list.text)
  return {
    ...seen,
    users: users.map(user => ({ id: user.id, text: JSON.stringify(user), etag: tags[user.id] })),
    searches: Object.entries(searches).map(([name, q]) => ({ name, q })),
  }
}
