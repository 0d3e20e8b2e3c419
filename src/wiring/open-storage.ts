import type { Logger } from 'pino'
import { type Config, describeMistake } from '../config/settings.ts'
import { type Clocks, createClocks } from '../platform/clocks.ts'
import type { DatabaseTasks } from '../storage/database-tasks.ts'
import type { OpenStorageOptions, Storage } from '../storage/storage.ts'
import { blaming } from '../storage/unusable-database.ts'
import { EMPTY_DATABASE, engineOf, openTasks } from './engines.ts'

/** What an open service has for its features. */
export interface Opened {
  readonly config: Config
  readonly log: Logger
  readonly clocks: Clocks
  readonly storage: Storage
}

/** Opens the database for a service, and creates it if it is missing. Throws `UnusableDatabase`. */
export function openStorage(
  { database, maxWaitingWrites }: Config,
  { log, clocks, onCommit }: Pick<Opened, 'log' | 'clocks'> & Pick<OpenStorageOptions, 'onCommit'>,
): Promise<Storage> {
  return engineOf(database).open({
    ...clocks,
    ...{ maxWaitingWrites, ifMissing: 'create', onCommit },
    onWarning: (message, err) => log.warn({ err }, message),
    onFolding: ({ isComplete, through, lastId }) => {
      if (isComplete) log.info('words of users are those of this release')
      else log.info({ through, lastId }, 'words of users are made again by newer rules')
    },
  })
}

export interface CommandStorageOptions
  extends Pick<OpenStorageOptions, 'mustPersist' | 'isBulk' | 'isReadOnly'> {
  /** What to do without a database: create it, refuse, or use an empty one that is deleted when it closes. */
  readonly ifMissing: OpenStorageOptions['ifMissing'] | 'use empty'
}

/** Opens the database for a command, whether or not a service is running. Throws `OperatorError`. */
export function openStorageForCommand(
  config: Config,
  { ifMissing, ...options }: CommandStorageOptions,
): Promise<Storage> {
  const { database, maxWaitingWrites } = config
  const shared = { ...createClocks(), maxWaitingWrites, ...options }
  return blaming(inDatabase(config), async () => {
    const engine = engineOf(database)
    if (ifMissing !== 'use empty') return engine.open({ ...shared, ifMissing })
    return (await engine.exists())
      ? engine.open({ ...shared, ifMissing: 'refuse' })
      : engineOf(EMPTY_DATABASE).open({ ...shared, ifMissing: 'create', isReadOnly: false })
  })
}

/** Runs `work` with the tasks on the database of the settings. Throws `OperatorError` if the database or a file cannot be used. */
export function withDatabaseTasks<T>(
  config: Config,
  work: (tasks: DatabaseTasks) => Promise<T>,
): Promise<T> {
  return blaming(inDatabase(config), async () => work(await openTasks(config.database)))
}

function inDatabase({ database }: Config) {
  return (reason: string) => describeMistake('DATABASE_URL', database.url, reason)
}
