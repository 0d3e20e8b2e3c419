import type { BanStore } from '../../limits/ban-store.ts'
import { type BanDialect, createBanStore } from '../create-ban-store.ts'
import type { OpenStorageOptions, SharedStatements } from '../storage.ts'

/** All processes obey the clock of the server. One that runs does not notice if it is set. */
const CLOCK = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`

/** Bans in PostgreSQL. */
export function createPostgresBanStore(
  statements: SharedStatements,
  { steadyNow, serverNow }: Pick<OpenStorageOptions, 'steadyNow' | 'serverNow'>,
): BanStore {
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

/** Text as PostgreSQL can store it: see the migration. A lone surrogate is no character of any encoding. */
function toStored(text: string): string {
  return text.toWellFormed().replaceAll('\\', '\\\\').replaceAll('\0', '\\0')
}

function fromStored(text: string): string {
  return text.replace(/\\[0\\]/g, found => (found === '\\0' ? '\0' : '\\'))
}

/** SQL for the bytes of a text before `toStored`: both escapes become those of `decode`. */
function utf8OfStored(sql: string): string {
  return `decode(replace(replace(${sql}, '\\\\', '\\134'), '\\0', '\\000'), 'escape')`
}

/** SQL for the primary key of a ban. */
const BAN_HASH = `
  sha256(convert_to(rule, 'UTF8') || '\\x00'::bytea || convert_to(client_key, 'UTF8'))`
