import { readFileSync } from 'node:fs'
import { ServiceError } from '../../errors.ts'
import type { SqliteParts } from './sqlite-statements.ts'

const SELECT_OFFSET = `SELECT offset_ms FROM ban_clock WHERE boot_id = $1`

const REPLACE_OFFSET = `
  INSERT INTO ban_clock (singleton, boot_id, offset_ms) VALUES (1, $1, $2)
  ON CONFLICT (singleton) DO UPDATE SET boot_id = excluded.boot_id, offset_ms = excluded.offset_ms`

/** Between two looks at two clocks. */
const UPTIME_ERROR_MS = 20

/**
 * The `clockOffset` of `BanTable`. All processes of the machine agree on the time since it started, and the first of them writes
 * what time it was then. Only a clock that is set across a restart of the machine changes the end of a ban. Systems other than
 * Linux do not tell their starts apart: each process there goes on from the wall clock of its own start.
 */
export function createBanClock(
  parts: Pick<SqliteParts, 'statements' | 'writes' | 'steadyNow' | 'uptimeNow'>,
) {
  const { statements, writes, steadyNow, uptimeNow } = parts
  const bootId = readBootId()
  const ownOffset = () => Math.round(steadyNow() - uptimeNow())

  /** Another process may have been first meanwhile. */
  function readOrWrite(): number {
    const [found] = statements.run<[number]>(SELECT_OFFSET, [bootId])
    if (found !== undefined) return found[0]
    const offset = ownOffset()
    statements.run(REPLACE_OFFSET, [bootId, offset])
    return offset
  }

  return async (): Promise<number> => {
    if (bootId === undefined) return 0
    try {
      const [[known] = []] = await statements.read<[number]>(SELECT_OFFSET, [bootId])
      const offset = (known ?? (await writes.run(readOrWrite))) - ownOffset()
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
