import { join } from 'node:path'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { createSqliteUserRepository } from '../../../src/storage/sqlite/sqlite-user-repository.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import {
  describeUserRepository,
  describeWordSearch,
} from '../../contracts/user-repository-contract.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

async function openRepository(path: string, now: () => number) {
  const database = await openSqlite({ path, now })
  const view = createReadView(database)
  const writes = createWriteQueue(database, view)
  return {
    repository: createSqliteUserRepository({ database, writes, view, now }),
    close: async () => {
      await writes.close()
      view.end()
      database.close()
    },
  }
}

describeUserRepository({
  name: 'a SQLite file',
  open: now => openRepository(join(temporaryFolder(), 'users.db'), now),
})

// It has one connection, so its lists are made at once.
describeWordSearch({ name: 'SQLite in memory', open: now => openRepository(':memory:', now) })
