import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { createApp } from '../app.ts'
import type { Config } from '../config.ts'
import { createHttpServer, type HttpServer, type Timeouts } from '../http/server.ts'
import { createStopping } from '../http/stopping.ts'
import type { LimitsWatch } from '../limits/limits-watch.ts'
import { signingKey } from '../storage/signing-keys.ts'
import { createCursors } from '../users/cursor.ts'
import { createFingerprints } from '../users/fingerprint.ts'
import { createPasswordHasher } from '../users/passwords.ts'
import { createUserRules } from '../users/user.ts'
import { createUserService } from '../users/user-service.ts'
import { type Clocks, createSteadyClock } from './clocks.ts'
import { openLimits, readLimits, reloadLimits } from './open-limits.ts'
import { openStores } from './open-stores.ts'

export interface Service {
  readonly server: HttpServer
  /** Reads the rules of the limits again; a wrong file leaves those of before. What came of it is in the log. */
  reloadLimits(): Promise<void>
  /** Ends what is being written and closes the stores. */
  close(): Promise<void>
}

export interface ServiceOptions extends Clocks {
  readonly config: Config
  readonly log: Logger
  readonly newRequestId?: () => string
  /** Looks on while the limits decide. */
  readonly watch?: LimitsWatch
  /** How long clients may take; as `createHttpServer` has it where left out. */
  readonly timeouts?: Timeouts
}

/** The service with its stores open, not yet listening. Throws `OperatorError` when it cannot be opened. */
export async function openService(options: ServiceOptions): Promise<Service> {
  const { config, log, now = Date.now, newRequestId = randomUUID } = options
  const steadyNow = createSteadyClock(options)
  const limits = config.limitsFile === undefined ? undefined : await readLimits(config.limitsFile)
  const stores = await openStores(config, { now, steadyNow })
  const { database, writes, users: repository } = stores
  const parts = { ...options, database, writes, steadyNow }
  const { limiter, bans } = limits ? await openLimits({ ...parts, limits }) : {}
  const passwords = createPasswordHasher({ maxWaiting: config.maxWaitingPasswords })
  const stopping = createStopping()
  const rules = createUserRules(config)
  const app = createApp({
    users: createUserService({
      users: repository,
      passwords,
      fingerprints: createFingerprints(passwords),
      cursors: createCursors(signingKey(database, 'cursor')),
      rules,
    }),
    rules,
    ping: repository.ping,
    stopping,
    log,
    newRequestId,
    limiter,
    settings: config,
  })
  return {
    server: createHttpServer({ ...options, app, stopping, newRequestId, capacity: config }),
    reloadLimits: () => reloadLimits(config, limiter, log),
    close: async () => {
      await bans?.close()
      await stores.close(err => log.warn({ err }, 'the WAL could not be put away'))
    },
  }
}
