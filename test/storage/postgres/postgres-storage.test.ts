import { expect, test } from 'vitest'
import { createPostgresEngine } from '../../../src/storage/postgres/postgres-storage.ts'
import { describeStorage } from '../../contracts/storage-contract.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { executeSql, selectRows } from '../../support/sql.ts'

const NEWEST = 'SELECT max(version) FROM schema_migrations'

const MARK_COPY = `INSERT INTO unfinished_copies (singleton, source_hash) VALUES (1, 'source')`

describeStorage({
  name: 'PostgreSQL',
  newDatabase: async () => {
    const url = await newPostgresDatabase()
    return {
      engine: createPostgresEngine(locationOf(url)),
      exists: async () => {
        const [row] = await selectRows(url, `SELECT to_regclass('users') AS users`)
        return row?.users !== null
      },
      emails: async () => {
        const rows = await selectRows(url, 'SELECT email FROM users ORDER BY id')
        return rows.map(({ email }) => String(email))
      },
      forgetMigration: () =>
        executeSql(url, `DELETE FROM schema_migrations WHERE version = (${NEWEST})`),
      markCopy: () => executeSql(url, MARK_COPY),
    }
  },
})

test('ownsFile is true for no file, because the files belong to the server', () => {
  const { ownsFile } = createPostgresEngine(locationOf('postgres://db.example/users'))
  expect([ownsFile('users'), ownsFile('data/users.db')]).toEqual([false, false])
})
