import { expect, onTestFinished, test } from 'vitest'
import { migrationsFor } from '../../../src/storage/migrations.ts'
import { migrate } from '../../../src/storage/sqlite/migrator.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { foldCase } from '../../../src/users/user-schemas.ts'
import { codePoints, TWINS } from '../../support/letters.ts'

const FOLDING = 9

test('a migration folds the names of an older release as this release folds them, with each mark after a letter', () => {
  const database = new Database(':memory:')
  onTestFinished(() => void database.close())
  const migrations = migrationsFor('sqlite')
  migrate(database, migrations.slice(0, FOLDING - 1), Date.now)
  const insert = database.prepare(`
    INSERT INTO users (name, name_lower, email, created_at, updated_at)
    VALUES (@name, @folded, @email, @time, @time)`)
  const marks = codePoints(text => /\p{M}/u.test(text))
  const time = new Date(0).toISOString()
  const fill = database.transaction(() => {
    let serial = 0
    for (const [letter] of [...TWINS, ['x']] as [string][]) {
      for (const mark of ['', ...marks, 'z', letter]) {
        const name = `A${letter}${mark}b`.normalize('NFC')
        const folded = name.toLowerCase().replaceAll('ς', 'σ').normalize('NFC')
        insert.run({ name, folded, email: `user${serial++}@example.com`, time })
      }
    }
  })
  fill()
  migrate(database, migrations.slice(0, FOLDING), Date.now)
  const rows = database.prepare('SELECT name, name_lower FROM users').raw().all() as string[][]
  expect(rows.filter(([name = '', folded]) => foldCase(name) !== folded)).toEqual([])
  expect(rows.length).toBeGreaterThan(20_000)
})
