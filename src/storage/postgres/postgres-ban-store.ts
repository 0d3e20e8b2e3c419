import type { BanStore } from '../../limits/ban-store.ts'
import { type BanDialect, createBanStore } from '../create-ban-store.ts'
import { ask } from '../programs.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { BAN_HASH, fromStored, toStored, utf8OfStored } from './ban-text.ts'
import { type Connections, createPostgresSharedStatements } from './postgres-connections.ts'

/** For the triggers of the table, until the end of the transaction. */
const SET_WRITER = `SELECT set_config('user_records.writer', $1, true)`

/** All processes obey the clock of the server. One that runs does not notice if it is set. */
const SELECT_CLOCK = `SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

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
    changeAs: function* (writer, program) {
      yield* ask(SET_WRITER, [writer])
      return yield* program
    },
    clockOffset: async () => {
      const [[serverMs] = []] = await statements.read<[number]>(SELECT_CLOCK)
      return (serverNow?.() ?? Number(serverMs)) - steadyNow()
    },
  }
  return createBanStore({ statements, dialect, steadyNow })
}
