import type { BanStore } from '../../limits/ban-store.ts'
import { type BanDialect, createBanStore } from '../create-ban-store.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { BAN_HASH, fromStored, toStored, utf8OfStored } from './ban-text.ts'
import { type Connections, createPostgresSharedStatements } from './postgres-connections.ts'

/** All processes obey the clock of the server. One that runs does not notice if it is set. */
const CLOCK = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

/** Bans in PostgreSQL. */
export function createPostgresBanStore(
  connections: Connections,
  { steadyNow, serverNow }: Pick<OpenStorageOptions, 'steadyNow' | 'serverNow'>,
): BanStore {
  const statements = createPostgresSharedStatements(connections)
  const dialect: BanDialect = {
    key: 'key_hash',
    ownColumns: { names: ', key_hash', values: `, ${BAN_HASH} AS key_hash` },
    jsonRows: 'json_array_elements',
    placeOf: 'strpos',
    lock: 'FOR UPDATE',
    lockFree: 'FOR UPDATE SKIP LOCKED',
    toStored,
    fromStored,
    inUtf8: utf8OfStored,
    // After a failover to a server whose clock is slower, the offset of this process is too large.
    changeClock: () => CLOCK,
    clockOffset: async () => {
      const [[serverMs] = []] = await statements.read<[number]>(`SELECT ${CLOCK}`)
      return (serverNow?.() ?? Number(serverMs)) - steadyNow()
    },
  }
  return createBanStore({ statements, dialect, steadyNow })
}
