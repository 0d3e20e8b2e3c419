import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { readMigrations } from '../../src/storage/migrations.ts'
import { temporaryFolder } from '../support/open-test-app.ts'

const CREATE_CATS = 'CREATE TABLE cats (name TEXT);'
const CREATE_DOGS = 'CREATE TABLE dogs (name TEXT); CREATE INDEX dogs_name ON dogs (name);'

describe('readMigrations', () => {
  test('returns the files in the order of their numbers, each with its hash', () => {
    const migrations = migrationFiles({
      '0002_dogs.sql': CREATE_DOGS,
      '0001_cats.sql': CREATE_CATS,
    })
    expect(migrations).toEqual([
      { version: 1, name: '0001_cats', sql: CREATE_CATS, hash: sha256(CREATE_CATS) },
      { version: 2, name: '0002_dogs', sql: CREATE_DOGS, hash: sha256(CREATE_DOGS) },
    ])
  })

  test('ignores files that are not SQL', () => {
    const migrations = migrationFiles({ 'README.md': '#', '0001_cats.sql': CREATE_CATS })
    expect(migrations.map(({ name }) => name)).toEqual(['0001_cats'])
  })

  test.each([
    { files: ['0002_cats.sql'], wrong: '0002_cats.sql' },
    { files: ['0000_cats.sql', '0001_dogs.sql'], wrong: '0000_cats.sql' },
    { files: ['0001_cats.sql', '0003_dogs.sql'], wrong: '0003_dogs.sql' },
    { files: ['0001_cats.sql', '0001_dogs.sql'], wrong: '0001_dogs.sql' },
    { files: ['0001_cats.sql', '002_dogs.sql'], wrong: '002_dogs.sql' },
    { files: ['0001-cats.sql'], wrong: '0001-cats.sql' },
    { files: ['0001_Cats.sql'], wrong: '0001_Cats.sql' },
    { files: ['0001.sql'], wrong: '0001.sql' },
    { files: ['cats.sql'], wrong: 'cats.sql' },
  ])('rejects $files and names $wrong', ({ files, wrong }) => {
    const contents = Object.fromEntries(files.map(file => [file, CREATE_CATS]))
    expect(() => migrationFiles(contents)).toThrow(`found ${wrong} instead of migration`)
  })
})

/** Calls `readMigrations` on a folder with these files. */
function migrationFiles(contents: Readonly<Record<string, string>>) {
  const folder = temporaryFolder()
  for (const [file, sql] of Object.entries(contents)) writeFileSync(join(folder, file), sql)
  return readMigrations(pathToFileURL(`${folder}/`))
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
