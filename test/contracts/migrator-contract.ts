import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { type Migration, readMigrations } from '../../src/storage/migrations.ts'
import { temporaryFolder } from '../support/open-test-app.ts'

export const CATS = 'CREATE TABLE cats (name TEXT);'

export const DOGS = 'CREATE TABLE dogs (name TEXT); CREATE INDEX dogs_name ON dogs (name);'

export interface MigratedDatabase {
  migrate(migrations: readonly Migration[], now: () => number): Promise<void>
  sql(text: string): Promise<unknown>
  /** The rows of the history, by version. */
  history(): Promise<unknown>
  /** The names of the tables, in their order. */
  tables(): Promise<unknown[]>
}

const NOON = Date.UTC(2026, 0, 31, 12)

const BOTH = ['cats', 'dogs', 'schema_migrations']

/** What the migrator of every engine must do. */
export function describeMigrator(name: string, open: () => Promise<MigratedDatabase>): void {
  describe(`migrate: ${name}`, () => {
    test('applies what is missing once, and stores when', async () => {
      const { migrate, history, tables } = await open()
      await migrate(migrationsOf(CATS), () => NOON)
      await migrate(migrationsOf(CATS, DOGS), () => NOON + 1000)
      await migrate(migrationsOf(CATS, DOGS), () => NOON + 2000)
      expect(await tables()).toEqual(BOTH)
      const [cats, dogs] = ['2026-01-31T12:00:00.000Z', '2026-01-31T12:00:01.000Z']
      expect(await history()).toEqual([
        { version: 1, name: '0001_pets', hash: sha256(CATS), applied_at: cats },
        { version: 2, name: '0002_pets', hash: sha256(DOGS), applied_at: dogs },
      ])
    })

    test('undoes a failing migration, keeps those before it, and continues once it is fixed', async () => {
      const { migrate, tables, sql } = await open()
      const first = migrate(migrationsOf(`${CATS} oops`), Date.now)
      await expect(first).rejects.toThrow('oops')
      expect(await tables()).toEqual([])
      const broken = `${DOGS} INSERT INTO cats VALUES ('Tom'); INSERT INTO birds VALUES (1);`
      await expect(migrate(migrationsOf(CATS, broken), Date.now)).rejects.toThrow('birds')
      expect(await tables()).toEqual(['cats', 'schema_migrations'])
      expect(await sql('SELECT * FROM cats')).toEqual([])
      await migrate(migrationsOf(CATS, DOGS), Date.now)
      expect(await tables()).toEqual(BOTH)
    })

    const unreleased = expect.stringMatching(
      /^an unreleased version made it: `export` its users with that version/,
    )

    test.each([
      [
        `INSERT INTO schema_migrations VALUES (3, '0003_birds', 'x', 'y')`,
        'its schema version 3 is from a newer release: this release knows only 2',
      ],
      [
        `UPDATE schema_migrations SET hash = 'x' WHERE version = 2`,
        'its migration 0002_pets differs from the one in this release',
      ],
      [`UPDATE schema_migrations SET hash = 'x' WHERE version = 1`, unreleased],
      ['DELETE FROM schema_migrations WHERE version = 1', unreleased],
    ])('rejects the history after %s, and changes nothing', async (change, refusal) => {
      const { migrate, history, sql } = await open()
      await migrate(migrationsOf(CATS, DOGS), Date.now)
      await sql(change)
      const before = await history()
      const refused = migrate(migrationsOf(CATS, DOGS), Date.now)
      await expect(refused).rejects.toMatchObject({ isFault: true, message: refusal })
      expect(await history()).toEqual(before)
    })
  })
}

/** The migrations in a folder with a file for each. */
export function migrationsOf(...texts: readonly string[]): readonly Migration[] {
  const folder = temporaryFolder()
  for (const [index, text] of texts.entries()) {
    writeFileSync(join(folder, `000${index + 1}_pets.sql`), text)
  }
  return readMigrations(pathToFileURL(`${folder}/`))
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
