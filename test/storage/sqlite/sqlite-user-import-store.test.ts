import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { createSqliteDryRunImportStore } from '../../../src/storage/sqlite/sqlite-dry-run-import-store.ts'
import { createSqliteUserImportStore } from '../../../src/storage/sqlite/sqlite-user-import-store.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import {
  describeUserImportStore,
  type UserRow,
} from '../../contracts/user-import-store-contract.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const SELECT_USERS = `
  SELECT id, name, email, password_digest AS passwordDigest, created_at AS createdAt,
    updated_at AS updatedAt
  FROM users ORDER BY id`

async function openDatabase(path: string, now: () => number) {
  const database = await openSqlite({ path, now })
  const writes = createWriteQueue(database, createReadView(database))
  onTestFinished(async () => {
    await writes.close()
    database.close()
  })
  return { database, writes }
}

async function openRealStore(now: () => number) {
  const opened = await openDatabase(join(temporaryFolder(), 'users.db'), now)
  const { database } = opened
  const selectUsers = database.prepare<[], UserRow>(SELECT_USERS)
  const remove = database.prepare('DELETE FROM users WHERE id = ?')
  return {
    database,
    realStore: createSqliteUserImportStore({ ...opened, now }),
    users: async () => selectUsers.all(),
    deleteUser: async (id: number) => {
      remove.run(id)
    },
  }
}

describeUserImportStore({
  name: 'SQLite',
  isDryRun: false,
  open: async (now, fill) => {
    const { database: _, ...opened } = await openRealStore(now)
    await fill(opened.realStore)
    return { ...opened, store: opened.realStore }
  },
})

describeUserImportStore({
  name: 'a dry run on SQLite',
  isDryRun: true,
  open: async (now, fill) => {
    const { database, ...opened } = await openRealStore(now)
    await fill(opened.realStore)
    const trial = await openDatabase(':memory:', now)
    return { ...opened, store: createSqliteDryRunImportStore({ database, trial, now }) }
  },
})
