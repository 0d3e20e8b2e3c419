import { join } from 'node:path'
import pino from 'pino'
import { onTestFinished } from 'vitest'
import { openBanList } from '../../src/limits/ban-list.ts'
import type { CounterStore } from '../../src/limits/counter-store.ts'
import type { LimitsFile } from '../../src/limits/kinds/define-limits.ts'
import { createLimiter } from '../../src/limits/kinds/limiter.ts'
import { checkLimits } from '../../src/limits/kinds/load-limits.ts'
import { createLimitLog } from '../../src/limits/limit-log.ts'
import { temporaryFolder } from './open-test-app.ts'
import { openSqliteStored } from './stored.ts'

const fail = () => {
  throw new Error('the bans failed')
}

/** Limits without a service, whose counts are in this store. */
export async function openLimiter(limits: LimitsFile, store: CounterStore | undefined) {
  const { bans: banStore } = await openSqliteStored(join(temporaryFolder(), 'users.db'))
  const messages: string[] = []
  const log = pino({}, { write: line => void messages.push(JSON.parse(line).msg) })
  const { now } = Date
  const reports = { onStoreFailure: fail, onReadFailure: fail, onForeignChange: fail }
  const bans = await openBanList({ store: banStore, monotonicNow: now, ...reports })
  onTestFinished(() => bans.close())
  const limiter = createLimiter({
    ...{ limits: checkLimits(limits), store, bans, now, steadyNow: now },
    log: createLimitLog({ log, monotonicNow: now }),
  })
  return { limiter, messages }
}
