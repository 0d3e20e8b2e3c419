import { createClosing } from '../../../src/storage/postgres/batches.ts'
import { openConnections } from '../../../src/storage/postgres/open-connections.ts'
import {
  migratePostgres,
  postgresMigrations,
} from '../../../src/storage/postgres/postgres-migrator.ts'
import { createPostgresUserRepository } from '../../../src/storage/postgres/postgres-user-repository.ts'
import { describeUserRepository } from '../../contracts/user-repository-contract.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'

describeUserRepository({
  name: 'PostgreSQL',
  open: async now => {
    const location = locationOf(await newPostgresDatabase())
    const connections = openConnections({ location })
    await migratePostgres({ connections, migrations: postgresMigrations(), now })
    const closing = createClosing()
    const repository = createPostgresUserRepository({
      connections,
      closing,
      now,
      steadyNow: now,
      maxWaiting: 1000,
    })
    const close = async () => {
      await closing.close()
      await connections.close()
    }
    return { repository, close }
  },
})
