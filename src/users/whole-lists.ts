import { ServiceError } from '../errors.ts'
import type { SentParameter } from '../http/query.ts'
import { parseWholeList } from './list-query.ts'
import type { TakeUsers, UserRepository } from './user-repository.ts'

/** One object a line: https://github.com/ndjson/ndjson-spec. */
export const NDJSON_TYPE = 'application/x-ndjson'

/** Each holds a connection to the database and a state of it for as long as its client reads. */
const MAX_RUNNING = 4

/** All users that match, in one response. */
export function createWholeLists(users: Pick<UserRepository, 'walk'>) {
  let running = 0
  return {
    /** Throws `query_invalid`. The function that it returns throws `overloaded` while too many run. */
    open: (parameters: readonly SentParameter[]) => {
      const selection = parseWholeList(parameters)
      return async (take: TakeUsers): Promise<void> => {
        if (running >= MAX_RUNNING) throw new ServiceError('overloaded')
        running++
        try {
          await users.walk(selection, take)
        } finally {
          running--
        }
      }
    },
    running: () => running,
  }
}
