import { join } from 'node:path'
import { createReadView } from '../../src/storage/read-view.ts'
import { openSqlite } from '../../src/storage/sqlite.ts'
import { createWriteQueue } from '../../src/storage/write-queue.ts'
import { createSqliteUserRepository } from '../../src/users/sqlite-user-repository.ts'
import { describeUserRepository } from '../contracts/user-repository-contract.ts'
import { temporaryFolder } from '../support/open-test-app.ts'

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

describeUserRepository({
  name: 'SQLite in memory',
  open: now => openRepository(':memory:', now),
})
