import { ServiceError } from '../../errors.ts'
import type { UserRepository, UserSelection } from '../../users/user-repository.ts'
import { areWordsIndexed } from './index-next-users.ts'
import { filtersOf, filterValues, walkStatement } from './list-sql.ts'
import { findFirst } from './list-users.ts'
import type { Connections, Session } from './postgres-connections.ts'
import { unavailable } from './postgres-errors.ts'

/** Users in one fetch: about 64 KB. */
const FETCHED = 500

const FETCH = { text: `FETCH ${FETCHED} FROM whole_list` }

/** Plans as for a list of which only the beginning is read: a sort of all users would keep the client waiting for it. */
const PLAN_FOR_FIRST = { text: `SELECT set_config('cursor_tuple_fraction', '0', true)` }

/** While the client reads slowly, the server must not take this process for dead: see `idleTimeoutMs`. */
const AWAKE_MS = 2000

const AWAKE = { text: 'SELECT' }

/** `UserRepository.walk`, by a cursor in a transaction, which a pooler keeps in one session too. */
export function createUserWalker(connections: Connections): UserRepository['walk'] {
  async function statementOf(selection: UserSelection) {
    const text = walkStatement(selection, await findFirst(connections, selection))
    const values = filterValues(selection)
    return { text, values: filtersOf(selection).map(name => values[name]) }
  }

  return async (selection, take) => {
    const { text, values } = await statementOf(selection)
    let hasBegun = false
    const read = async (session: Session) => {
      // What was taken cannot be given again.
      if (hasBegun) throw unavailable(new Error('the connection of a whole list broke'))
      await session.query(PLAN_FOR_FIRST)
      if (selection.words.length > 0 && !(await areWordsIndexed(session)))
        throw new ServiceError('words_unavailable')
      await session.query({ text: `DECLARE whole_list NO SCROLL CURSOR FOR ${text}` }, values)
      for (;;) {
        const users = await session.query<[string]>(FETCH)
        hasBegun = true
        const lines = users.map(([json]) => `${json}\n`).join('')
        await keepAwake(session, take(lines))
        if (users.length < FETCHED) return
      }
    }
    await connections.snapshot(read, { lane: 'whole' })
  }
}

async function keepAwake(session: Session, taking: Promise<void>): Promise<void> {
  // The next statement shows what went wrong.
  const timer = setInterval(() => session.query(AWAKE).catch(() => {}), AWAKE_MS)
  try {
    await taking
  } finally {
    clearInterval(timer)
  }
}
