import { readFileSync } from 'node:fs'
import { ServiceError } from '../../errors.ts'
import type { BanStore } from '../../limits/ban-store.ts'
import { type BanDialect, createBanStore } from '../create-ban-store.ts'
import type { SqliteParts } from './sqlite-statements.ts'

type BanParts = Pick<SqliteParts, 'statements' | 'steadyNow' | 'uptimeNow'>

const SELECT_OFFSET = `SELECT offset_ms FROM ban_clock WHERE boot_id = $1`

/** Another process may have been first meanwhile. */
const KEEP_OFFSET = `
  INSERT INTO ban_clock (singleton, boot_id, offset_ms) VALUES (1, $1, $2)
  ON CONFLICT (singleton) DO UPDATE SET boot_id = excluded.boot_id,
    offset_ms = iif(boot_id = excluded.boot_id, offset_ms, excluded.offset_ms)
  RETURNING offset_ms`

/** Between two looks at two clocks. */
const UPTIME_ERROR_MS = 20

/** Bans in SQLite. */
export function createSqliteBanStore(parts: BanParts): BanStore {
  const dialect: BanDialect = {
    key: 'rule, client_key',
    ownColumns: { names: '', values: '' },
    jsonRows: 'json_each',
    // LIKE would end at a NUL.
    placeOf: 'instr',
    lock: '',
    lockFree: '',
    toStored: text => text.toWellFormed(),
    fromStored: stored => stored,
    inUtf8: stored => stored,
    changeClock: instant => instant,
    clockOffset: createBanClock(parts),
  }
  return createBanStore({ ...parts, dialect })
}

/**
 * All processes of the machine agree on the time since it started, and the first of them writes what time it was then. Only a clock
 * that is set across a restart of the machine changes the end of a ban. Systems other than Linux do not tell their starts apart:
 * each process there goes on from the wall clock of its own start.
 */
function createBanClock({ statements, steadyNow, uptimeNow }: BanParts) {
  const bootId = readBootId()
  const ownOffset = () => Math.round(steadyNow() - uptimeNow())

  return async (): Promise<number> => {
    if (bootId === undefined) return 0
    try {
      const known = await statements.read<[number]>(SELECT_OFFSET, [bootId])
      const [[kept] = [0]] =
        known.length > 0
          ? known
          : await statements.write<[number]>(KEEP_OFFSET, [bootId, ownOffset()])
      const offset = kept - ownOffset()
      return Math.abs(offset) <= UPTIME_ERROR_MS ? 0 : offset
    } catch (error) {
      // A disk that takes no writes must not keep the bans from being read.
      if (error instanceof ServiceError) return 0
      throw error
    }
  }
}

/** Which start of the machine this is; `undefined` if the system does not tell. */
function readBootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return undefined
  }
}
