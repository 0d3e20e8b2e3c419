import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { describeBanStore } from '../../../contracts/ban-store-contract.ts'
import { describeUserRepository } from '../../../contracts/user-repository-contract.ts'
import { temporaryFolder } from '../../../support/open-test-app.ts'
import { openWorker, openWriterHere } from '../../../support/worker-storage.ts'

describeUserRepository({
  name: 'a worker on SQLite',
  open: async now => {
    const path = join(temporaryFolder(), 'users.db')
    const writer = await openWriterHere(path, now)
    const worker = await openWorker({ path, writer, now })
    return {
      repository: worker.users,
      close: async () => {
        await worker.close()
        await writer.close()
      },
    }
  },
})

describeBanStore({
  name: 'workers on SQLite',
  open: async now => {
    const path = join(temporaryFolder(), 'users.db')
    const writer = await openWriterHere(path, now)
    const workers = [
      await openWorker({ path, writer, now }),
      await openWorker({ path, writer, now }),
    ] as const
    onTestFinished(async () => {
      for (const { close } of workers) await close()
      await writer.close()
    })
    const [one, other] = workers
    return { store: one.bans, other: other.bans }
  },
})
